"""Details of classes that are made in captured code: programs for test_made_classes.py."""

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import types
import typing

log = []


class Registering:
    registered = {}  # noqa: RUF012

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        Registering.registered[cls.__name__] = 1


class Computed:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        return self if instance is None else self.function(instance)


def tagged(tag):
    def decorate(function):
        function.tag = tag
        return function

    return decorate


def own_descriptor_of_functions(x):
    class A:
        @Computed
        def p(self):
            return self.v + x

        @tagged("t")
        def q(self):
            return 1

        def __init__(self, v):
            self.v = v

    return A(x).p, A.q.tag, isinstance(A.p, Computed), A(1).q()


def methods_by_other_names(x):
    class A:
        def f(self):
            return 1

        g = f
        h = lambda self: 5

    A.f = lambda self: 2
    return A().f(), A().g(), A().h(), A.g is A.f


def cells_written_by_methods(x):
    def mk(n):
        class A:
            def get(self):
                return n * x

            def set(self, v):
                nonlocal n
                n = v

        return A

    A, B = mk(1), mk(2)
    a = A()
    a.set(7)
    return A().get(), B().get(), a.get()


def context_decorator(x):
    class Stack(contextlib.ContextDecorator):
        def __enter__(self):
            return self

        def __exit__(self, *a):
            return False

    @Stack()
    def f(y):
        return y + x

    return f(2)


def counted_in_new(x):
    class A:
        count = 0

        def __new__(cls, *a):
            cls.count += 1
            return super().__new__(cls)

        def __init__(self, *a):
            self.a = a

    A()
    A(1)
    return A.count, A(x).a


def singleton(x):
    class Single:
        _i = None

        def __new__(cls):
            if cls._i is None:
                cls._i = super().__new__(cls)
                cls._i.n = 0
            return cls._i

    Single().n += x
    Single().n += 1
    return Single().n, Single() is Single()


def own_getattr_and_setattr(x):
    class A:
        def __getattr__(self, n):
            if n.startswith("__"):
                raise AttributeError(n)
            return n * 2

        def __setattr__(self, n, v):
            object.__setattr__(self, n, v + 1)

    a = A()
    a.z = x
    return a.z, a.q, hasattr(a, "__foo__")


def raised_through_finally(x):
    class Err(Exception):
        pass

    def f():
        try:
            raise Err("a", x)
        finally:
            log.append(x)

    try:
        f()
    except Err as e:
        return e.args


def raised_from(x):
    class Err(Exception):
        pass

    try:
        try:
            raise KeyError(x)
        except KeyError as k:
            raise Err("b") from k
    except Err as e:
        return type(e.__cause__).__name__, e.__cause__.args


def list_of_the_class(x):
    class A:
        lst = []

        def add(self, v):
            self.lst.append(v)
            return self

    A().add(1)
    A().add(x)
    return A.lst


def swallowing_context(x):
    class A:
        def __enter__(self):
            return self

        def __exit__(self, t, v, tb):
            return t is ValueError

    with A():
        raise ValueError
    return x


def own_sequence(x):
    class A:
        def __iter__(self):
            return iter([1, x])

        def __len__(self):
            return 2

        def __getitem__(self, i):
            return i

    a, b = A()
    return a, b, list(A()), [*A()], len(A()), A()[3], dict(zip("ab", A()))


def matched(x):
    class A:
        __match_args__ = ("p", "q")

        def __init__(s, p, q):
            s.p = p
            s.q = q

    match A(1, x):
        case A(1, q):
            return q
        case _:
            return None


def data_class_details(x):
    @dataclasses.dataclass
    class A:
        a: int
        b: "list" = dataclasses.field(default_factory=lambda: [x])
        c: typing.ClassVar[int] = 3
        d: dataclasses.InitVar[int] = 4

        def __post_init__(self, d):
            self.e = d + x

    o = A(1)
    return dataclasses.asdict(o), o.e, A.c, dataclasses.astuple(A(2, [3]))


def enum_details(x):
    class E(enum.Enum):
        A = "a"
        B = "b"

        @property
        def up(self):
            return self.value.upper()

        @classmethod
        def default(cls):
            return cls.A

        @staticmethod
        def st():
            return 1

    return (
        E.A.up,
        E.default() is E.A,
        E.st(),
        [e.name for e in E],
        E("b").name,
        str(E.A),
        repr(E.B),
        E.A is E.A,
        E.__members__["A"] is E.A,
    )


def enum_of_text(x):
    class E(str, enum.Enum):
        A = "a"

    return E.A == "a", E.A.upper(), isinstance(E.A, str), f"{E.A.value}"


def int_flags(x):
    class E(enum.IntFlag):
        R = 4
        W = 2

    return int(E.R | E.W), (E.R | E.W) & E.R == E.R, bool(E(0))


def alias_of_enum(x):
    class E(enum.Enum):
        A = 1
        B = 1

    return E.A is E.B, len(E)


def no_member(x):
    class E(enum.Enum):
        A = 1

    try:
        E(5)
    except ValueError as e:
        return str(e)


def text_of_the_class(x):
    class A:
        pass

    return sorted([A.__name__, str(A)[:6], repr(A)[-5:]]), f"{A!r}"[-4:]


def annotations_and_hints(x):
    class A:
        x1: int = x
        y1: str

    return A.__annotations__, typing.get_type_hints(A)


def operators_of_a_metaclass(x):
    class Meta(type):
        def __iter__(cls):
            return iter([1, 2])

        def __len__(cls):
            return 5

        def __getitem__(cls, k):
            return k

        def __contains__(cls, k):
            return True

        def __instancecheck__(cls, o):
            return o == 3

        def __add__(cls, o):
            return x

        def __bool__(cls):
            return False

        def hello(cls):
            return cls.__name__

    class A(metaclass=Meta):
        pass

    return list(A), len(A), A["k"], 7 in A, isinstance(x, A), A + 1, bool(A), A.hello()


def attributes_of_bases(x):
    class A:
        a = 1

    class B(A):
        pass

    A.a = x
    r = B.a
    B.a = 9
    s = A.a
    del B.a
    return r, s, B.a


def super_without_the_method(x):
    class A:
        def f(self):
            return super().__init__()

        def g(self):
            return super().nope()

    try:
        A().g()
    except AttributeError as e:
        return str(e), A().f()


def own_mapping(x):
    class A(collections.abc.Mapping):
        def __init__(s):
            s.d = {"a": x}

        def __getitem__(s, k):
            return s.d[k]

        def __iter__(s):
            return iter(s.d)

        def __len__(s):
            return len(s.d)

    m = A()
    return m["a"], "a" in m, "b" in m, list(m.items()), m.get("c", 4), dict(m), m == {"a": x}


def subclasses_of_collections(x):
    class A(collections.OrderedDict):
        pass

    class D(collections.defaultdict):
        pass

    class Q(collections.deque):
        pass

    class S(set):
        pass

    class F(float):
        pass

    class St(str):
        def shout(self):
            return self.upper() + "!"

    d = D(list)
    d["a"].append(x)
    q = Q([1, 2])
    q.append(x)
    s = S([1])
    s.add(x)
    return list(A(a=1)), d["a"], list(q), sorted(s), F(1.5) + x, St("ab").shout()


def classes_in_classes(x):
    class A:
        class B:
            class C:
                z = x

        y = B.C

    return A.y.z, A.B.C.__qualname__


def error_in_the_body(x):
    try:

        class A:
            y = 1 / 0
    except ZeroDivisionError as e:
        return str(e)


def statements_in_the_body(x):
    class A:
        try:
            import json

            z = json.dumps([x])
        finally:
            w = 3
        with contextlib.suppress(KeyError):
            {}["a"]

        def f(self, d=w):
            return d

        c = [i for i in range(w if False else 3)]

    return A.z, A.w, A().f(), A.c


def global_in_the_body(x):
    global GG

    class A:
        global GG
        GG = x

    return GG


def class_in_a_method(x):
    class A:
        nonlocal_ = x

        def f(self):
            class B(A):
                def g(self):
                    return self.nonlocal_ + 1

            return B().g()

    return A().f()


def classes_by_type(x):
    A = type("A", (), {"f": lambda s: x, "k": [1]})
    B = type("B", (A,), dict(g=1))
    return A().f(), B().f(), B.g, B.__mro__[1] is A, A.__module__, B.k


def new_class(x):
    A = types.new_class("A", (), {}, lambda ns: ns.update(k=x))
    return A.k


def make_dataclass(x):
    C = dataclasses.make_dataclass("C", [("a", int), ("b", int, 3)])
    return C(x).b


def numbers_of_its_own(x):
    class A:
        def __format__(self, s):
            return s + "!"

        def __index__(self):
            return 2

        def __float__(self):
            return 1.5

        def __int__(self):
            return 7

        def __neg__(self):
            return -x

        def __matmul__(self, o):
            return x

        def __iadd__(self, o):
            return o

        def __missing__(self, o):
            return o

        def __reversed__(self):
            return iter([3])

        def __round__(self, n=0):
            return 5

        def __abs__(self):
            return 6

        def __divmod__(self, o):
            return 1, 2

    a = A()
    b = A()
    b += 4
    return f"{a:>3}", [1, 2, 3][a], float(a), int(a), -a, a @ 1, b, list(reversed(a)), round(a), abs(a), divmod(a, 2)


def order_of_set_name(x):
    log = []

    class D:
        def __set_name__(self, o, n):
            log.append((o.__name__, n, hasattr(o, "b")))
            o.extra = x

    class A:
        a = D()
        b = D()

    return log, A.extra


def name_from_around(x):
    class A:
        x = x

    return A.x


def errors_of_attributes(x):
    class A:
        pass

    a = A()
    a.__class__ = A
    a.b = x
    del a.b
    try:
        a.b
    except AttributeError as e:
        m = str(e)
    try:
        A.zz
    except AttributeError as e:
        n = str(e)
    try:
        A(1)
    except TypeError as e:
        o = str(e)
    return m, n, o


def own_hash(x):
    class A:
        def __init__(self, y):
            self.y = y

        def __eq__(self, o):
            return isinstance(o, A) and o.y == self.y

        def __hash__(self):
            return hash(self.y)

    return A(1) == A(1), A(1) != A(2), A(1) in [A(2), A(1)], len({A(1): 1, A(1): 2})


def registered_by_a_base(x):
    class A(Registering):
        pass

    r = dict(Registering.registered)
    Registering.registered.clear()
    return r


def cached_method(x):
    class A:
        @functools.lru_cache
        def f(self, y):
            return y * 2

    return A().f(x)


def partial_method(x):
    class A:
        def m(self, y):
            return y + x

        pm = functools.partialmethod(m, 5)

    return A().pm()


def enum_with_a_name_twice(x):
    try:

        class E(enum.Enum):
            A = 1
            A = 2
    except TypeError as e:
        return str(e)


def enum_of_lists(x):
    class E(enum.Enum):
        A = [x]

    return E.A.value


def enum_that_names_its_values(x):
    class E(enum.Enum):
        A = enum.auto()
        B = enum.auto()

        def _generate_next_value_(name, start, count, last):
            return name + str(x)

    return E.A.value, E.B.value


def own_repr(x):
    class A:
        def __repr__(self):
            return "A!"

    return str([A(), A()]), f"{A()}", "%s" % A(), repr({1: A()})


def instance_of_an_abstract_class(x):
    class A(object, metaclass=abc.ABCMeta):
        @abc.abstractmethod
        def f(self):
            pass

    try:
        A()
    except TypeError as e:
        return str(e)


def same_name_twice(x):
    def outer():
        class A:
            def me(self):
                return type(self)

        return A

    A = outer()
    B = outer()
    return A().me() is A, A().me() is B, A is B, A == B, hash(A) == hash(A)


def functional_enum(x):
    E = enum.Enum("E", "A B")
    return E.A.value, E.B.value


def functional_named_tuple(x):
    P = typing.NamedTuple("P", [("a", int), ("b", int)])
    return P(x, 1).b


def slots(x):
    class A:
        __slots__ = ("a", "__dict__")

    class B:
        __slots__ = ("a",)

    b = B()
    try:
        b.c = 1
    except AttributeError as e:
        m = str(e)
    try:
        b.a
    except AttributeError as e:
        n = str(e)
    b.a = x
    a = A()
    a.q = 2
    a.a = 1
    return m, n, b.a, a.q, vars(a)


def error_of_set_name(x):
    class D:
        def __set_name__(self, o, n):
            raise KeyError(n)

    try:

        class A:
            a = D()
    except Exception as e:
        return type(e).__name__, str(e)


class Documented(type):
    def __new__(metaclass, name, bases, names):
        names.setdefault("__doc__", name)
        return type.__new__(metaclass, name, bases, names)


def mro_that_disappears(x):
    class B:
        pass

    class M(Documented):
        def mro(cls):
            del M.mro
            return (B,)

    try:

        class A(metaclass=M):
            pass
    except TypeError as e:
        return str(e), "mro" in vars(M), x


def derived_while_it_is_made(x):
    errors = []

    class M(Documented):
        def mro(cls):
            if cls.__mro__ is None and cls.__name__ != "X":
                try:

                    class X(cls):
                        pass
                except TypeError as e:
                    errors.append(str(e))
            return type.mro(cls)

    class A(metaclass=M):
        pass

    return errors, len(A.__mro__), A.__doc__, x


def super_while_it_is_made(x):
    errors = []

    class M(type):
        def mro(cls):
            if cls.__mro__ is None:
                try:
                    super(cls, cls).xxx
                except AttributeError as e:
                    errors.append(str(e))
            return type.mro(cls)

    class A(metaclass=M):
        pass

    return errors, len(A.__mro__), x


def bases_that_change(x):
    class C:
        pass

    class C2:
        def meth(self):
            return x

    class D(C):
        pass

    d = D()
    D.__bases__ = (C,)
    D.__bases__ = (C2,)
    return d.meth(), [cls.__name__ for cls in C2.__subclasses__()], C.__subclasses__()


def names_that_change(x):
    class A:
        pass

    A.__name__, A.__qualname__, A.__module__ = "B", "C.B", "of"
    errors = []
    for name, value in [("__name__", x), ("__bases__", A), ("__doc__", x)]:
        try:
            setattr(A, name, value)
        except TypeError as e:
            errors.append(str(e))
    return errors, A.__name__, A.__doc__, repr(A())[:6]


def definitions_with_wrong_arguments(x):
    errors = []
    for make in (lambda: classmethod(str, kw=x), lambda: staticmethod(), lambda: property(1, 2, 3, 4, x)):
        try:
            make()
        except TypeError as e:
            errors.append(str(e))
    return errors


def enum_with_an_unknown_keyword(x):
    class Own(enum.Enum):
        B = 2

    try:
        Own([x], extra=x)
    except (TypeError, ValueError) as e:
        return type(e).__name__, str(e)


class CountedMro(type):
    def __new__(metaclass, name, bases, names):
        metaclass.flag = 0
        return super(CountedMro, metaclass).__new__(metaclass, name, bases, names)

    def mro(cls):
        if cls.flag > 0:
            raise RuntimeError("again")
        cls.flag += 1
        return type.mro(cls)


def attribute_of_a_class_that_is_being_made(x):
    class D:
        pass

    class F(D, metaclass=CountedMro):
        pass

    return F.flag, len(F.__mro__), x


IN_ONE_GRAPH = [
    own_descriptor_of_functions, methods_by_other_names, cells_written_by_methods, context_decorator, counted_in_new,
    singleton, own_getattr_and_setattr, raised_through_finally, raised_from, list_of_the_class,
    swallowing_context, own_sequence, matched, data_class_details, enum_details,
    enum_of_text, int_flags, alias_of_enum, no_member, text_of_the_class,
    annotations_and_hints, operators_of_a_metaclass, attributes_of_bases, super_without_the_method, own_mapping,
    classes_in_classes, error_in_the_body, statements_in_the_body, global_in_the_body,
    class_in_a_method, classes_by_type, new_class, numbers_of_its_own,
    order_of_set_name,
]  # fmt: skip
WITH_BREAKS = [
    make_dataclass, subclasses_of_collections, name_from_around,
    errors_of_attributes, own_hash, registered_by_a_base, cached_method, partial_method,
    enum_with_a_name_twice, enum_of_lists, enum_that_names_its_values, own_repr, instance_of_an_abstract_class,
    same_name_twice, functional_enum, functional_named_tuple, slots, error_of_set_name,
    mro_that_disappears, derived_while_it_is_made, super_while_it_is_made,
    bases_that_change, enum_with_an_unknown_keyword, attribute_of_a_class_that_is_being_made, names_that_change, definitions_with_wrong_arguments,
]  # fmt: skip
