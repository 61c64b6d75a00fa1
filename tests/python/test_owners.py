"""What was optimized owns its compiled code: models do not count against each other, and reports name them."""

from __future__ import annotations

import copy
import gc
import logging
import pickle
import sys
import weakref

import pytest
from saying import shout

import cdynamo

np = pytest.importorskip("numpy")

LOOKED_AT = ("graphs_compiled", "recompiles", "graph_breaks")
COMPILED, LIMIT = "compiled again", "recompile_limit"
A = np.arange(3.0)


class Watched:
    """What `with` blocks compiled and logged."""

    def __init__(self, caplog):
        self.caplog = caplog

    def __enter__(self):
        cdynamo.set_logs(recompiles=True, graph_breaks=True)
        self.caplog.set_level(logging.INFO, logger="cdynamo")
        self.caplog.clear()
        self.before = cdynamo.counters()
        return self

    def __exit__(self, *error):
        cdynamo.set_logs(recompiles=False, graph_breaks=False)
        after = cdynamo.counters()
        self.graphs, self.recompiles, self.breaks = (after[name] - self.before[name] for name in LOOKED_AT)
        self.log = [record.getMessage() for record in self.caplog.records]


@pytest.fixture
def watched(caplog):
    return Watched(caplog)


def times_length(text):
    def f(x):
        return x * len(text)

    return f


def test_thirty_closures_of_one_def(watched):
    kept = []
    with watched:
        for i in range(30):
            kept.append(cdynamo.optimize(times_length("a" * i)))
            assert kept[-1](A).tolist() == (A * i).tolist()
        for i in range(30):
            assert kept[i](A).tolist() == (A * i).tolist()
    assert (watched.graphs, watched.recompiles, watched.log) == (30, 0, [])


def test_thirty_closures_that_do_not_outlive_their_call(watched):
    with watched:
        for i in range(30):
            assert cdynamo.optimize(times_length("a" * i))(A).tolist() == (A * i).tolist()
    assert (watched.graphs, watched.recompiles, watched.log) == (30, 0, [])


def test_a_function_that_is_made_for_each_call_is_compiled_once(watched):
    def step(x):
        @cdynamo.optimize
        def inner(y):
            return y * 2 + 1

        return inner(x)

    with watched:
        for _ in range(5):
            assert step(A).tolist() == (A * 2 + 1).tolist()
    assert (watched.graphs, watched.recompiles) == (1, 0)


def test_a_function_that_is_made_for_each_call_learns_what_changes(watched):
    with watched:
        for size in range(2, 12):
            x = np.arange(float(size))
            assert cdynamo.optimize(lambda y: y * 2)(x).tolist() == (x * 2).tolist()
    assert watched.graphs == 2 and watched.log == []


def helper(x, text):
    y = x + 1
    shout(end="")
    return y * len(text)


def test_thirty_functions_that_call_one_helper_with_a_break(watched):
    functions = []
    for i in range(30):
        names = {"helper": helper}
        exec(f"def f(x): return helper(x * {i}, 'a' * {i}) - 1", names)
        functions.append(names["f"])
    with watched:
        for i, function in enumerate(functions):
            fast = cdynamo.optimize(function)
            for _ in range(2):
                assert fast(A).tolist() == function(A).tolist()
    assert watched.recompiles == 0 and not [line for line in watched.log if COMPILED in line or LIMIT in line]
    assert watched.breaks == 30


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return x * len(self.scale)


def test_thirty_instances_of_one_class(watched):
    with watched:
        fast = [cdynamo.optimize(Scaled("a" * i)) for i in range(30)]
        for _ in range(2):
            for i in range(30):
                assert fast[i](A).tolist() == (A * i).tolist()
    assert (watched.graphs, watched.recompiles, watched.log) == (30, 0, [])


def test_instances_share_what_fits(watched):
    with watched:
        fast = [cdynamo.optimize(Scaled("abc")) for _ in range(30)]
        for one in fast:
            assert one(A).tolist() == (A * 3).tolist()
    assert (watched.graphs, watched.recompiles) == (1, 0)


def test_optimizing_again_finds_what_was_compiled(watched):
    def f(x):
        return x + 1

    scaled = Scaled("ab")
    with watched:
        for _ in range(3):
            cdynamo.optimize(f)(A)
            cdynamo.optimize(scaled)(A)
            cdynamo.optimize(cdynamo.optimize(scaled))(A)
    assert watched.graphs == 2
    assert cdynamo.optimize(cdynamo.optimize(scaled), dynamic=False)(A).tolist() == (A * 2).tolist()


def test_views_are_copied_and_pickled():
    view = cdynamo.optimize(Scaled("ab"))
    for other in (copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
        assert other(A).tolist() == (A * 2).tolist() and isinstance(other, Scaled)
    assert vars(view) == {"scale": "ab"}


def test_entries_end_with_what_was_optimized():
    class Held:
        pass

    def make():
        held = Held()
        held.scale = 3.0
        return (lambda x: x * held.scale), weakref.ref(held)

    for options in ({"dynamic": False}, {"backend": lambda graph, inputs: lambda *args: graph.forward(*args)}):
        function, alive = make()
        fast = cdynamo.optimize(function, **options)
        assert fast(A).tolist() == (A * 3).tolist()
        del function, fast
        gc.collect()
        assert alive() is None


def test_optimizing_in_a_loop_leaves_nothing_behind():
    def run():
        class Local:
            def __call__(self, x):
                return x + 1

        cdynamo.optimize(Local())(A)
        cdynamo.explain(helper)(A, "ab")
        cdynamo.optimize(helper, backend=lambda graph, inputs: lambda *args: graph.forward(*args))(A, "ab")
        cdynamo.optimize(times_length("abc"))(A)
        gc.collect()

    for _ in range(30):
        run()
    blocks = sys.getallocatedblocks()
    for _ in range(30):
        run()
    assert sys.getallocatedblocks() - blocks < 600


# --- what is read


def four(x):
    shout(end="")
    return x + 1


def three(x):
    return four(x * 2) + 1


def two(x):
    return three(x * 2) + 1


def one(x):
    return two(x * 2) + 1


def test_a_break_deep_in_inlined_calls_is_reported_once(watched):
    with watched:
        assert cdynamo.optimize(one)(A).tolist() == one(A).tolist()
    (report,) = watched.log
    places = [line for line in report.splitlines() if line.startswith("  at ")]
    assert [place.split()[-1] for place in places] == ["one", "two", "three", "four"]
    assert watched.breaks == 1
    explanation = cdynamo.explain(one)(A)
    assert explanation.graph_break_count == 1 and len(explanation.breaks[0].stack) == 4


def test_two_ways_to_one_place_are_two_breaks(watched):
    def both(x):
        y = one(x)
        return two(y) * 2

    with watched:
        assert cdynamo.optimize(both)(A).tolist() == both(A).tolist()
    assert watched.breaks == 2


@pytest.mark.parametrize("before", (False, True))
def test_a_loop_that_is_left_to_python_counts_as_a_break(watched, before):
    def f(x):
        if before:
            x = x * 2
        for _ in range(3):
            x = x + 1
            shout(end="")
        return x

    with watched:
        assert cdynamo.optimize(f)(A).tolist() == f(A).tolist()
    assert watched.breaks == 1 and len(watched.log) == 1 and "graph break" in watched.log[0]


def test_nothing_is_said_of_helpers_without_operators(watched):
    def count(log):
        log.append(1)
        shout(end="")

    def f(x, log):
        y = x + 1
        count(log)
        return y * 2

    with watched:
        cdynamo.optimize(f)(A, [])
    assert len(watched.log) == 1 and "runs in Python" not in watched.log[0]


def test_the_limit_names_helper_and_function(watched):
    cdynamo.config.recompile_limit = 2

    def calls(x, texts):
        y = x
        for text in texts:
            y = helper(y, text)
        return y

    with watched:
        texts = ["a" * i for i in range(1, 6)]
        assert cdynamo.optimize(calls)(A, texts).tolist() == calls(A, texts).tolist()
    (limit,) = [line for line in watched.log if "recompile_limit" in line]
    assert limit.startswith("helper (test_owners.py:") and "called by calls (test_owners.py:" in limit


def test_counts_are_not_lost_between_threads():
    """A compilation that starts over (an operator without a derivative) leaves the counter to the others."""
    import threading

    def work(i):
        names = {"shout": shout}
        exec(f"def f(x):\n    y = x + {i}\n    shout(end='')\n    return y * 2", names)
        cdynamo.optimize(names["f"])(A)

    before = cdynamo.counters()["graph_breaks"]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cdynamo.counters()["graph_breaks"] - before == 12


# --- models

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    def __init__(self, size, text="ab"):
        super().__init__()
        self.linear = torch.nn.Linear(size, 2)
        self.text = text

    def forward(self, x):
        return self.linear(x) * len(self.text)


def small_model(i):
    activation = torch.nn.ReLU() if i % 2 else torch.nn.Tanh()
    return torch.nn.Sequential(torch.nn.Linear(3, 3 + i), activation, torch.nn.Linear(3 + i, 2))


def test_thirty_models(watched):
    x = torch.randn(4, 3)
    kept = []
    with watched, torch.no_grad():
        for i in range(30):
            model = small_model(i)
            kept.append(cdynamo.optimize(model))
            torch.testing.assert_close(kept[-1](x), model(x))
    assert (watched.graphs, watched.recompiles, watched.log) == (30, 0, [])


def test_thirty_instances_of_one_module(watched):
    x = torch.randn(4, 3)
    with watched, torch.no_grad():
        same = [cdynamo.optimize(Net(3)) for _ in range(30)]
        for model in same:
            model(x)
        assert cdynamo.counters()["graphs_compiled"] - watched.before["graphs_compiled"] == 1
        other = [Net(3 + i, "a" * (i + 3)) for i in range(30)]
        for i, model in enumerate(other):
            x = torch.randn(4, 3 + i)
            torch.testing.assert_close(cdynamo.optimize(model)(x), model(x))
    assert (watched.graphs, watched.recompiles, watched.log) == (31, 0, [])


class Layered(torch.nn.Module):
    """Each layer is called by Python: the loop has a break."""

    def __init__(self, sizes):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            shout(end="")
        return x


def test_layers_that_python_calls_have_their_own_entries(watched):
    sizes = range(3, 33)
    model = Layered(sizes)
    x = torch.randn(2, 3)
    with watched, torch.no_grad():
        torch.testing.assert_close(cdynamo.optimize(model)(x), model(x))
    assert watched.recompiles == 0 and not [line for line in watched.log if COMPILED in line or LIMIT in line]
    assert watched.graphs == len(sizes) - 1


class Breaks(torch.nn.Linear):
    def forward(self, x):
        shout(end="")
        return torch.nn.functional.linear(x, self.weight, self.bias).relu()


@cdynamo.disable
def make(outputs):
    return Breaks(3, outputs)


def test_modules_that_come_to_be_where_others_were(watched):
    def f(x, outputs):
        return make(outputs)(x)

    fast, places = cdynamo.optimize(f), set()
    with watched, torch.no_grad():
        for outputs in range(2, 32):
            places.add(id(make(outputs)))
            assert fast(torch.ones(2, 3), outputs).shape == (2, outputs)
    assert not [line for line in watched.log if LIMIT in line or line.startswith("Breaks (")]
    if len(places) == 30:
        pytest.skip("this allocator gives no address twice (AddressSanitizer's)")


def test_methods_of_torch_are_named_by_class_and_method(watched):
    def f(x, outputs):
        return x.relu(), Breaks(3, outputs, dtype=torch.complex64).weight.shape

    fast = cdynamo.optimize(f)
    with watched, torch.no_grad():
        for outputs in range(2, 6):
            assert fast(torch.ones(2, 3), outputs)[1] == (outputs, 3)
    assert any(line.startswith("Breaks.__setattr__, called by f (test_owners.py:") for line in watched.log)


def test_recompilations_name_the_model(watched):
    model, sequential = Net(3), torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    fast = [cdynamo.optimize(model), cdynamo.optimize(sequential)]
    with watched, torch.no_grad():
        for x in (torch.randn(4, 3), torch.randn(2, 4, 3)):
            for one in fast:
                one(x)
    messages = [line.split(" is compiled again")[0] for line in watched.log]
    assert messages[0].startswith("Net (test_owners.py:") and messages[0].endswith(
        f":{Net.forward.__code__.co_firstlineno})"
    )
    assert messages[1].startswith("Sequential (optimized at test_owners.py:")
    assert cdynamo.explain(model)(torch.randn(4, 3)).frames[0].where == messages[0]


def test_models_that_are_optimized_and_deleted():
    x = torch.randn(4, 3)

    def run():
        model = Layered((3, 4, 5))
        model.extra = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        cdynamo.optimize(model)(x)
        cdynamo.optimize(model.extra)(x)
        cdynamo.optimize(model.extra.forward)(x)
        gone = [weakref.ref(thing) for thing in (model, model.extra, *model.parameters())]
        del model
        gc.collect()
        return [reference() for reference in gone]

    for _ in range(5):
        assert not any(thing is not None for thing in run())
    blocks = sys.getallocatedblocks()
    for _ in range(5):
        run()
    assert sys.getallocatedblocks() - blocks < 300


def test_what_is_finalized_meanwhile_is_not_of_the_one_graph(monkeypatch):
    class Node:
        def __del__(self):
            finalized.append(locals())  # breaks a graph

    def program(x):
        return [[x, i] for i in range(100)]

    finalized, failed = [], []
    monkeypatch.setattr(sys, "unraisablehook", failed.append)
    compiled = cdynamo.optimize(program, fullgraph=True)
    threshold = gc.get_threshold()
    for x in range(3):
        node = Node()
        node.itself = node
        del node
        gc.set_threshold(1)
        try:
            assert compiled(x) == program(x)
        finally:
            gc.set_threshold(*threshold)
    assert finalized and not failed
