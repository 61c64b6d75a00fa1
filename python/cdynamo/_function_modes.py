"""What PyTorch hands to a __torch_function__ mode, found by asking it."""

import functools
import operator

import torch
from torch.overrides import TorchFunctionMode


class _Asked(Exception):
    """A mode was asked: what it was given."""


class _Probe(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise _Asked(func, bool(types), args, kwargs is not None)


def _asked(function, operands):
    """What the mode is given first of `function(*operands)`; None: it is not asked."""
    try:
        with _Probe():
            function(*operands)
    except _Asked as asked:
        return asked.args
    except Exception:
        return None
    return None


_FUNCTIONS = {"len": len, "getattr": getattr}


@functools.cache
def dispatch_of(name, kinds):
    """`(function, has types, the operands' numbers in order, has kwargs)` of an operation; None: no mode is asked.

    name: of a function of Python's operator module, "len" or "getattr". kinds: of each operand True where it is a
    tensor, a string where it is that, else None.
    """
    # Each is an object of its own.
    operands = [torch.empty(1) if kind is True else 2.5 + i if kind is None else kind for i, kind in enumerate(kinds)]
    asked = _asked(_FUNCTIONS.get(name) or getattr(operator, name), operands)
    if asked is None:
        return None
    function, typed, args, with_kwargs = asked
    if name == "getattr":
        return function, typed, (0,), with_kwargs
    return function, typed, tuple(next(i for i, x in enumerate(operands) if x is arg) for arg in args), with_kwargs


@functools.cache
def method_is_typed(name):
    """Whether the mode is given the tensor's type where a method of this name is called."""
    asked = _asked(getattr(torch.Tensor, name), [torch.empty(1)])
    return asked is not None and asked[1]
