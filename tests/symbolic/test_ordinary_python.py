"""What programs write around tensors with the standard library: json, streams, warnings, formats, annotations, ids."""

from __future__ import annotations

import array
import ast
import base64
import collections
import contextlib
import csv
import dataclasses
import decimal
import enum
import functools
import hashlib
import inspect
import io
import itertools
import json
import operator
import os
import pprint
import string
import struct
import sys
import traceback
import typing
import warnings

import pytest
from values_check import canonical, check

import cdynamo

torch = pytest.importorskip("torch")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Part:
    a: int
    b: float = 2.5


class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, set):
            return sorted(o)
        return dataclasses.asdict(o) if dataclasses.is_dataclass(o) else super().default(o)


# ---- json


def json_of_the_program_s(n):
    asked = []

    def default(o):
        asked.append(type(o).__name__)
        return sorted(o) if isinstance(o, set) else str(o)

    value = {
        "b": Part(n),
        "a": {3, 1},
        "n": None,
        "l": [1, 2.5, True, []],
        "t": (),
        "d": {7: 2, None: 3, True: 4, 2.5: 5},
    }
    return (
        json.dumps(value, cls=Encoder, indent=2),
        json.dumps({**value, "d": {}}, cls=Encoder, sort_keys=True, separators=(",", ":")),
        json.dumps({"x": {1}, "y": Part(1), "é": "\n"}, default=default, ensure_ascii=False, indent="--"),
        asked,
        json.dumps([Level.HIGH, {Level.LOW: 1}, float("inf"), -0.5, 1e30]),
        list(Encoder().iterencode([value, {}])),
    )


def json_errors(n):
    texts = []
    for value, options in [
        ({"a": object}, {}),
        ({(1, 2): 3}, {}),
        ([float("nan")], {"allow_nan": False}),
        ({"k": Part(n)}, {"cls": Encoder, "default": None}),
        ({(1, 2): 3, "b": 1}, {"skipkeys": True}),
    ]:
        try:
            texts.append(json.dumps(value, **options))
        except (TypeError, ValueError) as error:
            texts.append((type(error).__name__, str(error)))
    for text in ("{bad", '{"a": 1,}', "", "[1] 2"):
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            texts.append((str(error), error.pos, error.lineno, error.colno, error.msg, error.doc))
    return texts


def json_with_hooks(n):
    seen = []

    def hook(pairs):
        seen.append([key for key, _ in pairs])
        return dict(pairs, n=n)

    return (
        json.loads('{"a": 1, "b": {"c": [2, {}]}}', object_pairs_hook=hook),
        json.loads('[1.5, 2, "x"]', parse_float=lambda text: ("float", text), parse_int=str),
        json.loads('{"b": {"c": 1}}', object_hook=lambda d: sorted(d)),
        seen,
    )


def json_in_streams(n):
    stream = io.StringIO()
    json.dump({"a": [1, {"b": n}], "s": "x"}, stream, indent=1)
    stream.seek(0)
    return json.load(stream), stream.getvalue()


# ---- streams and texts


def redirected(n):
    stream, other = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stream):
        print("hello", n)
        with contextlib.redirect_stdout(other), contextlib.redirect_stderr(stream):
            print(1, 2, sep="-", end="!")
            sys.stdout.write("written")
            print("error", file=sys.stderr)
        print("again")
    print("outside", n)
    return stream.getvalue(), other.getvalue(), sys.stdout is stream


def formats(n):
    return (
        string.Formatter().format("{0} {a:>4} {b[k]} {1!r}", n, "x", a=2, b={"k": 3}),
        pprint.pformat({"b": [1, 2], "a": {"c": (1,)}}, width=10),
        pprint.pformat(list(range(40)), width=40, compact=True),
        ast.literal_eval("[1, {'a': (2, None)}]"),
        os.path.normpath("a/../b//c"),
    )


def pretty_printed(n):
    stream = io.StringIO()
    pprint.pprint({"b": n, "a": [1, 2]})
    pprint.pprint([1, {"z": 2}], stream, width=5)
    return stream.getvalue()


def bytes_and_hashes(n):
    pair = struct.Struct(">hh")
    return (
        pair.pack(1, 2),
        pair.unpack(b"\0\1\0\2"),
        pair.size,
        hashlib.blake2b(b"a", digest_size=8).hexdigest(),
        hashlib.blake2s(b"key").hexdigest(),
        base64.b85encode(b"abcd"),
    )


def exception_texts(n):
    texts = []
    for text in ("z", "1"):
        try:
            try:
                int(text), {}[text]
            except ValueError as error:
                error.add_note("first\nsecond")
                raise
        except Exception as error:
            texts += [traceback.format_exception_only(error), traceback.format_exception_only(type(error), error)]
    return texts


# ---- csv, arrays, bytes


def csv_rows(n):
    stream = io.StringIO('a,"b\nc",d\n1,2,3\n"x ""y""",,z')
    reader, rows, errors = csv.reader(stream), [], []
    for row in reader:
        rows.append((reader.line_num, row))
        row.append("more")
    out = io.StringIO()
    written = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow([1, None, "a,b", 2.5, True])
    csv.writer(out, "excel-tab").writerows([(1, n), "ab"])
    csv.writer(out, delimiter="|", quotechar="'").writerow(["a|b", torch.float32])
    for fails in (
        lambda: csv.writer(out, bogus=1),
        lambda: csv.writer(out, delimiter="ab"),
        lambda: csv.writer(out, quoting=csv.QUOTE_NONE).writerow(["a,b"]),
        lambda: csv.DictWriter(out, ["a"]).writerow({"z": 1}),
    ):
        try:
            fails()
        except (TypeError, ValueError, csv.Error) as error:
            errors.append(str(error))
    table = csv.DictWriter(out, ["a", "b"], restval="?")
    table.writeheader()
    table.writerows([{"a": 1}, {"b": 2, "a": 3}])
    records = list(csv.DictReader(io.StringIO("h1,h2\n1,2\n3\n4,5,6\n"), restval="-"))
    return rows, out.getvalue(), written, errors, records, list(csv.reader(["a 'b c'"], quotechar="'", delimiter=" "))


def csv_reads_lines_where_it_is_asked(n):
    order = []

    def lines():
        for i in range(n):
            order.append(i)
            yield f"{i},{i * i}"

    reader = csv.reader(lines())
    first = next(reader)
    order.append("between")
    return first, list(reader), order


def arrays(n):
    numbers = array.array("d", [1.5, 2, n])
    other, texts = array.array("d", numbers), []
    other.append(3)
    numbers += other
    numbers[1:2] = array.array("d", [9.0, 8.0])
    del numbers[0]
    iterator = iter(other)
    first = next(iterator)
    for fails in (lambda: numbers.append("x"), lambda: hash(numbers), lambda: numbers[100]):
        try:
            fails()
        except (TypeError, IndexError) as error:
            texts.append(str(error))
    return (
        (numbers.tolist(), (numbers * 2).tolist(), numbers == other, other[::-1].tolist(), 3.0 in other, max(other)),
        (first, [*iterator], other.count(3.0), numbers.pop(), len(numbers), bool(array.array("i")), other.typecode),
        (sorted(numbers), [v for v in numbers], repr(other), array.array("B", b"ab").tobytes(), texts),
    )


def arrays_that_leave(n):
    numbers = array.array("i", [n])
    holds = {"numbers": numbers}
    numbers.append(2)
    return numbers, holds["numbers"], array.array("u", "abc"), array.array("f")


def packed_bytes(n):
    buffer, errors = bytearray(6), []
    struct.pack_into("<HH", buffer, 1, 258, n)
    struct.pack_into("<B", buffer, -1, 255)
    for form, offset, value in (("<I", 5, 1), ("<B", 0, 300), ("<B", -7, 1)):
        try:
            struct.pack_into(form, buffer, offset, value)
        except struct.error as error:
            errors.append(str(error))
    return buffer, [value for (value,) in struct.iter_unpack("<H", buffer)], errors


# ---- classes, functions, annotations


class Hinted:
    a: int
    b: list[str] = None
    c: typing.Optional[Part] = None  # noqa: UP045

    def method(self, x: Level, y: torch.Tensor = None) -> Hinted: ...


def hints(n):
    of_class, of_method = typing.get_type_hints(Hinted), typing.get_type_hints(Hinted.method)
    of_class["new"] = n
    return (
        list(of_class),
        of_class["a"] is int,
        typing.get_origin(of_class["b"]),
        typing.get_args(of_class["c"])[0] is Part,
        of_method["x"] is Level,
        of_method["return"] is Hinted,
        len(typing.get_type_hints(Hinted)),
    )


def argument_specs(n):
    def function(a, b=2, *args, c, d=4, **kw):
        return a

    spec = inspect.getfullargspec(function)
    spec.args.append("e")
    return spec.args, spec.kwonlydefaults, spec.varargs, spec.varkw, inspect.getfullargspec(function).args


class Greets:
    def greet(self, word, name="x", *, mark="!"):
        return f"{word} {name}{mark}{self.suffix}"

    hello = functools.partialmethod(greet, "hello", mark="?")
    suffix = "."


def partial_methods(n):
    class Made(Greets):
        bye = functools.partialmethod(Greets.greet, "bye")

    return Greets().hello("a"), Made().bye("b"), Made().hello(name="c"), Made().bye.func.__name__


def made_registrations(n):
    class Handler:
        @functools.singledispatchmethod
        def handle(self, value):
            return "other"

        @handle.register
        def _(self, value: int):
            return value + 1

        @handle.register
        def _(self, value: str):
            return len(value)

    handler = Handler()
    return handler.handle(n), handler.handle("abc"), handler.handle(1.5)


class Ordered(type):
    @classmethod
    def __prepare__(mcs, name, bases, **options):
        return {"scale": 1, **options}

    def __new__(mcs, name, bases, names, **options):
        return super().__new__(mcs, name, bases, {**names, "order": [key for key in names if key[0] != "_"]})

    def __init__(cls, name, bases, names, **options):
        super().__init__(name, bases, names)


def prepared_namespaces(n):
    class Config(metaclass=Ordered, factor=3):
        a = 1
        b = scale + factor  # noqa: F821

        def run(self, x):
            return x * self.a + self.b

    return Config().run(n), Config.order, Config.factor


def made_enums(n):
    letters = enum.Enum("letters", "A B C")
    numbers = enum.IntEnum("numbers", {"P": 3, "Q": 4})
    access = enum.Flag("access", ["R", "W"])
    return (
        letters.B.value,
        [member.name for member in letters],
        numbers.Q + n,
        (access.R | access.W).value,
        letters("B" and 2) is letters.B,
        letters.__name__,
        letters.__module__,
    )


def abstract_registrations(n):
    import abc

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square:
        def area(self):
            return n * n

    before = isinstance(Square(), Shape)
    decorated = Shape.register(Square)
    return before, isinstance(Square(), Shape), issubclass(Square, Shape), decorated is Square, issubclass(int, Shape)


def made_annotations(n):
    def function(a: int, b: str = "q", *, c: Level = None) -> float: ...

    function.__annotations__["d"] = "bool"
    return (
        list(function.__annotations__),
        typing.get_type_hints(function),
        str(inspect.signature(function)),
        inspect.signature(function).parameters["c"].annotation,
        function.__annotations__ is function.__annotations__,
    )


def operators_in_place(n):
    numbers = [1]
    same = operator.imul(operator.iadd(numbers, [n]), 2)
    return (
        [operator.ifloordiv(7, n), operator.imod(7, 4), operator.ipow(n, 3), operator.ilshift(1, n)],
        operator.irshift(8, n),
        same is numbers,
        numbers,
    )


def lengths(n):
    texts = []
    for value in (map(str, [1]), (i for i in range(n)), itertools.chain([1]), 5, iter([1]), Part(1)):
        try:
            len(value)
        except TypeError as error:
            texts.append(str(error))
    return texts


def batches(n):
    if sys.version_info < (3, 12):
        return None
    rest = itertools.batched(range(7), 3)
    next(rest)
    try:
        itertools.batched([], 0)
    except ValueError as error:
        text = str(error)
    return list(itertools.batched("abcde", n)), list(rest), text


PROGRAMS = [
    json_of_the_program_s,
    json_errors,
    json_with_hooks,
    json_in_streams,
    redirected,
    formats,
    pretty_printed,
    bytes_and_hashes,
    csv_rows,
    csv_reads_lines_where_it_is_asked,
    arrays,
    packed_bytes,
    exception_texts,
    hints,
    argument_specs,
    partial_methods,
    made_registrations,
    prepared_namespaces,
    made_enums,
    abstract_registrations,
    made_annotations,
    operators_in_place,
    lengths,
    batches,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program, capsys):
    check(program, (2,), (3,))
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[0::2]) == sorted(lines[1::2]) or lines[: len(lines) // 2] == lines[len(lines) // 2 :]


def test_arrays_that_leave():
    compiled = cdynamo.optimize(arrays_that_leave, fullgraph=True)
    for n in (1, 2):
        got, expected = compiled(n), arrays_that_leave(n)
        assert got == expected and got[0] is got[1] and compiled(n)[0] is not got[0]
        assert [item.typecode for item in got] == [item.typecode for item in expected]


def test_warnings_that_are_instances():
    class Special(UserWarning):
        def __init__(self, code, text):
            super().__init__(text)
            self.code = code

    def program(x):
        warnings.warn(Special(3, "special"))
        warnings.warn(UserWarning("plain"), stacklevel=1)
        with warnings.catch_warnings(record=True) as inner:
            warnings.simplefilter("always")
            warnings.warn(Special(x, "kept"), RuntimeWarning)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                warnings.warn(Special(5, "raised"))
            except Special as error:
                raised = error.code, str(error)
        return [(str(w.message), w.message.code, w.category.__name__) for w in inner], raised

    compiled = cdynamo.optimize(program, fullgraph=True)
    outcomes = []
    for call in (program, compiled, compiled):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call(1)
        shown = [(str(w.message), w.category.__name__, getattr(w.message, "code", None), w.lineno) for w in caught]
        outcomes.append((result, shown))
    assert outcomes[1] == outcomes[0] and outcomes[2] == outcomes[0]


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.second.weight = self.first.weight

    def forward(self, x):
        seen, count = set(), 0
        for module in (self.first, self.second):
            for parameter in module.parameters():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    count += parameter.numel()
        names = {id(parameter): name for name, parameter in self.named_parameters()}
        return x * count, names[id(self.second.weight)], len(names)


def test_ids_of_parameters():
    model = Tied()
    compiled = cdynamo.optimize(model, fullgraph=True)
    for _ in range(2):
        got, expected = compiled(torch.ones(2)), model(torch.ones(2))
        assert torch.equal(got[0], expected[0]) and got[1:] == expected[1:] == ("first.weight", 3)
    model.second.weight = torch.nn.Parameter(torch.ones(2, 2))
    got, expected = compiled(torch.ones(2)), model(torch.ones(2))
    assert torch.equal(got[0], expected[0]) and got[1:] == expected[1:] == ("second.weight", 4)


def test_the_context_of_decimals_is_guarded():
    def program(n):
        third = decimal.Decimal(1) / n
        return third, f"{decimal.Decimal('2.345'):.2f}", round(decimal.Decimal("2.5"), 0)

    compiled = cdynamo.optimize(program, fullgraph=True)
    for precision, rounding in ((28, decimal.ROUND_HALF_EVEN), (5, decimal.ROUND_UP), (28, decimal.ROUND_DOWN)):
        with decimal.localcontext() as context:
            context.prec, context.rounding = precision, rounding
            for _ in range(2):
                assert canonical(repr(compiled(3))) == canonical(repr(program(3)))


class Counted(enum.Enum):
    ONE = 1


def defaults(a, b=1, *, c=2):
    return a


class Annotated:
    first: "int"  # noqa: UP037


def read_hits(n):
    return Counted.ONE.hits + n, Counted.ONE.name


def read_parameters(n):
    spec = inspect.getfullargspec(defaults)
    return (
        str(inspect.signature(defaults)),
        spec.defaults,
        spec.kwonlydefaults,
        list(inspect.signature(defaults).parameters),
    )


def read_hints(n):
    return list(typing.get_type_hints(Annotated).items())


@pytest.mark.parametrize("program", [read_hits, read_parameters, read_hints])
def test_what_programs_look_at_may_change(program):
    compiled = cdynamo.optimize(program, fullgraph=True)
    try:
        for turn in range(4):
            Counted.ONE.hits = turn
            defaults.__defaults__, defaults.__kwdefaults__["c"] = (turn,), turn + 5
            Annotated.__annotations__[f"added{turn}"] = "float"
            for _ in range(2):
                assert compiled(1) == program(1)
    finally:
        Annotated.__annotations__ = {"first": "int"}


RECENT = collections.OrderedDict(a=1, b=2, c=3)


class Least(collections.OrderedDict):
    def __getitem__(self, key):
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value


LEAST = Least(a=1, b=2, c=3)


def orders(n):
    first = next(iter(RECENT))
    RECENT.move_to_end(first)
    RECENT["new"] = LEAST[next(iter(LEAST))]
    if len(RECENT) > 3:
        RECENT.popitem(last=False)
    return first, list(RECENT), list(RECENT.items()), list(reversed(RECENT)), list(LEAST.values())


def test_the_order_of_ordered_dicts_that_come_in():
    def run(function):
        RECENT.clear(), RECENT.update(a=1, b=2, c=3), LEAST.clear(), LEAST.update(a=1, b=2, c=3)
        seen = []
        for turn in range(6):
            RECENT.move_to_end(list(RECENT)[turn % 3])
            seen.append((function(1), list(RECENT.items()), list(LEAST)))
        return seen

    cdynamo.config.keep_empty_graphs = True
    assert run(cdynamo.optimize(orders)) == run(orders)


class Lenient(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        if isinstance(value, str) and value in ACCEPTED:
            return cls.ONE
        return None


ACCEPTED = ["one"]


def test_missing_members_are_asked_for_in_each_call():
    def program(text):
        found = []
        for value in (text, 1, Lenient.ONE, 5, "never"):
            try:
                found.append(Lenient(value))
            except ValueError as error:
                found.append(str(error))
        return found

    compiled = cdynamo.optimize(program, fullgraph=True)
    for accepted in (["one"], ["two"], ["one", "two"]):
        ACCEPTED[:] = accepted
        for text in ("one", "two"):
            assert compiled(text) == program(text)


def test_signatures_follow_what_wraps_says():
    def wrapped(a, b): ...

    @functools.wraps(wrapped)
    def wrapper(*args): ...

    def program(n):
        return list(inspect.signature(wrapper).parameters)

    compiled = cdynamo.optimize(program, fullgraph=True)
    assert compiled(1) == ["a", "b"]
    del wrapper.__wrapped__
    assert compiled(1) == ["args"]
    wrapper.__signature__ = inspect.signature(lambda x: x)
    assert compiled(1) == ["x"]


def test_dialects_of_the_program_s_are_read_in_each_call():
    class Own(csv.excel):
        delimiter = ";"

    def program(n):
        return next(csv.reader(["a;b|c"], Own)), n

    compiled = cdynamo.optimize(program)
    for delimiter in ";|":
        Own.delimiter = delimiter
        assert compiled(1) == program(1)


def test_the_class_of_a_generator():
    def program(n):
        return (i for i in range(n)).__class__.__name__

    check(program, (2,))


def test_what_annotations_name_is_guarded():
    namespace = {"Value": int}
    exec("class Config:\n    x: 'Value'", namespace)
    module = type(sys)("annotated_here")
    vars(module).update(Value=int)
    sys.modules["annotated_here"] = module
    cls = namespace["Config"]
    cls.__module__ = "annotated_here"

    def program(n):
        return typing.get_type_hints(cls)["x"](n)

    try:
        compiled = cdynamo.optimize(program, fullgraph=True)
        assert compiled(2) == 2
        module.Value = str
        assert compiled(2) == program(2) == "2"
    finally:
        del sys.modules["annotated_here"]
