"""Weak references with a callback in captured code: WeakMethod, weakref.ref(object, callback), weakref.finalize. What may have died is
left to Python, which calls the callback in its turn, once."""

from __future__ import annotations

import gc
import weakref

import pytest
from values_check import check

import cdynamo


class Node:
    def __init__(self, value):
        self.value = value

    def doubled(self):
        return self.value * 2


ROOT = Node(1)


@pytest.fixture
def compiled():
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True
    return cdynamo.optimize


# ---- WeakMethod


def methods():
    node = Node(3)
    reference, other = weakref.WeakMethod(node.doubled), weakref.WeakMethod(ROOT.doubled)
    same = reference == weakref.WeakMethod(node.doubled), reference == other, reference != other
    return reference()(), other()(), same, len({reference, other}), type(reference).__name__


def methods_of_a_new_class():
    class Local:
        def number(self):
            return 4

    local = Local()
    return weakref.WeakMethod(local.number)()()


def methods_in_a_list():
    nodes = [Node(n) for n in range(3)]
    listeners = [weakref.WeakMethod(node.doubled) for node in nodes]
    return [listener()() for listener in listeners]


def no_method():
    try:
        weakref.WeakMethod(len)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("fn", [methods, methods_of_a_new_class, methods_in_a_list, no_method])
def test_weak_methods(fn):
    check(fn)


def test_a_weak_method_leaves(compiled):
    def program(nodes, n):
        nodes.append(Node(n))
        return weakref.WeakMethod(nodes[-1].doubled)

    fast = compiled(program, fullgraph=True)
    for n in range(4):
        nodes = []
        method = fast(nodes, n)
        assert method()() == 2 * n and method == weakref.WeakMethod(nodes[0].doubled)
        nodes.clear()
        assert method() is None and method != weakref.WeakMethod(ROOT.doubled)


def test_a_weak_method_to_what_dies_leaves(compiled):
    def program():
        node = Node(1)
        return weakref.WeakMethod(node.doubled)

    fast = compiled(program)
    for _ in range(3):
        made, expected = fast(), program()
        assert made() is None is expected() and made._alive == expected._alive
        assert made == made and made != weakref.WeakMethod(ROOT.doubled)


def test_a_weak_method_to_what_has_died(compiled):
    def program():
        node = Node(1)
        method = weakref.WeakMethod(node.doubled)
        alive = method() is not None
        del node
        return alive, method() is None, method._alive

    fast = compiled(program)
    for _ in range(3):
        assert fast() == program() == (True, True, False)


# ---- the program's callbacks


def returned(log, n):
    node = Node(n)
    reference = weakref.ref(node, lambda r: log.append(("died", n, r() is None)))
    return node, reference, reference().value


def made_in_a_call(log, n):
    def make(n):
        node = Node(n)
        references.append(weakref.ref(node, lambda r: log.append(n)))
        return node

    references = []
    return [make(n), make(n + 1)], references


def put_away(log, n):
    node = Node(n)
    KEPT["node"] = node
    KEPT["reference"] = weakref.ref(node, lambda r: log.append("died"))
    return KEPT["reference"]().value


KEPT = {}


@pytest.mark.parametrize("program", [returned, made_in_a_call, put_away])
def test_what_outlives_the_call_is_watched_by_python(compiled, program):
    fast = compiled(program, fullgraph=True)
    for n in range(4):
        logs = []
        for fn in (program, fast):
            log = []
            result = fn(log, n)
            before = len(log)
            held = (KEPT.pop("node"), KEPT.pop("reference")) if program is put_away else result
            node, reference, *_ = held
            del result, held
            assert len(log) == before == 0
            del node
            gc.collect()
            logs.append(log)
        assert logs[0] == logs[1] and logs[0]


def put_into_an_argument(log, n):
    node = Node(n)
    log.append(node)
    log.append(weakref.ref(node, log.append))
    return log[1]().value


def test_what_an_argument_holds_is_watched_by_python(compiled):
    fast = compiled(put_into_an_argument)
    for n in range(4):
        log = []
        assert fast(log, n) == n and len(log) == 2
        reference = log[1]
        log.pop(0)
        assert log == [reference, reference]


def dies_by_del(log):
    node = Node(1)
    reference = weakref.ref(node, lambda r: log.append("died"))
    log.append("before")
    del node
    log.append("after")
    return reference() is None


def dies_by_assignment(log):
    node = Node(1)
    reference = weakref.ref(node, lambda r: log.append("died"))
    log.append("before")
    node = Node(2)
    log.append("after")
    return reference() is None, node.value


def dies_in_a_list(log):
    nodes = [Node(1), Node(2)]
    references = [weakref.ref(node, lambda r: log.append("died")) for node in nodes]
    log.append("before")
    nodes.pop(0)
    log.append("between")
    nodes.clear()
    log.append("after")
    return [reference() is None for reference in references]


def dies_as_it_is_made(log):
    log.append("before")
    reference = weakref.ref(Node(1), lambda r: log.append("died"))
    log.append("after")
    return reference() is None


def dies_with_a_call(log):
    def inner():
        node = Node(1)
        kept.append(weakref.ref(node, lambda r: log.append("died")))
        log.append("inner")
        return 5

    kept = []
    number = inner()
    log.append("after")
    return number, kept[0]() is None


def dies_by_an_exception(log):
    def inner():
        node = Node(1)
        kept.append(weakref.ref(node, lambda r: log.append("died")))
        raise ValueError

    kept = []
    try:
        inner()
    except ValueError:
        log.append("caught")
    log.append("after")
    return kept[0]() is None


def dies_with_its_holder(log):
    holder = Node([Node(1)])
    reference = weakref.ref(holder.value[0], lambda r: log.append("died"))
    log.append("before")
    holder.value = None
    log.append("after")
    return reference() is None


def dies_in_a_loop(log):
    references = []
    for n in range(3):
        node = Node(n)
        references.append(weakref.ref(node, lambda r, n=n: log.append(n)))
        log.append("turn")
    return [reference() is None for reference in references], node.value


def reference_dies_first(log):
    node = Node(1)
    reference = weakref.ref(node, lambda r: log.append("died"))
    del reference
    log.append("before")
    del node
    log.append("after")


def of_an_argument_that_was_let_go_of(log):
    reference = weakref.ref(log[0], lambda r: log.append("died"))
    log.append("before")
    log[0] = None
    log.append("after")
    return reference() is None


def calls_other_functions(log):
    node = Node(1)

    def called(reference):
        log.append(reference is kept and reference() is None)

    kept = weakref.ref(node, called)
    holder = [node]
    node = None
    log.append("held")
    holder[0] = 3
    log.append("after")


def has_several(log):
    node = Node(1)
    references = [weakref.ref(node, lambda r: log.append("first"))]
    weakref.finalize(node, log.append, "second")
    references.append(weakref.ref(node, lambda r: log.append("third")))
    log.append("before")
    return [reference() is node for reference in references]


@cdynamo.disable
def leave_to_python():
    pass


def only_a_holder_has_the_reference(log):
    holder, node = Node(0), Node(1)
    holder.value = weakref.ref(node, lambda r: log.append("died"))
    log.append("before")
    leave_to_python()
    log.append("break")
    del node
    log.append("after")


def only_a_holder_has_the_object(log):
    holder, node = Node(0), Node(1)
    holder.value = [node, 3]
    reference = weakref.ref(node, lambda r: log.append("died"))
    del node
    log.append("before")
    leave_to_python()
    log.append("break")
    del holder
    log.append("after")
    return reference() is None


def a_reference_is_replaced(log):
    node = Node(1)
    reference = weakref.ref(node, lambda r: log.append("first"))
    log.append("before")
    reference = weakref.ref(node, lambda r: log.append("second"))
    log.append("after")
    return reference() is node


def only_a_new_holder_has_the_live_object(log):
    node = Node(1)
    reference = weakref.ref(node, lambda r: log.append("died"))
    leave_to_python()
    holder = Node(node)
    node = Node(2)
    leave_to_python()
    log.append("before")
    holder = node
    log.append("after")
    return holder.value, reference() is None


def only_a_closure_has_the_object(log):
    def make():
        node = Node(1)
        references.append(weakref.ref(node, lambda r: log.append("died")))
        return [lambda: node]

    references = []
    closure = make()
    leave_to_python()
    log.append("break")
    closure.clear()
    log.append("after")
    return references[0]() is None


@pytest.mark.parametrize(
    "program",
    [
        has_several,
        only_a_holder_has_the_reference,
        only_a_holder_has_the_object,
        a_reference_is_replaced,
        only_a_new_holder_has_the_live_object,
        only_a_closure_has_the_object,
        dies_by_del,
        dies_by_assignment,
        dies_in_a_list,
        dies_as_it_is_made,
        dies_with_a_call,
        dies_by_an_exception,
        dies_with_its_holder,
        dies_in_a_loop,
        reference_dies_first,
        of_an_argument_that_was_let_go_of,
        calls_other_functions,
    ],
)
def test_what_dies_calls_back_in_its_turn(compiled, program):
    fast = compiled(program)
    for _ in range(4):
        outcomes = []
        for fn in (program, fast):
            log = [Node(0)] if program is of_an_argument_that_was_let_go_of else []
            result = fn(log)
            gc.collect()
            outcomes.append((result, log))
        assert outcomes[0] == outcomes[1]


def dies_at_the_end(log):
    node = Node(1)
    reference = weakref.ref(node, lambda r: log.append("died"))
    log.append("before")
    return reference().value


def reference_is_kept(log):
    node = Node(1)
    log.append(weakref.ref(node, lambda r: log.append("died")))
    log.append("before")


def dies_with_a_generator(log):
    def steps():
        node = Node(1)
        reference = weakref.ref(node, lambda r: log.append("died"))
        yield reference() is node

    held = steps()
    return next(held)


@pytest.mark.parametrize("program", [dies_at_the_end, reference_is_kept, dies_with_a_generator])
def test_what_dies_at_the_end_calls_back(compiled, program):
    fast = compiled(program)
    for _ in range(4):
        outcomes = []
        for fn in (program, fast):
            log = []
            result = fn(log)
            outcomes.append((result, [entry if isinstance(entry, str) else "reference" for entry in log]))
        assert outcomes[0] == outcomes[1] and "died" in outcomes[0][1]


def test_live_objects_that_stay(compiled):
    def program(log):
        reference = weakref.ref(ROOT, log.append)
        return reference().value, reference.__callback__ == log.append, reference is weakref.ref(ROOT)

    fast = compiled(program, fullgraph=True)
    for _ in range(3):
        log = []
        assert fast(log) == program(log) == (1, True, False) and not log


# ---- finalize


def test_finalize_of_what_outlives_the_call(compiled):
    def program(log, n):
        node = Node(n)
        finalizer = weakref.finalize(node, log.append, n)
        return node, finalizer, finalizer.alive, finalizer.peek()[2]

    fast = compiled(program, fullgraph=True)
    for n in range(4):
        log = []
        node, finalizer, alive, args = fast(log, n)
        assert alive and finalizer.alive and args == (n,) and finalizer.peek()[0] is node and not log
        del node
        gc.collect()
        assert log == [n] and not finalizer.alive and finalizer() is None


def test_finalizers_are_counted(compiled):
    def program(nodes):
        return [weakref.finalize(node, int) for node in nodes]

    fast, orders = compiled(program, fullgraph=True), []
    for _ in range(3):
        nodes = [[Node(n), Node(n)] for n in range(3)]
        made = [*fast(nodes[0]), *program(nodes[1]), *fast(nodes[2])]
        indices = [weakref.finalize._registry[finalizer].index for finalizer in made]
        assert indices == sorted(indices) and len(set(indices)) == 6
        orders.append(indices[0])
        for finalizer in made:
            assert finalizer.detach() is not None
    assert orders == sorted(orders)


def finalized_by_hand(log):
    node = Node(1)
    finalizer = weakref.finalize(node, log.append, "called")
    log.append("before")
    result = finalizer()
    log.append(finalizer.alive)
    return result, node


def detached(log):
    node = Node(1)
    finalizer = weakref.finalize(node, log.append, "called")
    held, function, args, kwargs = finalizer.detach()
    log.append(finalizer.alive)
    return held is node, args, kwargs, node


def finalized_by_del(log):
    node = Node(1)
    finalizer = weakref.finalize(node, log.append, "called")
    log.append(finalizer.alive)
    del node
    log.append(finalizer.alive)


def finalized_at_the_end(log):
    node = Node(1)
    weakref.finalize(node, log.append, "called")
    log.append(node.value)


class Resource:
    def __init__(self, log):
        self.finalizer = weakref.finalize(self, log.append, "closed")

    def close(self):
        self.finalizer()


def closed(log):
    resource = Resource(log)
    log.append("open")
    resource.close()
    log.append(resource.finalizer.alive)
    return resource.finalizer.alive


def left_open(log):
    resource = Resource(log)
    log.append(resource.finalizer.alive)
    return 3


@pytest.mark.parametrize(
    "program", [finalized_by_hand, detached, finalized_by_del, finalized_at_the_end, closed, left_open]
)
def test_finalizers_run_in_their_turn(compiled, program):
    fast = compiled(program)
    for _ in range(4):
        outcomes = []
        for fn in (program, fast):
            log = []
            result = fn(log)
            del result
            gc.collect()
            outcomes.append(log)
        assert outcomes[0] == outcomes[1]


def test_a_tensor_is_watched(compiled):
    torch = pytest.importorskip("torch")

    def program(x, log):
        y = x * 2
        node = Node(y)
        weakref.finalize(node, log.append, "died")
        log.append("before")
        z = node.value + 1
        del node
        log.append("after")
        return z

    fast = compiled(program)
    for n in range(3):
        log, expected = [], []
        assert torch.equal(fast(torch.ones(n + 1), log), program(torch.ones(n + 1), expected)) and log == expected
