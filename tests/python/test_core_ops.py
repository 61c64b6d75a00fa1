"""Core operators as PyTorch computes them: the expressions of the table's entries."""

import builtins
import dis

import pytest

torch = pytest.importorskip("torch")

from cdynamo import _C, _core_ops  # noqa: E402


def expressions():
    return [(name, form) for name, *_ in _C._operators() if (form := _C.eager_form(name))]


def test_expressions_name_what_there_is():
    assert len(expressions()) > 30
    for name, (parameters, expression) in expressions():
        code = compile(f"lambda {', '.join(parameters)}: {expression}", name, "eval")
        names = {
            instruction.argval
            for constant in code.co_consts
            if hasattr(constant, "co_code")
            for instruction in dis.get_instructions(constant)
            if instruction.opname == "LOAD_GLOBAL"
        }
        unknown = {n for n in names if n != "torch" and not hasattr(_core_ops, n) and not hasattr(builtins, n)}
        assert not unknown, (name, unknown)


def test_functions_compute():
    x = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])

    def run(name, *args):
        return _core_ops.function(f"core.{name}")(*args)

    assert run("sum", x, [1]).tolist() == [2.0, 3.0]
    assert run("max", x, [0, 1]).item() == 5.0
    assert run("min", x, [1]).tolist() == [-2.0, -6.0]
    assert run("amax", torch.zeros(0, 3), []).shape == (0, 3)
    assert run("slice", x, [1, 2], [2, 2], [-1, -2]).tolist() == [[-6.0, 4.0], [3.0, 1.0]]
    assert run("iota", [2, 3], 1, "int64").tolist() == [[0, 1, 2], [0, 1, 2]]
    assert run("clamp", x, None, torch.tensor(0.0), True).max().item() == 0.0
    torch.testing.assert_close(run("xlogy", x.abs(), x.abs()), torch.xlogy(x.abs(), x.abs()))
    assert run("trigamma", torch.tensor(1.0)).item() == pytest.approx(1.6449340668)


def test_names_that_generated_code_uses():
    assert _core_ops.core_expand is _core_ops.function("core.expand")
    with pytest.raises(AttributeError):
        _core_ops.nothing  # noqa: B018


def test_operators_that_pytorch_lacks_say_so():
    with pytest.raises(NotImplementedError, match="core.function has no form"):
        _core_ops.function("core.function")()
