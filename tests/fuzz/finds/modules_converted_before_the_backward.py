# Parameters whose data is replaced between forward and backward: gradients are of what was computed.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, n):
    result = NET(x) * NET.linear.weight.sum()
    if n == 1:
        NET.double()
    if n == 2:
        NET.float()
        result = NET(x)
        NET.half()
        NET.float()
    if n == 3:
        NET.linear.weight.data = NET.linear.weight.data.t().contiguous().t()
    return result


CALLS = [lambda n=n: ((torch.arange(6.0).reshape(2, 3).requires_grad_(), n), {}) for n in (0, 1, 2, 3)]
