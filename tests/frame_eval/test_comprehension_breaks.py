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
