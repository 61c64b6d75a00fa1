# What exec makes of the locals holds them to the end of the function.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
NET = Net()


def f(x, y, l, d, o, n, m, s):
    log = []
    print(int(x.select(0, 0).max()), end=";")
    produced2 = steps(3, log)
    log.append(next(produced2))
    exec("pass")
    for x in y:
        for i6 in range(3):
            pass
            pass
    log.append(produced2.send(b"ab"[int("12") :]))
    l = abs(y.take(torch.tensor([0]))).tolist()
    produced10 = steps(n % 4, log)
    for m in produced10:
        a12 = torch.from_numpy(y.detach().numpy())

        def g14(w=2):
            try:
                yield w
                return log, v
                yield v
            finally:
                log.append("end")

        v16 = g14(ord(repr("s")[0]))
        next(v16, None)
        with torch.no_grad():
            NET.linear.weight.mul_(n)
            pass
        pass
    produced10.close()
    log.append(
        produced2.throw(
            Broken(
                left_alone(left_alone(y.reshape(3, -1)).shape[-1] + sum(v.numel() for v in NET.parameters())), extra=1
            )
        )
    )
    return log, x


CALLS = [
    lambda: (
        (
            marked(torch.arange(51.0).reshape((17, 3)).to(torch.int64) - 2, 0),
            marked((torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(), 0),
            [1, "a", None],
            {"s": 0, 1: 2},
            Item("w"),
            7,
            2,
            "sks",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(51.0).reshape((17, 3)).to(torch.int64) - 2, 0),
            marked((torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(), 0),
            [1, "a", None],
            {"s": 0, 1: 2},
            Item("w"),
            7,
            2,
            "sks",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(3.0).reshape((1, 3)).to(torch.int64) - 2, 0),
            marked((torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(), 0),
            [1, "a", None],
            {"s": 0, 1: 2},
            Item("w"),
            7,
            2,
            "sks",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(3.0).reshape((1, 3)).to(torch.int64) - 2, 0),
            marked((torch.arange(51.0).reshape((17, 3)).to(torch.float32) * 2).detach().clone().requires_grad_(), 0),
            [1, "a", None],
            {"s": 0, 1: 2},
            Item("w"),
            7,
            2,
            "sks",
        ),
        {},
    ),
    lambda: (
        (
            marked(torch.arange(3.0).reshape((1, 3)).to(torch.int64) - 2, 0),
            marked((torch.arange(3.0).reshape((3,)).to(torch.float32) * 2).detach().clone().requires_grad_(), 0),
            [0] * 5,
            {"k": "v", "j": [1]},
            Item("w"),
            True,
            2,
            "sks",
        ),
        {},
    ),
]
