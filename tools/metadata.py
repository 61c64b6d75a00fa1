"""Writes a checkout's package metadata, so that entry points are found without `pip install`:

    python tools/metadata.py python

makes python/cdynamo-0.1.0.dist-info from pyproject.toml, as an editable install would in site-packages.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path


def main() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    folder = Path(sys.argv[1])
    for old in folder.glob(f"{project['name']}-*.dist-info"):
        shutil.rmtree(old)
    made = folder / f"{project['name']}-{project['version']}.dist-info"
    made.mkdir()
    header = {"Metadata-Version": "2.1", "Name": project["name"], "Version": project["version"]}
    (made / "METADATA").write_text("".join(f"{key}: {value}\n" for key, value in header.items()))
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()), ""]
    (made / "entry_points.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
