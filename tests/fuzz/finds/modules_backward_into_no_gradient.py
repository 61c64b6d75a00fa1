# A backward in the function leaves gradients with parameters that had none: callable backends find them there.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, n):
    NET(x.float()).sum().backward()
    first = NET.linear.weight.grad * 2
    if n > 1:
        NET.linear.weight.grad.mul_(n)
    (NET.linear.weight + NET.linear.weight).sum().backward()
    if n > 2:
        NET.zero_grad()
        NET.linear.bias.sum().backward()
    return first, NET.linear.weight.grad, NET.linear.bias.grad


CALLS = [lambda n=n: ((torch.arange(6.0).reshape(2, 3).bool(), n), {}) for n in range(4)]
