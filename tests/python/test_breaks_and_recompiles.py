"""Graph breaks and recompilations: right results, and reports that read as a user would wish."""

from __future__ import annotations

import logging

import pytest
from saying import shout

import cdynamo

np = pytest.importorskip("numpy")


def prints(x):
    y = x + 1
    shout("largest", y.max())
    return y * 2


def branches(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def test_a_call_that_is_not_captured_breaks_the_graph(capsys, counts):
    fast = cdynamo.optimize(prints)
    for x in (np.arange(3.0), np.arange(3.0) + 5):
        assert fast(x).tolist() == ((x + 1) * 2).tolist()
    assert capsys.readouterr().out == "largest 3.0\nlargest 8.0\n"
    assert counts.graph_breaks == 1 and counts.graphs_compiled == 2


def test_break_report_names_line_reason_and_remedy():
    (record,) = cdynamo.explain(prints)(np.arange(3.0)).breaks
    assert "shout" in record.what and record.why and record.instead
    file, line, function, text = record.stack[-1]
    assert file.endswith("test_breaks_and_recompiles.py") and function == "prints"
    assert line == prints.__code__.co_firstlineno + 2 and text.startswith("shout(")
    for part in (record.id, file, str(line), record.why, record.instead):
        assert part in record.report


def test_data_dependent_branch_takes_both_ways(counts):
    fast = cdynamo.optimize(branches)
    for x in (np.ones(3), -np.ones(3), np.ones(3), -np.ones(3)):
        assert fast(x).tolist() == branches(x).tolist()
    assert counts.graph_breaks == 1 and counts.graphs_compiled == 3


def test_fullgraph_of_what_is_not_captured():
    def sees_its_locals(x):
        y = x + 1
        return len(locals()), y

    def generates(x):
        yield x + 1

    for function, reason in ((sees_its_locals, "locals"), (generates, "generators")):
        with pytest.raises(cdynamo.GraphBreakError, match=f"{function.__name__} .*runs in Python: .*{reason}"):
            cdynamo.optimize(function, fullgraph=True)(np.ones(3))
    assert cdynamo.optimize(sees_its_locals)(np.ones(1))[0] == 2


def test_fullgraph_raises_the_report():
    with pytest.raises(cdynamo.GraphBreakError, match="print"):
        cdynamo.optimize(prints, fullgraph=True)(np.ones(3))
    assert cdynamo.optimize(lambda x: x + 1, fullgraph=True)(np.ones(1)).tolist() == [2]


def test_sizes_that_change_become_dynamic(caplog, counts):
    fast = cdynamo.optimize(lambda x: (x - x.mean(axis=0)) * 2)
    cdynamo.set_logs(recompiles=True)
    try:
        with caplog.at_level(logging.INFO, logger="cdynamo.recompiles"):
            for rows in (4, 5, 6, 7, 8):
                x = np.random.default_rng(rows).random((rows, 3))
                np.testing.assert_allclose(fast(x), (x - x.mean(axis=0)) * 2)
    finally:
        cdynamo.set_logs(recompiles=False)
    assert counts.graphs_compiled == 2 and counts.recompiles == 1
    assert "shape[0] was 4, is 5" in caplog.text and "made dynamic" in caplog.text


def test_ints_and_floats_that_change_become_inputs(counts):
    fast = cdynamo.optimize(lambda x, n, a: x * n + a)
    for n, a in ((2, 0.5), (3, 0.25), (4, 0.125), (5, 0.75)):
        assert fast(np.ones(2), n, a).tolist() == [n + a, n + a]
    assert counts.graphs_compiled <= 3


def test_all_sizes_that_change_become_dynamic_at_once(counts):
    """A key-value cache of many layers grows: one recompilation, not one for each tensor."""
    fast = cdynamo.optimize(lambda caches, n, a: [cache.sum(axis=0) * n + a for cache in caches])
    for length in (3, 4, 5, 6):
        caches = [np.full((length, length + 1), float(layer)) for layer in range(12)]
        got = fast(caches, length, 0.5 * length)
        for layer, total in enumerate(got):
            assert total.tolist() == [layer * length * length + 0.5 * length] * (length + 1)
    assert counts.graphs_compiled == 2 and counts.recompiles == 1


def test_recompile_limit_is_said_once_and_old_entries_serve(caplog, counts):
    cdynamo.config.recompile_limit = 2
    fast = cdynamo.optimize(lambda x, key: x + len(key))
    with caplog.at_level(logging.WARNING, logger="cdynamo"):
        for key in ("a", "bb", "ccc", "dddd", "a", "bb"):
            assert fast(np.zeros(1), key).tolist() == [len(key)]
    assert counts.graphs_compiled == 2
    assert caplog.text.count("recompile_limit") == 1


def test_static_stays_static(counts):
    fast = cdynamo.optimize(lambda x: x + 1, dynamic=False)
    for n in (3, 4, 5):
        fast(np.ones(n))
    assert counts.graphs_compiled == 3


def test_dynamic_from_the_first_call(counts):
    fast = cdynamo.optimize(lambda x: x + 1, dynamic=True)
    for n in (3, 4, 5):
        assert fast(np.ones(n)).shape == (n,)
    assert counts.graphs_compiled == 1


def test_break_in_an_inlined_call():
    def inner(x):
        y = x * 3
        shout("inner")
        return y + 1

    def outer(x):
        return inner(x + 1) * 2

    x = np.arange(3.0)
    assert cdynamo.optimize(outer)(x).tolist() == outer(x).tolist()


def test_break_inside_with_and_try(capsys):
    class Manager:
        def __enter__(self):
            shout("enter")
            return self

        def __exit__(self, *exc):
            shout("exit", exc[0].__name__ if exc[0] else None)
            return exc[0] is KeyError

    def f(x, fail):
        y = x + 1
        try:
            with Manager():
                y = y * 2
                shout("body")
                if fail:
                    raise KeyError("k")
                y = y + 1
            y = y * 10
            raise ValueError("v")
        except ValueError as error:
            return y + len(str(error))
        finally:
            shout("finally")

    fast = cdynamo.optimize(f)
    for fail in (False, True, False):
        expected = f(np.ones(2), fail).tolist()
        expected_out = capsys.readouterr().out
        assert fast(np.ones(2), fail).tolist() == expected
        assert capsys.readouterr().out == expected_out


def test_break_inside_a_loop():
    def f(x):
        total = x * 0
        for i in range(4):
            total = total + x * i
            shout(i)
        return total

    assert cdynamo.optimize(f)(np.ones(2)).tolist() == [6, 6]


def test_traceback_shows_the_user_s_line():
    def f(x):
        y = x + 1
        shout("a break first")
        z = y * 2
        raise RuntimeError("here")
        return z

    import traceback

    try:
        cdynamo.optimize(f)(np.ones(2))
    except RuntimeError as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)]
        assert f.__code__.co_firstlineno + 4 in lines
    else:
        raise AssertionError("no error")


def test_shape_error_is_eager_s():
    def f(x, y):
        return x + y

    with pytest.raises(ValueError, match="broadcast"):
        cdynamo.optimize(f)(np.ones(3), np.ones(4))


def test_side_effects_happen_in_order_and_once():
    class Box:
        pass

    def f(x, box, log, table):
        log.append("first")
        box.value = x + 1
        table["sum"] = box.value.sum()
        log.append("second")
        del table["old"]
        return box.value * 2

    def run(function):
        box, log, table = Box(), [], {"old": 1}
        result = function(np.ones(3), box, log, table)
        return result.tolist(), box.value.tolist(), log, {k: float(v) for k, v in table.items()}

    fast = cdynamo.optimize(f)
    for _ in range(3):
        assert run(fast) == run(f)


def test_closures_and_globals():
    scale = 2.0

    def outer(x):
        y = x * scale

        def inner(z):
            nonlocal y
            y = y + z
            return y

        inner(x)
        return inner(x * 2)

    fast = cdynamo.optimize(outer)
    assert fast(np.ones(2)).tolist() == outer(np.ones(2)).tolist()
    scale = 3.0
    assert fast(np.ones(2)).tolist() == outer(np.ones(2)).tolist()


def test_nested_function_survives_a_break():
    def f(x):
        k = x.sum()

        def g(z):
            return z * k

        shout("break")
        return g(x) + g(x)

    assert cdynamo.optimize(f)(np.ones(3)).tolist() == f(np.ones(3)).tolist()


def test_disabled_functions_run_in_python_with_all_that_they_call(counts):
    def inner(x):
        return x * 2

    @cdynamo.disable
    def outer(x):
        return inner(x) + int(cdynamo.is_compiling())

    fast = cdynamo.optimize(lambda x: outer(x + 1) - 1)
    assert fast(np.ones(3)).tolist() == [3, 3, 3]
    assert counts.graphs_compiled == 2  # x + 1, and what follows the call


def test_log_topic_bytecode(caplog):
    def f(x):
        y = x * 2
        shout(end="")
        return y + 1

    cdynamo.set_logs(bytecode=True)
    try:
        with caplog.at_level("DEBUG", logger="cdynamo"):
            cdynamo.optimize(f)(np.ones(3))
    finally:
        cdynamo.set_logs(bytecode=False)
    text = "\n".join(record.getMessage() for record in caplog.records if record.name == "cdynamo.bytecode")
    assert "captured up to a graph break" in text
    assert "made to go on in Python after the graph" in text
    assert "BINARY_OP" in text and "RETURN_VALUE" in text


def test_fullgraph_tells_of_a_write_that_numpy_accepts():
    """What only Python does is a break, though NumPy raises for some such numbers."""

    def f(a, x):
        a[0] = x.sum()
        return a

    a, x = np.arange(3), np.array([1.0, 0.5])
    np.testing.assert_array_equal(cdynamo.optimize(f)(a.copy(), x), f(a.copy(), x))
    with pytest.raises(cdynamo.GraphBreakError, match="float as an element"):
        cdynamo.optimize(f, fullgraph=True)(a.copy(), x)
