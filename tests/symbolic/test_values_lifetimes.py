"""Objects live no longer than in plain Python: what the program drops after a graph break is freed then."""

from __future__ import annotations

import gc
import weakref

import pytest
from values_check import check

import cdynamo


class Thing:
    pass


class Finalized:
    log: list[str] = []

    def __del__(self):
        self.log.append("freed")


@pytest.fixture(autouse=True)
def compile_everything():
    cdynamo.reset()
    cdynamo.config.keep_empty_graphs = True


def test_a_local_dropped_after_a_break_is_freed():
    def program(make):
        thing = make()
        seen = weakref.ref(thing)  # breaks the graph
        before = seen() is not None
        thing = None
        gc.collect()  # breaks again
        return before, seen() is None

    compiled = cdynamo.optimize(program)
    for _ in range(3):
        assert compiled(Thing) == (True, True)


def test_an_argument_handed_to_an_inner_frame_is_freed():
    def inner(thing):
        seen = weakref.ref(thing)
        thing = None
        gc.collect()
        return seen

    def program():
        box = [Thing()]
        seen = inner(box.pop())
        return seen() is None

    compiled = cdynamo.optimize(program)
    for _ in range(3):
        assert compiled()


def test_an_item_of_the_stack_is_freed_with_its_loop():
    def program():
        things = [Thing(), Thing()]
        seen = [weakref.ref(thing) for thing in things]
        for thing in iter(things):
            del things[:]
            gc.collect()
        del thing
        gc.collect()
        return [ref() is None for ref in seen]

    assert cdynamo.optimize(program)() == [True, True] == program()


def test_a_cycle_through_a_slice_is_collected():
    def program():
        thing = Thing()
        thing.part = slice(thing)
        seen = weakref.ref(thing)
        thing = None
        gc.collect()
        return seen() is None

    compiled = cdynamo.optimize(program)
    for _ in range(3):
        assert compiled()


def test_finalizers_run_when_they_do_in_python():
    def program():
        del Finalized.log[:]
        first = Finalized()
        Finalized.log.append("made")
        del first
        Finalized.log.append("dropped")
        return list(Finalized.log)

    assert cdynamo.optimize(program)() == ["made", "freed", "dropped"]


def test_a_broken_frame_that_raises_frees_its_values():
    def program(seen):
        thing = Thing()
        seen.append(weakref.ref(thing))
        gc.collect()
        raise ValueError(len(seen))

    compiled = cdynamo.optimize(program)
    for _ in range(3):
        seen = []
        with pytest.raises(ValueError, match="1"):
            compiled(seen)
        gc.collect()
        assert seen[0]() is None


def test_objects_that_refer_to_what_holds_them_stay_one():
    def program(kind):
        thing = Thing()
        holder = kind([thing])
        thing.holder = holder
        return holder, thing.holder is holder

    for kind in (set, frozenset, tuple):
        check(program, (kind,))
        holder, same = cdynamo.optimize(program)(kind)
        assert same and next(iter(holder)).holder is holder


def test_long_chains_of_values_are_taken_apart():
    def program(n):
        items = filter(bool, range(3))
        nested = []
        for _ in range(n):
            items = filter(bool, items)
            nested = [nested, {"inner": (nested,)}]
        return n

    assert cdynamo.optimize(program)(60_000) == 60_000


def test_recursion_without_python_frames_ends_as_in_python():
    def program():
        class Loop:
            pass

        Loop.__call__ = Loop()
        try:
            Loop()()
        except RecursionError:
            return True

    assert cdynamo.optimize(program)()

    def deep(n):
        nested = [n]
        for _ in range(n):
            nested = [nested]
        return isinstance(nested[0], list), nested == nested

    assert cdynamo.optimize(deep)(3_000) == (True, True)


def test_what_an_exception_s_handler_has_made_lives_through_the_next_turn():
    """The second generator is made, and the first one closed, after what the second turn does before."""
    log = []

    def steps():
        try:
            yield 0
        finally:
            log.append("closed")

    def program(fails):
        for turn in range(3):
            try:
                fails(turn)
            except ValueError:
                log.append("handled")
                made = steps()
                next(made)
                log.append("made")

    @cdynamo.disable
    def fails(turn):
        raise ValueError

    logs = []
    for function in (program, cdynamo.optimize(program)):
        function(fails)
        logs.append(list(log))
        log.clear()
    assert logs[0] == logs[1]
