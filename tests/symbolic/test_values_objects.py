"""Instances, classes, descriptors, special methods, modules, functions as attributes."""

from __future__ import annotations

import collections
import collections.abc
import copy
import dataclasses
import enum
import functools
import importlib
import math
import numbers
import operator
import sys
import types
import typing

import pytest
from values_check import check

import cdynamo


class Point:
    scale = 2

    def __init__(self, x, y=1):
        self.x = x
        self.y = y

    @property
    def norm(self):
        return self.x * self.x + self.y * self.y

    @norm.setter
    def norm(self, value):
        self.x = value

    @classmethod
    def origin(cls):
        return cls(0, 0)

    @staticmethod
    def double(v):
        return v * 2

    def moved(self, dx=1, *more, **named):
        return type(self)(self.x + dx + sum(more) + len(named), self.y)

    def __eq__(self, other):
        if not isinstance(other, Point):
            return NotImplemented
        return (self.x, self.y) == (other.x, other.y)

    __hash__ = None

    def __add__(self, other):
        if isinstance(other, int):
            return Point(self.x + other, self.y)
        return Point(self.x + other.x, self.y + other.y)

    def __radd__(self, other):
        return Point(other + self.x, self.y)

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


class Point3(Point):
    scale = 3

    def __init__(self, x, y, z):
        super().__init__(x, y)
        self.z = z

    def moved(self, *args):
        return super(Point3, self).x if not args else (super().double(args[0]), self.z)

    @property
    def norm(self):
        return super().norm + self.z


def attributes(p):
    p.x += 1
    p.extra = [p.y]
    del p.y
    return (
        p.norm if hasattr(p, "y") else None,
        p.scale,
        Point.scale,
        getattr(p, "missing", 3),
        p.extra,
        "extra" in p.__dict__,
    )


def methods(p):
    q = p.moved(2, 3, k=1)
    bound = p.moved
    return q, bound(1), Point.moved(p, 5), p.double(4), Point.double(5), Point.origin(), p.origin().x, [p.moved][0](1)


def operators(p):
    q = p + Point(1, 2)
    q += 3
    return q, 1 + p, p == p, p == Point(0, 0), p != 3, p == 3, repr(p), f"{p} {p!r:>20}", str(p), p is p


def properties(p):
    p.norm = 9
    return p.norm, p.x


def inheritance(p):
    q = Point3(1, 2, 3)
    return (
        q.norm,
        q.moved(4),
        q.scale,
        isinstance(q, Point),
        isinstance(p, Point3),
        issubclass(Point3, Point),
        type(q) is Point3,
        q == Point(1, 2),
        type(q).__name__,
        Point3.__mro__[1] is Point,
        q.__class__.__qualname__,
    )


def no_attribute(p):
    try:
        return p.nothing
    except AttributeError as error:
        return str(error)


def uncaught(p):
    p.x = 100
    return p.nothing


def set_by_name(p):
    setattr(p, "made", 1)
    delattr(p, "x")
    p.__dict__["direct"] = 2
    return vars(p), p.direct, hasattr(p, "x")


def own_dict_after_a_break(p):
    attributes = vars(p)
    cdynamo.graph_break()
    p.more = 1
    seen = list(attributes)
    attributes["less"] = 2
    return seen, p.less


def own_dict_before_its_object(p):
    attributes = vars(p)
    cdynamo.graph_break()
    attributes["less"] = 2
    p.more = 1
    return list(attributes), p.less


def returned_objects(p):
    q = Point(p, [p])
    q.self = q
    return q, q.y, p


def aliased_objects(p, q):
    p.x = 5
    return q.x, p is q


@pytest.mark.parametrize(
    "fn",
    [
        attributes,
        methods,
        operators,
        properties,
        inheritance,
        no_attribute,
        set_by_name,
        returned_objects,
    ],
)
def test_instances(fn):
    check(fn, (Point(3, 4),), (Point(1),))


@pytest.mark.parametrize("fn", [own_dict_after_a_break, own_dict_before_its_object])
def test_the_dict_of_an_object_s_attributes_beside_it(fn):
    check(fn, (Point(3, 4),), (Point(1),), breaks=None)


def test_an_error_after_a_change():
    check(uncaught, (Point(3, 4),), breaks=None)


def test_one_object_under_two_names():
    p = Point(1)
    check(aliased_objects, (p, p), (Point(1), Point(2)), (p, p))


# ---- the data model


class Everything:
    def __new__(cls, *args):
        self = super().__new__(cls)
        self.log = []
        return self

    def __init__(self, *args):
        self.args = args

    def __bool__(self):
        return False

    def __len__(self):
        return 4

    def __getitem__(self, key):
        self.log.append(key)
        return key

    def __setitem__(self, key, value):
        self.log.append((key, value))

    def __delitem__(self, key):
        self.log.append(("del", key))

    def __contains__(self, item):
        return item == 3

    def __iter__(self):
        return iter(self.args)

    def __call__(self, *args, **named):
        return args, named

    def __neg__(self):
        return "neg"

    def __lt__(self, other):
        return True

    def __iadd__(self, other):
        self.log.append(other)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True

    def __str__(self):
        return "everything"

    def __index__(self):
        return 1

    def __abs__(self):
        return 7

    def __float__(self):
        return 2.5

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name + "!"


def data_model(x):
    e = Everything(x, 2)
    e[1] = 2
    del e[3]
    e += 4
    with e as entered:
        raise ValueError
    return (
        e.log, bool(e), len(e), e[5], 3 in e, 4 in e, list(e), e(1, k=2), -e, e < e, entered is e, str(e), [1, 2, 3][e],
        abs(e), float(e), e.other, hasattr(e, "_no"), [*e], sum(e), e > e, not e, max(e),
    )  # fmt: skip


class Sequence:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i * 10


class Counter3:
    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return self.n


def iteration(x):
    c = Counter3()
    return (
        list(Sequence()),
        20 in Sequence(),
        list(c),
        next(c, None),
        [v for v in Counter3()],
        dict(zip(Counter3(), Sequence())),
    )


class Always:
    def __get__(self, instance, owner=None):
        return ("got", instance is None)

    def __set__(self, instance, value):
        instance.__dict__["kept"] = value


class Described:
    d = Always()

    @functools.cached_property
    def cached(self):
        self.count = getattr(self, "count", 0) + 1
        return [self.count]


def descriptors(o):
    o.d = 5
    return o.d, Described.d, o.kept, o.cached, o.cached is o.cached, o.count


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


def slots(s):
    s.b = s.a + 1
    s.a = [s.b]
    t = Slotted(s)
    return s.a, s.b, t.a, t, hasattr(s, "c")


class Fallback:
    def __getattribute__(self, name):
        if name == "special":
            return 42
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)


def overridden(o):
    o.x = 4
    return o.special, o.x


@pytest.mark.parametrize(
    "fn, args",
    [
        (data_model, (1,)),
        (iteration, (1,)),
        (descriptors, (Described(),)),
        (slots, (Slotted(1),)),
        (overridden, (Fallback(),)),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_data_model(fn, args):
    check(fn, args)


# ---- dataclasses, enums, subclasses of builtins, metaclasses


@dataclasses.dataclass
class Config:
    width: int
    names: list = dataclasses.field(default_factory=list)
    frozen: bool = False


@dataclasses.dataclass(frozen=True)
class Key:
    a: int
    b: str = "b"


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    def next(self):
        return Color.GREEN if self is Color.RED else Color.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Stack(list):
    def top(self):
        return self[-1]

    def append(self, item):
        super().append(item)
        super().append(item)


class Registry(dict):
    def __missing__(self, key):
        return key * 2

    def __setitem__(self, key, value):
        super().__setitem__(key, [value])


class Named(str):
    def shout(self):
        return self.upper() + "!"


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.by_meta = True
        return made


class Made(metaclass=Meta):
    def __init__(self, v):
        self.v = v


def dataclass(c):
    c.names.append("n")
    d = Config(2, frozen=True)
    return d, d == Config(2), c.width, Key(1).b, Key(1) == Key(1), dataclasses.is_dataclass(d)


def enums(e):
    return (
        e is Color.RED,
        e.value,
        e.name,
        e.next(),
        Color(2),
        Color["RED"],
        list(Color),
        len(Color),
        Level.HIGH + 1,
        Level.LOW < 2,
        {Color.RED: 1}[e],
        e == Color.RED,
        isinstance(e, Color),
        e in (Color.GREEN, Color.RED),
    )


def list_subclass(s):
    s.append(3)
    t = Stack([1])
    t.append(s)
    t.note = "n"
    return s.top(), t, len(t), t[0], isinstance(t, list), s + [1], t == t, [*s], s[1:], 3 in s


def dict_subclass(r):
    r["k"] = 1
    new = Registry(a=1)
    new["b"] = 2
    new.update(c=3)
    return r["k"], r["missing"], new, new["b"], len(new), list(r), "k" in r, r.get("zz"), isinstance(r, dict)


def string_subclass(s):
    return s.shout(), s + "x", len(s), s == "abc", s.split("b")


def metaclasses(x):
    return Made(x).v, Made(x).by_meta


@pytest.mark.parametrize(
    "fn, args",
    [
        (dataclass, (Config(1),)),
        (enums, (Color.RED,)),
        (list_subclass, (Stack([1, 2]),)),
        (dict_subclass, (Registry(),)),
        (string_subclass, (Named("abc"),)),
        (metaclasses, (3,)),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_kinds_of_classes(fn, args):
    check(fn, args)


# ---- functions, partials, modules


def callables(f, x):
    return f(x), callable(f)


@pytest.mark.parametrize(
    "f",
    [
        functools.partial(operator.add, 2),
        functools.partial(lambda a, *, b: a - b, b=3),
        Point(1).__add__,
        abs,
        "abc".__getitem__,
        Everything(1),
        lambda v, k=[2]: (v, k),
        Point,
    ],
    ids=["partial", "partial with keywords", "method", "builtin", "string method", "instance", "lambda", "class"],
)
def test_callables(f):
    check(callables, (f, 1))


def partials(x):
    p = functools.partial(Point, y=x)
    q = functools.partial(p, 1)
    return p(2), q(), p.func is Point, q.args, p.keywords, q(y=9)


def partial_returned(x):
    return functools.partial(pow, x), functools.partial(Point, x, y=2)


def test_partial():
    check(partials, (3,))
    made = cdynamo_call(partial_returned, 3)
    assert made[0](2) == 9
    assert made[1]() == Point(3, 2)


def cdynamo_call(fn, *args):
    import cdynamo

    cdynamo.config.keep_empty_graphs = True
    return cdynamo.optimize(fn)(*args)


@functools.lru_cache
def cached(x):
    return x * 10


@functools.wraps(cached)
def wrapped(x):
    return cached(x) + 1


def library(x):
    return (
        math.sqrt(x),
        math.pi,
        math.floor(2.5),
        math.prod([1, x]),
        operator.add(x, 2),
        operator.itemgetter(1, 0)([3, 4]),
        operator.attrgetter("real")(x),
        operator.methodcaller("bit_length")(x),
        functools.reduce(operator.mul, [1, 2, x]),
        cached(x),
        wrapped(x),
        operator.truth(x),
        operator.contains([1], x),
    )


def closures(x):
    count = 0

    def inc(by=1, *, k=x):
        nonlocal count
        count += by + k
        return count

    return inc(), inc(2), inc(k=0), count, [lambda v=v: v + x for v in range(2)][1]()


def generators(x):
    def numbers(n):
        for i in range(n):
            got = yield i * x
            if got:
                yield got

    g = numbers(3)
    return (
        list(numbers(3)),
        sum(v for v in numbers(3)),
        next(g),
        [*g],
        max(numbers(2)),
        sorted(numbers(3), reverse=True),
    )


SETTINGS = {"deep": [1, {"x": 2}]}


def module_globals(x):
    SETTINGS["deep"][1]["x"] += 0
    return SETTINGS["deep"][0] + x, Point.scale


@pytest.mark.parametrize("fn", [library, closures, generators, module_globals])
def test_functions(fn):
    check(fn, (3,), (4,))


def test_a_class_that_changes_is_seen():
    def scale(p):
        return p.scale

    import cdynamo

    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(scale)
    p = Point(1)
    assert compiled(p) == 2
    Point.scale = 5
    try:
        assert compiled(p) == 5
        p.scale = 6
        assert compiled(p) == 6
    finally:
        Point.scale = 2


def test_a_global_container_that_changes_is_seen():
    def read(x):
        return SETTINGS["deep"][1]["x"] + x

    import cdynamo

    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(read)
    assert compiled(1) == 3
    SETTINGS["deep"][1]["x"] = 7
    try:
        assert compiled(1) == 8
    finally:
        SETTINGS["deep"][1]["x"] = 2


def test_a_method_that_takes_its_defining_class_crosses_a_graph_break(tmp_path):
    (tmp_path / "empty").touch()

    def run():
        with open(tmp_path / "empty", "rb", buffering=0) as file:
            try:
                return apply(file.readinto, b"")
            except TypeError:
                return "refused"

    def apply(method, argument):
        cdynamo.graph_break()
        return method(argument)

    assert cdynamo.optimize(run)() == run() == "refused"


class ReadOnlyProperty(functools.cached_property):
    def __set__(self, instance, value):
        raise AttributeError("read only")


class WithReadOnlyProperty:
    @ReadOnlyProperty
    def value(self):
        return 5


def test_what_is_written_to_a_new_objects_dict_does_not_go_through_its_descriptors():
    def run():
        made = WithReadOnlyProperty()
        return made.value, made

    value, made = cdynamo.optimize(run)()
    assert (value, made.value, vars(made)) == (5, 5, {"value": 5})


def test_an_attribute_of_a_functions_class_is_not_looked_for_in_its_dict():
    def wrapper():
        pass

    vars(wrapper)["__name__"] = "in the dict"
    vars(wrapper)["own"] = 1
    assert cdynamo.optimize(lambda: (wrapper.__name__, wrapper.own))() == ("wrapper", 1)


def test_a_class_pattern_asks_isinstance():
    class Checked(typing.Protocol): ...

    def kind(x):
        match x:
            case collections.abc.Mapping():
                return "mapping"
            case collections.abc.Sequence():
                return "sequence"
            case numbers.Integral():
                return "integer"
            case numbers.Number():
                return "number"
        return None

    def refused(x):
        try:
            match x:
                case Checked():
                    return "matched"
        except TypeError:
            return "refused"

    for value in ({}, [1], 3, 2.5, None):
        assert cdynamo.optimize(kind)(value) == kind(value)
    assert cdynamo.optimize(refused)(1) == refused(1)


def test_a_live_set_is_iterated_in_its_own_order():
    words = set(range(0, 4000, 7))
    for number in range(0, 3500, 7):
        words.discard(number)
    assert cdynamo.optimize(lambda items: [item for item in items])(words) == list(words) != list(set(words))


class Divided:
    def __rdivmod__(self, other):
        return "rdivmod", other

    def __divmod__(self, other):
        return NotImplemented


class Two:
    def __index__(self):
        return 2


class Blocked(Divided):
    __add__ = __radd__ = __iadd__ = __contains__ = __iter__ = __divmod__ = __rdivmod__ = None


class Base:
    def __floordiv__(self, other):
        return "floordiv"

    def __rfloordiv__(self, other):
        return "rfloordiv"


class Heir(Base):
    pass


class Overrider(Base):
    def __rfloordiv__(self, other):
        return "overridden"


class WrongInit:
    def __init__(self):
        return 1


class SetOnly:
    def __set__(self, instance, value):
        instance.__dict__["a"] = value


class WithSetOnly:
    a = SetOnly()


def outcome(call):
    try:
        return call()
    except TypeError:
        return "refused"


@pytest.mark.parametrize(
    "call",
    [
        lambda x: divmod(7, Divided()),
        lambda x: divmod(Divided(), Divided()),
        lambda x: divmod(Two(), 2),
        lambda x: divmod(7, Blocked()),
        lambda x: Blocked() + 1,
        lambda x: 1 + Blocked(),
        lambda x: 1 in Blocked(),
        lambda x: list(Blocked()),
        lambda x: x.__mul__(Two()),
        lambda x: x.__rmul__(Two()),
        lambda x: (1, 2).__mul__(Two()),
        lambda x: x.__imul__(Two()) is x,
        lambda x: x.__mul__("a"),
        lambda x: Base() // Heir(),
        lambda x: Base() // Overrider(),
        lambda x: WrongInit(),
        lambda x: super(Two, 42),
        lambda x: f"{Two():>9}",
        lambda x: len("{:s}".format(Two())),
        lambda x: sorted([2, 1], None),
        lambda x: sorted(iterable=x),
        lambda x: {1: 1} | collections.OrderedDict({2: 2}),
        lambda x: {1: 1} | collections.defaultdict(list, {2: 2}),
        lambda x: type({1: 1} | collections.OrderedDict({2: 2})),
    ],
)
def test_operations_that_are_blocked_reflected_or_repeat(call):
    assert cdynamo.optimize(lambda x: outcome(lambda: call(x)))([1, 2]) == outcome(lambda: call([1, 2]))


def test_instances_of_classes_of_c_are_made_by_their_own_constructor():
    limited = pytest.importorskip("_testcapi")
    if not hasattr(limited, "LimitedVectorCallClass"):
        pytest.skip("from CPython 3.12 on")

    def run():
        made = limited.LimitedVectorCallClass()
        cdynamo.graph_break()
        return limited.pyobject_vectorcall(made, (), ())

    assert cdynamo.optimize(run)() == run() == "vectorcall called"


def test_equal_constants_that_differ_are_told_apart():
    parts = cdynamo.optimize(lambda z: str((z.real, z.imag)))
    texts = cdynamo.optimize(lambda items: sorted(str(item) for item in items))
    for z in (0j, complex(0.0, -0.0), complex(-0.0, 0.0)):
        assert parts(z) == str((z.real, z.imag))
        assert texts((z,)) == [str(z)]
    for items in ({1}, {True}, {1.0}, {(1,)}, {(True,)}, {(1.0,)}):
        assert texts(items) == sorted(str(item) for item in items)


def test_a_descriptor_that_only_sets_is_read_from_the_dict():
    def run(item):
        before = item.a is WithSetOnly.__dict__["a"]
        item.a = 42
        return before, item.a

    assert cdynamo.optimize(run)(WithSetOnly()) == run(WithSetOnly()) == (True, 42)


def test_a_module_of_a_package_is_loaded_by_its_import(tmp_path, monkeypatch):
    (tmp_path / "package_of_one").mkdir()
    (tmp_path / "package_of_one" / "__init__.py").write_text("")
    (tmp_path / "package_of_one" / "inside.py").write_text("value = 3")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("package_of_one")

    def run():
        from package_of_one import inside

        return inside.value

    assert cdynamo.optimize(run)() == 3


class OfTheClass:
    scale = 3

    @classmethod
    @property
    def doubled(cls):
        return 2 * cls.scale


class OfTheHeir(OfTheClass):
    scale = 4


class Frozen(frozenset):
    pass


FROZEN = Frozen([2])


def wrong_traceback():
    error = ValueError(1)
    error.__traceback__ = 5


@pytest.mark.parametrize(
    "call",
    [
        lambda: (
            (OfTheClass.doubled, OfTheHeir.doubled, OfTheHeir().doubled)
            if sys.version_info < (3, 13)
            else OfTheClass.doubled.__func__.fget(OfTheHeir)
        ),
        lambda: (type(Frozen([1]).copy()), type(FROZEN.copy()), frozenset([1]).copy()),
        wrong_traceback,
    ],
)
def test_descriptors_copies_and_tracebacks(call):
    assert cdynamo.optimize(lambda: outcome(call))() == outcome(call)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_an_ordered_dict_has_its_attributes(copied):
    state = collections.OrderedDict(weight=1)
    state._metadata = [2]
    result = cdynamo.optimize(lambda items: copied(items))(state)
    assert (result, result._metadata) == (state, [2])
    assert cdynamo.optimize(lambda: copied(collections.OrderedDict(a=[1])))() == {"a": [1]}


def test_simple_namespaces():
    def attributes(x):
        made = types.SimpleNamespace(first=x, second=2)
        made.third = made.second + 1
        del made.second
        return made, getattr(made, "second", "none"), made.third

    def attributes_as_a_dict(x):
        return vars(types.SimpleNamespace(first=x, second=2))

    check(attributes, (1,), ([2],))
    check(attributes_as_a_dict, (1,))


def test_addresses_of_what_stays():
    class Node:
        pass

    known = {}

    def remembered(node):
        return known.setdefault(id(node), len(known)), id(Node) == id(type(node)), id(node) == id(node)

    first, second = Node(), Node()
    compiled = cdynamo.optimize(remembered, fullgraph=True)
    assert [compiled(node)[0] for node in (first, second, first, second, first)] == [0, 1, 0, 1, 0]
    assert compiled(second)[1:] == (True, True)


class OfTypedDict(typing.TypedDict):
    a: int


def test_a_metaclass_whose_call_is_another_class():
    check(lambda x: OfTypedDict(a=x), (3,), (4,))


class ErrorWithCode(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}", code)
        self.code = code


class ErrorWithText(ErrorWithCode):
    def __str__(self):
        return f"<{self.code}>"


def test_text_of_exceptions_with_attributes():
    def program(x):
        found = []
        for cls in (ErrorWithCode, ErrorWithText):
            try:
                raise cls(x)
            except ErrorWithCode as error:
                found.append((str(error), f"{error}", repr(error), error.code))
        return found

    check(program, (3,), (4,), (5,), breaks=None)


class MetaWithOperators(type):
    def __iter__(cls):
        return iter([1, 2])

    def __len__(cls):
        return 5

    def __bool__(cls):
        return False

    def __getitem__(cls, key):
        return key

    def __contains__(cls, key):
        return key == 3

    def __add__(cls, other):
        return other + 1

    def __radd__(cls, other):
        return other + 2


class WithOperators(metaclass=MetaWithOperators):
    pass


def test_operators_of_a_metaclass():
    def program(x):
        cls = WithOperators
        return list(cls), len(cls), bool(cls), not cls, cls[x], x in cls, cls + x, x + cls, cls or x, str(cls)

    check(program, (3,), (4,))


class Shown:
    a = 1
    b = (2, 3)

    def method(self):
        return self.a

    @property
    def c(self):
        return 5


def test_namespace_of_a_class():
    def program(x):
        shown = vars(Shown)
        names = [name for name in Shown.__dict__ if not name.startswith("__")]
        return (
            names,
            shown["a"] + x,
            shown["b"],
            "c" in shown,
            shown.get("d", x),
            shown["method"](Shown()),
            "a" in dir(Shown),
        )

    check(program, (3,), (4,), breaks=None)
    compiled = cdynamo.optimize(lambda: vars(Shown))
    try:
        shown = compiled()
        Shown.added = 7
        assert shown["added"] == compiled()["added"] == 7
    finally:
        del Shown.added


def hinted(a: int, b: str, *c: list[int]) -> None: ...


def test_type_hints():
    check(lambda x: (typing.get_type_hints(hinted), x), (3,), breaks=None)
    check(lambda x: (typing.get_type_hints(Shown), hinted.__globals__ is globals(), x), (3,), breaks=None)


class Sized:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


class Truthful(Sized):
    def __bool__(self):
        return self.length


def test_what_len_and_bool_may_return():
    def program(value):
        found = []
        for ask in (len, bool, lambda sized: "yes" if sized else "no"):
            for cls in (Sized, Truthful):
                try:
                    found.append(ask(cls(value)))
                except (TypeError, ValueError) as error:
                    found.append(str(error))
        return found

    check(program, (3,), (0,), (-1,), (4,), (True,), ([],), ("s",), breaks=None)


class WithRange:
    known = range(3)

    def __init__(self, own):
        self.own = own


def test_a_range_of_the_class_that_an_instance_has_too():
    cdynamo.config.keep_empty_graphs = True
    compiled = cdynamo.optimize(lambda item: (item.known, item.own))
    for own in (WithRange.known, 7, range(3), range(4), WithRange.known):
        assert compiled(WithRange(own)) == (range(3), own)
