"""Objects whose end something sees (callbacks of weak references, finalizers, `__del__`) die where they do in plain Python, whatever
graph breaks lie between: held by locals, containers, stacks and closures."""

from __future__ import annotations

import collections
import functools
import gc
import importlib
import sys
import weakref

import numpy as np
import pytest

import cdynamo


class Item:
    def __init__(self, v):
        self.v = v

    def bump(self):
        return self.v


class Told:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append(("del", self.name))


REFERENCES = []  # what outlives the call


def reference(item, name, log):
    return weakref.ref(item, lambda r: log.append(("dead", name)))


def method(item, name, log):
    return weakref.WeakMethod(item.bump, lambda r: log.append(("dead", name)))


def finalizer(item, name, log):
    return weakref.finalize(item, log.append, ("dead", name))


def held_by_container(x, log, watch):
    made = Item(x)
    w = watch(made, "made", log)
    box = [made]
    y = x + 1
    cdynamo.graph_break()
    log.append("one")
    y = y * 2
    cdynamo.graph_break()
    log.append("two")
    del made
    log.append("deleted")
    box.clear()
    log.append("cleared")
    return y


def held_by_container2(x, log, watch):
    made = Item(x)
    w = watch(made, "made", log)
    box = {"a": made}
    cdynamo.graph_break()
    y = x + 1
    cdynamo.graph_break()
    box = None
    log.append("nobox")
    made = None
    log.append("nomade")
    y = y * 2
    return y


def not_read_again(x, log, watch):
    made = Item(x)
    w = watch(made, "made", log)
    cdynamo.graph_break()
    log.append("one")
    y = x + 1
    cdynamo.graph_break()
    log.append("two")
    return y


def container_not_read_again(x, log, watch):
    box = [Item(x), Item(2)]
    w = watch(box[0], "made", log)
    cdynamo.graph_break()
    log.append("one")
    y = x + 1
    cdynamo.graph_break()
    log.append("two")
    return y


def nested_container(x, log, watch):
    box = {"k": [(Item(x),)]}
    w = watch(box["k"][0][0], "made", log)
    cdynamo.graph_break()
    log.append("one")
    y = x + 1
    cdynamo.graph_break()
    log.append("two")
    return y


def in_object(x, log, watch):
    class H:
        pass

    holder = H()
    holder.item = Item(x)
    w = watch(holder.item, "made", log)
    cdynamo.graph_break()
    log.append("one")
    y = x + 1
    cdynamo.graph_break()
    log.append("two")
    holder = 3
    log.append("three")
    return y


def in_loop(x, log, watch):
    ws = []
    for i in range(3):
        made = Item(i)
        ws.append(watch(made, i, log))
        log.append(("turn", i))
        x = x + i
        cdynamo.graph_break()
        log.append(("after", i))
    log.append("end")
    return x


def in_loop_kept(x, log, watch):
    ws = []
    kept = []
    for i in range(3):
        made = Item(i)
        ws.append(watch(made, i, log))
        kept.append(made)
        x = x + i
        cdynamo.graph_break()
        if i == 1:
            kept.pop(0)
            log.append("popped")
        log.append(("after", i))
    log.append("end")
    kept.clear()
    log.append("cleared")
    cdynamo.graph_break()
    log.append("last")
    return x


def in_with(x, log, watch):
    with np.errstate(all="ignore"):
        made = Item(x)
        w = watch(made, "made", log)
        cdynamo.graph_break()
        y = x + 1
        log.append("in")
        box = (made,)
        del made
        cdynamo.graph_break()
        log.append("in2")
    log.append("out")
    del box
    log.append("nobox")
    return y


def in_try(x, log, watch):
    try:
        made = Item(x)
        w = watch(made, "made", log)
        cdynamo.graph_break()
        y = x + 1
        log.append("in")
        raise ValueError("x")
    except ValueError as e:
        cdynamo.graph_break()
        log.append("exc")
        del made
        log.append("gone")
    cdynamo.graph_break()
    log.append("end")
    return y


def in_try_finally(x, log, watch):
    try:
        made = Item(x)
        w = watch(made, "made", log)
        cdynamo.graph_break()
        y = x + 1
    finally:
        cdynamo.graph_break()
        log.append("fin")
    cdynamo.graph_break()
    log.append("end")
    return y


def callee(x, log, watch, name):
    made = Item(x)
    w = watch(made, name, log)
    cdynamo.graph_break()
    log.append(("in", name))
    y = x + 1
    cdynamo.graph_break()
    log.append(("in2", name))
    return y


def nested(x, log, watch):
    first = Item(0)
    w0 = watch(first, "outer", log)
    y = callee(x, log, watch, "a")
    log.append("between")
    y = callee(y, log, watch, "b")
    log.append("end")
    return y


def returns_item(x, log, watch):
    def make():
        made = Item(x)
        ws.append(watch(made, "m", log))
        cdynamo.graph_break()
        return made

    ws = []
    it = make()
    log.append("made")
    cdynamo.graph_break()
    y = it.v + 1
    make()
    log.append("dropped")
    it = make()
    log.append("replaced")
    return y


def passes_item(x, log, watch):
    def use(item):
        cdynamo.graph_break()
        log.append("use")
        item = None
        log.append("used")
        cdynamo.graph_break()
        return x * 2

    ws = []

    def mk():
        it = Item(x)
        ws.append(watch(it, "p", log))
        return it

    z = mk()
    y = use(z)
    log.append("done2")
    cdynamo.graph_break()
    log.append("done3")
    return y


def argument(x, log, watch):
    box = [Item(5)]
    w = watch(box[0], "arg", log)

    def inner(box):
        it = box.pop()
        cdynamo.graph_break()
        log.append("popped")
        it = 3
        log.append("none")
        cdynamo.graph_break()
        return x + it

    y = inner(box)
    log.append("end")
    return y


def cell(x, log, watch):
    made = Item(x)
    w = watch(made, "c", log)
    f = lambda: made
    cdynamo.graph_break()
    log.append("one")
    made = 3
    log.append("two")
    cdynamo.graph_break()
    return x + f()


def closure_del(x, log, watch):
    made = Item(x)
    w = watch(made, "c", log)
    f = lambda: made
    cdynamo.graph_break()
    del f
    log.append("x")
    return x


def overwritten_in_branch(x, log, watch):
    made = Item(x)
    w = watch(made, "c", log)
    cdynamo.graph_break()
    if x.sum() > 0:
        made = None
        log.append("br")
    else:
        log.append("no")
    cdynamo.graph_break()
    log.append("end")
    return x + 1


def walrus(x, log, watch):
    ws = []
    log.append([ws.append(watch(m, i, log)) for i in range(3) if (m := Item(i))])
    cdynamo.graph_break()
    log.append("one")
    cdynamo.graph_break()
    return x


def told_local(x, log, watch):
    t = Told("t", log)
    cdynamo.graph_break()
    log.append("one")
    y = x + 1
    cdynamo.graph_break()
    log.append("two")
    return y


def told_box(x, log, watch):
    t = [Told("t", log), Told("u", log)]
    cdynamo.graph_break()
    log.append("one")
    y = x + 1
    cdynamo.graph_break()
    log.append("two")
    t.pop()
    log.append("popped")
    cdynamo.graph_break()
    t = None
    log.append("none")
    return y


def told_both(x, log, watch):
    t = Told("t", log)
    box = {1: t}
    cdynamo.graph_break()
    y = x + 1
    cdynamo.graph_break()
    del box[1]
    log.append("box")
    del t
    log.append("gone")
    return y


def told_stack(x, log, watch):
    y = (Told("t", log), cdynamo.graph_break(), log.append("a"), cdynamo.graph_break(), x + 1)[4]
    log.append("b")
    cdynamo.graph_break()
    return y


def told_arg(x, log, watch):
    def f(t, y):
        cdynamo.graph_break()
        log.append("in")
        cdynamo.graph_break()
        return y + 1

    y = f(Told("t", log), x)
    log.append("out")
    cdynamo.graph_break()
    return y


def told_two(x, log, watch):
    a = Told("a", log)
    c = Told("c", log)
    d = a
    cdynamo.graph_break()
    y = x + 1
    cdynamo.graph_break()
    a = None
    log.append("1")
    cdynamo.graph_break()
    d = None
    log.append("2")
    return y


def told_gen(x, log, watch):
    def g():
        t = Told("g", log)
        yield x
        cdynamo.graph_break()
        yield x + 1
        log.append("after")

    it = g()
    y = next(it)
    cdynamo.graph_break()
    y = y + next(it)
    cdynamo.graph_break()
    log.append("close")
    it = None
    log.append("closed")
    return y


def swap(x, log, watch):
    a = Item(1)
    c = Item(2)
    wa = watch(a, "a", log)
    wc = watch(c, "c", log)
    cdynamo.graph_break()
    a, c = c, None
    log.append("swapped")
    cdynamo.graph_break()
    y = x + 1
    a = None
    log.append("end")
    return y


def reference_dies(x, log, watch):
    a = Item(1)
    wa = watch(a, "a", log)
    cdynamo.graph_break()
    wa = None
    log.append("x")
    cdynamo.graph_break()
    a = None
    log.append("y")
    return x + 1


def order_at_end(x, log, watch):
    a = Item(1)
    c = Item(2)
    d = [Item(3)]
    ws = [watch(a, "a", log), watch(c, "c", log), watch(d[0], "d", log)]
    REFERENCES.append(ws)
    cdynamo.graph_break()
    y = x + 1
    cdynamo.graph_break()
    log.append("end")
    return y


def raises(x, log, watch):
    a = Item(1)
    REFERENCES.append(watch(a, "a", log))
    cdynamo.graph_break()
    y = x + 1
    cdynamo.graph_break()
    log.append("end")
    raise KeyError("k")


def raise_inside(x, log, watch):
    def f():
        a = Item(1)
        REFERENCES.append(watch(a, "a", log))
        cdynamo.graph_break()
        log.append("f")
        raise KeyError("k")

    try:
        f()
    except KeyError:
        log.append("caught")
        cdynamo.graph_break()
    log.append("after")
    cdynamo.graph_break()
    return x + 1


def while_loop(x, log, watch):
    n = 0
    prev = None
    while n < 3:
        cur = Item(n)
        REFERENCES.append(watch(cur, n, log))
        cdynamo.graph_break()
        prev = cur
        x = x + 1
        log.append(n)
        n += 1
    log.append("out")
    cdynamo.graph_break()
    cur = None
    log.append("cur")
    prev = None
    log.append("prev")
    return x


def item_of_arg_let_go(x, log, watch):
    o = Item(Item(1))
    REFERENCES.append(watch(o.v, "a", log))
    a = o.v
    cdynamo.graph_break()
    o.v = None
    log.append("attr")
    cdynamo.graph_break()
    a = None
    log.append("local")
    return x + 1


def other_name(x, log, watch):
    item = Item(1)
    ref = watch(item, "a", log)
    cdynamo.graph_break()
    other = item
    return x + 1


def other_name_on_the_stack(x, log, watch):
    def made():
        cdynamo.graph_break()
        return 2

    item = Item(1)
    ref = watch(item, "a", log)
    y = x + (item, made())[1]
    return y


def closure_made_after_a_break(x, log, watch):
    item = Item(1)
    ref = watch(item, "a", log)
    cdynamo.graph_break()

    def look():
        return item

    return x + 1


def closure_that_nobody_calls(x, log, watch):
    def decorated(function):
        return lambda: function()

    item = Item(1)
    ref = watch(item, "a", log)
    cdynamo.graph_break()

    @decorated
    def look():
        return item

    cdynamo.graph_break()
    return x + 1


def popped(x, log, watch):
    items = [Item(1), Item(2)]
    REFERENCES.extend([watch(items[0], 0, log), watch(items[1], 1, log)])
    cdynamo.graph_break()
    y = x + items.pop().v
    log.append("between")
    y = y * items.pop().v
    log.append("end")
    return y


def popped_of_a_dict(x, log, watch):
    items = {1: Item(1), 2: Item(2)}
    REFERENCES.extend([watch(items[1], 1, log), watch(items[2], 2, log)])
    cdynamo.graph_break()
    y = x + items.pop(1).v
    log.append("between")
    items.popitem()
    log.append("end")
    return y


def cell_after_locals(x, log, watch):
    """A cell is let go of after the locals: the reference is gone before what it is to."""
    item = Item(1)
    ref = watch(item, "a", log)
    cdynamo.graph_break()

    def look():
        return item

    return x + 1


def cell_before_locals(x, log, watch, item=None):
    """An argument has its place among the locals, cell or not."""
    item = Item(1)
    ref = watch(item, "a", log)
    cdynamo.graph_break()
    other = Item(2)
    last = watch(other, "b", log)

    def look():
        return item, x

    cdynamo.graph_break()
    return x + 1


def not_always_deleted(x, log, watch):
    for n in range(2):
        made = Item(n)
        ref = watch(made, n, log)
        cdynamo.graph_break()
        if n >= 0:
            continue
        del made
    log.append("end")
    cdynamo.graph_break()
    return x + 1


def deleted_or_an_exception(x, log, watch):
    for n in range(3):
        try:
            made = Item(n)
            ref = watch(made, n, log)
            if n == 1:
                raise ValueError
            cdynamo.graph_break()
            del made
            log.append("deleted")
        except ValueError:
            log.append("caught")
    log.append("end")
    cdynamo.graph_break()
    return x + 1


def deleted_and_read(x, log, watch):
    """It is unbound after it was deleted."""
    for n in range(3):
        if n != 1:
            made = Item(n)
            ref = watch(made, n, log)
        try:
            cdynamo.graph_break()
            del made
        except UnboundLocalError:
            log.append("unbound")
    log.append("end")
    cdynamo.graph_break()
    try:
        return x + made.v  # noqa: F821
    except UnboundLocalError:
        return x + 1


def held_by_an_iterator(x, log, watch):
    item = Item(1)
    REFERENCES.append(watch(item, "a", log))
    items = iter((item, 1))
    del item
    log.append("held")
    y = x + next(items).v
    log.append("end")
    return y


def held_by_a_zip(x, log, watch):
    item = Item(1)
    REFERENCES.append(watch(item, "a", log))
    items = zip([1], map(lambda it: it.v, [item]))
    del item
    log.append("held")
    y = x + next(items)[1]
    log.append("end")
    return y


def held_by_a_partial(x, log, watch):
    item = Item(1)
    REFERENCES.append(watch(item, "a", log))
    call = functools.partial(Item.bump, item)
    del item
    log.append("held")
    y = x + call()
    del call
    log.append("end")
    return y


def held_by_a_method(x, log, watch):
    item = Item(1)
    REFERENCES.append(watch(item, "a", log))
    call = item.bump
    del item
    log.append("held")
    y = x + call()
    log.append("end")
    return y


def held_with_its_sum(x, log, watch):
    item = Item(1)
    w = watch(item, "a", log)
    cdynamo.graph_break()
    item = Item((item, item))
    log.append(w is None)
    box = [item]
    return x


def held_by_the_default_of_a_method_of_a_class(x, log, watch):
    item = Item(1)
    w = watch(item, "a", log)
    cdynamo.graph_break()

    class Own:
        def method(self, given=item):
            return given

    return x


def held_by_the_closure_of_a_class(x, log, watch):
    item = Item(1)
    w = watch(item, "a", log)
    cdynamo.graph_break()

    class Own:
        @property
        def item(self):
            return item

    return x


def held_in_what(x, log, watch, make):
    item = Item(1)
    w = watch(item, "a", log)
    cdynamo.graph_break()
    held = make(item)
    item = None
    log.append("one")
    cdynamo.graph_break()
    log.append("two")
    held = None
    return x + 1


HOLDERS = {
    "deque": lambda item: collections.deque([[item]]),
    "set": lambda item: {item},
    "key": lambda item: {item: 1},
    "iterator": lambda item: iter([item]),
    "iterator_of_a_deque": lambda item: iter(collections.deque([item])),
    "zip": lambda item: zip([1], [item]),
    "function": lambda item: lambda given=item: given,
}


PROGRAMS = [
    held_by_container,
    held_by_container2,
    not_read_again,
    container_not_read_again,
    nested_container,
    in_object,
    in_loop,
    in_loop_kept,
    in_with,
    in_try,
    in_try_finally,
    nested,
    returns_item,
    passes_item,
    argument,
    cell,
    closure_del,
    overwritten_in_branch,
    walrus,
    told_local,
    told_box,
    told_both,
    told_stack,
    told_arg,
    told_two,
    told_gen,
    swap,
    reference_dies,
    order_at_end,
    raises,
    raise_inside,
    while_loop,
    item_of_arg_let_go,
    other_name,
    other_name_on_the_stack,
    closure_made_after_a_break,
    closure_that_nobody_calls,
    popped,
    popped_of_a_dict,
    cell_after_locals,
    cell_before_locals,
    not_always_deleted,
    deleted_or_an_exception,
    deleted_and_read,
    held_by_an_iterator,
    held_by_a_zip,
    held_by_a_partial,
    held_by_a_method,
    held_with_its_sum,
    held_by_the_default_of_a_method_of_a_class,
    held_by_the_closure_of_a_class,
]
WATCHES = [reference, method, finalizer]


def outcome(function, watch, *args):
    log = []
    REFERENCES.clear()
    try:
        result = function(np.ones(3), log, watch, *args).tolist()
    except KeyError as error:
        result = repr(error)
    log.append("returned")
    REFERENCES.clear()
    gc.collect()
    return result, [str(entry) for entry in log]


@pytest.mark.parametrize(
    "program, watch",
    [(program, WATCHES[(i + j) % 3]) for i, program in enumerate(PROGRAMS) for j in range(2)],
    ids=lambda f: f.__name__,
)
def test_objects_die_as_in_plain_python(program, watch):
    cdynamo.reset()
    expected = outcome(program, watch)
    fast = cdynamo.optimize(program)
    assert outcome(fast, watch) == expected
    assert outcome(fast, watch) == expected


@pytest.mark.parametrize("watch", WATCHES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_a_holder_holds_dies_with_it(holder, watch):
    cdynamo.reset()
    make = HOLDERS[holder]
    expected = outcome(held_in_what, watch, make)
    fast = cdynamo.optimize(held_in_what)
    assert outcome(fast, watch, make) == expected
    assert outcome(fast, watch, make) == expected


def test_looking_for_ends_gives_no_object_a_dict():
    known = sys.modules.pop("_functools")
    partial = importlib.import_module("_functools").partial  # a class that capture has no rule for
    sys.modules["_functools"] = known

    def f(function):
        inner = partial(function, 1)
        outer = partial(inner, 2)  # takes the inner one apart where that has no attributes
        return outer.func is function, outer.args

    assert cdynamo.optimize(f)(print) == (True, (1, 2))


def test_what_a_class_that_is_made_inside_holds_dies_with_it():
    def f(log):
        def told():
            try:
                yield 1
            finally:
                log.append("closed")

        generator = told()
        next(generator)

        class Own:
            items = []

        Own.items.append(generator)
        cdynamo.graph_break()
        return log

    gc.collect()
    for run in (f, cdynamo.optimize(f)):
        for _ in range(5):  # a class may lie where another one was
            log = run([])
            gc.collect()  # a class is in a cycle
            assert log == ["closed"]


def test_a_generator_that_an_iterator_holds_is_not_closed():
    def f(x, log):
        def told():
            try:
                yield 1
            finally:
                log.append("closed")

        generator = told()
        next(generator)
        items = iter((generator, x))
        del generator
        made = [1]
        log.extend(each for each in made)
        return x + 1

    for run in (f, cdynamo.optimize(f)):
        for _ in range(2):
            log = []
            run(np.ones(2), log)
            assert log == [1, "closed"]


OF_ONE = {
    "itself": lambda told: told,
    "tuple": lambda told: (told,),
    "attribute": Item,
    "tuple in an attribute": lambda told: Item((told,)),
    "closure": lambda told: lambda: told,
}


@pytest.mark.parametrize("holder", OF_ONE)
def test_a_local_of_a_later_iteration_dies_where_it_is_replaced(holder):
    """The code after the break is compiled where the local holds what dies without a word."""

    def waiting(log, i):
        try:
            yield i
        finally:
            log.append(("end", i))

    def f(x, log, make):
        held = None
        for i in range(4):
            cdynamo.graph_break()
            told = waiting(log, i) if make else Told(i, log)
            if make:
                next(told)
            cdynamo.graph_break()
            held = OF_ONE[holder](told)
            told = None
            log.append(i)
            x = x + 1
        return x

    fast, x = cdynamo.optimize(f), np.ones(2)
    for make in (False, True, False):
        got, expected = [], []
        fast(x, got, make)
        f(x, expected, make)
        assert got == expected


@pytest.mark.parametrize(
    "program",
    [
        lambda s, x: x + len(s),
        lambda s, x: (x, [item.v for item in s]),
        lambda s, x: (Item(s), x + 1)[0].bump() == s,
    ],
)
@pytest.mark.parametrize("kind", [set, frozenset])
def test_what_is_in_a_set_dies_with_it(program, kind):
    """The guard tells its elements by identity, and holds none of them."""
    cdynamo.config.keep_empty_graphs = True
    fast, x, log = cdynamo.optimize(program), np.ones(2), []
    for i in range(3):
        item = Item(i)
        w = weakref.ref(item, lambda r, i=i: log.append(i))  # noqa: F841
        fast(kind([item]), x)
        fast(kind([item]), x)
        del item
        assert log == list(range(i + 1))
