"""Attributes of its own that a program gives a tensor that comes in, takes back, and finds in its __dict__."""

from __future__ import annotations

import pytest

import cdynamo

torch = pytest.importorskip("torch")


class Marked(torch.Tensor):
    pass


def written(x, t):
    t.k = x
    return x + 1, t.k, hasattr(t, "k")


def written_and_deleted(x, t):
    t.k = x * 2
    del t.k
    return x + 1, hasattr(t, "k")


def deleted(x, t):
    try:
        del t.k
    except AttributeError as error:
        return x + 1, str(error)
    return x + 2


def counted(x, t):
    t.k = t.k + 1 if hasattr(t, "k") else 0
    return x + t.k


def of_both(x, t):
    x.z, t.z = 1, [x]
    t.z.append(x.z)
    return x * x.z


def popped(x, t):
    return x + 1, t.__dict__.pop("k", -1), hasattr(t, "k"), getattr(t, "k", -1)


def through_the_dict(x, t):
    t.__dict__["k"] = 5
    vars(t).update(q=x)
    return x + 1, t.k, t.q, sorted(vars(t))


def cleared(x, t):
    t.k = 1
    t.__dict__.clear()
    return x + 1, hasattr(t, "k")


MAKERS = {
    "Tensor": lambda: torch.ones(2),
    "Parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "subclass": lambda: torch.ones(2).as_subclass(Marked),
}


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "f", [written, written_and_deleted, deleted, counted, of_both, popped, through_the_dict, cleared]
)
def test_as_plain_python(f, make, backend):
    compiled = cdynamo.optimize(f, backend=backend, fullgraph=make == "Tensor")
    for is_there in (False, True, False):
        tensors = MAKERS[make](), MAKERS[make]()
        for tensor in tensors if is_there else ():
            tensor.k = 3
        for _ in range(2):
            outcomes = [(str(g(torch.ones(2), t)), str(vars(t))) for g, t in zip((f, compiled), tensors, strict=True)]
            assert outcomes[0] == outcomes[1]
