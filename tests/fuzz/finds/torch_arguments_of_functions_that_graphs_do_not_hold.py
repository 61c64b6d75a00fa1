# Backends in Python are not given calls with arguments that have no form in a graph: the error was one of the compiler's.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, w=2):
        return q * 2


def f(x, o):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, w=2):
            pass

    class Other(torch.autograd.Function):
        @staticmethod
        def forward(q):
            pass

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    log = [Own.apply(x.cfloat(), o), Own.apply(x + 1, x.numel), Other.apply((x + 1).cfloat)]
    log += [Other.apply(torch.complex(x, x)), Own.apply(torch.view_as_complex(torch.stack([x, x], 1)), 3)]
    log += [Twice.apply(x, x.numel), Twice.apply(x, {1: [x.size]}), Twice.apply(x, (o, slice(o)))]
    return log


CALLS = [lambda: ((torch.arange(3.0), Item(1)), {}), lambda: ((torch.arange(4.0), Item(None)), {})]
