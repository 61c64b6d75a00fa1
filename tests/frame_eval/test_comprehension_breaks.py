"""Breaks in comprehensions that are arguments of calls, in loops that exceptions lead back into."""

import pytest

import cdynamo

torch = pytest.importorskip("torch")


def test_a_comprehension_that_an_exception_has_left_is_entered_again():
    def f(x, log):
        target = x
        for i in range(3):
            try:
                for _ in range(2):
                    cdynamo.graph_break()

                    def items(w):
                        yield w
                        target[0] = w  # a leaf that requires grad refuses it

                    log.append([v for v in items(i) if i])
            except RuntimeError as error:
                log.append(str(error)[:20])
                target = [0]
        return log

    x = torch.arange(3.0).requires_grad_()
    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(f)
    for _ in range(2):
        assert compiled(x, []) == f(x, []) == ["a view of a leaf Var", [1], [1], [2], [2]]


@cdynamo.disable
def refuses_two(turn, v):
    if turn in (0, 2) and v == 2:
        raise ValueError("two")
    return True


class RefusesTwo:
    def __init__(self, turn):
        self.turn, self.count = turn, 0

    def __iter__(self):
        return self

    def __next__(self):
        cdynamo.graph_break()
        self.count += 1
        if self.count > 3:
            raise StopIteration
        return self.count if refuses_two(self.turn, self.count) else None


PROGRAM = """
def f(x, log):
    for i in range(4):
        y = x * i
        try:
            log.append({comprehension})
        except ValueError as error:
            v = w = y.sum()
            log.append(str(error))
        try:
            log.append((v, w))
        except UnboundLocalError:
            log.append("unbound")
    return x + 1, log
"""
COMPREHENSIONS = [
    "[v for v in range(3) if refuses_two(i, v)]",
    "[(v, w) for v in range(3) for w in range(2) if refuses_two(i, v)]",
    "[v for v in RefusesTwo(i)]",
    "{v: [w for w in RefusesTwo(i)] for v in range(2)}",
]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("comprehension", COMPREHENSIONS)
def test_a_variable_that_a_comprehension_finds_bound_when_it_is_entered_again(comprehension, keeps):
    """From 3.12 on a comprehension runs in the function's frame, puts a variable of its name aside, and back when it is done."""
    space = {"refuses_two": refuses_two, "RefusesTwo": RefusesTwo}
    exec(PROGRAM.format(comprehension=comprehension), space)
    cdynamo.config.keep_empty_graphs = keeps
    compiled = cdynamo.optimize(space["f"])
    x = torch.arange(3.0)
    for _ in range(4):
        assert repr(compiled(x, [])) == repr(space["f"](x, []))
