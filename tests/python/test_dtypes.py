"""Half and integer types: what eager computes, with its roundings and its errors."""

import copy

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import cdynamo  # noqa: E402

HALF_TYPES = [torch.float16, torch.bfloat16]


def gradients(f, inputs):
    """f's result and its gradients for all inputs."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    result = f(*inputs)
    return result, *torch.autograd.grad(result, inputs, torch.ones_like(result))


def check_gradients(f, inputs):
    for got, expected in zip(gradients(cdynamo.optimize(f), inputs), gradients(f, inputs), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_group_norm_differentiates_with_rounded_statistics(dtype):
    x = torch.tensor([[-8.5, -1.765625, -4.3125]], dtype=dtype)
    check_gradients(lambda x, w: F.group_norm(x, 1, w), [x, x[0]])
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*s).to(dtype) * 6 for s in ((2, 6, 3), (6,), (6,)))
    for eps in (0.5, -0.5, 1e-5):
        check_gradients(lambda x, w, b, eps=eps: F.group_norm(x, 2, w, b, eps=eps), [x, weight, bias])


def test_group_norm_with_wide_parameters_keeps_wide_statistics():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 3).bfloat16() * 6
    check_gradients(lambda x, w, b: F.group_norm(x, 2, w, b), [x, torch.randn(6), torch.randn(6)])


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_group_norm_of_a_constant_group(dtype):
    check_gradients(lambda x: F.group_norm(x, 1, eps=1e-12), [torch.full((2, 3), 2.0, dtype=dtype)])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_soft_margin_loss_overflows_where_eager_does(reduction):
    x = torch.tensor([-8.5, -1.75, 4.3, 3.1, -0.5], dtype=torch.float16)
    target = torch.tensor([3.6, -8.1, -2.5, 1.0, -1.0], dtype=torch.float16)
    check_gradients(lambda x: F.soft_margin_loss(x, target, reduction=reduction), [x])
    assert torch.isnan(gradients(lambda x: F.soft_margin_loss(x, target), [x])[1]).any()


def test_second_derivative_of_a_slope_that_is_written_out():
    target = torch.tensor([1.0, -1.0, 1.0, -1.0])

    def curvature(dtype):
        x = torch.tensor([-1.5, -0.75, 0.25, 2.0], dtype=dtype, requires_grad=True)
        loss = cdynamo.optimize(lambda x: F.soft_margin_loss(x, target.to(dtype), reduction="sum"))(x)
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0].double()

    torch.testing.assert_close(curvature(torch.float16), curvature(torch.float64), rtol=1e-2, atol=1e-3)


def test_a_quotient_rounds_in_eagers_order():
    torch.manual_seed(0)
    x, y = (torch.randn(200).half() + 2 for _ in range(2))
    got = gradients(cdynamo.optimize(lambda x, y: x / y), [x, y])
    for a, b in zip(got, gradients(lambda x, y: x / y, [x, y]), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("start, end", [(4.3, 0), (0, 7.9), (3, 45)])
def test_linspace_of_integers_converts_its_bounds_first(dtype, start, end):
    def f():
        return torch.linspace(start, end, 50, dtype=dtype)

    before = cdynamo.counters()["graph_breaks"]
    assert torch.equal(cdynamo.optimize(f)(), f())
    assert cdynamo.counters()["graph_breaks"] == before


def outcome(f, *args):
    """f's result, or the type of its exception."""
    try:
        return f(*args)
    except Exception as error:
        return type(error)


def check_outcome(f, *args):
    got, expected = outcome(cdynamo.optimize(f), *args), outcome(f, *args)
    if isinstance(expected, type):
        assert got is expected
    else:
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def assigned(x, key, number):
    x = x.clone()
    x[key] = number
    return x


MASK, INDEX = torch.tensor([True, False, True]), torch.tensor([1])
CONVERSIONS = {
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "full_like": torch.full_like,
    "fill_": lambda x, v: x.clone().fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "where": lambda x, v: torch.where(MASK, x, v),
    "clamp": lambda x, v: x.clamp(min=v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "index_fill": lambda x, v: x.index_fill(0, INDEX, v),
    "scatter": lambda x, v: x.scatter(0, INDEX, v),
    "threshold": lambda x, v: F.threshold(x, 1, v),
    "pow": lambda x, v: x**v,
    "floor_divide": lambda x, v: x // v,
    "sub": lambda x, v: torch.sub(x, x, alpha=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "tensor": lambda x, v: torch.tensor(v, dtype=x.dtype),
    "slice": lambda x, v: assigned(x, slice(0, 2), v),
    "mask": lambda x, v: assigned(x, MASK, v),
    "index": lambda x, v: assigned(x, INDEX, v),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_numbers_that_do_not_fit_the_dtype(name):
    numbers = {
        torch.uint8: (-1, -256, 256, 255.5),
        torch.int8: (-129, 127.5, -128),
        torch.int64: (float("inf"), 2**63 - 1),
        torch.float16: (65505.0, -1e9, float("inf"), 65504.0),
    }
    for dtype, values in numbers.items():
        x = torch.tensor([3, 2, 0], dtype=dtype)
        for value in values:
            cdynamo.reset()
            check_outcome(lambda x, v=value: CONVERSIONS[name](x, v), x)


def test_a_size_that_does_not_fit_the_dtype():
    f = cdynamo.optimize(lambda x: torch.full((2,), x.shape[0], dtype=torch.int8), dynamic=True)
    assert f(torch.zeros(100)).tolist() == [100, 100]
    assert f(torch.zeros(101)).tolist() == [101, 101]
    with pytest.raises(RuntimeError):
        f(torch.zeros(128))


BESIDE_HALF = {
    "add": lambda x, v: x + v,
    "sub": lambda x, v: v - x,
    "mul": lambda x, v: x * v,
    "div": lambda x, v: x / v,
    "rdiv": lambda x, v: v / x,
    "floor_divide": lambda x, v: x // v,
    "remainder": lambda x, v: x % v,
    "fmod": lambda x, v: torch.fmod(x, v),
    "rpow": lambda x, v: abs(v) ** x,
    "trunc": lambda x, v: torch.div(x, v, rounding_mode="trunc"),
    "eq": lambda x, v: x == v,
    "lt": lambda x, v: x < v,
    "lerp": lambda x, v: torch.lerp(x, x * 2, v),
    "xlogy": lambda x, v: torch.xlogy(x, abs(x) * abs(v)),
    "mul_0d": lambda x, v: x * torch.tensor(v),
    "div_0d": lambda x, v: x / torch.tensor(v, dtype=torch.float64),
    "add_0d": lambda x, v: x + torch.tensor(v),
    "0d_mul": lambda x, v: torch.tensor(v) * x,
}


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("name", BESIDE_HALF)
def test_numbers_beside_half_types_round_as_eagers(name, dtype):
    torch.manual_seed(0)
    for number in (0.1, 255.5, -3.3):
        x = torch.cat([torch.randn(63) * 20, torch.tensor([number])]).to(dtype)
        cdynamo.reset()
        check_outcome(lambda x, v=number: BESIDE_HALF[name](x, v), x)


def test_elu_keeps_its_number():
    check_outcome(lambda x: F.elu(x, 0.1), torch.linspace(-4, 1, 64).half())


def test_logical_operators_narrow_0d_tensors_first():
    check_outcome(lambda x: torch.logical_and(x, torch.tensor(256)), torch.tensor([1, 0], dtype=torch.uint8))
    check_outcome(lambda x: torch.logical_or(x, torch.tensor(1e-30)), torch.tensor([1, 0]).half())
    check_outcome(lambda x: torch.logical_xor(x, torch.tensor([256, 0])), torch.tensor([1, 0], dtype=torch.uint8))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.clamp(min=True),
        lambda x: x << True,
        lambda x: True**x,
        lambda x: torch.addcmul(x, x, x),
        lambda x: torch.lerp(x.int(), x.int(), 0.5),
        lambda x: torch.arange(2, dtype=x.dtype),
        lambda x: torch.hypot(x.int(), x),
    ],
)
def test_what_eager_does_not_implement_for_bool_and_integers(f):
    check_outcome(f, torch.tensor([True, False]))


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_bounds_of_one_number(dtype, monkeypatch):
    monkeypatch.setattr(cdynamo.config, "suppress_errors", False)
    x = torch.tensor(1.0, dtype=dtype)
    check_outcome(lambda x: torch.where(x > 1, x, 0.5).clamp(max=0.5), x)
    check_outcome(lambda x: torch.where(x > 1, x, 0.5).clamp(min=0.75), x)


@pytest.mark.parametrize("dtype", [*HALF_TYPES, torch.float32])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, 3, -2])
def test_powers_of_infinities_and_zeros(dtype, exponent):
    x = torch.tensor([-float("inf"), float("inf"), -0.0, 0.0, 2.0, -2.0, float("nan")], dtype=dtype)
    check_outcome(lambda x: x**exponent, x.repeat(8))


def test_differences_keep_the_order_of_dims():
    f = cdynamo.optimize(lambda x: x.t().diff(dim=-1))
    x = torch.randn(5, 33)
    assert f(x).stride() == x.t().diff(dim=-1).stride()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
def test_shifts_by_the_width_and_more(dtype):
    x, by = torch.tensor([128, 255, 1, 77]).to(dtype), torch.tensor([7, 8, 64, -1]).to(dtype)
    check_outcome(lambda x, y: x >> y, x, by)
    check_outcome(lambda x, y: x << y, x, by)
    check_outcome(lambda x: x >> 9, x)


def test_a_mean_in_a_half_type_reads_its_operand_in_full():
    check_outcome(lambda x: x.mean(dtype=torch.float16), torch.tensor([70000, 1]))


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_quotients_beyond_the_range_of_float32_are_as_eager_has_them(name):
    # PyTorch's vectors give NaN there, what is left over at the end of a row does not.
    op = getattr(torch, name)
    x = torch.full((70,), -8.4375).bfloat16()
    y = torch.full_like(x, torch.finfo(torch.bfloat16).tiny)
    for divisor in (y, torch.finfo(torch.bfloat16).tiny, 2.5):
        torch.testing.assert_close(cdynamo.optimize(op)(x, divisor), op(x, divisor), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("shape", [(8,), (5, 8), (2, 3, 8)], ids=str)
def test_linear_rounds_once(dtype, shape):
    x, w, b = torch.randn(shape).to(dtype), torch.randn(6, 8).to(dtype), torch.randn(6).to(dtype)
    exact = F.linear(x.double(), w.double(), b.double())
    got = cdynamo.optimize(F.linear)(x, w, b)
    # Half a unit in the last place, and what float32 adds to it.
    assert ((got.double() - exact).abs() <= exact.abs() * torch.finfo(dtype).eps * 0.51 + 1e-5).all()


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("beta, alpha", [(1, 1), (0.5, 2), (0, 1)])
def test_products_with_an_addend_have_eagers_gradients(dtype, beta, alpha):
    def program(bias, a, b):
        if a.ndim == 2:
            return torch.addmm(bias, a, b, beta=beta, alpha=alpha)
        return torch.baddbmm(bias, a, b, beta=beta, alpha=alpha)

    for sizes in [((4,), (3, 5), (5, 4)), ((2, 3, 4), (2, 3, 5), (2, 5, 4))]:
        operands = [torch.randn(size).to(dtype).requires_grad_() for size in sizes]
        expected, got = program(*operands), cdynamo.optimize(program)(*operands)
        torch.testing.assert_close(got, expected)
        grad = torch.randn_like(got)
        for mine, eager in zip(torch.autograd.grad(got, operands, grad), torch.autograd.grad(expected, operands, grad)):
            torch.testing.assert_close(mine, eager)


OF_NUMBERS = {
    "div": lambda: torch.div(7, 2),
    "div, truncated": lambda: torch.div(7, 2, rounding_mode="trunc"),
    "div, floored": lambda: torch.div(-7, 2, rounding_mode="floor"),
    "floor_divide": lambda: torch.floor_divide(7, 2),
    "an int and a float": lambda: torch.add(1, 2.5),
    "floats": lambda: torch.add(1.5, 2.25),
    "bools": lambda: torch.mul(True, False),
    "a bool and an int": lambda: torch.mul(True, 3),
    "a factor": lambda: torch.sub(5, 2, alpha=2),
    "beyond 32 bits": lambda: torch.add(2**40, 1),
    "as a bound": lambda: torch.arange(10)[: torch.div(7, 2, rounding_mode="trunc")],
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_where_tensors_may_stand(name):
    function = OF_NUMBERS[name]
    got, expected = cdynamo.optimize(function, fullgraph=True)(), function()
    assert got.dtype == expected.dtype and got.shape == expected.shape and torch.equal(got, expected)


@pytest.mark.parametrize("method", ["add", "__radd__", "mul", "__mul__", "div", "sub"])
def test_a_method_is_of_a_tensor(method):
    def outcome(f):
        try:
            return f(1, 2)
        except TypeError as error:
            return str(error)

    unbound = getattr(torch.Tensor, method)
    assert outcome(cdynamo.optimize(lambda a, b: unbound(a, b))) == outcome(unbound)


class Tied(torch.nn.Module):
    """The last layer's weight is the embedding; its words are an odd number, for which products are padded on a GPU."""

    def __init__(self, words):
        super().__init__()
        self.words = torch.nn.Embedding(words, 24)
        self.hidden = torch.nn.Linear(24, 13)
        self.back = torch.nn.Linear(13, 24, bias=False)

    def forward(self, ids, labels):
        h = self.words(ids)
        logits = F.linear(h + self.back(F.gelu(self.hidden(h))), self.words.weight)
        return logits, F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.view(-1))


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("words", [29, 30, 36])
def test_products_whose_rows_end_anywhere(dtype, words):
    torch.manual_seed(0)
    model = Tied(words)
    exact = copy.deepcopy(model).double()
    model = model.to(dtype)
    compiled = cdynamo.optimize(model)
    for rows in (4, 9, 3):
        ids, labels = torch.randint(0, words, (2, rows, 7)).unbind()

        def run(model, ids=ids, labels=labels):
            model.zero_grad()
            logits, loss = model(ids, labels)
            loss.backward()
            with torch.no_grad():
                unhistoried = model(ids, labels)[0]
            return [logits, unhistoried, loss, *(p.grad for p in model.parameters())]

        for got, want in zip(run(compiled), run(exact), strict=True):
            assert got.stride() == want.stride()
            assert (got - want).norm() <= (2e-2 if dtype == torch.bfloat16 else 3e-3) * want.norm()


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_what_is_only_moved_keeps_its_bits(dtype):
    def moves(x, keep, index):
        part = x.clone()
        part[1:3, ::2] = 1.0
        chosen = torch.where(keep, x, torch.where(keep.flip(0), x.flip(0), 0.5))
        copies = (
            x.t().contiguous(),
            torch.cat([x, x.flip(1)]),
            F.pad(x, (1, 2)),
            x.roll(1, 0),
            x.unfold(1, 3, 2).contiguous(),
        )
        return part, chosen, x.masked_fill(keep, -0.0), x.tril(), *copies, x[index], x.take(index), x[x[:, 0] < 1]

    def write(x):
        x[0:2] = 1.0

    bits = torch.arange(16 * 24) * 2
    infinity = 0x7F80 if dtype == torch.bfloat16 else 0x7C00
    bits = torch.where(bits % 3 == 0, infinity | bits & 0x7F | 1, bits * 37) | torch.where(bits % 5 == 0, 0x8000, 0)
    x = bits.to(torch.int16).reshape(16, 24).view(dtype)
    assert x.isnan().any()
    operands = x, (torch.arange(24) % 3 == 0).expand(16, 24), torch.tensor([3, 0, 5])
    for want, got in zip(moves(*operands), cdynamo.optimize(moves)(*operands)):
        assert torch.equal(got.view(torch.int16), want.view(torch.int16))
    got = x.clone()
    write(x)
    cdynamo.optimize(write)(got)
    assert torch.equal(got.view(torch.int16), x.view(torch.int16))
