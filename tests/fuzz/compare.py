"""What a call did, as plain data that can be compared: results, output, exception, objects afterwards, reference counts."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import gc
import io
import math
import re
import sys
import types
from typing import Any

import numpy as np

from fuzz import prelude

torch = prelude.torch
ATOMS = (bool, int, str, bytes, complex, type(None), type(Ellipsis))
NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType)
# What cannot change has no identity to speak of.
UNCHANGING = (
    tuple,
    frozenset,
    float,
    range,
    slice,
    np.generic,
    np.dtype,
    *([torch.device, torch.dtype] if torch else []),
)
FLOAT = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?|-?\b(?:nan|inf)\b")
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
NO_VALUE = re.compile(
    r"UnboundLocalError|cannot access (local|free) variable '\w+' where it is not associated with a value( in enclosing scope)?"
)
MOST_LINES = 100  # of a traceback: how deep a program may recurse depends on how its calls are made
MOST = 2000  # parts of a description; programs that make more are cut off alike


class Description:
    """Nested tuples that are equal where types, values, aliasing and memory sharing are."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[int, Any]] = {}
        self.memory: list[tuple[int, int]] = []  # that was met: from where to where
        self.left = MOST

    def whole(self, x: Any) -> Any:
        """`of`, with a number for each block of memory."""
        return numbered(self.of(x), self.blocks())

    def of(self, x: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            return "..."
        if type(x) in ATOMS:
            return type(x).__name__, text(x)
        if type(x) is float:
            return "float", x
        if isinstance(x, NAMED):
            return words(getattr(x, "__qualname__", None) or type(x).__name__)
        if not isinstance(x, UNCHANGING):
            if id(x) in self.seen:
                return "seen", self.seen[id(x)][0]
            self.seen[id(x)] = (len(self.seen), x)
        return (words(type(x).__qualname__), *self.parts(x))

    def parts(self, x: Any) -> list:
        if isinstance(x, np.ndarray):
            return self.array(x)
        if torch and isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, np.generic):
            return [x.item()] if x.dtype.kind in "fiub" else [repr(x)]
        if isinstance(x, (list, tuple)):
            parts = [self.of(item) for item in x]
        elif isinstance(x, dict):
            parts = [(self.of(k), self.of(v)) for k, v in x.items()]
        elif isinstance(x, (set, frozenset)):
            # Each alone: where tensors lie in memory says in what order they come.
            parts = sorted(str(Description().whole(item)) for item in x)
        elif isinstance(x, BaseException):
            return [self.of(item) for item in x.args] if not isinstance(x, RecursionError) else [message_of(x)]
        elif isinstance(x, np.random.Generator):
            parts = [self.of(x.bit_generator.state)]
        elif isinstance(x, int):  # a class made from it
            parts = [int(x)]
        elif hasattr(x, "__next__"):
            parts = [] if isinstance(x, types.GeneratorType) and x.gi_running else self.rest_of(x)
        elif hasattr(x, "__dict__"):
            parts = []
        else:
            return [text(x)]
        if hasattr(x, "__dict__"):
            parts.append(self.of(dict(vars(x))))
        return parts

    def rest_of(self, iterator: Any) -> list:
        try:
            return [self.of(item) for _, item in zip(range(20), iterator)]
        except Exception as error:
            return ["raises", self.of(error)]

    def shared(self, address: int, size: int) -> Memory | int:
        """A place in memory; -1: there is none."""
        if size == 0:
            return -1
        self.memory.append((address, address + size))
        return Memory(len(self.memory) - 1)

    def blocks(self) -> list[int]:
        """The number of the block that each place lies in, the first that was met first.

        What overlaps is one block, and what lies in it.
        """
        blocks, end, block = [0] * len(self.memory), 0, -1
        for place in sorted(range(len(self.memory)), key=self.memory.__getitem__):
            first, last = self.memory[place]
            block += first >= end
            end = max(end, last)
            blocks[place] = block
        numbers: dict[int, int] = {}
        return [numbers.setdefault(block, len(numbers)) for block in blocks]

    def array(self, x: np.ndarray) -> list:
        layout = tuple(s for s, n in zip(x.strides, x.shape) if n > 1) if x.size > 1 else None
        low, high = np.lib.array_utils.byte_bounds(x)  # of itself: what it is a view of may not be told (by tensors)
        memory = self.shared(low, high - low if x.size else 0)
        values = x.ravel().tolist() if x.dtype.kind != "O" else [self.of(item) for item in x.ravel().tolist()]
        return [str(x.dtype), x.shape, layout, x.flags.writeable, memory, values[:MOST]]

    def tensor(self, x: Any) -> list:
        layout = tuple(s for s, n in zip(x.stride(), x.shape) if n > 1) if x.numel() > 1 else None
        storage = x.untyped_storage()
        memory = self.shared(storage.data_ptr(), storage.nbytes() if x.numel() else 0)
        history = (x.requires_grad, x.grad_fn is None)
        return [str(x.dtype), tuple(x.shape), layout, history, memory, x.detach().reshape(-1).tolist()[:MOST]]


@dataclasses.dataclass
class Memory:
    """An index of `Description.memory`."""

    place: int


def numbered(x: Any, blocks: list[int]) -> Any:
    if isinstance(x, Memory):
        return blocks[x.place]
    return type(x)([numbered(part, blocks) for part in x]) if isinstance(x, (tuple, list)) else x


VIEW = re.compile(r"Output \d+ of \w+ is a view")
# Captured code has the two numbers of a complex one, and makes the complex tensor of them: which of the two is a view of the other.
LEAF = re.compile(r"a (?:view of a )?leaf Variable that requires grad is being used in an in-place operation")
# Of a 0-dim tensor: eager reads a size that is not there.
SIZE = re.compile(
    r"index -?\d+ is out of bounds for dimension 0 with size [01]\b|select\(\) cannot be applied to a 0-dim tensor\.?"
)
NODE = re.compile(r"Function \w+ returned an invalid gradient")
HISTORY = re.compile(r"(?:\\n|\s)+grad_fn=<\w+>")  # lines break where its name is long


def words(text: str) -> str:
    """Without what may differ: addresses, the names of autograd's nodes, which view it was that may not be written to, and whether a variable that has no value is local or free: what a function shares with
    one inside of it is free in the functions that go on after a graph break."""
    text = NODE.sub(
        "A function returned an invalid gradient", SIZE.sub("no such index", HISTORY.sub(" grad_fn=<>", text))
    )
    text = LEAF.sub("a leaf is written to", text)
    return VIEW.sub("One of several views", NO_VALUE.sub("NameError", ADDRESS.sub("0x", text)))


def text(x: Any) -> str:
    return words(repr(x))


def same(a: Any, b: Any, relative: float = 1e-4) -> bool:
    """Equal, floats up to the rounding of sums in another order."""
    if type(a) is float and type(b) is float:
        return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-3 + relative * max(abs(a), abs(b))
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y, relative) for x, y in zip(a, b))
    if isinstance(a, complex):
        return same(a.real, b.real, relative) and same(a.imag, b.imag, relative)
    if isinstance(a, str):
        return a == b or (FLOAT.sub("", a) == FLOAT.sub("", b) and same(floats(a), floats(b), relative))
    return a == b


def same_but_sizes(a: Any, b: Any) -> bool:
    """Of gradients, of each a dtype, sizes and numbers."""
    if not (isinstance(a, list) and isinstance(b, list)):
        return False

    def without_sizes(gradients: list) -> list:
        return [gradient and (gradient[0], gradient[2]) for gradient in gradients]

    return same(without_sizes(a), without_sizes(b))


def floats(words: str) -> list[float]:
    return [float(word) for word in FLOAT.findall(words)]


def lines_of(error: BaseException, file: str) -> list[tuple[str, int]]:
    """The traceback's lines in the program and in what it imports."""
    files = (file, prelude.__file__)
    lines, at = [], error.__traceback__
    while at:
        if at.tb_frame.f_code.co_filename in files:
            line = None if at.tb_next else line_of_unbound_local(error, at)
            lines.append((at.tb_frame.f_code.co_name, at.tb_lineno if line is None else line))
        at = at.tb_next
    return lines[:MOST_LINES]


def line_of_unbound_local(error: BaseException, at: types.TracebackType) -> int | None:
    """The line that reads the variable. 3.11 runs two instructions as one once the code is warm, and names the first one's."""
    name = (
        re.match(r"cannot access local variable '(\w+)'", str(error)) if isinstance(error, UnboundLocalError) else None
    )
    code = list(dis.get_instructions(at.tb_frame.f_code)) if name else []
    place = next((i for i, each in enumerate(code) if each.offset == at.tb_lasti), len(code))
    if place < len(code) and code[place].opname == "DELETE_FAST":
        return None
    for i in range(place, min(place + 2, len(code))):
        if code[i].opname.startswith("LOAD_FAST") and code[i].argval == name[1]:
            return code[i].positions.lineno
    return None


def message_of(error: BaseException) -> str:
    """What is said; where the limit is met, in a comparison or a call, is a matter of how much stack there is."""
    return str(error).partition(" exceeded")[0] if isinstance(error, RecursionError) else str(error)


def described_error(error: BaseException | None, file: str, depth: int = 0) -> Any:
    if error is None or depth > 4:
        return None
    parts = tuple(described_error(e, file, depth + 1) for e in getattr(error, "exceptions", ()))
    linked = [described_error(e, file, depth + 1) for e in (error.__cause__, error.__context__)]
    return (
        words(type(error).__qualname__),
        words(message_of(error)),
        lines_of(error, file),
        *linked,
        error.__suppress_context__,
        parts,
    )


def forget_frames(error: BaseException | None) -> None:
    """Frames in tracebacks keep locals alive: which ones is not compared."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        forget_frames(error.__cause__)
        error = error.__context__


def backward(result: Any, args: tuple) -> Any:
    """Gradients of the sum of what the call returned, with respect to its arguments."""
    roots, wanted = [], [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    seen: set[int] = set()

    def gather(x: Any) -> None:
        if id(x) in seen:
            return
        seen.add(id(x))
        if isinstance(x, torch.Tensor):
            roots.extend([x] if x.requires_grad and x.is_floating_point() else [])
        elif isinstance(x, (list, tuple)):
            [gather(item) for item in x]
        elif isinstance(x, dict):
            [gather(item) for item in x.values()]
        elif isinstance(x, prelude.Item):
            gather(vars(x))

    gather(result)
    if not roots or not wanted:
        return None
    try:
        grads = torch.autograd.grad([root.double().sum() for root in roots], wanted, allow_unused=True)
    except RuntimeError as error:
        return "RuntimeError", words(str(error)).split(":")[0].split(".")[0]
    return [None if grad is None else (str(grad.dtype), tuple(grad.shape), grad.reshape(-1).tolist()) for grad in grads]


class References:
    """How many references to the arguments of all calls stay when the calls and the compiled code are gone."""

    def __init__(self, trains: bool) -> None:
        self.counted: list = []
        # What cannot change is kept as a constant in more places than programs see. Tensors are kept by results that have
        # a history: by eager's what each derivative reads, by a compiled function's all its inputs.
        self.uncounted = (*ATOMS, float, tuple, np.generic, *([torch.Tensor] if trains else []))

    def add(self, args: tuple) -> None:
        self.counted += [(x, sys.getrefcount(x)) for x in args if not isinstance(x, self.uncounted)]

    def left(self) -> list[int]:
        """What containers among the arguments hold is not counted: a view of an array may keep it, or the array below."""
        for x, _ in self.counted:
            if isinstance(x, (list, dict)):
                x.clear()
            elif isinstance(x, prelude.Item):
                vars(x).clear()
        gc.collect()
        return [sys.getrefcount(x) - before for x, before in self.counted]


def observe(function: Any, make: Any, space: dict, trains: bool, references: References) -> dict[str, Any]:
    """Calls the function with what `make` makes; the parts of what can be seen of that, each by its name."""
    args, named = make()
    references.add(args)
    seen: dict[str, Any] = {}
    output = io.StringIO()
    result = None
    file = space["f"].__code__.co_filename
    with contextlib.redirect_stdout(output):
        try:
            result = function(*args, **named)
            outcome = ("returned", result)
        except Exception as error:
            outcome = ("raised", error)
            seen["error"] = described_error(error, file)
            forget_frames(error)
    gc.collect()  # generators that a frame in a cycle holds are closed, in plain Python as in compiled code
    if trains and outcome[0] == "returned":
        net = space.get("NET")
        seen["gradients"] = backward(result, (*args, *(net.parameters() if net else ())))
    with contextlib.redirect_stdout(output):
        seen["objects"] = Description().whole(
            (outcome, list(args), space["SHARED"], space["STATE"], space.get("NET"), space.get("RNG"))
        )
    space["SHARED"].clear()
    space["STATE"].clear()
    space["STATE"]["n"] = 0
    seen["output"] = words(output.getvalue())
    seen["state"] = (
        words(prelude.Item.kind),
        torch and torch.is_grad_enabled(),
        str(np.geterr()),
        *np.random.get_state()[2:],
        np.random.random(),
    )
    prelude.Item.kind = "item"
    return seen


# What eager refuses as soon as it could matter, and compiled code computes as if the operand had been copied.
# What it gives up halfway has elements that nobody has written.
REFUSED_BY_EAGER = (
    "some elements of the input tensor and the written-to tensor refer to a single memory location",
    "Trying to resize storage that is not resizable",
    # A view of nothing that begins past its base's memory (x.diagonal()[2:]): eager cannot make it again after a write.
    "are out of bounds for storage of size",
    # `np.ndarray.ravel()` in warm code of CPython 3.12 and later: its instruction passes one argument fewer than there are.
    "missing required positional argument -1",
    # The gradient of `torch.where(c, real, complex)`, of which eager makes no real one.
    "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true",
)
# Eager's backward raises where an operator has saved a tensor that was written to since. A compiled backward may read
# something else: it gives the gradients of what was computed, or raises the same. What a compiled function differentiates
# within itself frees its results only where each of their ways leads through it. So it is with writes through `.data`, which
# eager does not notice.
REFUSED_BACKWARD = (
    "one of the variables needed for gradient computation has been modified by an inplace operation",
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed)",
    "One of several views and its base or another view of its base has been modified inplace",
)


# Where `out=` has resized a tensor that a derivative was computed of: which sizes its gradient must have says the node that
# collects it, if a variable that nobody reads keeps that alive. And view_as_real's backward is a view_as_complex, which refuses a gradient
# without elements for its strides, as an expanded one.
REFUSED_GRADIENT = ("A function returned an invalid gradient", "Tensor must have a last dimension with stride 1")


def error_of_backward(seen: dict) -> str:
    return seen["gradients"][1] if isinstance(seen.get("gradients"), tuple) else ""


def backward_refused(seen: dict) -> bool:
    return error_of_backward(seen) in REFUSED_BACKWARD


def raised_by_backward(seen: dict) -> bool:
    return bool(seen.get("error")) and seen["error"][1].startswith(REFUSED_BACKWARD)


def refused_hooks(seen: dict) -> bool:
    """torch.func takes no hooks of saved tensors: nothing says what the gradients would be with copies."""
    return bool(seen.get("error")) and "don't yet support saved tensor hooks" in seen["error"][1]


NO_DERIVATIVE = re.compile(r"^derivative for aten::\w+ is not implemented")


def lost_a_hook(call: dict) -> bool:
    """PyTorch looks for the hook of retain_grad() of a node's second result at its first, when that is written to:
    `r = torch.linalg.qr(x)[1]; r.retain_grad(); r.mul_(2)`."""
    return "error" in call and "out != nullptr INTERNAL ASSERT" in call["error"][1]


def met_no_derivative(call: dict) -> bool:
    """A backward from some of a compiled function's results comes by the nodes before all of its inputs, with no gradient; one
    of PyTorch's without a derivative raises even then (docs/training.md)."""
    return "error" in call and NO_DERIVATIVE.search(call["error"][1]) is not None


def refused(expected: dict) -> bool:
    return bool(expected.get("error")) and any(words in expected["error"][1] for words in REFUSED_BY_EAGER)


def difference(got: dict, expected: dict) -> str | None:
    """The part that differs first, both sides; None where none does."""
    if raised_by_backward(expected) and "copies" in expected:
        copies = expected["copies"]
        if backward_refused(got):  # later than eager; with the copies nothing is freed
            got = {**got, "gradients": copies.get("gradients")}
        return None if raised_by_backward(got) else difference(got, copies)
    for part in ("error", "objects", "output", "state", "gradients", "references"):
        if part == "gradients" and error_of_backward(expected).startswith(REFUSED_GRADIENT):
            continue
        if part == "gradients" and "copies" in expected:
            is_refused = backward_refused(expected) and (backward_refused(got) or refused_hooks(expected["copies"]))
            others = [expected[which].get(part) for which in ("copies", "copies of written")]
            if is_refused or any(same(got.get(part), other) for other in others):
                continue
        if not same(got.get(part), expected.get(part)):
            return f"{part}\n  compiled: {got.get(part)}\n  plain:    {expected.get(part)}"
    return None
