"""What the forward of a torch.autograd.Function does beside its results happens once, under backends that call it themselves as well."""

from __future__ import annotations

import random
import traceback

import pytest

import cdynamo

torch = pytest.importorskip("torch")

EVENTS, SCALE = [], {"by": 2}


class Telling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        EVENTS.append(len(x))
        print("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        EVENTS.append("backward")
        return grad * 3


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        EVENTS.append(list(x.shape))


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.by = SCALE["by"]
        return x * SCALE["by"]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.by


class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return [][len(x)]


def tells(x):
    EVENTS.append("before")
    return Telling.apply(x * 2)


def gives_nothing(x):
    return Nothing.apply(x * 2), x * 3


def scaled_by_what_is_written(x):
    SCALE["by"] = SCALE["by"] % 5 + 1
    y = Scaled.apply(x)
    SCALE["by"] += 1
    return y + Scaled.apply(x)


def draws_a_number(x):
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * random.randrange(100)

        @staticmethod
        def backward(ctx, grad):
            return grad

    return Noisy.apply(x), random.random()


def raises_in_the_forward(x):
    y = x + 1
    return Raising.apply(y)


PROGRAMS_WITH_EFFECTS = [tells, gives_nothing, scaled_by_what_is_written, draws_a_number, raises_in_the_forward]


@pytest.mark.parametrize("backend", ["native", "eager", "aot_eager", lambda graph, inputs: graph.forward])
@pytest.mark.parametrize("fn", PROGRAMS_WITH_EFFECTS)
def test_effects_of_a_forward_happen_once(fn, backend, capsys):
    def outcomes(function):
        EVENTS.clear()
        SCALE["by"] = 2
        random.seed(3)
        seen = []
        for n in range(4):
            x = torch.arange(3.0, requires_grad=n % 2 == 1)
            try:
                result = function(x)
                tensors = [
                    y for y in (result if isinstance(result, tuple) else (result,)) if isinstance(y, torch.Tensor)
                ]
                if n % 2:
                    tensors[0].sum().backward()
                seen.append(([y.tolist() for y in tensors], None if x.grad is None else x.grad.tolist()))
            except IndexError as error:
                seen.append([entry.name for entry in traceback.extract_tb(error.__traceback__)][1:])
            seen.append((list(EVENTS), capsys.readouterr().out))
        return seen

    assert outcomes(cdynamo.optimize(fn, backend=backend)) == outcomes(fn)
