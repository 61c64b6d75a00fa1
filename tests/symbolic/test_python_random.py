"""Python's random numbers in captured code: what is drawn, in which order, and the generators' states afterwards are plain Python's."""

import random
import subprocess
import sys
from random import gauss
from random import random as uniform_number

import pytest
from values_check import check_equal

import cdynamo

torch = pytest.importorskip("torch")

CALLS = 12


def noise(x, rng):
    return x + random.random()


def distributions(x, rng):
    a, b = random.uniform(1, 3), random.gauss(0.0, 2.0)
    return x * a + b + random.expovariate(2.0), rng.normalvariate(0, 1), rng.triangular(0, 1, 0.3), a * b


def imported(x, rng):
    return x * uniform_number() + gauss(mu=1.0, sigma=0.5) + random.gauss(0, 1)


def ints(x, rng):
    i, k = random.randint(1, 6), rng.randrange(10, 20)
    return x + i, k, i * k, i + 0.5, rng.getrandbits(8), random.randrange(7), rng.randint(a=-3, b=3)


def sizes(x, rng):
    return x[: rng.randint(2, 5)] + 1, x.new_ones(rng.randrange(3, 8)), torch.zeros(random.randint(2, 4), 3).sum(0)


def crop(x, rng):
    top = random.randint(0, x.shape[0] - 3)
    return x[top : top + 3] * 2


def interleaved(x, rng):
    a = rng.random()
    b = random.random()
    c = rng.random()
    return x * (a - b) + c, [a, b, c]


def of_what_was_drawn(x, rng):
    width = random.uniform(0, 2)
    return x + random.uniform(-width, width) + rng.randint(0, random.randint(1, 4)), width


def of_an_argument(x, rng):
    return x * random.uniform(0, float(x.shape[0])) + rng.randrange(x.shape[0])


def computed(x, rng):
    return x * 2 ** random.random() + int(rng.random() * 10) + round(rng.uniform(1, 2), 2), -random.random()


def chosen(x, rng):
    scale, size = random.choice([0.5, 1.0, 2.0]), rng.choice((2, 3, 4))
    return x[:size] * scale, scale, rng.choice(range(5, 50, 5)), random.choices([1.5, 2.5], k=3)


def many(x, rng):
    for _ in range(20):
        x = x + rng.random() * random.random()
    return x


def shuffled(x, rng):
    order = list(range(8))
    rng.shuffle(order)
    return (
        x[order],
        order,
        rng.sample(range(8), 3),
        random.sample(range(100, 1000, 3), k=2),
        rng.sample((0.5, 1.5, 2.5), 2),
    )


def unused(x, rng):
    random.random()
    rng.gauss(0, 1)
    return x + 1


def kept(x, rng):
    draw = rng.random
    return x + draw() - draw(), rng


def weighted(x, rng):
    few = random.choices([0.5, 1.5, 2.5], weights=[1, 2, 0.5], k=3)
    column = rng.choices(range(8), cum_weights=[1, 2, 3, 5, 6, 7, 8, 9])[0]
    return x * few[0] + x[column], few, rng.choices((1, 2, 3), weights=(1, 1, 2), k=2)


def seeded(x, rng):
    random.seed(3)
    a = random.random()
    rng.gauss(0, 1)
    rng.seed(12345678901234567890)
    return x * a + rng.gauss(0, 1), random.randint(1, 6), rng.random()


def seeded_by_an_argument(x, rng):
    random.seed(x.shape[0])
    random.seed(random.random())
    return x + random.random()


def made(x, rng):
    one, other = random.Random(7), random.Random("text")
    state = one.getstate()
    order = list(range(8))
    one.shuffle(order)
    drawn = one.random(), one.uniform(1, b=2), one.gauss(0, 1), one.randint(1, 5), other.getrandbits(70)
    one.setstate(state)
    again = one.sample(range(100), 3), other.choice([x, x + 1]), other.choices("ab", weights=[1, 3], k=5)
    one.seed(5)
    return x[order] * one.random() + drawn[0], order, drawn, again, other.randbytes(3), isinstance(one, random.Random)


COMPILED_ONCE = [
    weighted,
    seeded,
    seeded_by_an_argument,
    made,
    noise,
    distributions,
    imported,
    ints,
    sizes,
    crop,
    interleaved,
    of_what_was_drawn,
    of_an_argument,
    computed,
    chosen,
    many,
    shuffled,
    unused,
    kept,
]


def one_branch(x, rng):
    if random.random() < 0.5:
        return x * 2
    return x + rng.random()


def two_branches(x, rng):
    if rng.random() < 0.3:
        x = x * random.uniform(1, 2)
    if random.randint(0, 1):
        x = x.flip(0)
    return x, random.random()


def some_layer(x, rng):
    return random.choice([torch.sin, torch.cos, torch.tanh])(x) + rng.choice("ab").count("a")


def by_index(x, rng):
    return x[random.randrange(4)] + [x, x + 1, x + 2][rng.randrange(3)]


def some_weighted_layer(x, rng):
    return rng.choices([torch.sin, torch.cos, torch.tanh], weights=[1, 2, 3])[0](x)


SEVERAL_WAYS = [some_weighted_layer, one_branch, two_branches, some_layer, by_index]


def check(fn, calls=CALLS, **options):
    """Calls plain and compiled from the same states; after each call the states are compared too. How many graphs there are."""
    cdynamo.reset()
    compiled = cdynamo.optimize(fn, **options)
    before = cdynamo.counters()["graphs_compiled"]
    random.seed(7)
    mine, theirs = random.Random(11), random.Random(11)
    for call in range(calls):
        x = torch.arange(8.0).reshape(8) + call
        state = random.getstate()
        expected = fn(x, theirs)
        expected_state = random.getstate()
        random.setstate(state)
        check_equal(compiled(x, mine), expected)
        assert random.getstate() == expected_state
        assert mine.getstate() == theirs.getstate()
    return cdynamo.counters()["graphs_compiled"] - before


@pytest.mark.parametrize("fn", COMPILED_ONCE, ids=lambda fn: fn.__name__)
def test_draws_are_inputs_of_one_graph(fn):
    assert check(fn, fullgraph=True) == 1


@pytest.mark.parametrize("fn", SEVERAL_WAYS, ids=lambda fn: fn.__name__)
def test_each_way_is_compiled(fn):
    assert 1 < check(fn, calls=40, fullgraph=True) <= cdynamo.config.recompile_limit


@pytest.mark.parametrize("fn", COMPILED_ONCE + SEVERAL_WAYS, ids=lambda fn: fn.__name__)
def test_graph_breaks_draw_the_same(fn):
    check(fn)
    check(fn, dynamic=True)
    check(fn, dynamic=False)


def layer_drop(x, rng):
    for _ in range(6):
        if random.random() < 0.5:
            x = x * 2 + rng.random()
    return x


def looked_at(x, rng):
    return {rng.random(): x}, f"{random.random():.3f}", x + 1


def drawn_for_data(x, rng):
    if x.sum() > 40:
        return x + rng.random()
    return x - rng.random() * rng.random()


def empty_range(x, rng):
    try:
        return x + rng.randrange(0)
    except ValueError:
        return x + rng.random()


def states(x, rng):
    state = random.getstate()
    a = random.random()
    random.setstate(state)
    return x + a - random.random(), rng.randbytes(2)


def made_and_kept(x, rng):
    one = random.Random(4)
    a = one.random()
    cdynamo.graph_break()
    return x * a + one.random(), one


def made_of_what_changes(x, rng):
    one = random.Random(rng.randrange(10))
    return x + one.random()


@pytest.mark.parametrize(
    "fn", [layer_drop, looked_at, drawn_for_data, empty_range, states, made_and_kept, made_of_what_changes]
)
def test_what_is_left_to_python(fn):
    check(fn)


@pytest.mark.parametrize("fn", [layer_drop, looked_at])
def test_what_breaks_one_graph(fn):
    with pytest.raises(cdynamo.GraphBreakError, match="random number"):
        check(fn, fullgraph=True)


@pytest.mark.native
def test_a_call_that_runs_in_python_after_all_draws_once():
    def f(x):
        scale = random.random()
        n = int(x[0])
        return x[:n] * scale + random.random()

    compiled = cdynamo.optimize(f, fullgraph=True)
    for first in (3.0, 4.0, 1.0, 0.0, 5.0, 1.0):
        x = torch.full((8,), first)
        random.seed(first)
        expected, state = f(x), random.getstate()
        random.seed(first)
        check_equal(compiled(x), expected)
        assert random.getstate() == state


def test_errors_leave_the_state_of_plain_python():
    def f(x, y):
        a = random.random()
        return (x * a) @ y

    compiled = cdynamo.optimize(f, fullgraph=True)
    x, y = torch.ones(3, 3), torch.ones(3, 3)
    compiled(x, y)
    random.seed(1)
    with pytest.raises(RuntimeError):
        f(x, torch.ones(4, 4))
    state = random.getstate()
    random.seed(1)
    with pytest.raises(RuntimeError):
        compiled(x, torch.ones(4, 4))
    assert random.getstate() == state


def test_functions_that_were_replaced(monkeypatch):
    compiled = cdynamo.optimize(noise)
    x = torch.zeros(2)
    compiled(x, None)
    monkeypatch.setattr(random, "random", lambda: 5.0)
    assert compiled(x, None).tolist() == [5.0, 5.0]


def test_a_method_of_the_instances_own():
    compiled = cdynamo.optimize(interleaved)
    rng = random.Random(1)
    compiled(torch.zeros(2), rng)
    rng.random = lambda: 5.0
    assert compiled(torch.zeros(2), rng)[1][0] == 5.0


def test_a_subclass_draws_by_its_own_methods():
    class Fixed(random.Random):
        def random(self):
            return 0.25

    compiled = cdynamo.optimize(interleaved)
    assert compiled(torch.zeros(2), Fixed())[1][::2] == [0.25, 0.25]


def test_generators_are_told_apart():
    def f(x, a, b):
        return x + a.random() - b.random()

    compiled = cdynamo.optimize(f, fullgraph=True)
    x = torch.zeros(2)
    for a, b in ((1, 2), (1, 1), (2, 1)):
        plain, mine = ({seed: random.Random(seed) for seed in (1, 2)} for _ in range(2))
        check_equal(compiled(x, mine[a], mine[b]), f(x, plain[a], plain[b]))
        assert [mine[seed].getstate() for seed in (1, 2)] == [plain[seed].getstate() for seed in (1, 2)]


@pytest.mark.parametrize("region", ["checkpoint", "vmap", "cached"])
def test_regions_that_run_again(region):
    import functools

    from torch.utils.checkpoint import checkpoint

    def noisy(x):
        return x.sin() * random.random()

    cached = functools.lru_cache(lambda: random.random())

    def f(x):
        if region == "checkpoint":
            return checkpoint(noisy, x, use_reentrant=False)
        return torch.vmap(noisy)(x) if region == "vmap" else x * cached()

    compiled = cdynamo.optimize(f)
    for _ in range(3):
        x, y = (torch.arange(4.0, requires_grad=region == "checkpoint") for _ in range(2))
        cached.cache_clear()
        random.seed(5)
        expected = f(x)
        if region == "checkpoint":
            expected.sum().backward()
        state = random.getstate()
        cached.cache_clear()
        random.seed(5)
        got = compiled(y)
        if region == "checkpoint":
            got.sum().backward()
            check_equal(y.grad, x.grad)
        check_equal(got, expected)
        assert random.getstate() == state


def test_gradients():
    def f(x):
        return (x * random.random()).sin().sum() * random.uniform(1, 2)

    compiled = cdynamo.optimize(f, fullgraph=True)
    for _ in range(3):
        x, y = (torch.arange(4.0, requires_grad=True) for _ in range(2))
        random.seed(5)
        f(x).backward()
        random.seed(5)
        compiled(y).backward()
        check_equal(y.grad, x.grad)


def test_a_chain_of_draws():
    def f(x):
        total = 0
        for _ in range(40):
            value = gauss(0, random.random()) ** 7 - total
            total += value
        return x * total

    compiled = cdynamo.optimize(f)
    for _ in range(3):
        state = random.getstate()
        expected = f(torch.ones(2))
        random.setstate(state)
        torch.testing.assert_close(compiled(torch.ones(2)), expected)


def test_a_process_ends_after_draws():
    program = """
import cdynamo, random
def f(): return random.gauss(0, random.random()) + random.random()
fast = cdynamo.optimize(f)
print(len([fast() for _ in range(3)]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("3\n", 0), run.stderr


@pytest.mark.parametrize("name", ["random", "normalvariate", "_randbelow"])
def test_methods_that_the_program_has_replaced_are_called_once(monkeypatch, name):
    def f():
        return random.gammavariate(0.5, 2.0), random.lognormvariate(0, 1), random.randrange(5)

    asked = []

    def replaced(self, *args):
        asked.append(args)
        return 1 if name == "_randbelow" else 0.25 + len(asked) / 100

    compiled = cdynamo.optimize(f)
    compiled()
    monkeypatch.setattr(random.Random, name, replaced)
    outcomes = []
    for function in (f, compiled, compiled):
        asked.clear()
        random.seed(3)
        outcomes.append((function(), list(asked)))
    assert outcomes[0][1] and outcomes[1] == outcomes[2] == outcomes[0]
