"""Programs that make classes, use them and forget them: each is one graph."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import typing

scale = 10


class Outer:
    scale = 3

    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value * self.scale

    @classmethod
    def made(cls, value):
        return cls(value)


class Meta(type):
    def __new__(mcls, name, bases, namespace, **keywords):
        cls = super().__new__(mcls, name, bases, {**namespace, "added": len(namespace)})
        cls.keywords = keywords
        return cls


class Named:
    def __set_name__(self, owner, name):
        self.name = name
        self.owner = owner.__name__

    def __get__(self, instance, owner):
        return (self.name, self.owner, instance is None)


def plain(x):
    class A:
        """A class."""

        k = 2
        names = ("a", "b")

        def __init__(self, v):
            self.v = v

        def get(self, more=1, *, last=0):
            return self.v * self.k + more + last

        @property
        def twice(self):
            return self.v * 2

        @twice.setter
        def twice(self, v):
            self.v = v // 2

        @classmethod
        def made(cls, v):
            return cls(v)

        @staticmethod
        def static(v):
            return v + 1

    a = A.made(x)
    b = A(v=1)
    b.twice = 10
    return (
        (a.get(), a.get(2, last=3), a.twice, b.twice, A.static(x), a.static(2), A.k, A.names, A.get(b)),
        (A.__name__, A.__qualname__, A.__module__, A.__doc__, type(a).__name__, type(a) is A, a.__class__ is A),
        (isinstance(a, A), isinstance(x, A), issubclass(A, object), issubclass(A, int), A is A, A == A, bool(A)),
        (hasattr(A, "get"), hasattr(a, "other"), getattr(A, "missing", 5), A.get.__name__, A.get.__qualname__),
    )


def closures(x):
    count = 0
    factor = x + 1
    seen = []

    class Counter:
        step = x * 2

        def __init__(self):
            nonlocal count
            count += self.step
            seen.append(count)

        def scaled(self):
            return count * factor

    one = Counter()
    two = Counter()
    before = one.scaled()
    factor = 100
    return count, before, two.scaled(), seen, Counter.step


def names_of_the_body(x):
    k = 10

    class A:
        k = scale + 1
        double = k * 2
        items = [i * x for i in range(3)]
        total = 0
        for i in range(3):
            total += i * double
        del i
        try:
            missing = undefined_name  # noqa: F821
        except NameError as error:
            missing = str(error)
        if x > 2:
            large = True
        mapping = {"a": k}

        def method(self):
            return k

    A.items.append(7)
    a = A()
    a.items.append(8)
    return A.k, A.double, A.items, A.total, A.missing, A.mapping, a.method(), hasattr(A, "large"), hasattr(A, "i")


def derived(x):
    class Inner(Outer):
        scale = 5

        def __init__(self, value, more):
            super().__init__(value)
            self.more = more

        def get(self):
            return super().get() + self.more

        def own_class(self):
            return __class__.__name__

    class Innermost(Inner):
        def get(self):
            return super(Innermost, self).get() * 2

        @classmethod
        def made(cls, value):
            return super().made(value)

        def __new__(cls, *args):
            return super().__new__(cls)

        def __init__(self, value, more=1):
            super().__init__(value, more)

    a = Innermost.made(x)
    return (
        (a.get(), Inner(x, 1).get(), a.own_class(), isinstance(a, Outer), issubclass(Innermost, Inner)),
        ([c.__name__ for c in Innermost.__bases__], Inner.__base__ is Outer, Innermost.__base__ is Inner),
        vars(a) == {"value": x, "more": 1},
    )


def diamond(x):
    class A:
        def who(self):
            return ["A", x]

    class B(A):
        def who(self):
            return ["B", *super().who()]

    class C(A):
        def who(self):
            return ["C", *super().who()]

    class D(B, C):
        def who(self):
            return ["D", *super().who()]

    return D().who()


def containers(x):
    class L(list):
        def total(self):
            return sum(self) * x

    class D(dict):
        def __missing__(self, key):
            return key * x

    class T(tuple):
        __slots__ = ()

        @property
        def first(self):
            return self[0]

    class U(collections.UserDict):
        def __getitem__(self, key):
            return super().__getitem__(key) + x

    class I(int):  # noqa: E742
        def half(self):
            return self // 2

    items = L([1, 2])
    items.append(3)
    return items.total(), D(a=1)["b"], D(a=1)["a"], T((x, 2)).first, U(a=1)["a"], len(U(b=2)), I(8).half(), I(8) + 1


def special_methods(x):
    class V:
        __slots__ = ["n"]

        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return V(self.n + other.n)

        def __radd__(self, other):
            return V(other + self.n)

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

        def __hash__(self):
            return hash(self.n)

        def __len__(self):
            return 3

        def __bool__(self):
            return self.n > 1

        def __getitem__(self, key):
            return self.n + key

        def __iter__(self):
            yield from range(self.n)

        def __contains__(self, item):
            return item == self.n

        def __call__(self, *args, **keywords):
            return self.n, args, keywords

        def __enter__(self):
            return self.n

        def __exit__(self, *error):
            return True

        def __repr__(self):
            return f"V({self.n})"

        def __getattr__(self, name):
            return name + "?"

    v, w = V(x), V(1)
    with v as entered:
        raise ValueError
    return (
        ((v + w).n, sum([v, w]).n, v == V(x), v != w, v < w, max(v, w).n, len(v), bool(v), bool(w), v[3]),
        (list(v), x in v, v(1, a=2), entered, repr(v), str(v), f"{v}", v.other, hash(v) == hash(x)),
    )


def by_identity(x):
    class A:
        pass

    class B:
        pass

    a, b = A(), A()
    table = {A: 1, B: 2, a: 3, b: 4}
    return table[A], table[B], table[a], table[type(b)], a == b, a is b, A == B, {A, B, A} == {B, A}, a in [b]


def two_of_one_name(x):
    def make(k):
        class A:
            value = k

        return A

    classes = [make(k) for k in range(3)]
    return classes[0] is classes[1], [c.value for c in classes], isinstance(classes[0](), classes[1])


def in_a_loop(x):
    total = 0
    for k in range(3):

        class A:
            def get(self):
                return k * x

        total += A().get()
    return total


def exceptions(x):
    class Error(Exception):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    class Worse(Error):
        pass

    try:
        raise Worse(x)
    except Error as error:
        return error.code, str(error), error.args, type(error).__name__, isinstance(error, Worse)


def descriptors(x):
    class Typed:
        def __init__(self, factor):
            self.factor = factor

        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner):
            return self if instance is None else getattr(instance, self.name) * self.factor

        def __set__(self, instance, value):
            setattr(instance, self.name, value + x)

    class A:
        one = Typed(2)
        two = Typed(x)
        outer = Named()

        @functools.cached_property
        def cached(self):
            return [self.one]

    a = A()
    a.one = 1
    a.two = 2
    return a.one, a.two, vars(a) == {"_one": 1 + x, "_two": 2 + x}, A.outer, a.outer, A.one.name


def subclass_hooks(x):
    log = []

    class Base:
        def __init_subclass__(cls, /, tag="none", **keywords):
            super().__init_subclass__(**keywords)
            cls.tag = tag + str(x)
            log.append((cls.__name__, tag))

    class A(Base, tag="a"):
        pass

    class B(A):
        pass

    return log, A.tag, B.tag, hasattr(Base, "tag")


def written(x):
    class A:
        k = 1

    a = A()
    A.k = x
    A.method = lambda self: self.k + 1
    A.items = [x]
    setattr(A, "other", "o")
    before = a.method(), a.other, hasattr(A, "k")
    A.items.append(2)
    del A.other
    return before, A.k, a.items, hasattr(a, "other"), A.__dict__["k"] if False else 0


def abstract(x):
    class Base(abc.ABC):
        @abc.abstractmethod
        def get(self): ...

        @property
        @abc.abstractmethod
        def name(self): ...

    class Full(Base):
        name = "full"

        def get(self):
            return x

    return Full().get(), Full().name, isinstance(Full(), Base), issubclass(Full, collections.abc.Sized)


def data_classes(x):
    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 2
        items: list = dataclasses.field(default_factory=list)

        def total(self):
            return self.x + self.y + x

    @dataclasses.dataclass(frozen=True, order=True)
    class Fixed:
        a: int
        b: str = dataclasses.field(default="b", compare=False)

        def __post_init__(self):
            object.__setattr__(self, "twice", self.a * x)

    @dataclasses.dataclass
    class More(Point):
        z: int = 7

    p = Point(x)
    p.items.append(1)
    q = dataclasses.replace(p, y=x)
    f = Fixed(x)
    try:
        f.a = 3
    except dataclasses.FrozenInstanceError as error:
        refused = str(error)
    return (
        (p.total(), Point(1).items, p == Point(x, 2, [1]), p != q, repr(p), q.y, More(1, z=x).z, More(1).total()),
        (f < Fixed(x + 1), f == Fixed(x, "c"), f.twice, repr(f), refused, Fixed.__match_args__),
        (dataclasses.is_dataclass(p), [field.name for field in dataclasses.fields(Point)]),
    )


def enums(x):
    class Color(enum.Enum):
        RED = 1
        GREEN = 2

        def describe(self):
            return self.name + "!"

    class Flag(enum.Flag):
        R = 1
        W = 2
        RW = R | W

    class Numbered(enum.IntEnum):
        A = enum.auto()
        B = enum.auto()

    return (
        (Color.RED.value, Color.GREEN.name, Color(2) is Color.GREEN, Color["RED"] is Color.RED, len(Color)),
        ([c.value * x for c in Color], Color.RED == Color.GREEN, Color.RED in Color, {Color.RED: x}[Color.RED]),
        (Flag.RW.value, (Flag.R | Flag.W) is Flag.RW, Numbered.B + 1, Numbered.A < Numbered.B, Color.RED.describe()),
        isinstance(Color.RED, Color),
    )


def named_tuples(x):
    class P(typing.NamedTuple):
        """A pair."""

        a: int
        b: int = 2

        def total(self):
            return self.a + self.b

    p = P(x)
    a, b = p._replace(b=5)
    return p.total(), a, b, p == (x, 2), P._fields, P.__doc__, isinstance(p, tuple), p.a


def annotated(x):
    class A:
        a: int = 1
        b: "str"
        c: Outer

    return A.a, sorted(A.__annotations__), hasattr(A, "b")


def decorated(x):
    def register(cls):
        cls.registered = x
        return cls

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args):
            return ["called", function(*args)]

        return wrapper

    @register
    @functools.total_ordering
    class A:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

        @logged
        def get(self):
            return self.n

    return A.registered, A(1) <= A(2), A(3) >= A(4), A(x).get(), A.get.__name__


def generators(x):
    class Walk:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            self.at = 0
            return self

        def __next__(self):
            if self.at == self.n:
                raise StopIteration
            self.at += 1
            return self.at * x

        def pairs(self):
            for item in self:
                yield item, item + 1

    return list(Walk(3)), list(Walk(2).pairs()), sum(Walk(4))


def nested(x):
    class A:
        class B:
            value = x

            def get(self):
                return A.B.value + self.value

        other = B

    return A.B().get(), A.other is A.B, A.B.__qualname__, A().B().get()


def recursive(x):
    class Node:
        def __init__(self, value, *children):
            self.value = value
            self.children = children

        def total(self):
            return self.value + sum(child.total() for child in self.children)

        def grown(self):
            return Node(self.value + 1, *[child.grown() for child in self.children])

    return Node(x, Node(2), Node(3, Node(4))).grown().total()


def metaclass(x):
    class A(metaclass=Meta):
        value = x

    return A.value, A.added, A.keywords, type(A).__name__


def inner_metaclass(x):
    class M(type):
        def __call__(cls, *args):
            return super().__call__(*args), x

        @property
        def size(cls):
            return x

    class A(metaclass=M):
        pass

    return A()[1], A.size


def made_by_type(x):
    A = type("A", (Outer,), {"twice": lambda self: self.value * 2})
    return A(x).twice(), A(x).get(), A.__name__, A.__module__


def generic(x):
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, item: T):
            self.item = item

    return Box[int](x).item, Box(x).item


def class_getitem(x):
    class A:
        def __class_getitem__(cls, key):
            return key + x

    return A[1]


def slots_of_dataclass(x):
    @dataclasses.dataclass(slots=True)
    class A:
        a: int
        b: int = 2

    return A(x).b, A.__slots__, hasattr(A(x), "__dict__")


def typed_dict(x):
    class D(typing.TypedDict):
        a: int

    return D(a=x)


PROGRAMS = [
    plain, closures, names_of_the_body, derived, diamond, containers, special_methods, by_identity,
    two_of_one_name, in_a_loop, exceptions, descriptors, subclass_hooks, written, abstract, data_classes,
    enums, named_tuples, annotated, decorated, generators, nested, recursive,
    metaclass, inner_metaclass, made_by_type, generic, class_getitem, slots_of_dataclass, typed_dict,
]  # fmt: skip
