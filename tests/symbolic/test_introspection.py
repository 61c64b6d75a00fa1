"""What programs ask of functions and objects (inspect), and texts of data (json), while they are captured."""

from __future__ import annotations

import functools
import inspect
import json

import pytest
from values_check import check


def known(a, b=2, *rest, c=3, **more):
    return a


class Known:
    def method(self, x, y=1):
        return x


def kinds():
    objects = [known, Known, Known().method, inspect, 3, (i for i in ())]
    tests = [inspect.isfunction, inspect.isclass, inspect.ismethod, inspect.isbuiltin, inspect.ismodule]
    flags = [inspect.isgeneratorfunction(known), inspect.iscoroutinefunction(Known.method)]
    return [[test(object) for test in tests] for object in objects[:-1]], inspect.isgenerator(objects[-1]), flags


def of_known_functions():
    signature = inspect.signature(known)
    bound = signature.bind(1, 5, 6, c=7, d=8)
    return list(signature.parameters), signature.parameters["c"].default, bound.args, bound.kwargs


def of_made_functions():
    scale = 3

    def made(x, /, y, *, z=(1, "a"), **others):
        return x * scale

    parameters = inspect.signature(made).parameters
    bound = inspect.signature(lambda a, b=2: a).bind(1)
    bound.apply_defaults()
    return [(p.name, str(p.kind), p.default is p.empty) for p in parameters.values()], bound.arguments


def of_wrapped_functions():
    @functools.wraps(known)
    def wrapper(*args):
        return known(*args)

    return list(inspect.signature(wrapper).parameters)


def texts():
    data = {"a": [1, 2.5, None, True], "b": {"c": "é", "d": ()}}
    return json.dumps(data), json.dumps(data, indent=2, sort_keys=True), json.dumps("x", ensure_ascii=False)


def read_texts():
    one, other = json.loads('{"a": [1, {"b": null}]}'), json.loads('{"a": [1, {"b": null}]}')
    one["a"].append(2)
    return one, other, json.loads("1e3"), json.loads(b"[]")


def refused_texts():
    found = []
    for text in ("{", "[1,]"):
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            found.append((str(error), error.pos))
    return found


@pytest.mark.parametrize("fn", [kinds, of_known_functions, of_made_functions, texts])
def test_in_one_graph(fn):
    check(fn)


@pytest.mark.parametrize("fn", [of_wrapped_functions, read_texts, refused_texts])
def test_or_in_python(fn):
    check(fn, breaks=None)


class Base:
    shared = 1

    def method(self):
        pass


class Named(Base):
    __slots__ = ("one",)

    def __init__(self):
        self.one, self.two = 1, 2


class Lists(Named):
    def __dir__(self):
        return ["b", "a"]


class Callable:
    def __call__(self, a, b=2, *, c=3):
        return a


kept = Named()
kept.three = 3


def directories(x):
    made = Named()
    made.four = 4
    del made.two
    return dir(made), dir(kept), dir(Named), dir(Lists()), [n for n in dir(made) if not n.startswith("_")]


def of_instances(x):
    signature = inspect.signature(Callable())
    return (
        list(signature.parameters),
        signature.parameters["b"].default,
        list(inspect.signature(kept.method).parameters),
    )


@pytest.mark.parametrize("fn", [directories, of_instances])
def test_names_and_parameters_of_instances(fn):
    check(fn, (1,))


class OwnClass:
    __slots__ = ["__class__", "__dict__"]

    def __init__(self):
        self.bar = 1


class OwnDict:
    @property
    def __dict__(self):
        return {"shown": 1}


class Watched:
    def __getattribute__(self, name):
        return {"of": 1} if name == "__dict__" else object.__getattribute__(self, name)


@pytest.mark.parametrize("cls", [OwnClass, OwnDict, Watched])
def test_names_of_what_has_parts_of_its_own(cls):
    """object.__dir__ asks the instance for its class and its dict."""
    check(lambda: dir(cls()), breaks=None)
    check(lambda x: dir(x), (cls(),), breaks=None)


def test_names_that_change():
    def names(x):
        return [name for name in dir(x) if not name.startswith("_")]

    first, second = Named(), Named()
    second.other = 1
    check(names, (first,), (second,), (Base(),), (first,))


def test_a_hook_of_the_programs_is_called_in_its_turn():
    log = []

    def program(x):
        text = json.dumps({"x": {x}}, default=lambda value: log.append(value) or sorted(value))
        return text, json.loads("[1.5]", parse_float=lambda text: log.append(text) or text)

    check(program, (3,), breaks=None)
    assert log == [{3}, "1.5"] * 4
