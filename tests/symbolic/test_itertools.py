"""Iterators of itertools: what they give, when they take their arguments, and what a caller gets of them."""

from __future__ import annotations

import itertools
import threading

import pytest
from values_check import check

import cdynamo


def selections(word):
    return (
        [list(itertools.permutations(word[:n], r)) for n in range(5) for r in (None, 0, 1, 2, 3, 5)],
        [list(itertools.combinations(word[:n], r)) for n in range(5) for r in range(6)],
        [list(itertools.combinations_with_replacement(word[:n], r)) for n in range(4) for r in range(5)],
        [list(itertools.product(word[:n], "xy", repeat=r)) for n in range(3) for r in range(3)],
    )


def few_of_many(word):
    """The cost is that of the items that are taken."""
    return (
        list(itertools.permutations(word[:3], 32)),
        len(list(itertools.combinations(range(20), 18))),
        next(itertools.product(range(10), repeat=10)),
        list(itertools.product("ab", "", repeat=20)),
    )


def endless(word):
    groups = []
    for key, group in itertools.groupby(itertools.count(), lambda number: number // 3):
        groups.append((key, list(group)))
        if key == 3:
            break
    first, second = itertools.tee(itertools.count(5))
    return groups, next(first), next(first), next(second), next(second), next(second), next(first)


def groups_left_behind(word):
    groups = [group for _, group in itertools.groupby("aabb")]
    return [list(group) for group in groups], [(key, next(group)) for key, group in itertools.groupby("aabc")]


def taken_when_made(word):
    items = iter(word)
    product = itertools.product(items)
    return list(items), list(product)


def between_breaks(word):
    first, second = itertools.tee(word)
    next(first)
    cdynamo.graph_break()
    return list(first), list(second)


@pytest.mark.parametrize(
    "function", [selections, few_of_many, endless, groups_left_behind, taken_when_made, between_breaks]
)
def test_items(function):
    check(function, "abcde")


@pytest.mark.parametrize(
    "make",
    [
        lambda: itertools.permutations("abc", -2),
        lambda: itertools.permutations("abc", "s"),
        lambda: itertools.permutations(None),
        lambda: itertools.combinations("abc", -2),
        lambda: itertools.takewhile(bool, None),
        lambda: itertools.groupby(None),
        lambda: itertools.tee([], -1),
        lambda: itertools.repeat(1, None),
    ],
)
def test_arguments_are_refused_when_the_iterator_is_made(make):
    def outcome():
        try:
            make()
        except (TypeError, ValueError) as error:
            return type(error)

    assert cdynamo.optimize(outcome)() is outcome() is not None


def one_of_each(x):
    return [
        itertools.chain(x, x),
        itertools.chain.from_iterable([x]),
        itertools.repeat(1),
        itertools.repeat(1, 2),
        itertools.count(2),
        itertools.cycle(x),
        itertools.accumulate(x, initial=3),
        itertools.islice(x, 1, 2),
        itertools.starmap(pow, [(1, 2)]),
        itertools.takewhile(bool, x),
        itertools.dropwhile(bool, x),
        itertools.filterfalse(None, x),
        itertools.compress(x, x),
        itertools.pairwise(x),
        itertools.zip_longest(x, [1], fillvalue=5),
        itertools.product(x, "a"),
        itertools.permutations(x, 2),
        itertools.combinations(x, 2),
        itertools.combinations_with_replacement(x, 2),
        *itertools.tee(x),
    ]


def test_a_caller_gets_iterators_of_itertools():
    def seen(iterators):
        return [(type(iterator), list(itertools.islice(iterator, 10))) for iterator in iterators]

    assert seen(cdynamo.optimize(one_of_each)([1, 2, 0, 4])) == seen(one_of_each([1, 2, 0, 4]))
    kinds = cdynamo.optimize(lambda x: [type(iterator) for iterator in one_of_each(x)])
    assert kinds([1, 2]) == [type(iterator) for iterator in one_of_each([1, 2])]


def test_two_threads_that_share_a_tee_are_refused():
    def run():
        started, finish = threading.Event(), threading.Event()

        class Waiting:
            def __iter__(self):
                return self

            def __next__(self):
                started.set()
                finish.wait(10)
                raise StopIteration

        first, second = itertools.tee(Waiting())
        thread = threading.Thread(target=next, args=[first, None])
        thread.start()
        try:
            started.wait(10)
            next(second)
        except RuntimeError:
            return "refused"
        finally:
            finish.set()
            thread.join()

    assert cdynamo.optimize(run)() == run() == "refused"


class GoesOn:
    """Gives more after an end."""

    def __init__(self):
        self.count = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.count += 1
        if self.count % 3 == 0:
            raise StopIteration
        return self.count


OVER_AN_ITERATOR = {
    "takewhile": lambda it: itertools.takewhile(lambda n: n < 9, it),
    "dropwhile": lambda it: itertools.dropwhile(lambda n: n < 2, it),
    "chain": lambda it: itertools.chain(it, [7]),
    "starmap": lambda it: itertools.starmap(max, map(lambda n: (n, 5), it)),
    "filterfalse": lambda it: itertools.filterfalse(lambda n: n % 2, it),
    "accumulate": lambda it: itertools.accumulate(it),
    "islice": lambda it: itertools.islice(it, 9),
    "compress": lambda it: itertools.compress(it, itertools.repeat(1)),
    "pairwise": lambda it: itertools.pairwise(it),
    "zip_longest": lambda it: itertools.zip_longest(it, [1]),
    "cycle": lambda it: itertools.cycle(it),
    "tee": lambda it: itertools.tee(it)[0],
    "nested": lambda it: itertools.islice(itertools.filterfalse(None, it), 5),
}


@pytest.mark.parametrize("kind", OVER_AN_ITERATOR)
def test_an_iterator_that_goes_on_after_its_end(kind):
    def asked_again(n):
        iterator = OVER_AN_ITERATOR[kind](GoesOn())
        return [next(iterator, "end") for _ in range(7)], n

    check(asked_again, (1,), breaks=None)
