"""The check that includes go one way (tools/layers.py), and the table of what C++ uses of the package's Python."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from cdynamo import _C

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
layers = pytest.importorskip("layers")


def problems(path, *includes):
    return layers.check_file(path, "".join(f'#include "{name}"\n' for name in includes), set())


def test_an_include_goes_down():
    assert not problems("symbolic/values/list.cpp", "symbolic/capture/value.h", "graph/op.h", "symbolic/values/list.h")
    assert not problems("frame_eval/cache/entry.cpp", "frame_eval/hook/hook.h", "symbolic/torch/tensor.h")


@pytest.mark.parametrize(
    "path, include",
    [
        ("symbolic/values/list.cpp", "symbolic/frames/functions.h"),
        ("symbolic/torch/wrap.cpp", "symbolic/numpy/numpy_values.h"),
        ("graph/passes/prepare.cpp", "symbolic/capture/value.h"),
        ("frame_eval/hook/hook.cpp", "frame_eval/cache/code_cache.h"),
        ("symbolic/elsewhere/file.cpp", "graph/op.h"),
        ("symbolic/values/list.cpp", "symbolic/elsewhere/file.h"),
        ("symbolic/values/list.cpp", "tests/ext/methods.h"),
    ],
)
def test_an_include_that_goes_up_is_reported(path, include):
    assert len(problems(path, include)) == 1


def test_the_core_knows_no_python():
    assert layers.check_file("graph/op.cpp", "#include <Python.h>\n", set())


def test_link_lines_go_down():
    assert layers.check_links("target_link_libraries(cdynamo_graph PUBLIC cdynamo_runtime)") == []
    assert layers.check_links("target_link_libraries(cdynamo_graph PUBLIC cdynamo_lowering)")
    assert layers.check_links("target_link_libraries(cdynamo_graph PUBLIC Python::Module)")


@pytest.mark.parametrize("module, name, needs", _C._python_side())
def test_what_the_compiled_part_uses_of_python_is_there(module, name, needs):
    if needs:
        pytest.importorskip(needs)
    found = importlib.import_module(module)
    assert not name or hasattr(found, name)


def test_a_missing_part_is_named_when_the_package_is_imported():
    program = """
import sys, types
broken = types.ModuleType("cdynamo._branches")  # without Replay
sys.modules["cdynamo._branches"] = broken
try:
    import cdynamo
except ImportError as error:
    print(error)
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "cdynamo._branches.Replay" in output
