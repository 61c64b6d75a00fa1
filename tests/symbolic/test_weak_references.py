"""weakref.ref, proxies and the weak containers of the standard library in captured code; what may have died is left to Python."""

from __future__ import annotations

import gc
import weakref

import pytest
from values_check import check

import cdynamo


class Node:
    def __init__(self, value, parent=None):
        self.value = value
        self.parent = weakref.ref(parent) if parent is not None else None
        self.children = []
        if parent is not None:
            parent.children.append(self)

    def total(self):
        parent = self.parent() if self.parent else None
        return self.value + (parent.total() if parent is not None else 0)


class Slotted:
    __slots__ = ("__weakref__", "held")


ROOT = Node(1)
LEAF = Node(3, Node(2, ROOT))
OTHER = Node(4)
REFERENCE = weakref.ref(ROOT)
CALLED_BACK = weakref.ref(ROOT, lambda reference: None)
DEAD = weakref.ref(Node(5))
KEYS = weakref.WeakKeyDictionary({ROOT: 10, LEAF: 20})
VALUES = weakref.WeakValueDictionary({"root": ROOT})
SET = weakref.WeakSet([ROOT, LEAF])


def calls():
    return REFERENCE().value, CALLED_BACK().value, DEAD(), REFERENCE() is ROOT


def made():
    reference = weakref.ref(ROOT)
    return reference is REFERENCE, reference == REFERENCE, reference().value, {reference: 1}[REFERENCE]


def compared():
    one, other = weakref.ref(LEAF), weakref.ref(ROOT)
    return one == other, one != other, one == CALLED_BACK, other == CALLED_BACK, one == 3, one is other


def returned():
    return weakref.ref(ROOT) is REFERENCE, [weakref.ref(OTHER)][0]() is OTHER


def up_a_tree():
    return LEAF.total(), [child.parent() is ROOT for child in ROOT.children]


def of_classes_and_functions():
    return weakref.ref(Node)() is Node, weakref.ref(calls)() is calls


def keys():
    return KEYS[ROOT], KEYS.get(OTHER, 7), LEAF in KEYS, OTHER in KEYS, len(KEYS), sorted(KEYS.values())


def values():
    return VALUES["root"].value, VALUES.get("leaf"), "root" in VALUES, [*(node.value for node in VALUES.values())]


def members():
    return ROOT in SET, OTHER in SET, 3 in SET, len(SET)


def refused():
    found = []
    for value in (3, "text", (1, 2)):
        try:
            weakref.ref(value)
        except TypeError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize(
    "fn",
    [calls, made, compared, returned, up_a_tree, of_classes_and_functions, keys, values, members, refused],
)
def test_references(fn):
    check(fn)


def test_builtin_functions_do_not_die():
    kept = weakref.ref(len, print), weakref.ref(abs, print)
    check(lambda x: [function(x) for function in (len, sum, max, len)], ([1, 2],))
    assert kept[0]() is len


@pytest.fixture
def compiled():
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True
    return cdynamo.optimize


def test_what_a_reference_leads_to_is_guarded(compiled):
    def value(reference):
        node = reference()
        return None if node is None else node.value

    fast = compiled(value, fullgraph=True)
    node = Node(6)
    seen = weakref.ref(node)
    assert [fast(REFERENCE), fast(weakref.ref(OTHER)), fast(seen), fast(seen)] == [1, 4, 6, 6]
    del node
    assert fast(seen) is None is fast(DEAD)
    assert fast(REFERENCE) == 1


def test_a_reference_is_that_of_its_own_object(compiled):
    fast = compiled(lambda node: (weakref.ref(node), KEYS.get(node)), fullgraph=True)
    for node, number in ((ROOT, 10), (LEAF, 20), (OTHER, None), (ROOT, 10)):
        reference, found = fast(node)
        assert reference is weakref.ref(node) and found == number


def of_an_item(box):
    reference = weakref.ref(box[0])
    box.clear()
    return reference() is None


def of_a_value(box):
    reference = weakref.ref(box["node"])
    box["node"] = None
    return reference() is None


def of_an_entry(box):
    reference = weakref.ref(box["node"])
    box.pop("node")
    return reference() is None


def of_an_attribute(holder):
    reference = weakref.ref(holder.held)
    holder.held = None
    return reference() is None


def of_what_is_held_by_an_item(box):
    reference = weakref.ref(box[0].held)
    box[0] = 0
    return reference() is None


def with_attribute(kind):
    holder = kind()
    holder.held = Node(1)
    return holder


class Holder:
    pass


@pytest.mark.parametrize(
    ("program", "make"),
    [
        (of_an_item, lambda: [Node(1)]),
        (of_a_value, lambda: {"node": Node(1)}),
        (of_an_entry, lambda: {"node": Node(1)}),
        (of_an_attribute, lambda: with_attribute(Holder)),
        (of_an_attribute, lambda: with_attribute(Slotted)),
        (of_what_is_held_by_an_item, lambda: [with_attribute(Holder)]),
    ],
)
def test_what_was_let_go_of_is_dead(compiled, program, make):
    fast = compiled(program)
    for _ in range(3):
        assert fast(make()) is True is program(make())


def test_what_only_a_name_held_is_dead(compiled):
    namespace = {"weakref": weakref, "Node": Node}
    exec(
        "def program():\n    global node\n    reference = weakref.ref(node)\n    node = None\n"
        "    return reference() is None",
        namespace,
    )
    fast = compiled(namespace["program"])
    for _ in range(3):
        namespace["node"] = Node(1)
        assert fast()


def test_a_new_object_dies_in_its_turn(compiled):
    def program():
        node = Node(1)
        reference = weakref.ref(node)
        alive = reference() is node
        del node
        gc.collect()
        return alive, reference() is None

    fast = compiled(program)
    for _ in range(3):
        assert fast() == (True, True)


def test_what_keeps_no_reference_breaks_the_graph(compiled):
    def with_callback(log):
        node = Node(3)
        reference = weakref.ref(node, log.append)
        return reference() is node

    def no_longer_held(log):
        node = Node(3)
        reference = weakref.ref(node)
        node = None
        return reference() is None

    def entry_no_longer_held(log):
        numbers, nodes = weakref.WeakKeyDictionary(), [Node(3)]
        numbers[nodes[0]] = 1
        nodes.pop()
        return len(numbers) == 0

    for program in (with_callback, no_longer_held, entry_no_longer_held):
        assert compiled(program)([]) is True
        with pytest.raises(cdynamo.GraphBreakError):
            compiled(program, fullgraph=True)([])


# ---- to objects that captured code makes


class Sized(Node):
    def __len__(self):
        return 4

    def __call__(self, x):
        return x + self.value


def of_new_objects():
    parent = Node(1)
    child = Node(2, parent)
    reference = weakref.ref(child)
    same = reference is weakref.ref(child), reference == weakref.ref(child), reference == parent.children[0].parent
    return child.total(), reference().value, same, {reference: 1}[weakref.ref(child)], type(reference).__name__


def new_object_held_elsewhere():
    held = {"node": [Node(7)]}
    reference = weakref.ref(held["node"][0])
    return reference().value, [r().value for r in (weakref.ref(node) for node in held["node"])]


def leaves(box):
    node = Node(4)
    box.append(weakref.ref(node))
    box.append(node)
    return box[0]().value


def of_proxies():
    node, sized = Node(3), Sized(5)
    proxy, other, live = weakref.proxy(node), weakref.proxy(sized), weakref.proxy(ROOT)
    proxy.value += 1
    found = [node.value, live.value, isinstance(proxy, Node), isinstance(other, Sized), type(proxy).__name__]
    return found, len(other), other(2), bool(other), proxy == node, type(other).__name__, PROXY.value, PROXY.total()


def new_containers():
    one, other = Node(1), Node(2)
    keys = weakref.WeakKeyDictionary({one: "a"})
    keys[other] = "b"
    values = weakref.WeakValueDictionary(x=one)
    values["y"] = other
    values.setdefault("z", one)
    members = weakref.WeakSet([one])
    members.add(other)
    members.discard(one)
    found = [len(keys), keys[one], keys.get(Node(3)), one in keys, sorted(node.value for node in keys)]
    found += [len(values), values["y"].value, values.get("w"), sorted(values), [v.value for v in values.values()]]
    found += [len(members), other in members, one in members, [m.value for m in members], bool(members)]
    del keys[one]
    return found, list(keys.values()), values.pop("x").value, len(values), keys.setdefault(one, "c")


PROXY = weakref.proxy(ROOT)


@pytest.mark.parametrize(
    "fn", [of_new_objects, new_object_held_elsewhere, of_proxies, new_containers], ids=lambda fn: fn.__name__
)
def test_references_to_new_objects(fn):
    check(fn)


def test_a_reference_to_a_new_object_leaves(compiled):
    fast = compiled(leaves, fullgraph=True)
    for _ in range(2):
        box = []
        assert fast(box) == 4
        assert box[0]() is box[1] and box[0] is weakref.ref(box[1])
        box.pop()
        assert box[0]() is None


def test_a_proxy_leaves(compiled):
    fast = compiled(lambda box: box.extend([Node(6)]) or weakref.proxy(box[0]), fullgraph=True)
    for _ in range(2):
        box = []
        proxy = fast(box)
        assert proxy.value == 6 and type(proxy) is weakref.ProxyType
        box.clear()
        with pytest.raises(ReferenceError):
            proxy.value  # noqa: B018


class Registry:
    def __init__(self):
        self.keys = weakref.WeakKeyDictionary()
        self.values = weakref.WeakValueDictionary()
        self.members = weakref.WeakSet()
        self.owned = []

    def contents(self):
        keys, values = ([(node.value, number) for node, number in self.keys.items()]), [*self.values]
        return sorted(keys), sorted(values), sorted(node.value for node in self.members), len(self.owned)


def fill(registry, node, kept):
    made, dropped = Node(8), Node(9)
    for each in (node, made, dropped):
        registry.keys[each] = each.value
        registry.values[str(each.value)] = each
        registry.members.add(each)
    if kept:
        registry.owned.append(made)
    return len(registry.keys), len(registry.values), len(registry.members), [*registry.keys.values()]


@pytest.mark.parametrize("kept", [True, False])
def test_containers_that_came_in_are_written_to(compiled, kept):
    def outcome(call):
        registry, node = Registry(), Node(1)
        found = [(call(registry, node, kept), registry.contents()) for _ in range(2)]
        registry.owned.clear()
        node = None
        return found, registry.contents()

    fast = compiled(fill, fullgraph=True)
    for _ in range(2):
        assert outcome(fast) == outcome(fill)


def test_iterated_containers_are_captured(compiled):
    nodes = [Node(1), Node(2)]
    keys, members = weakref.WeakKeyDictionary(zip(nodes, "ab")), weakref.WeakSet(nodes)

    def program():
        found = [(node.value, text) for node, text in keys.items()]
        for node in members:
            found.append(node.value)
        return sorted(map(str, found))

    fast = compiled(program, fullgraph=True)
    assert fast() == program() == fast()


def test_of_tensors(compiled):
    torch = pytest.importorskip("torch")

    class Cache:
        def __init__(self):
            self.tensor = torch.ones(2)

    def of_argument(x):
        reference = weakref.ref(x)
        return reference() is x, reference() * 2, reference

    def of_attribute(cache):
        reference = weakref.ref(cache.tensor)
        alive = reference() is cache.tensor
        cache.tensor = None
        return alive, reference() is None

    def of_result(x):
        return weakref.ref(x * 2)() is None

    def of_new(x):
        y = x * 2
        reference = weakref.ref(y)
        return reference() + 1, reference, y

    fast = compiled(of_argument, fullgraph=True)
    for x in (torch.ones(2), torch.zeros(2)):
        same, doubled, reference = fast(x)
        assert same and torch.equal(doubled, x * 2) and reference is weakref.ref(x)
    fast = compiled(of_new, fullgraph=True)
    for _ in range(2):
        more, reference, y = fast(torch.ones(2))
        assert torch.equal(more, torch.full((2,), 3.0)) and reference() is y
    for program, make in ((of_attribute, Cache), (of_result, lambda: torch.ones(2))):
        fast = compiled(program)
        for _ in range(3):
            assert fast(make()) == program(make())


def test_what_is_watched_lives_as_long_as_the_frame():
    """Also where the frame is left by an error, whose traceback holds it, and where references are counted."""
    cdynamo.config.keep_empty_graphs = True

    class Watched:
        pass

    def program(call):
        seen = []

        def inner():
            watched = Watched()
            seen.append(weakref.ref(watched))
            call()

        try:
            inner()
        except ZeroDivisionError:
            seen.append(seen[0]() is not None)
        other = Watched()
        first = weakref.ref(other)
        proxy = weakref.proxy(other)
        call2 = weakref.getweakrefcount(other)
        del proxy
        return seen[1:], call2, first() is other

    def fails():
        return 1 // 0

    fails = cdynamo.disable(fails)
    assert cdynamo.optimize(program)(fails) == program(fails) == ([True], 2, True)


def test_what_a_weak_container_holds_lives_as_long_as_the_frame():
    cdynamo.config.keep_empty_graphs = True

    class Watched:
        def __init__(self):
            self.itself = self

    def program(call):
        held = weakref.WeakValueDictionary()
        held[10] = Watched()
        kept = Watched()
        held[10] = kept
        call()
        return len(held)

    collect = cdynamo.disable(lambda: gc.collect())
    assert cdynamo.optimize(program)(collect) == program(collect) == 1
