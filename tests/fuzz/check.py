"""Runs one program plain and compiled and compares what can be seen of each call."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import dataclasses
import functools
import gc
import linecache
import random
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

import cdynamo
from fuzz import compare, grammar
from fuzz.numpy_nans import CHANCE, QUIET, SIGN, numpy_nans_otherwise
from fuzz.programs import Program, is_python

PLAIN_SECONDS = 2
PATIENT_SECONDS = 20  # of what was fast enough once: the machine may do something else, and what is perturbed is slower
# Ways past PyTorch's count of writes (what torch.vmap saves has a count of its own): eager's backward reads what was written, and
# says nothing.
PAST_HISTORY = re.compile(r"\.data\b|from_numpy|\.numpy\(\)|\bvmap\(")

MAKES_FUNCTION = re.compile(r"^ +class \w+\(torch\.autograd\.Function\)", re.MULTILINE)
OTHER_SIZES = re.compile(r"\b(squeeze_|unsqueeze_|t_|transpose_|swapaxes_|swapdims_|resize_)\(|\bout=")
SEES_ENDS = re.compile(r"\bweakref\.|__del__|\bfinally:")
HALF = re.compile(r"\b(bfloat16|float16|half)\b")

SETS = re.compile(r"\bset\(|\bfrozenset\(|\{[^:{}]*\}")
ROUNDINGS = 20
ORDERS = 32
SOME_NANS = 8
# Methods of torch.Tensor.
INEXACT = ("cos", "exp", "log", "mean", "norm", "sigmoid", "sin", "softmax", "sqrt", "std", "sum", "tanh")
CONVERSIONS = ("_to_copy", "copy_")
INEXACT_OF_NUMPY = ("dot",)
INEXACT_OF_LAYERS = ("instance_norm",)
INEXACT_OF_LOSSES = ("binary_cross_entropy", "cross_entropy")


def interpreted(graph: Any, inputs: Any) -> Any:
    """A backend written in Python: what it is given, as it is."""
    return graph.forward if hasattr(graph, "forward") else lambda *inputs: graph.run(inputs)


BACKENDS = {"native": "native", "eager": "eager", "callable": interpreted}


def prepare() -> None:
    """Once in a process that runs programs: settings, and what is there already is left out of garbage collections."""
    gc.disable()
    cdynamo.config.keep_empty_graphs = True
    cdynamo.config.suppress_errors = False
    warnings.simplefilter("ignore")
    if compare.torch:
        compare.torch.set_num_threads(1)
    import_backends()
    forget()


def import_backends() -> None:
    """What is imported and set up with the first graph: forks of this process have it then."""
    arrays = [np.ones(2), *([compare.torch.ones(2)] if compare.torch else [])]
    for backend in BACKENDS.values():
        for array in arrays:
            cdynamo.optimize(lambda x: x + 1, backend=backend)(array)
    cdynamo.reset()


class TooSlow(BaseException):
    """The program takes long without being compiled: it is left out."""


def load(program: Program, rewrite: Any = None) -> tuple[dict, Any]:
    """The program's names and its file; `rewrite` is given its tree and its names, and returns the tree that runs."""
    file = f"<program {program.seed}>"
    linecache.cache[file] = (len(program.source), None, program.source.splitlines(True), file)
    space: dict[str, Any] = {"__name__": "program"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = program.source if rewrite is None else rewrite(ast.parse(program.source), space)
        exec(compile(tree, file, "exec", dont_inherit=True), space)
    return space, file


def run_calls(function: Any, space: dict, program: Program, done: Any = None, after_call: Any = None) -> list[dict]:
    """What each call does; of the last, also which references are left when all are over."""
    gc.collect()  # what an earlier run left ends before this one begins
    compare.prelude.Item.kind = "item"
    np.random.seed(0)
    if compare.torch:
        compare.torch.utils.hooks.RemovableHandle.next_id = 1000  # a program sees the ids of its hooks
    references = compare.References(program.trains)
    seen = []
    for make in space["CALLS"]:
        seen.append(compare.observe(function, make, space, program.trains, references))
        if after_call:
            after_call()
    if done:
        done()
    empty_module(space)
    left, watched = references.left(), space.get("WATCHED", [])
    # Histories of eager's keep classes of Functions, and what these hold, where a backward gave nothing.
    is_kept = program.trains and (watched or MAKES_FUNCTION.search(program.source))
    seen[-1]["references"] = None if is_kept else (left, [look() is None for look in watched])
    return seen


def empty_module(space: dict) -> None:
    """What calls have left in the module: which array a view of one refers to may not be told (by tensors)."""
    for name in grammar.OF_THE_MODULE:
        held = space.get(name)
        if hasattr(held, "cache_clear"):
            held.cache_clear()
        elif isinstance(held, type):
            held.best = None
            held.of.clear()
        elif held is not None and name != "WATCHED":
            held.clear()


def run_plain(
    program: Program, seconds: float = PLAIN_SECONDS, after_call: Any = None, rewrite: Any = None
) -> list[dict]:
    """What each call does in plain Python. Raises TooSlow."""

    slow = []

    def give_up(*_: Any) -> None:
        slow.append(True)
        raise TooSlow

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again: the program may swallow it
    try:
        space, _ = load(program, rewrite)
        seen = run_calls(space["f"], space, program, after_call=after_call)
        refused = any(compare.backward_refused(call) or compare.raised_by_backward(call) for call in seen)
        if program.trains and (PAST_HISTORY.search(program.source) or refused):
            add_calls_of_copies(program, seen)
        if slow:  # an error in a `finally` took its place
            raise TooSlow
        return seen
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def keeping_graphs() -> Iterator[None]:
    """What the program itself differentiates can be differentiated once more."""
    autograd = compare.torch.autograd
    grad, backward = autograd.grad, autograd.backward

    def keeping_backward(
        tensors: Any, gradients: Any = None, retain_graph: Any = None, *args: Any, **named: Any
    ) -> None:
        backward(tensors, gradients, True, *args, **named)

    autograd.grad = lambda *args, **named: grad(*args, **{**named, "retain_graph": True})
    autograd.backward = keeping_backward
    try:
        yield
    finally:
        autograd.grad, autograd.backward = grad, backward


def add_calls_of_copies(program: Program, seen: list[dict]) -> None:
    """What eager's calls would do, and their gradients be, if its operators saved copies, and no backward freed them; with
    copies of all, and of what eager would refuse to read alone (not of what is written to through `.data`)."""
    # Not allow_mutation_on_saved_tensors(): it copies before writes, and misses those through views of another place.
    for which, unpack in (("copies", copy_of), ("copies of written", copy_where_written)):
        hooks = compare.torch.autograd.graph.saved_tensors_hooks(alias_and_copy, unpack)
        with hooks, keeping_graphs():
            space, _ = load(program)
            for call, again in zip(seen, run_calls(space["f"], space, program), strict=True):
                call[which] = again


def alias_and_copy(saved: Any) -> tuple[Any, Any, int]:
    return saved.detach(), saved.detach().clone(), saved._version


def copy_of(saved: tuple[Any, Any, int]) -> Any:
    return saved[1]


def copy_where_written(saved: tuple[Any, Any, int]) -> Any:
    alias, copy, version = saved
    return alias if alias._version == version else copy


def run_compiled(program: Program, backend: str) -> list[dict]:
    space, _ = load(program)
    function = cdynamo.optimize(space["f"], backend=BACKENDS[backend], dynamic=space.get("DYNAMIC"))
    breaks = cdynamo.counters()["graph_breaks"]
    seen = run_calls(function, space, program, done=cdynamo.reset)
    return [{**call, "breaks": cdynamo.counters()["graph_breaks"] > breaks} for call in seen]


def settle(program: Program) -> list[dict]:
    """Takes out most of the statements with which the first call ends in an exception; returns what plain Python does."""
    choose = random.Random(program.seed)
    for _ in range(8):
        expected = run_plain(program)
        error = expected[0].get("error")
        lines = [line for name, line in error[2] if name == "f"] if error else []
        if not lines or choose.random() < 0.15:
            break
        text = program.source.split("\n")
        line = text[lines[-1] - 1]
        if line.rstrip().endswith(":"):
            break
        text[lines[-1] - 1] = line[: len(line) - len(line.lstrip())] + "pass"
        before, program.source = program.source, "\n".join(text)
        if not is_python(program.source):  # a variable that only this statement made
            program.source = before
            break
    return run_plain(program) if error else expected


def forget() -> None:
    """After a program: what is left is the process's own (modules that a call imported) and not looked through again."""
    linecache.cache.clear()
    gc.collect()
    gc.freeze()


def mismatch(program: Program, backend: str, expected: list[dict] | None = None) -> str | None:
    """What differs between plain and compiled; None where nothing does."""
    expected = run_plain(program) if expected is None else expected
    got = run_compiled(program, backend)
    went_on = False  # where eager's backward raises: what comes after finds what is done by then
    for i, (ours, plain) in enumerate(zip(got, expected, strict=True)):
        if went_on:
            if compare.raised_by_backward(ours) and compare.raised_by_backward(plain):
                return None
            plain = plain.get("copies", plain)
        elif compare.raised_by_backward(plain) and not compare.raised_by_backward(ours):
            went_on = True
        if compare.refused(plain) or compare.lost_a_hook(ours) or compare.met_no_derivative(ours):
            return None
        found = compare.difference(ours, plain)
        if found and found.startswith("gradients"):
            # A compiled backward may compute again from what was written to, where eager has saved something else, and equal casts
            # are one: what comes to them is added before it is rounded. What it would compute again from may have been written to by
            # what comes after a graph break: that raises.
            if PAST_HISTORY.search(program.source) or (ours["breaks"] and compare.backward_refused(ours)):
                return None
            if HALF.search(program.source) and compare.same(ours["gradients"], plain["gradients"], 0.02):
                return None
            # Which sizes the gradient of a leaf has that was given others since says the node that collects it, where it was made before.
            if OTHER_SIZES.search(program.source) and compare.same_but_sizes(ours["gradients"], plain["gradients"]):
                return None
        if found and found.startswith("references") and "yield" in program.source and keeps_ended_generators():
            if keeps_no_more(ours["references"], plain["references"]):
                return None
        if found:
            return f"call {i}: {found}" if is_determined(program) else None
    return None


@functools.cache
def keeps_ended_generators() -> bool:
    """Whether this Python (3.12.3 does) never lets go of what a suspended generator in a cycle holds."""

    def suspend(held: list) -> None:
        def generator() -> Iterator[None]:
            itself = yield
            also = held
            yield
            del itself, also

        suspended = generator()
        next(suspended)
        suspended.send(suspended)

    held: list = []
    before = sys.getrefcount(held)
    suspend(held)
    gc.collect()
    return sys.getrefcount(held) > before


def keeps_no_more(ours: tuple, plain: tuple) -> bool:
    """What `run_calls` says of references: the counts of the arguments', and which watched objects are gone."""
    pairs = zip(ours[0], plain[0], strict=True), zip(plain[1], ours[1], strict=True)
    return all(less <= more for pair in pairs for less, more in pair)


def is_determined(program: Program) -> bool:
    """Not where it shows memory that nobody has written to, where objects lie, how deep calls may go, what autograd's nodes are
    called, how numbers are rounded, the bits of a NaN that was computed, what is made of denormal numbers, what the frames of an
    exception that it keeps hold, or when the garbage collector runs."""
    with recursion_limit(sys.getrecursionlimit() - 100), renamed_nodes():
        others = [run_plain(program, PATIENT_SECONDS), run_plain(without_frames(program), PATIENT_SECONDS)]
    if SEES_ENDS.search(program.source):
        with collecting_often():
            others.append(run_plain(program, PATIENT_SECONDS))
    for salt in range(ORDERS if SETS.search(program.source) else 0):
        with hashed_otherwise(salt):
            others.append(run_plain(program, PATIENT_SECONDS))
    for filling in range(5):
        held = mixed_addresses()
        with filled_memory(0x11 * filling):
            others.append(run_plain(program, PATIENT_SECONDS, lambda: held.extend(mixed_addresses())))
        held.clear()
    if "view(" in program.source:  # which is how such numbers come about, and are seen
        if compare.torch:
            with flushed_denormals():
                others.append(run_plain(program, PATIENT_SECONDS))
        others += runs_with_other_nans(program)
    names = INEXACT + INEXACT_OF_NUMPY + INEXACT_OF_LAYERS + INEXACT_OF_LOSSES
    rounds = program.kind == "modules" or any(f".{name}(" in program.source for name in names)
    for _ in range(ROUNDINGS if rounds else 0):
        with rounded_otherwise():
            others.append(run_plain(program, PATIENT_SECONDS))
    expected = run_plain(program, PATIENT_SECONDS)
    return all(not compare.difference(a, b) for other in others for a, b in zip(expected, other, strict=True))


@contextlib.contextmanager
def hashed_otherwise(salt: int) -> Iterator[None]:
    """Tensors come in another order out of a set: where they lie decides it."""
    tensor = compare.torch and compare.torch.Tensor
    before = tensor and tensor.__hash__
    if tensor:
        tensor.__hash__ = lambda self: hash((salt, id(self)))
    try:
        yield
    finally:
        if tensor:
            tensor.__hash__ = before


HANDLER = re.compile(r"^( *)except\*? .* as (\w+):$", re.MULTILINE)


def without_frames(program: Program) -> Program:
    """Exceptions that it handles keep no frames: these are others, and hold less, where a function was resumed."""
    handlers = HANDLER.sub(r"\g<0>\n\1    \2.__traceback__ = None", program.source)
    return dataclasses.replace(program, source=handlers) if is_python(handlers) else program


@contextlib.contextmanager
def collecting_often() -> Iterator[None]:
    """What is in a cycle and nobody refers to any more ends when a function returns."""

    def collect(frame: Any, event: str, arg: Any) -> None:
        if event == "return":
            gc.collect()

    sys.setprofile(collect)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def filled_memory(byte: int) -> Iterator[None]:
    """What the C library hands out or takes back is full of this byte, or its complement; 0: as it is. Only glibc does so."""
    perturb = -6  # M_PERTURB
    set_option = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)
    set_option(perturb, byte)
    try:
        yield
    finally:
        set_option(perturb, 0)


def mixed_addresses() -> list[Any]:
    """While it is held, what is allocated lies in another order, and not where something that is gone did: a program may sort by
    an object's address, or have it in a key."""
    blocks: list[Any] = [bytes(size) for size in range(1, 500) for _ in range(20)]
    blocks += [iter_of(()) for iter_of in (iter, zip, enumerate, map_of, reversed) for _ in range(500)]
    random.shuffle(blocks)
    del blocks[::2]  # not all: what is free as a whole is handed out in order
    return blocks


def map_of(items: tuple) -> Iterator[Any]:
    return map(str, items)


@contextlib.contextmanager
def renamed_nodes() -> Iterator[None]:
    """Autograd's nodes have longer names where a tensor is printed: a program may look at the length of that."""
    printer = getattr(compare.torch, "_tensor_str", None)
    if printer is None:
        yield
        return
    before = printer._str

    def longer(*args: Any, **named: Any) -> str:
        return compare.HISTORY.sub(" grad_fn=<AnotherBackward>", before(*args, **named))

    printer._str = longer
    try:
        yield
    finally:
        printer._str = before


def runs_with_other_nans(program: Program) -> list[list[dict]]:
    """Which NaN arithmetic gives is the kernel's: PyTorch's of bfloat16 give one in their vectors and another in what is left.
    Once all of them are others, then some: one that two operators hand on would be itself again."""
    runs: list[list[dict]] = []
    for share in (1, *[0.5] * SOME_NANS):
        for bits in (lambda dtype: 2, lambda dtype: compare.torch.iinfo(dtype).min) if compare.torch else ():
            with changed_nans(bits, share) as changed:  # a quiet one stays one
                seen = run_plain(program, PATIENT_SECONDS)
            runs += [seen] if changed else []
        for bits in (QUIET, SIGN):
            with numpy_nans_otherwise(bits, share) as (rewrite, changed):
                seen = run_plain(program, PATIENT_SECONDS, rewrite=rewrite)
            runs += [seen] if changed else []
        if not runs:
            break
    return runs


@contextlib.contextmanager
def changed_nans(bits: Any, share: float) -> Iterator[list[bool]]:
    """NaNs that are computed, or converted, have these bits, of an integer of their size, the other way round: after this share of
    the calls, as chance has it."""
    torch = compare.torch
    from torch.utils._python_dispatch import TorchDispatchMode

    changed: list[bool] = []
    bits_of = {
        torch.bfloat16: torch.int16,
        torch.float16: torch.int16,
        torch.float32: torch.int32,
        torch.float64: torch.int64,
    }

    def is_computed(func: Any, args: tuple, dtype: Any) -> bool:
        name = func.overloadpacket.__name__
        if name in CONVERSIONS:
            return any(getattr(value, "dtype", dtype) != dtype for value in args)
        return torch.Tag.pointwise in func.tags or name in INEXACT

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if getattr(result, "dtype", None) in bits_of and is_computed(func, args, result.dtype):
                if (nans := result.isnan()).any() and CHANCE.random() < share:
                    integers = result.data.view(bits_of[result.dtype])
                    integers[nans] ^= bits(integers.dtype)
                    changed.append(True)
            return result

    with Mode():
        yield changed


@contextlib.contextmanager
def flushed_denormals() -> Iterator[None]:
    """Eager divides by them: the gradient of the absolute value of a complex number that small is NaN."""
    compare.torch.set_flush_denormal(True)
    try:
        yield
    finally:
        compare.torch.set_flush_denormal(False)


@contextlib.contextmanager
def rounded_otherwise() -> Iterator[None]:
    """What elementary functions and sums of fractions give is off by half a unit in the last place, up or down: a program may count
    how often a number is there. What a layer adds up overflows where the sum does, not on the way there."""
    torch = compare.torch

    def inexact(function: Any) -> Any:
        def nearby(*args: Any, **named: Any) -> Any:
            result = function(*args, **named)
            if isinstance(result, np.ndarray | np.floating) and result.dtype.kind == "f":
                off = np.random.default_rng().integers(-1, 2, result.shape) * np.finfo(result.dtype).eps
                return result * (1 + off).astype(result.dtype)
            if torch is None or not isinstance(result, torch.Tensor) or not result.is_floating_point():
                return result
            if function.__name__ == "sum" and torch.equal(args[0], args[0].round()):
                return result
            off = torch.randint(-1, 2, result.shape).to(result.dtype) * torch.finfo(result.dtype).eps
            return result * (1 + off)

        return nearby

    owners = [(np, name) for name in INEXACT_OF_NUMPY]
    if torch:
        owners += [(torch.Tensor, name) for name in INEXACT]
        owners += [(torch.nn.functional, name) for name in INEXACT_OF_LOSSES]
    with contextlib.ExitStack() as patches:
        if torch:
            layers = {"linear": linear_otherwise, "instance_norm": inexact(instance_norm_in_double)}
            for name, otherwise in layers.items():
                patches.enter_context(mock.patch.object(torch.nn.functional, name, otherwise))
        for owner, name in owners:
            patches.enter_context(mock.patch.object(owner, name, inexact(getattr(owner, name))))
        yield


def linear_otherwise(x: Any, weight: Any, bias: Any = None) -> Any:
    """What it adds up may nearly cancel: the error is that of the terms."""
    torch = compare.torch
    terms, factors = (x.double(), x.double().abs()), (weight.double().T, weight.double().abs().T)
    result, size = (a @ b for a, b in zip(terms, factors, strict=True))
    if bias is not None:
        result, size = result + bias.double(), size + bias.double().abs()
    off = torch.randint(-1, 2, result.shape) * torch.finfo(x.dtype).eps
    return (result + size.detach() * off).to(x.dtype)


def instance_norm_in_double(x: Any, running_mean: Any = None, running_var: Any = None, *args: Any, **named: Any) -> Any:
    """Half the time to a multiple of what the operands' own rounding makes of it: what is nearly 0 may be 0."""
    torch = compare.torch
    args, named = wider(args), dict(zip(named, wider(tuple(named.values()))))
    running, running_in_double = (running_mean, running_var), wider((running_mean, running_var))
    result = INSTANCE_NORM(x.double(), *running_in_double, *args, **named)
    if x.dim() > 2 and x.numel() > 0 and CHANCE.random() < 0.5:
        spread, spread_before = (y.detach().flatten(2).aminmax(dim=2) for y in (result, x.double()))
        slope = (spread.max - spread.min) / (spread_before.max - spread_before.min)
        step = torch.finfo(x.dtype).eps * slope.reshape(*x.shape[:2], *[1] * (x.dim() - 2)) * x.double().abs()
        step = step.nan_to_num(0).clamp(1e-30)
        result = result + ((result / step).round() * step - result).detach()
    result = result.to(x.dtype)
    for statistic, in_double in zip(running, running_in_double, strict=True):
        if statistic is not None:
            statistic.detach().copy_(in_double)
    return result


def wider(values: tuple) -> tuple:
    return tuple(value.double() if isinstance(value, compare.torch.Tensor) else value for value in values)


INSTANCE_NORM = compare.torch.nn.functional.instance_norm if compare.torch else None


@contextlib.contextmanager
def recursion_limit(depth: int) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
