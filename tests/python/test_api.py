"""The public functions: arguments, errors, names, and what an optimized callable looks like."""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import subprocess
import sys

import pytest

import cdynamo

np = pytest.importorskip("numpy")


def scaled(x, factor=2.0):
    """Doc."""
    return x * factor


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor

    def method(self, x):
        return x + self.factor

    @cdynamo.optimize
    def decorated(self, x):
        return x - self.factor


@pytest.mark.parametrize(
    "kwargs, error, names",
    [
        ({"mode": "fastest"}, ValueError, ["fastest", "max-autotune"]),
        ({"mode": 3}, TypeError, ["mode", "int"]),
        ({"backend": "nothing"}, ValueError, ["nothing", "native"]),
        ({"backend": 3}, TypeError, ["backend", "int"]),
        ({"dynamic": "yes"}, TypeError, ["dynamic", "str"]),
        ({"fullgraph": 1}, TypeError, ["fullgraph", "int"]),
        ({"options": {"speed": 1}}, ValueError, ["speed"]),
        ({"options": []}, TypeError, ["options", "list"]),
    ],
)
def test_wrong_arguments_are_named(kwargs, error, names):
    with pytest.raises(error) as raised:
        cdynamo.optimize(scaled, **kwargs)
    for name in names:
        assert name in str(raised.value)


@pytest.mark.parametrize("thing", [3, None.__class__, "scaled", Scaler])
def test_what_cannot_be_optimized_is_named(thing):
    with pytest.raises(TypeError, match="optimize takes"):
        cdynamo.optimize(thing)


def test_function_keeps_its_identity():
    fast = cdynamo.optimize(scaled)
    assert fast.__name__ == "scaled" and fast.__doc__ == "Doc." and fast.__wrapped__ is scaled
    assert inspect.signature(fast) == inspect.signature(scaled)
    assert fast.__defaults__ == (2.0,)
    assert pickle.loads(pickle.dumps(fast))(np.ones(3)).tolist() == [2, 2, 2]
    assert cdynamo.optimize(fast).__wrapped__ is scaled


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f(x),
        lambda f, x: f(x, 3.0),
        lambda f, x: f(x, factor=4.0),
        lambda f, x: f(x=x, factor=np.float64(5.0)),
    ],
)
def test_arguments_are_passed_as_python_does(call):
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(call(cdynamo.optimize(scaled), x), call(scaled, x))


def test_wrong_call_raises_python_s_error():
    with pytest.raises(TypeError, match="factr"):
        cdynamo.optimize(scaled)(np.ones(2), factr=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        cdynamo.optimize(scaled)()


def test_methods_and_callable_objects():
    x = np.ones(3)
    scaler = Scaler(3.0)
    assert cdynamo.optimize(scaler.method)(x).tolist() == [4, 4, 4]
    assert scaler.decorated(x).tolist() == [-2, -2, -2]
    fast = cdynamo.optimize(scaler)
    assert isinstance(fast, Scaler) and fast(x).tolist() == [3, 3, 3]
    scaler.factor = 5.0
    assert fast(x).tolist() == [5, 5, 5]
    fast.factor = 6.0
    assert scaler.factor == 6.0 and fast(x).tolist() == [6, 6, 6]


def test_decorator_with_arguments():
    @cdynamo.optimize(dynamic=False)
    def f(x):
        return x + 1

    assert f(np.ones(2)).tolist() == [2, 2]


def test_config_is_checked():
    with pytest.raises(AttributeError, match="recompile_limit"):
        cdynamo.config.no_such_setting = 1
    with pytest.raises(TypeError, match="recompile_limit takes int"):
        cdynamo.config.recompile_limit = "8"
    with pytest.raises(ValueError, match="at least 1"):
        cdynamo.config.recompile_limit = 0


def test_log_topics_are_checked(caplog):
    with pytest.raises(ValueError, match="recompiles"):
        cdynamo.set_logs(recompile=True)
    with pytest.raises(TypeError, match="bool"):
        cdynamo.set_logs(recompiles=1)
    cdynamo.set_logs(graph=True)
    try:
        with caplog.at_level(logging.INFO, logger="cdynamo.graph"):
            cdynamo.optimize(scaled)(np.ones(3))
    finally:
        cdynamo.set_logs(graph=False)
    assert "scaled (test_api.py" in caplog.text and "mul" in caplog.text


def test_unknown_topic_in_the_environment_is_named():
    run = subprocess.run(
        [sys.executable, "-c", "import cdynamo"],
        env={**os.environ, "CDYNAMO_LOGS": "recompiles,nonsense", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0 and "nonsense" in run.stderr


def test_import_imports_no_framework():
    code = "import sys, cdynamo; print('torch' in sys.modules, 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.split() == ["False", "False"], run.stderr


def test_stance(counts):
    fast = cdynamo.optimize(scaled)
    cdynamo.set_stance("force_eager")
    assert fast(np.ones(2)).tolist() == [2, 2] and counts.graphs_compiled == 0
    cdynamo.set_stance("default")
    fast(np.ones(2))
    assert counts.graphs_compiled == 1
    with pytest.raises(ValueError, match="force_eager"):
        cdynamo.set_stance("sometimes")


def test_is_compiling():
    def f(x):
        return x + (1 if cdynamo.is_compiling() else 0)

    assert f(np.zeros(1)).tolist() == [0] and cdynamo.optimize(f)(np.zeros(1)).tolist() == [1]


def test_backends():
    assert cdynamo.list_backends()[:2] == ["native", "eager"]
    seen = []

    @cdynamo.register_backend(name="recording")
    def recording(graph, example_inputs):
        seen.append((graph, example_inputs))
        return lambda *inputs: graph.run(inputs)

    x = np.arange(4.0)
    assert cdynamo.optimize(scaled, backend="recording")(x).tolist() == [0, 2, 4, 6]
    graph, inputs = seen[0]
    assert [node.op for node in graph.nodes] == ["placeholder", "call_function", "output"]
    assert inputs[0] is x and "test_api.py" in graph.nodes[1].meta["stack_trace"]
    assert cdynamo.optimize(scaled, backend="eager")(x).tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="recording"):
        cdynamo.register_backend(recording, name="recording")


def test_reset_drops_compiled_code(counts):
    fast = cdynamo.optimize(scaled)
    fast(np.ones(2))
    fast(np.ones(2))
    assert counts.graphs_compiled == 1
    cdynamo.reset()
    fast(np.ones(2))
    assert counts.graphs_compiled == 2
