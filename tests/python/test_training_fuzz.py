"""Random programs on tensors, compiled against eager: results, gradients, what has a history, what shares memory."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import cdynamo  # noqa: E402

SIZES = (0, 1, 2, 3, 4)
SHAPES = ["a", "ab", "abc", "ba", "b", "a1", "1b", "aa", ""]
LAYOUTS = ["plain", "plain", "plain", "transposed", "strided", "expanded"]

# {v}, {w}: tensors that there are; {d}: a dim of v; {n}: a small number. What eager refuses is left out of the program.
VALUES = [
    "{v}.sin()", "{v}.tanh()", "-{v}", "{v}.relu()", "{v}.abs()", "{v}.sigmoid()", "{v} * {v}", "{v} * 2.5", "1 - {v}",
    "{v} + {w}", "{v} * {w}", "{v} - {w}", "{v} / ({w} * {w} + 1)", "torch.maximum({v}, {w})", "{v} ** 2",
    "torch.where({v} > 0, {v}, {w})", "torch.where({v} > {w}, {w}, 0.5)", "{v}.masked_fill({v} > 0.3, 0.0)", "{v}.clamp(-0.5, 0.5)",
    "torch.lerp({v}, {w}, 0.25)", "torch.addcmul({v}, {w}, {w})", "{v}.clone()", "{v}.contiguous()", "torch.zeros_like({v}) + {w}",
    "torch.ones({v}.shape) * {v}", "{v} * {v}.shape[{d}]", "{v} + {v}.numel()", "torch.arange({v}.shape[{d}]) * 0.5",
]  # fmt: skip
VIEWS = [
    "{v}.t()", "{v}.transpose({d}, -1)", "{v}.permute(*range({v}.dim())[::-1])", "{v}.unsqueeze({d})", "{v}.unsqueeze(-1)",
    "{v}.squeeze()", "{v}.squeeze({d})", "{v}.reshape(-1)", "{v}.flatten()", "{v}.view({v}.shape[0], -1)", "{v}.view(-1)",
    "{v}.expand(2, *{v}.shape)", "{v}.expand_as({w})", "{v}[0]", "{v}[-1]", "{v}[..., 0]", "{v}[1:]", "{v}[..., :-1]", "{v}[::2]",
    "{v}[None]", "{v}[:, None]", "{v}.flip({d})", "{v}.movedim(0, -1)", "{v}.diagonal()", "{v}.narrow({d}, 0, 1)", "{v}.mT",
    "{v}.split(1, {d})[0]", "{v}.chunk(2, {d})[-1]", "{v}.unbind({d})[-1]", "{v}.reshape({v}.shape[0], 1, -1)",
    "{v}.view_as({v})", "{v}.unfold({d}, 2, 1)", "{v}.broadcast_to({w}.shape)", "{v}.reshape({v}.shape[::-1])", "{v}.select({d}, 0)",
    "{v}[index.sum()] * 1", "-{v}[..., index.max()]", "{v}[{v}.flatten().argmax() * 0].sin()",
]  # fmt: skip
REDUCTIONS = [
    "{v}.sum()", "{v}.sum({d})", "{v}.sum({d}, keepdim=True)", "{v}.sum(tuple(range({v}.dim())))", "{v}.mean()", "{v}.mean({d})",
    "{v}.amax({d})", "{v}.amin({d}, keepdim=True)", "{v}.max({d}).values", "{v}.max()", "{v}.prod({d})", "{v}.logsumexp({d})",
    "{v}.softmax({d})", "{v}.log_softmax(-1)", "{v}.cumsum({d})", "{v}.var({d}, correction=0)", "{v}.norm()", "torch.linalg.vector_norm({v} + 2, dim={d})",
]  # fmt: skip
JOINS = [
    "{v} @ {w}", "{v} @ {v}.mT", "{v}.mT @ {w}", "torch.cat([{v}, {w}], {d})", "torch.stack([{v}, {v} * 2], {d})",
    "torch.cat([{v}, {v}])", "torch.stack([{v}, {w}], -1)", "torch.einsum('ij,kj->ik', {v}, {w})", "torch.tensordot({v}, {w}, 1)",
    "torch.outer({v}, {w})", "torch.nn.functional.linear({v}, {w})", "torch.nn.functional.pad({v}, (1, {n}))",
    "torch.nn.functional.layer_norm({v}, {v}.shape[-1:])", "torch.nn.functional.mse_loss({v}, {w})",
]  # fmt: skip
INDEXING = [
    "{v}[index]", "{v}[:, index]", "{v}.index_select(0, index)", "{v}.gather(0, index.reshape(-1, *[1] * ({v}.dim() - 1)).expand(-1, *{v}.shape[1:]))",
    "{v}.index_add(0, index, {w})", "{v}.index_copy(0, index[:1], {v}[-1:])", "{v}[{v} > 0]", "{v}.masked_select({v} < 0.2)", "{v}.take(index)",
    "{v}.scatter_add(0, index.reshape(-1, *[1] * ({v}.dim() - 1)), {w})", "{v}[index, 0]", "{v}.roll(1, {d})", "{v}.sort({d}).values",
    "{v}.tril()", "{v}.topk(1, {d}).values",
]  # fmt: skip
CASTS = [
    "{v}.double()", "{v}.float()", "({v} * 3).int()", "({v} > 0)", "{v}.long().float()", "{v}.to({w}.dtype)", "{v}.detach()",
    "({v}.detach() > 0) * {w}", "{v}.detach() * {w}",
]  # fmt: skip
# {t}: a tensor that the program made. Statements that give no new one.
WRITES = [
    "{t}.add_({w})", "{t}.mul_(2)", "{t}.zero_()", "{t}.sin_()", "{t}[0] = 1.5", "{t}[0] = {w}[0]", "{t}[..., 0] = {w}[..., 0]", "{t}.copy_({w})",
    "{t}[0].add_(1)", "{t}.t().mul_({w})", "{t}.view(-1)[0].mul_({n})", "{t} += {w}", "{t} *= {w}.detach()", "{t}.masked_fill_({t} > 0, 0.5)",
    "{t}[1:] = {t}[:-1].clone()", "{t}.relu_()", "{t}[{t} > 0.5] = 0.0", "{t}[index] = 2.0", "{t}.index_add_(0, index, {w})", "{t}.transpose(0, -1)[0] = {w}.sum()",
    "{t}.fill_({w}.sum().item())", "{t}.unsqueeze(0).sub_(0.5)", "{t}.select(-1, 0).copy_({w}.select(-1, -1))", "{t}.detach().add_(1)",
    "{t}[index.sum()].sub_(1)", "{t}[..., index.max()] *= 2", "{t}[index.max()] = {w}[index.max()]",
]  # fmt: skip
KINDS = [VALUES, VALUES, VIEWS, VIEWS, VIEWS, REDUCTIONS, JOINS, INDEXING, CASTS, WRITES, WRITES]


def make_input(shape: str, layout: str, dtype: torch.dtype, sizes: dict[str, int], wanted: bool, seed: int) -> Any:
    size = [sizes.get(letter, 1) for letter in shape]
    generator = torch.Generator().manual_seed(seed)
    if layout == "transposed":
        tensor = torch.randn(size[::-1], generator=generator, dtype=dtype).permute(list(range(len(size)))[::-1])
    elif layout == "strided" and size:
        tensor = torch.randn([*size[:-1], size[-1] * 2], generator=generator, dtype=dtype)[..., ::2]
    elif layout == "expanded" and size and not wanted:
        tensor = torch.randn([1, *size[1:]], generator=generator, dtype=dtype).expand(size)
    else:
        tensor = torch.randn(size, generator=generator, dtype=dtype)
    if layout in ("transposed", "strided"):  # no view: eager makes views of a leaf anew after a write, from its base
        tensor = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype).copy_(tensor)
    return tensor.requires_grad_(wanted)


class Program:
    """A function's text, each line of which eager accepts for the sizes that it was made with."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = lambda choices: data.draw(st.sampled_from(choices))
        self.inputs = []
        for name in "xyz"[: self.draw([1, 2, 3])]:
            dtype = self.draw([torch.float32, torch.float32, torch.float32, torch.float64])
            self.inputs.append((name, self.draw(SHAPES), self.draw(LAYOUTS), dtype, self.draw([True, True, False])))
        self.sizes = [
            {"a": self.draw(SIZES[::-1]), "b": self.draw(SIZES[::-1]), "c": self.draw(SIZES[::-1])} for _ in range(3)
        ]
        self.lines: list[str] = []
        self.made: list[str] = []
        self.writes = False
        self.space = {"torch": torch, **dict(zip([*self.names, "index"], self.arguments(self.sizes[0])))}
        for _ in range(self.draw(range(1, 9))):
            self.statement()
        self.result = self.outputs()
        self.text = "\n".join(
            [f"def f({', '.join([*self.names, 'index'])}):", *self.lines, f"    return {self.result}\n"]
        )

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.inputs]

    def arguments(self, sizes: dict[str, int]) -> list:
        made = [make_input(shape, layout, dtype, sizes, wanted, i) for i, (_, shape, layout, dtype, wanted) in enumerate(self.inputs)]  # fmt: skip
        return [*made, torch.arange(sizes["a"]) // 2]

    def fill(self, text: str) -> str:
        tensors = [*self.names, *self.made, *self.made]
        v = self.draw(tensors)
        rank = self.space[v].dim()
        return text.format(
            v=v,
            w=self.draw(tensors),
            t=self.draw(self.made or [v]),
            d=self.draw(range(max(rank, 1))),
            n=self.draw([0, 1, 2]),
        )

    def statement(self) -> None:
        kind = self.draw(KINDS)
        text = self.fill(self.draw(kind))
        name = f"t{len(self.made)}"
        if kind is not WRITES:
            text = f"{name} = {text}"
        elif not self.made:
            return
        # A view of a leaf under no_grad would be a leaf with a base, which requires grad.
        modes = (
            ["with torch.enable_grad():"] if kind is VIEWS else ["with torch.no_grad():", "with torch.enable_grad():"]
        )
        mode = self.draw(["", "", "", "", "", *modes])
        if kind is WRITES and "no_grad" in mode and self.sees_leaf(text.split(".")[0].split("[")[0].split(" ")[0]):
            return  # a write to a leaf past its gradient
        lines = [mode, "    " + text] if mode else [text]
        try:
            exec("\n".join(lines), self.space)
        except Exception:
            return
        if not all(isinstance(self.space[t], torch.Tensor) for t in self.made if t in self.space):
            raise AssertionError(f"no tensor: {text}")
        self.lines += ["    " + line for line in lines]
        if kind is WRITES:
            self.writes = True
        else:
            self.made.append(name)

    def sees_leaf(self, name: str) -> bool:
        return bool(memory(self.space[name], [self.space[x] for x, *_, wanted in self.inputs if wanted]))

    def outputs(self) -> str:
        tensors = [*self.made[::-1], *self.names]
        chosen = [self.draw(tensors) for _ in range(self.draw([1, 1, 2, 3]))]
        form = self.draw(
            ["{0}", "({all},)", "[{all}]", "{{'k': {0}, 'j': ({all},)}}", "({all}, {0}.shape[0] if {0}.dim() else 7)"]
        )
        return form.format(chosen[0], all=", ".join(chosen))


def leaves(result: Any) -> list:
    if isinstance(result, dict):
        return leaves(list(result.values()))
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]


def memory(tensor: Any, among: list) -> list[int]:
    """Which of those share the tensor's memory."""
    address = tensor.untyped_storage().data_ptr()
    return [i for i, other in enumerate(among) if address and other.untyped_storage().data_ptr() == address]


def describe(value: Any, among: list, strides: bool = True) -> tuple:
    if not isinstance(value, torch.Tensor):
        return (type(value), value)
    shown = value.stride() if strides and value.numel() > 1 else None
    return (value.dtype, tuple(value.shape), shown, value.requires_grad, value.grad_fn is None, memory(value, among))


def run(function: Any, arguments: list) -> tuple:
    """The exception's type, or results and gradients."""
    try:
        results = leaves(function(*arguments))
        tensors = [result for result in results if isinstance(result, torch.Tensor)]
        described = [describe(result, [*arguments, *tensors]) for result in results]
    except Exception as error:  # also a view of several whose base was written to: its grad_fn cannot be read
        return type(error), [], []
    roots = [tensor for tensor in tensors if tensor.requires_grad]
    wanted = [argument for argument in arguments if argument.requires_grad]
    generator = torch.Generator().manual_seed(7)
    # Laid out as the results: others are copied to that layout, which the strides of gradients follow.
    cotangents = [torch.empty_like(root).copy_(torch.randn(root.shape, generator=generator)) for root in roots]
    try:
        gradients = torch.autograd.grad(roots, wanted, cotangents, allow_unused=True) if roots and wanted else []
    except RuntimeError as error:  # a write to what the backward reads, which a compiled backward may not read
        gradients = error
    return described, tensors + arguments, gradients


def assert_equal(got: Any, expected: Any, what: str) -> None:
    if got is None or expected is None:
        assert got is expected, f"{what}: {got} for {expected}"
        return
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4, equal_nan=True, msg=lambda m: f"{what}: {m}")


def check(program: Program) -> None:
    name = f"<program {hash(program.text)}>"
    linecache.cache[name] = (len(program.text), None, program.text.splitlines(True), name)
    space: dict[str, Any] = {"torch": torch}
    exec(compile(program.text, name, "exec", dont_inherit=True), space)
    cdynamo.reset()
    compiled = cdynamo.optimize(space["f"])
    before = cdynamo.counters()["graph_breaks"]
    breaks = lambda: cdynamo.counters()["graph_breaks"] - before
    simple = all(layout == "plain" for _, _, layout, _, _ in program.inputs)
    for sizes in (program.sizes[0], program.sizes[0], *program.sizes[1:]):
        expected = run(space["f"], program.arguments(sizes))
        got = run(compiled, program.arguments(sizes))
        if isinstance(expected[0], type):  # the sizes do not suit the program; what nobody reads is not computed
            continue
        assert got[0] == expected[0], f"{sizes}: {got[0]} for {expected[0]}"
        for ours, eager in zip(got[1], expected[1]):
            assert_equal(ours.detach(), eager.detach(), "result")
        if isinstance(expected[2], RuntimeError):
            continue
        if isinstance(got[2], RuntimeError):
            # One node stands for all operators before a break: it reads what only some of them have to.
            if breaks() and "modified by an inplace operation" in str(got[2]):
                continue
            raise got[2]
        # Results that are views of inputs have PyTorch's history, not that of the program's views; after a break
        # cotangents come as other operators lay them out; eager's gradients of what was written to lie as it did.
        strides = (
            simple
            and not breaks()
            and not program.writes
            and not any(
                isinstance(row[-1], list) and min(row[-1], default=9) < len(program.inputs) for row in expected[0]
            )
        )
        for ours, eager in zip(got[2], expected[2], strict=True):
            assert_equal(ours, eager, "gradient")
            if eager is not None:
                got_now, expected_now = describe(ours, [], strides), describe(eager, [], strides)
                assert got_now == expected_now, f"{sizes}: {got_now} for {expected_now}"


def check_drawn(data: st.DataObject) -> None:
    program = Program(data)
    try:
        check(program)
    except BaseException as error:
        inputs = "\n".join(map(str, program.inputs))
        raise AssertionError(f"{error}\n{inputs}\n{program.sizes}\n{program.text}") from error


UNCHECKED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=UNCHECKED)
@given(st.data())
def test_programs(data):
    check_drawn(data)


@pytest.mark.long
@settings(max_examples=4000, deadline=None, database=None, suppress_health_check=UNCHECKED)
@given(st.data())
def test_many_programs(data):
    check_drawn(data)
