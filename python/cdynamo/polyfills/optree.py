"""optree's functions in C, of trees whose leaves are known when the graph has run.

optree itself is asked, of the same tree with a number for each leaf: the order of the leaves, the treespec, what a
treespec makes again. A treespec is a constant. Trees are described as nested tuples on the way: the index of a leaf,
None, or (class, what it is made with, keys, children).
"""

from collections import OrderedDict, defaultdict, deque

import optree
from optree import _C, PyTreeSpec

from cdynamo.polyfills.rules import not_captured

REGISTERED = "a node of a class that is registered with optree"


def known(function):
    """`function`, called while capturing."""

    def call(*args):
        return function(*args)

    call._dynamo_marked_constant = True
    return call


def describe(node, is_leaf, none_is_leaf, namespace, leaves):
    """The description of `node`, whose leaves are added to `leaves`; a class that is registered is its name."""
    kind = type(node)
    if (is_leaf is not None and is_leaf(node)) or (node is None and none_is_leaf):
        leaves.append(node)
        return len(leaves) - 1
    if node is None:
        return None

    def described(children):
        return tuple([describe(child, is_leaf, none_is_leaf, namespace, leaves) for child in children])

    if kind is dict or kind is OrderedDict or kind is defaultdict:
        factory = node.default_factory if kind is defaultdict else None
        return kind, factory, tuple(node), described(node.values())
    if kind is tuple or kind is list or is_sequence(kind):
        return kind, None, None, described(node)
    if kind is deque:
        return kind, node.maxlen, None, described(node)
    if is_registered(kind, namespace):
        return REGISTERED
    leaves.append(node)
    return len(leaves) - 1


def make(described, leaves):
    """The tree of the description."""
    if type(described) is int:
        return leaves[described]
    if described is None:
        return None
    if described == REGISTERED:
        not_captured(REGISTERED)
    kind, extra, keys, children = described
    children = [make(child, leaves) for child in children]
    if keys is not None:
        parts = dict(zip(keys, children))
        return defaultdict(extra, parts) if kind is defaultdict else kind(parts)
    if kind is deque:
        return deque(children, extra)
    return kind(*children) if is_named_tuple(kind) else kind(children)


def place(described, tree, found):
    """`found[i]` is what is in `tree` where the description has `i`."""
    if type(described) is int:
        found[described] = tree
        return
    if described == REGISTERED:
        not_captured(REGISTERED)
    kind, _, keys, children = (type(None), None, None, ()) if described is None else described
    if keys is None:
        fits = type(tree) is kind and (tree is None or len(tree) == len(children))
    else:
        fits = type(tree) in (dict, OrderedDict, defaultdict) and tree.keys() == set(keys)
    if not fits:
        not_captured("trees that differ")
    for i, child in enumerate(children):
        place(child, tree[i] if keys is None else tree[keys[i]], found)


is_named_tuple = known(optree.is_namedtuple_class)
is_sequence = known(lambda cls: optree.is_namedtuple_class(cls) or optree.is_structseq_class(cls))
is_registered = known(lambda cls, namespace: optree.register_pytree_node.get(cls, namespace=namespace) is not None)
paths_of = known(lambda spec: spec.paths())


@known
def flatten_described(described, count, none_is_leaf, namespace):
    """The order of the leaves, and the treespec; None: a class is registered."""
    try:
        return _C.flatten(make(described, range(count)), None, none_is_leaf, namespace)
    except AssertionError:
        return None


@known
def description_of(spec):
    """What the treespec makes of a number for each leaf, and what each index in that stands for."""
    if "CustomTreeNode(" in repr(spec):  # which the program's own function would make
        return REGISTERED, ()
    order = []
    described = describe(spec.unflatten(range(spec.num_leaves)), None, spec.none_is_leaf, spec.namespace, order)
    return described, tuple(order)


def flatten(tree, leaf_predicate=None, none_is_leaf=False, namespace=""):
    leaves = []
    described = describe(tree, leaf_predicate, none_is_leaf, namespace, leaves)
    found = flatten_described(described, len(leaves), none_is_leaf, namespace)
    if found is None:
        not_captured(REGISTERED)
    order, spec = found
    return [leaves[i] for i in order], spec


def flatten_with_path(tree, leaf_predicate=None, none_is_leaf=False, namespace=""):
    leaves, spec = flatten(tree, leaf_predicate, none_is_leaf, namespace)
    return paths_of(spec), leaves, spec


def unflatten(self, leaves):
    leaves = list(leaves)
    if len(leaves) != self.num_leaves:
        not_captured("leaves that are too many or too few")
    described, order = description_of(self)
    return make(described, [leaves[i] for i in order])


def flatten_up_to(self, tree):
    described, order = description_of(self)
    found = [None] * self.num_leaves
    place(described, tree, found)
    in_order = list(found)
    for i, index in enumerate(order):
        in_order[index] = found[i]
    return in_order


def is_leaf(tree, leaf_predicate=None, none_is_leaf=False, namespace=""):
    return type(describe(tree, leaf_predicate, none_is_leaf, namespace, [])) is int


def tree_iter(tree, /, is_leaf=None, *, none_is_leaf=False, namespace=""):
    return iter(flatten(tree, is_leaf, none_is_leaf, namespace)[0])


def method(name):
    """The function in C: it is bound as functions are."""
    return PyTreeSpec.__dict__[name].__func__


KNOWN = (
    *("__eq__", "__ge__", "__gt__", "__le__", "__len__", "__lt__", "__ne__", "accessors", "broadcast_to_common_suffix"),
    *("child", "children", "compose", "entries", "entry", "is_leaf", "is_one_level", "is_prefix", "is_suffix"),
    *("one_level", "paths"),
)  # what a treespec says of itself; some are not in every release
FUNCTIONS = {
    _C.flatten: flatten,
    _C.flatten_with_path: flatten_with_path,
    _C.is_leaf: is_leaf,
    method("unflatten"): unflatten,
    method("flatten_up_to"): flatten_up_to,
    optree.tree_iter: tree_iter,
    **{method(name): known(method(name)) for name in KNOWN if name in PyTreeSpec.__dict__},
}
