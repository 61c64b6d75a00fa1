"""Random programs over tensors and arrays, views of one memory and writes to them: what plain Python gives."""

import random

import numpy as np
import pytest
from memory_check import check, f32, f64

torch = pytest.importorskip("torch")

TENSOR, ARRAY, SCALAR = "t", "a", "s"
CONSTANTS = ["2", "0.5", "-1", "True", "np.float64(1.5)", "np.float32(0.25)", "np.int64(3)"]
TENSOR_TYPES = [
    "torch.float32",
    "torch.float64",
    "torch.int64",
    "torch.int32",
    "torch.uint8",
    "torch.bool",
    "torch.float16",
]
ARRAY_TYPES = ["np.float32", "np.float64", "np.int64", "np.int32", "np.uint8", "bool", "np.float16"]

# {t}, {a}, {s}: a tensor, an array, a scalar of NumPy's; {c}: a constant.
EXPRESSIONS = [
    ("{t}.detach().numpy()", ARRAY),
    ("torch.from_numpy({a})", TENSOR),
    ("np.asarray({t}.detach())", ARRAY),
    ("torch.as_tensor({a})", TENSOR),
    ("torch.tensor({a})", TENSOR),
    ("{t} + {c}", TENSOR),
    ("{a} * {c}", ARRAY),
    ("{t} * {t2}", TENSOR),
    ("{a} + {a2}", ARRAY),
    ("{t}.T", TENSOR),
    ("{a}.T", ARRAY),
    ("{t}[:1]", TENSOR),
    ("{a}[:, ::2]", ARRAY),
    ("{t}.sum(0)", TENSOR),
    ("{a}.sum(axis=0)", ARRAY),
    ("{a}.max()", SCALAR),
    ("{t} - {s}", TENSOR),
    ("{s} * {t}", TENSOR),
    ("{t}.to({tensor_type})", TENSOR),
    ("{a}.astype({array_type})", ARRAY),
    ("{t} + {a}", TENSOR),
    ("np.add({t}.detach(), {a})", TENSOR),
    ("np.concatenate([{t}.detach(), {a}])", ARRAY),
    ("np.where({a} > 1, {a}, {c})", ARRAY),
    ("{s} + {a}", ARRAY),
    ("{t}.reshape(-1)", TENSOR),
    ("{a}.reshape(-1)", ARRAY),
    ("{a}[::-1]", ARRAY),
    ("{t}.numpy()", ARRAY),
    ("{t}[np.array([0, 1])]", TENSOR),
    ("{a}[torch.tensor([0, 1])]", ARRAY),
    ("{a}[{a} > 1]", ARRAY),
    ("{t}[{t} > 1]", TENSOR),
    ("np.exp({a} / 8)", ARRAY),
    ("torch.exp({t} / 8)", TENSOR),
    ("np.sin({t}.detach())", TENSOR),
    ("torch.cat([{t}, {t2}])", TENSOR),
    ("np.stack([{a}, {a}])", ARRAY),
    ("{a} // 2", ARRAY),
    ("{t} // 2", TENSOR),
    ("{a} % 3", ARRAY),
    ("{t} % 3", TENSOR),
    ("{a} / {c}", ARRAY),
    ("{t} / {c}", TENSOR),
    ("{c} - {a}", ARRAY),
    ("{c} - {t}", TENSOR),
    ("{a} > {s}", ARRAY),
    ("{t} > {s}", TENSOR),
    ("{a}.mean(axis=-1)", ARRAY),
    ("{t}.mean(-1)", TENSOR),
    ("np.ascontiguousarray({a})", ARRAY),
    ("{t}.contiguous()", TENSOR),
    ("{a}.copy()", ARRAY),
    ("torch.tensor({s})", TENSOR),
    ("np.asarray({s})", ARRAY),
    ("torch.DoubleTensor({a})", TENSOR),
    ("{t} * {t2}.sum().item()", TENSOR),
    ("{a} * float({a2}.sum())", ARRAY),
    ("np.array([{s}, {s}])", ARRAY),
    ("torch.where({t} > 1, {t}, {s})", TENSOR),
]
STATEMENTS = [
    "{x} += 1",
    "{x}[0] = 3",
    "{x} *= 2",
    "{a}[...] = {t}.detach()",
    "{a}[...] = {a2}",
    "{t}[0] = {s}",
    "{t}.add_(1)",
    "{t}.zero_()",
    "{t}.detach().numpy()[0] = 2",
    "torch.from_numpy({a}).mul_(3)",
    "{t} += {a}",
    "{a} += {a2}",
    "np.add({a}, 1, out={a})",
    "{t}.copy_({t2} + 1)",
]


def program(seed):
    chosen = random.Random(seed)
    names = {"x": TENSOR, "a": ARRAY, "i": TENSOR, "k": ARRAY, "w": TENSOR}
    lines = []

    def pick(*kinds):
        return chosen.choice([name for name, kind in names.items() if kind in kinds][-6:] or ["np.float64(2)"])

    for number in range(8):
        expression, kind = chosen.choice(EXPRESSIONS)
        statement = chosen.choice(STATEMENTS) if chosen.random() < 0.25 else f"v{number} = {expression}"
        lines.append(
            statement.format(
                x=pick(TENSOR, ARRAY),
                t=pick(TENSOR),
                t2=pick(TENSOR),
                a=pick(ARRAY),
                a2=pick(ARRAY),
                s=pick(SCALAR),
                c=chosen.choice(CONSTANTS),
                tensor_type=chosen.choice(TENSOR_TYPES),
                array_type=chosen.choice(ARRAY_TYPES),
            )
        )
        if "v" == statement[0]:
            names[f"v{number}"] = kind
    made = [name for name in names if name[0] == "v"] or ["x"]
    lines.append(f"return {', '.join(chosen.sample(made, min(len(made), 4)))},")
    return "def f(x, a, i, k, w):\n" + "".join(f"    {line}\n" for line in lines)


def run(seed):
    source = program(seed)
    space = {"np": np, "torch": torch}
    exec(source, space)
    integers = (np.arange(9).reshape(3, 3) % 5).astype(np.int32)
    weight = (f32(3, 3) / 3).requires_grad_(seed % 3 == 0)
    args = f32(3, 3), f64(3, 3), torch.arange(9).reshape(3, 3) % 4, integers, weight
    try:
        check(space["f"], *args, fullgraph=False)
    except AssertionError as error:
        raise AssertionError(f"{source}\n{error}") from None


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_random_programs(first):
    for seed in range(first, first + 10):
        run(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 100))
def test_many_random_programs(first):
    for seed in range(first, first + 100):
        run(seed)
