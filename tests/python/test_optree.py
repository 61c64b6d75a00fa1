"""optree's functions in captured code: the trees, their order and the treespecs are optree's own."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import cdynamo

torch = pytest.importorskip("torch")

optree = pytest.importorskip("optree")
Pair = namedtuple("Pair", "first second")
NUMBERS = {"b": (1, None), "a": [2, {"c": 3}]}
SPEC = optree.tree_structure(NUMBERS)


def tree(x):
    return {"b": (x, None), "a": [x + 1, {"c": x * 2}]}


def of_every_kind(x):
    return [OrderedDict(z=x, a=x + 1), defaultdict(list, q=x, b=x - 1), deque([x, x * 3], maxlen=4), Pair(x, None), 3]


CASES = {
    "flatten": lambda x: optree.tree_flatten(tree(x)),
    "flatten of every kind": lambda x: optree.tree_flatten(of_every_kind(x)),
    "named results": lambda x: optree.tree_flatten(x.max(0)),
    "leaves": lambda x: optree.tree_leaves(tree(x), none_is_leaf=True),
    "map": lambda x: optree.tree_map(lambda v: v + 1, tree(x)),
    "map of every kind": lambda x: optree.tree_map(lambda v: v * 2, of_every_kind(x)),
    "map of two": lambda x: optree.tree_map(lambda v, w: v * w, tree(x), tree(x + 1)),
    "map_": lambda x: optree.tree_map_(lambda v: v.add(1), tree(x)),
    "is_leaf": lambda x: optree.tree_map(
        lambda v: v[0] if type(v) is list else v - 1, tree(x), is_leaf=lambda v: type(v) is list
    ),
    "map with paths": lambda x: optree.tree_map_with_path(lambda path, v: v + len(path), tree(x)),
    "paths": lambda x: (optree.tree_paths(tree(x)), x),
    "structure": lambda x: optree.tree_unflatten(optree.tree_structure(tree(x)), [x, x + 1, x + 2]),
    "a structure from outside": lambda x: SPEC.unflatten(iter([x, x + 1, x + 2])),
    "compared": lambda x: (x, optree.tree_structure(tree(x)) == SPEC, optree.tree_structure([x]) != SPEC),
    "facts": lambda x: (x, SPEC.num_leaves, SPEC.num_nodes, SPEC.num_children, SPEC.type, SPEC.entries(), len(SPEC)),
    "reduce": lambda x: optree.tree_reduce(lambda a, b: a * b, tree(x)),
    "sum": lambda x: optree.tree_sum(tree(x)),
    "iterated": lambda x: sum(optree.tree_iter(tree(x))),
    "all": lambda x: x + optree.tree_all({"a": 1, "b": 0}),
    "transpose": lambda x: optree.tree_transpose(
        optree.tree_structure({"a": 1, "b": 2}), optree.tree_structure([1, 2]), {"a": [x, x + 1], "b": [x, x * 2]}
    ),
    "broadcast": lambda x: optree.tree_broadcast_prefix(x, {"a": 1, "b": 2}),
    "nones": lambda x: optree.tree_replace_nones(x, tree(x)),
    "leaf or not": lambda x: (x, optree.tree_is_leaf(x), optree.tree_is_leaf([x])),
}


def check(got, expected):
    got, expected = optree.tree_flatten(got), optree.tree_flatten(expected)
    assert got[1] == expected[1]
    for ours, plain in zip(got[0], expected[0], strict=True):
        assert torch.equal(ours, plain) if isinstance(plain, torch.Tensor) else ours == plain


@pytest.mark.parametrize("name", CASES)
def test_one_graph(name):
    x = torch.arange(6.0).reshape(2, 3)
    check(cdynamo.optimize(CASES[name], fullgraph=True)(x), CASES[name](x))


def test_gradients_of_a_tree_of_parameters():
    def step(params, x):
        loss = (params["w"] @ x + params["b"]).square().sum()
        grads = torch.autograd.grad(loss, optree.tree_leaves(params))
        return optree.tree_map(
            lambda p, g: p - 0.1 * g, params, optree.tree_unflatten(optree.tree_structure(params), grads)
        )

    params = {"w": torch.ones(2, 3, requires_grad=True), "b": torch.zeros(2, requires_grad=True)}
    x = torch.arange(3.0)
    check(cdynamo.optimize(step)(params, x), step(params, x))


def test_errors_are_optree_s():
    def program(x, leaves):
        y = x * 2
        return SPEC.unflatten([y] * leaves), optree.tree_map(lambda a, b: a, tree(y), [y])

    for leaves in (2, 4, 3):
        with pytest.raises(ValueError) as plain:
            program(torch.ones(2), leaves)
        with pytest.raises(ValueError) as compiled:
            cdynamo.optimize(program)(torch.ones(2), leaves)
        assert str(compiled.value) == str(plain.value)


class Registered:
    def __init__(self, value):
        self.value = value


optree.register_pytree_node(
    Registered, lambda node: ((node.value,), None, None), lambda _, children: Registered(*children), namespace="tests"
)


def test_a_class_that_the_program_has_registered():
    spec = optree.tree_structure([Registered(1), 2], namespace="tests")

    def program(x):
        tree = optree.tree_map(lambda v: v + 1, [Registered(x), x], namespace="tests")
        other = spec.unflatten([x, x * 2])
        return tree[0].value * 2, tree[1], other[0].value, spec.flatten_up_to(tree)

    x = torch.ones(3)
    check(cdynamo.optimize(program)(x), program(x))
