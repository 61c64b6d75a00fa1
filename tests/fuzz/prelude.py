"""What every program of the fuzzer imports: classes to use, managers to enter, functions to call, and what breaks graphs."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import sys
import types
import typing
import weakref

import numpy as np

import cdynamo

try:
    import torch
except ImportError:
    torch = None

__all__ = [
    "BREAKER", "Broken", "Color", "Item", "Managed", "Pair", "Record", "apply", "cdynamo", "collections", "contextlib", "dataclasses", "decorated", "enum",
    "fails", "functools", "gives_back", "itertools", "left_alone", "managed", "marked", "math", "np", "operator", "steps", "sys", "torch", "twice", "types", "typing", "weakref",
    *(["Bent", "Net", "Scale"] if torch else []),
]  # fmt: skip


class Broken(ValueError):
    """An exception of the programs' own."""

    def __init__(self, *args, extra=0):
        super().__init__(*args)
        self.extra = extra


class Item:
    kind = "item"

    def __init__(self, v=0):
        self.v = v

    def __repr__(self):  # without an address: programs sort by it, and take it apart
        return f"<Item of {type(self.v).__name__}>"

    def bump(self, by=1):
        self.v = self.v + by if isinstance(self.v, int) else by
        return self.v

    def each(self, *values, **named):
        for value in values:
            yield value, self.v
        yield from named.items()

    @property
    def double(self):
        return (self.v, self.v)

    @double.setter
    def double(self, value):
        print("double", end=";")
        self.v = value

    @classmethod
    def make(cls, *args):
        return cls(args)

    def __eq__(self, other):
        if not isinstance(other, Item):
            return False
        is_plain = type(self.v) is type(other.v) and type(self.v) in (int, float, complex, str, bytes)
        return self.v == other.v if is_plain else self.v is other.v  # numbers and text have no identity

    def __hash__(self):
        return 7

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return (i, self.kind)

    def __add__(self, other):
        return Item((self.v, other))

    def __call__(self, *args):
        print("called", len(args), end=";")
        return args[::-1]


@dataclasses.dataclass
class Record:
    n: int
    values: list = dataclasses.field(default_factory=list)

    def add(self, value):
        self.values.append(value)
        self.n += 1
        return self


if torch:

    class Bent(torch.autograd.Function):
        """With a derivative that is not its own."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output)

        @staticmethod
        def backward(ctx, gradient):
            x, output = ctx.saved_tensors
            return gradient * (x - 1) + output

    class Scale(torch.nn.Module):
        """What it multiplies by may be a number or a tensor."""

        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, x):
            return x * self.by

    class Net(torch.nn.Module):
        """A parameter, a buffer, layers in a list, and numbers that each call looks at or changes."""

        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            with torch.no_grad():
                self.linear.weight.copy_(torch.arange(9.0).reshape(3, 3) / 9 - 0.5)
                self.linear.bias.fill_(0.25)
            self.layers = torch.nn.ModuleList([Scale(2), Scale(torch.nn.Parameter(torch.ones(3) / 2))])
            self.norm = torch.nn.InstanceNorm1d(3, eps=1.0, track_running_stats=True)
            self.register_buffer("seen", torch.zeros(()))
            self.scale, self.calls = 2, 0

        def forward(self, x, by=1):
            self.calls += 1
            if self.training:
                self.seen += 1
            x = self.linear(x) * by
            for layer in self.layers:
                x = layer(x).tanh()
            return x * self.scale if self.calls % 3 else x


Pair = collections.namedtuple("Pair", "left right")


class Color(enum.IntEnum):
    RED = 0
    GREEN = 1
    BLUE = 2


class Managed:
    """Tells when it is entered and left; may swallow exceptions, or break the graph."""

    def __init__(self, log, swallow=False, tell=False):
        self.log, self.swallow, self.tell = log, swallow, tell

    def __enter__(self):
        self.log.append("enter")
        if self.tell:
            print("enter", end=";")
        return self

    def __exit__(self, kind, value, traceback):
        if self.tell:
            print("exit", end=";")
        self.log.append(("exit", kind and kind.__name__))
        return self.swallow


@contextlib.contextmanager
def managed(log, tell=False):
    log.append("in")
    try:
        if tell:
            print("in", end=";")
        yield len(log)
    except KeyError as error:
        log.append(("key", len(error.args)))
        # Since 3.12 contextlib keeps the error in a cycle, and by it the caller's variables until there is a collection.
        error.__traceback__ = None
    finally:
        log.append("out")


def marked(x, dim):
    """Its size there may change."""
    x._dynamo_dynamic_indices = {dim % x.ndim}  # mark_dynamic() without the import
    return x


def twice(x, *, by=2):
    return x * by


def apply(fn, *args, **named):
    result = fn(*args, **named)
    return result


def gives_back(x):
    print("gives", end=";")
    return x


def fails(x, kind=ValueError):
    if isinstance(x, int) and x % 2:
        print("fails", end=";")
    raise kind(type(x).__name__)


def steps(n, log):
    """A generator that can be sent values, thrown exceptions into and closed."""
    try:
        for i in range(n):
            got = yield i
            if got is not None:
                log.append(("got", got))
                print("got", end=";")
    except Broken as error:
        log.append(("thrown", error.extra))
        yield -1
    finally:
        log.append("closed")


def decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args, **named):
        print(fn.__name__.rstrip("0123456789"), end=";")
        try:
            return fn(*args, **named)
        finally:
            print("done", end=";")

    return wrapper


@cdynamo.disable
def left_alone(x):
    """Never captured."""
    return x


BREAKER = cdynamo.graph_break
