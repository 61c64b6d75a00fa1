# A Function of which no node is left in the forward graph, and its derivative.
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False
NET = Net()


def f(x, y, l, d, o, z, n, m, s):
    log = []
    a2 = NET.linear(x.float()).ravel()[(torch.ones_like(y).unbind(0)[0] > n).ravel()[:1].sum() :]
    made3 = []
    for v4 in l[:3]:
        made3.append(lambda: (v4, o + None))
        log.append(Bent.apply(x.float()))
        NET.train(not True)
    log.extend(each() for each in made3)
    a2[0] = ord("ab"[0])
    i9, m = (
        len(
            torch.nn.functional.cross_entropy(
                (y + 1).float(), (a2 + 1).float().softmax(-1), torch.arange(1.0, 4), reduction="none"
            )
        ),
        0,
    )
    if a2.sum() > n:
        a2 = torch.vmap(lambda q: q * int(m / ((1) or 1)) + q.sum())(a2.view(-1))
        try:
            a14, a2 = (
                Item(y).v.add(torch.vmap(lambda q: Bent.apply(q) + m)(x.float()), alpha=2),
                y.add(a2, alpha=2).repeat(2)[:6],
            )
            a2[0].add_(x.dim())
        except Exception as error12:
            log.append(repr(error12.__context__))
            try:
                x -= a2 * True
                a19 = gives_back(torch.arange(3.0))
                for n in range(len(a19)):
                    NET.linear.weight.data.mul_(0.5)
                    continue
            except Exception as error16:
                log.append(type(error16).__name__)
                try:
                    l.append(Bent.apply(a2.float()))
                    return m
                finally:
                    n = unbound_name
    else:
        for i9 in range(2):
            x += n
    return log, a2, i9, x


CALLS = [
    lambda: (
        (
            (torch.arange(51.0).reshape((17, 3)).to(torch.float64) - 2).detach().clone().requires_grad_(),
            (torch.arange(3.0).reshape((3,)).to(torch.float64)).requires_grad_(),
            [(1, 2), {}],
            {},
            Item([1]),
            iter(()),
            -1,
            4,
            "",
        ),
        {},
    ),
    lambda: (
        lambda x: (
            (
                (torch.arange(45.0).reshape((15, 3)).to(torch.float64) - 2).detach().clone().requires_grad_(),
                x,
                [(1, 2), {}],
                {"s": 0, 1: 2},
                Item([1]),
                iter(()),
                2,
                4,
                "s",
            ),
            {},
        )
    )((torch.arange(45.0).reshape((15, 3)).to(torch.float64) - 2).detach().clone().requires_grad_()),
    lambda: (
        lambda x: (
            (
                torch.arange(99.0).reshape((33, 3)).to(torch.bool),
                x,
                [(1, 2), {}],
                {"s": 0, 1: 2},
                Item([1]),
                iter({"k": 1, "j": 2}),
                2,
                4,
                "s",
            ),
            {},
        )
    )(torch.arange(99.0).reshape((33, 3)).to(torch.bool)),
    lambda: (
        lambda x: (
            (
                torch.arange(12.0).reshape((4, 3)).to(torch.bool),
                x,
                [(1, 2), {}],
                {"s": 0, 1: 2},
                Item("w"),
                iter({"k": 1, "j": 2}),
                2,
                4,
                "sks",
            ),
            {},
        )
    )(torch.arange(12.0).reshape((4, 3)).to(torch.bool)),
]
