"""Checks that includes and link lines go one way: each layer, and each room in it, includes only what stands below it.

    python tools/layers.py

A layer is a folder of the repository, a room a folder in it. Where the map grows, a row is
added here: docs/README.md tells it to people.
"""

import re
import subprocess
import sys
from pathlib import Path

# Layers and their rooms, each from the bottom up. Rooms in one tuple stand side by side and do not include each other.
# "" is the layer's own folder; a row may also name files of it (by stem) that stand apart.
LAYERS = {
    "runtime": [
        ("",),
        ("codegen",),
        ("host",),
        ("gemm",),
        ("library",),
        ("plan",),
        ("plan_step",),
        ("plan_executable", "parts_executable"),
        ("cuda",),
    ],
    "graph": [("sizes",), ("",), ("interpreter",), ("passes",), ("autograd",), ("ops",), ("op_table", "fingerprint")],
    "lowering": [("loops",), ("target",), ("fusion",), ("math",), ("codegen",), ("cpu", "gpu"), ("",)],
    "symbolic": [
        ("interop",),
        ("bytecode",),
        ("capture",),
        ("values",),
        ("frames",),
        ("tensors",),
        ("torch", "numpy"),
        ("entry",),
    ],
    "frame_eval": [("hook",), ("guards",), ("reports",), ("execution",), ("resume",), ("cache",), ("call",)],
    "python": [("ext",)],
}
NO_PYTHON = ("runtime", "graph", "lowering")  # build and are tested without an interpreter

# What goes the other way all the same: (file, what it includes): why.
EXCEPTIONS = {
    ("python/ext/module.cpp", "tests/ext/methods.h"): "only where CDYNAMO_TEST_HOOKS is on",
}

INCLUDE = re.compile(r'^#\s*include ([<"])([^">]+)[">]', re.MULTILINE)
LINKS = re.compile(r"target_link_libraries\(cdynamo_(\w+) ([^)]*)\)")


def room_of(path):
    """The layer and the room of a file; None for what is no layer's."""
    parts = path.split("/")
    if parts[0] not in LAYERS:
        return None
    if len(parts) > 2:
        return parts[0], parts[1]
    stem = parts[-1].split(".")[0]
    return parts[0], stem if any(stem in rooms for rooms in LAYERS[parts[0]]) else ""


def height(place):
    """Larger is further up; None where the table has no such room."""
    layer, room = place
    for floor, rooms in enumerate(LAYERS[layer]):
        if room in rooms:
            return list(LAYERS).index(layer), floor
    return None


def is_below(target, place):
    return target == place or height(target) < height(place)


def check_file(path, text, used):
    place = room_of(path)
    if height(place) is None:
        return [f"{path}: the room {'/'.join(place)} is not in the table of tools/layers.py"]
    problems = []
    for bracket, name in INCLUDE.findall(text):
        target = room_of(name)
        if bracket == "<":
            if name == "Python.h" and place[0] in NO_PYTHON:
                problems.append(f"{path}: includes Python.h, and {place[0]} knows no Python")
            continue
        if (path, name) in EXCEPTIONS:
            used.add((path, name))
        elif name.startswith("tests/"):
            problems.append(f"{path}: includes {name}, which is for the tests")
        elif target and height(target) is None:
            problems.append(f"{path}: includes {name}, whose room is not in the table of tools/layers.py")
        elif target and not is_below(target, place):
            problems.append(f"{path}: includes {name}, which does not stand below {'/'.join(place).rstrip('/')}")
    return problems


def check_links(cmake):
    order = list(LAYERS)
    problems = []
    for layer, libraries in LINKS.findall(cmake):
        for target in re.findall(r"\bcdynamo_(\w+)", libraries):
            if target in order and order.index(target) >= order.index(layer):
                problems.append(
                    f"CMakeLists.txt: cdynamo_{layer} links cdynamo_{target}, which does not stand below it"
                )
        if layer in NO_PYTHON and "Python::" in libraries:
            problems.append(f"CMakeLists.txt: cdynamo_{layer} links Python")
    return problems


def main():
    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *LAYERS], cwd=root, check=True, text=True,
                            capture_output=True).stdout.split("\n")  # fmt: skip
    problems, used = [], set()
    for path in sorted(set(listed)):
        if path.endswith((".h", ".c", ".cpp", ".def", ".inc")) and (root / path).exists():
            problems += check_file(path, (root / path).read_text(), used)
    problems += check_links((root / "CMakeLists.txt").read_text())
    problems += [f"tools/layers.py: {path} includes {name} no longer: drop the exception"
                 for path, name in EXCEPTIONS if (path, name) not in used]  # fmt: skip
    print("\n".join(problems) or "layers: each room includes only what stands below it")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
