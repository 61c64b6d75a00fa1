"""Loss curves: as a picture (SVG), and as a line of block characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

BLOCKS = "▁▂▃▄▅▆▇█"
COLORS = ("#d95f02", "#1b6ca8", "#4d9221")


def as_blocks(curve: Sequence[float], width: int = 60) -> str:
    """The curve in `width` characters, from its least value to its greatest."""
    low, high = min(curve), max(curve)
    picked = [curve[i * (len(curve) - 1) // max(width - 1, 1)] for i in range(min(width, len(curve)))]
    steps = (len(BLOCKS) - 1) / max(high - low, 1e-30)
    return "".join(BLOCKS[round((value - low) * steps)] for value in picked)


def draw(path: Path, title: str, curves: dict[str, Sequence[float]]) -> None:
    """Writes the curves into one SVG; the later ones are dashed, so that equal curves are all seen."""
    width, height, margin = 720, 400, 50
    values = [value for curve in curves.values() for value in curve]
    low, high, steps = min(values), max(values), max(map(len, curves.values()))

    def x(step: float) -> float:
        return margin + step / max(steps - 1, 1) * (width - 2 * margin)

    def y(value: float) -> float:
        return height - margin - (value - low) / max(high - low, 1e-30) * (height - 2 * margin)

    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", style="background: white"
    )

    def text(content: str, x: float, y: float, **attributes: str) -> None:
        given = {"font-family": "sans-serif", "font-size": "13", **attributes}
        ElementTree.SubElement(svg, "text", x=f"{x:.1f}", y=f"{y:.1f}", **given).text = content

    text(title, width / 2, 25, **{"text-anchor": "middle", "font-size": "16"})
    for i in range(5):
        value = low + (high - low) * i / 4
        line = {"x1": f"{margin}", "x2": f"{width - margin}", "y1": f"{y(value):.1f}", "y2": f"{y(value):.1f}"}
        ElementTree.SubElement(svg, "line", stroke="#dddddd", **line)
        text(f"{value:.3g}", margin - 6, y(value) + 4, **{"text-anchor": "end"})
        step = round((steps - 1) * i / 4)
        text(str(step), x(step), height - margin + 20, **{"text-anchor": "middle"})
    text("step", width / 2, height - 10, **{"text-anchor": "middle"})
    for i, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in enumerate(curve))
        line = {"stroke": COLORS[i % len(COLORS)], "stroke-width": "1.8" if i else "3.5"}
        if i:
            line["stroke-dasharray"] = "6 4"
        ElementTree.SubElement(svg, "polyline", points=points, fill="none", **line)
        text(name, width - margin - 100, margin + 18 * i, fill=line["stroke"])
    path.write_text(ElementTree.tostring(svg, encoding="unicode"))
