"""torch is no dependency: where it is not installed NumPy and plain Python are captured, and the tests of those run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent

NO_TORCH = """
import sys
for name in ("torch", "sympy", "torchvision", "functorch"):
    sys.modules[name] = None  # `import` of it raises ModuleNotFoundError
"""


def run(program: str) -> str:
    names = {name: value for name, value in os.environ.items() if not name.startswith("CDYNAMO_TEST")}
    process = subprocess.run(
        [sys.executable, "-c", NO_TORCH + program], capture_output=True, text=True, cwd=TESTS.parent, env=names
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_every_test_file_is_collected():
    out = run(f"""
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", {str(TESTS)!r}]))
""")
    assert "error" not in out.splitlines()[-1]


def test_graphs_of_numbers_go_to_a_callable_backend():
    out = run("""
import cdynamo

graphs = []
def backend(graph, inputs):
    graphs.append(graph)
    return graph.forward

cdynamo.config.keep_empty_graphs = True
f = cdynamo.optimize(lambda x: [3 - x * 2, x * 0.5], backend=backend)
print([f(x) for x in (1.5, 2.5, -3.5)])
assert graphs and "torch" not in {name for name, module in sys.modules.items() if module}
""")
    assert out == "[[0.0, 0.75], [-2.0, 1.25], [10.0, -1.75]]\n"
