"""Ordinary Python around tensors, a program for each kind of it: one graph, and what plain Python gives and leaves behind."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import itertools
import logging
import math
import operator
import os
import re
import string
import threading
import types
import typing
import warnings

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import cdynamo  # noqa: E402

LOGGER = logging.getLogger("test_breadth")
LOGGER.setLevel(logging.INFO)
X = torch.tensor([[-1.0, 0.5, 2.0], [0.25, -0.75, 4.0]])


def opcodes(x):
    first, *middle, last = range(5)
    merged = {**{"a": first}, "b": [*middle, last]}
    if (count := len(merged)) > 1:
        x = x * count
    log = []

    def inner():
        nonlocal count
        for i in range(3):
            try:
                if i == 1:
                    continue
                count += i
            finally:
                log.append(i)
        return f"{count:>3}|{count!r}|{merged=}"

    match {"kind": "circle", "radius": 2, "more": 1}:
        case {"kind": "square"}:
            x = x - 1
        case {"kind": "circle", "radius": int(radius), **rest}:
            x = x * radius + len(rest)
    text = inner()
    del merged["a"]
    return x, text, log, merged, [y for y in range(9) if y % 2 if y > 3], {k: v for k, v in zip("ab", (1, 2))}


def generators(x):
    log = []

    def running():
        total = 0
        try:
            while True:
                given = yield total
                if given is None:
                    return total
                total += given
        finally:
            log.append("closed")

    def both():
        result = yield from inner()
        yield result * 10

    def inner():
        yield 1
        return 5

    accumulator = running()
    next(accumulator)
    accumulator.send(2)
    x = x * accumulator.send(3)
    try:
        accumulator.send(None)
    except StopIteration as stop:
        log.append(stop.value)
    thrown = running()
    next(thrown)
    try:
        thrown.throw(KeyError("k"))
    except KeyError as error:
        log.append(str(error))
    return x + sum(both()), log


class Named:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name, 7)

    def __set__(self, instance, value):
        setattr(instance, self.name, value * 2)


class Vector:
    __slots__ = ("_scale", "parts")
    scale = Named()

    def __init__(self, *parts):
        self.parts = list(parts)

    def __add__(self, other):
        return Vector(*map(operator.add, self.parts, other.parts))

    def __iter__(self):
        return iter(self.parts)

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, i):
        return self.parts[i]

    def __contains__(self, item):
        return any(item == part for part in self.parts)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.parts == other.parts

    def __call__(self, x):
        return x * self[0]

    def __enter__(self):
        self.scale = 3
        return self

    def __exit__(self, *error):
        self.parts.append(error[0] is None)
        return True

    def __format__(self, spec):
        return spec.join(map(str, self.parts))


class Lenient:
    def __getattr__(self, name):
        if name.startswith("size_"):
            return int(name[5:])
        raise AttributeError(name)


def classes(x):
    a = Vector(1, 2) + Vector(3, 4)
    with a as entered:
        x = x * entered.scale
        raise ValueError("swallowed")
    lenient = Lenient()
    return (
        a(x), list(a), len(a), 6 in a, a == Vector(4, 6, False), f"{a:-}", lenient.size_3, hasattr(lenient, "other"),
        getattr(lenient, "other", None), [*a][::-1], type(a).__name__, isinstance(a, collections.abc.Iterable), Vector.scale.name,
    )  # fmt: skip


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class Point(typing.NamedTuple):
    x: int
    y: int = 2


@dataclasses.dataclass(order=True)
class Setting:
    rate: float
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.half = self.rate / 2


def records(x):
    setting = Setting(0.5)
    other = dataclasses.replace(setting, rate=0.25)
    setting.names.append(Mode("sum").name)
    point = Point(1)._replace(y=5)
    space = types.MappingProxyType({"k": 2})
    return (
        x * setting.half + point.y,
        other,
        setting > other,
        Mode.SUM is Mode["SUM"],
        [m.value for m in Mode],
        point,
        space["k"],
    )


def containers(x):
    recent = collections.deque(maxlen=3)
    for i in range(5):
        recent.append(x + i)
    counted = collections.Counter("abracadabra")
    counted.update("aab")
    counted["z"] -= 1
    ordered = collections.OrderedDict(a=1, b=2, c=3)
    ordered.move_to_end("a")
    grouped = collections.defaultdict(list)
    for key, value in zip("aba", range(3)):
        grouped[key].append(value)
    chain = collections.ChainMap({"a": 1}, {"b": 2})
    return (
        torch.stack(list(recent)).sum(0), len(recent), counted.most_common(2), list(ordered), ordered.popitem(last=False), dict(grouped),
        chain["b"], counted,
    )  # fmt: skip


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 2


@contextlib.contextmanager
def noted(log):
    log.append("in")
    try:
        yield len(log)
    finally:
        log.append("out")


def standard_library(x):
    log = []
    with contextlib.ExitStack() as stack:
        x = x * stack.enter_context(noted(log))
        stack.callback(log.append, "called")
        stack.enter_context(contextlib.suppress(KeyError))
        {}["missing"]
    scaled = functools.partial(operator.mul, cached(2))
    found = re.match(r"(\w)(\d+)", "a12")
    return (
        scaled(x), log, functools.reduce(operator.add, [1, 2, 3]), list(itertools.accumulate([1, 2, 3])),
        list(itertools.islice(itertools.count(3, 2), 3)), [(k, list(g)) for k, g in itertools.groupby("aab")],
        list(itertools.zip_longest([1], [2, 3], fillvalue=0)), operator.itemgetter(0, 1)("ab"), math.gcd(4, 6), math.isclose(1, 1 + 1e-12),
        found.groups(), string.ascii_letters[:3], "{:.2f} {a}".format(2.5, a="z"), typing.cast(int, 3),
        sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
    )  # fmt: skip


def output(x):
    print("rows", x.shape[0], [1, "a"], sep=": ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("not shown")
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        warnings.warn("recorded", UserWarning)
    LOGGER.info("loss of %s", tuple(x.shape))
    print(x * 2)
    return x + 1, [str(entry.message) for entry in log]


class Holder:
    def __init__(self):
        self.count, self.items, self.named, self.seen, self.total = 1, [1], {"a": 1}, {1}, torch.ones(3)


COUNTER = 0


def effects(x, holder):
    global COUNTER
    COUNTER += 1
    holder.count += COUNTER
    holder.new = [x * 2, holder]
    holder.named.update(z=holder.items)
    holder.items.insert(0, x.sum())
    holder.items[1:] = [holder.count]
    holder.seen |= {2, 3}
    holder.seen.discard(1)
    holder.total += x[0]
    holder.named.pop("a", None)
    child = Holder()
    child.parent = holder
    try:
        holder.half = "done"
        holder.named["missing"]
    except KeyError:
        holder.child = child
    x[1] = 5
    return x.t(), child


def errors(x):
    said = []
    for wrong in (
        lambda: [][1], lambda: {}["a"], lambda: int("z"), lambda: 1 / 0, lambda: "a" + 1, lambda: None(), lambda: next(iter([])), lambda: [] < 1,
        lambda: len(), lambda: (1).missing, lambda: {[]: 1}, lambda: collections.deque().pop(),
    ):  # fmt: skip
        try:
            wrong()
        except Exception as error:
            said.append((type(error).__name__, str(error)))
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        said.append((str(error), repr(error.__cause__), error.__suppress_context__))
    return x + 1, said


def trees(x):
    leaves, spec = pytree.tree_flatten({"a": [x, (1, x + 1)], "b": None})
    doubled = pytree.tree_map(
        lambda v: v * 2 if isinstance(v, torch.Tensor) else v, pytree.tree_unflatten(leaves, spec)
    )
    doubled = pytree.tree_map_only(torch.Tensor, lambda v: v - 1, doubled)
    normal = torch.distributions.Normal(x, x.abs() + 1, validate_args=False)
    return doubled, normal.log_prob(x + 1), normal.entropy()


@pytest.mark.parametrize(
    "program",
    [opcodes, generators, classes, records, containers, standard_library, output, errors, trees],
    ids=lambda program: program.__name__,
)
def test_one_graph(program, counts, capsys):
    compiled = cdynamo.optimize(program, fullgraph=True)
    for _ in range(3):
        expected = program(X.clone())
        said = capsys.readouterr().out
        assert_same(compiled(X.clone()), expected)
        assert capsys.readouterr().out == said
    assert counts.graphs_compiled == 1 and counts.recompiles == 0


def test_effects():
    global COUNTER
    compiled, left = cdynamo.optimize(effects, fullgraph=True), []
    for run in (effects, compiled):
        COUNTER, holder, x = 0, Holder(), X.clone()
        results = [run(x, holder) for _ in range(2)]
        assert holder.new[1] is holder and holder.child is results[1][1] and holder.child.parent is holder
        holder.new, holder.child.parent, results[0][1].parent = holder.new[:1], None, None
        left.append(
            (COUNTER, vars(holder.child), {**vars(holder), "child": None}, x, [result[0] for result in results])
        )
    assert_same(left[1], left[0])


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)))
        self.layers[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        self.layers[0].register_forward_hook(lambda module, args, output: output + 1)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        sizes = {name: tuple(p.shape) for name, p in self.named_parameters()}
        return self.layers(x) * len(sizes)


def test_a_module_with_hooks_and_parametrizations(counts):
    results = []
    for wrap in (lambda model: model, lambda model: cdynamo.optimize(model, fullgraph=True)):
        model = Hooked()
        run = wrap(model)
        for _ in range(2):
            run(X).sum().backward()
        results.append(([p.grad for p in model.parameters()], model.calls))
    assert_same(results[1], results[0])


def raises(x, kind):
    x.add_(1)
    if kind == "value":
        raise ValueError(f"bad {x.shape[0]}")
    if kind == "index":
        return [x][3]
    if kind == "shape":
        return x @ torch.ones(7, 3)
    return x * 2


@pytest.mark.parametrize("kind, error", [("value", ValueError), ("index", IndexError), ("shape", RuntimeError)])
def test_an_exception_of_the_program_under_fullgraph(kind, error):
    compiled, said = cdynamo.optimize(raises, fullgraph=True), []
    for run in (raises, compiled, compiled):
        x = X.clone()
        with pytest.raises(error) as caught:
            run(x, kind)
        said.append(str(caught.value))
        torch.testing.assert_close(x, X + 1)
    assert said[0] == said[1] == said[2]
    torch.testing.assert_close(compiled(X.clone(), ""), (X + 1) * 2)


def test_sizes_as_arguments(counts):
    compiled = cdynamo.optimize(lambda x, size: (torch.zeros(size), x * size.numel(), size[0], size), fullgraph=True)
    for n in (2, 3, 4, 5):
        size = torch.Size([n, 2])
        assert_same(compiled(X, size), (torch.zeros(size), X * size.numel(), n, size))
    assert counts.graphs_compiled == 2


def test_library_calls_of_sizes_that_change():
    def resized(x):
        return nn.functional.interpolate(x, scale_factor=2, mode="bicubic") + 1

    compiled = cdynamo.optimize(resized, fullgraph=True)
    for n in (4, 5, 6):
        x = torch.randn(1, 2, n, n)
        torch.testing.assert_close(compiled(x), resized(x))


SCALE = contextvars.ContextVar("scale", default=3)
STATE = contextvars.ContextVar("state")


@contextlib.contextmanager
def scaled_by(value):
    token = SCALE.set(value)
    try:
        yield
    finally:
        SCALE.reset(token)


def of_context(x):
    before = SCALE.get()
    with scaled_by(5):
        inner = x * SCALE.get()
        with scaled_by(7):
            inner = inner * SCALE.get()
    try:
        STATE.get()
        missing = False
    except LookupError:
        missing = True
    token = STATE.set({"x": x * 2})
    try:
        STATE.get()["y"] = inner
        return x * before, dict(STATE.get()), SCALE.get(), missing, STATE.get(None) is None
    finally:
        STATE.reset(token)


def test_context_variables():
    compiled = cdynamo.optimize(of_context, fullgraph=True)
    before = cdynamo.counters()["graphs_compiled"]
    for _ in range(2):
        assert_same(compiled(X), of_context(X))
    assert cdynamo.counters()["graphs_compiled"] - before == 1
    assert SCALE.get() == 3 and STATE.get(None) is None
    for value in (4, 6, 9):  # what the caller has set
        with scaled_by(value):
            assert_same(compiled(X), of_context(X))
            assert SCALE.get() == value
    assert_same(compiled(X), of_context(X))


def test_a_context_variable_that_stays_set():
    def leave(x):
        SCALE.set(x.shape[1])
        SCALE.set(x * 2)
        return x + 1

    def in_two_steps(x):
        token = SCALE.set(8)
        y = x * SCALE.get()
        cdynamo.graph_break()
        SCALE.reset(token)
        return y * SCALE.get()

    def of_several(x):
        first = SCALE.set(1)
        SCALE.set(2)
        SCALE.reset(first)  # what was set later goes too
        return x * SCALE.get(), first.old_value is first.MISSING

    outcomes = []
    for wrap in (lambda fn: fn, cdynamo.optimize):
        context = contextvars.copy_context()
        left = context.run(wrap(leave), X), context[SCALE]
        context = contextvars.copy_context()
        broken = [context.run(wrap(in_two_steps), X) for _ in range(2)], context.get(SCALE)
        several = contextvars.copy_context().run(wrap(of_several), X)
        outcomes.append((left, broken, several))
    assert_same(outcomes[1], outcomes[0])


LOCAL = threading.local()


def test_what_a_thread_has_of_its_own():
    def fn(x):
        return x * getattr(LOCAL, "scale", 1) if hasattr(LOCAL, "scale") else x - 1

    compiled = cdynamo.optimize(fn)
    results = []

    def run(scale):
        if scale:
            LOCAL.scale = scale
        results.append((compiled(X), fn(X)))

    for scale in (None, 2, 3, None):
        thread = threading.Thread(target=run, args=(scale,))
        thread.start()
        thread.join()
    assert len(results) == 4
    for got, expected in results:
        assert_same(got, expected)


def of_paths_and_enums(x):
    backends = {torch.nn.attention.SDPBackend.MATH: 2, torch.nn.attention.SDPBackend.FLASH_ATTENTION: 3}
    chosen = torch.nn.attention.SDPBackend.MATH
    name = os.path.join("weights", f"{len(backends)}.pt")
    return x * backends[chosen], name, os.path.splitext(os.path.basename(name)), os.fspath(name), chosen.name


def test_paths_and_enums(counts):
    assert_same(cdynamo.optimize(of_paths_and_enums, fullgraph=True)(X), of_paths_and_enums(X))


def assert_same(got, expected):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
    elif isinstance(expected, dict):
        assert type(got) is type(expected) and list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key])
    elif isinstance(expected, (tuple, list)):
        assert type(got) is type(expected) and len(got) == len(expected)
        for one, other in zip(got, expected):
            assert_same(one, other)
    else:
        assert got == expected


def test_parametrizations_that_are_cached():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))

        def forward(self, x):
            with nn.utils.parametrize.cached():
                return self.layer(x) + self.layer(x).sin()

    model, x = Twice(), torch.randn(2, 3)
    torch.testing.assert_close(cdynamo.optimize(model, fullgraph=True)(x), model(x))
