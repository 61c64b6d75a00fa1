"""What libraries of models do around their tensors: signatures, log records, modules made in forward, key-value caches."""

import copy
import functools
import inspect
import logging

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import cdynamo  # noqa: E402


@pytest.fixture
def breaks():
    before = cdynamo.counters()["graph_breaks"]
    return lambda: cdynamo.counters()["graph_breaks"] - before


def test_view_of_static_sizes_by_ints_that_change(breaks):
    """The sizes of the result are symbols where those of the operand are not."""

    def f(x, w, stride, side):
        b, n, c = x.shape
        x = x.transpose(1, 2).reshape(b, c, side, side)
        x = nn.functional.conv2d(x, w, None, (stride, stride))
        return x.reshape(b, c, -1).transpose(1, 2)

    fast = cdynamo.optimize(f)
    for side, channels, stride in ((16, 16, 8), (8, 32, 4), (4, 48, 2), (2, 64, 1), (8, 32, 4)):
        x, w = torch.randn(2, side * side, channels), torch.randn(channels, channels, stride, stride)
        torch.testing.assert_close(fast(x, w, stride, side), f(x, w, stride, side))
    assert breaks() == 0


def test_masks_of_transformer_encoders(breaks):
    """In inference eager takes a mask of numbers for one of bools, not as added."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x, padding = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 3:] = padding[2, 4:] = True
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        for masks in (
            {"src_key_padding_mask": padding},
            {"src_key_padding_mask": torch.zeros(3, 5).masked_fill(padding, -torch.inf)},
            {"mask": causal},
            {"mask": causal.isinf(), "src_key_padding_mask": padding},
            {"mask": torch.randn(5, 5)},
        ):
            fast = cdynamo.optimize(lambda x, masks: encoder(x, **masks))
            torch.testing.assert_close(fast(x, masks), encoder(x, **masks), equal_nan=True)
    assert breaks() == 0


def test_norms_of_sizes_that_change(breaks):
    fast = cdynamo.optimize(lambda x, n, w: nn.functional.layer_norm(x, (n,), w))
    for n in (4, 6, 8, 10):
        x, w = torch.randn(3, n), torch.randn(n)
        torch.testing.assert_close(fast(x, n, w), nn.functional.layer_norm(x, (n,), w))
    assert breaks() == 0


def test_cache_that_starts_empty():
    """torch.cat passes an empty tensor over, and its result follows it in the autograd graph."""

    def f(empty, k):
        keys = torch.cat([torch.tensor([]), k * 2], dim=-2)
        return torch.cat([empty, keys], dim=1)

    for function in (f, cdynamo.optimize(f)):
        empty, k = torch.empty(0, requires_grad=True), torch.randn(2, 3, 4, requires_grad=True)
        function(empty, k).square().sum().backward()
        torch.testing.assert_close(k.grad, 8 * k.detach())
        assert empty.grad.shape == (0,)


def test_modules_made_in_forward(breaks):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

        def forward(self, x, target):
            for layer in self.layers[:2]:
                x = layer(x)
            return nn.CrossEntropyLoss()(x, target)

    model, x, target = Model(), torch.randn(5, 4), torch.randint(4, (5,))
    torch.testing.assert_close(cdynamo.optimize(model)(x, target), model(x, target))
    assert breaks() == 0


def test_signatures(breaks):
    class Layer:
        def chunk(self, x, *, scale=2.0):
            return x * scale

        def __call__(self, x, **options):
            known = inspect.signature(self.chunk).parameters
            names = {name for name in inspect.signature(Layer.chunk).parameters}
            options = {name: value for name, value in options.items() if name in known}
            return self.chunk(x, **options) + len(known) + len(names) + known["scale"].default

    layer, x = Layer(), torch.ones(3)
    fast = cdynamo.optimize(lambda x: layer(x, scale=3.0, other=1))
    torch.testing.assert_close(fast(x), layer(x, scale=3.0))
    assert breaks() == 0


def test_signature_of_another_function_is_seen():
    fast = cdynamo.optimize(lambda x, f: x + len(inspect.signature(f).parameters))
    assert fast(torch.zeros(1), lambda a: a).item() == 1
    assert fast(torch.zeros(1), lambda a, b: a).item() == 2


logger = logging.getLogger("test_library_idioms")


@functools.lru_cache(None)
def warn_once(message):
    logger.warning(message)


def test_log_records_come_from_the_users_line(caplog, breaks):
    def f(x, level):
        logger.log(level, "on %s", "the way")
        logger.debug("not wanted")
        return x + 1

    line = f.__code__.co_firstlineno + 1
    fast = cdynamo.optimize(f)
    with caplog.at_level(logging.INFO, logger=logger.name):
        for _ in range(2):
            fast(torch.zeros(2), logging.WARNING)
    records = [(r.levelname, r.getMessage(), r.lineno, r.funcName, r.pathname) for r in caplog.records]
    assert records == [("WARNING", "on the way", line, "f", __file__)] * 2
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger=logger.name):  # what the logger lets through is guarded
        fast(torch.zeros(2), logging.WARNING)
    assert [r.getMessage() for r in caplog.records] == ["on the way", "not wanted"]
    assert breaks() == 0


def test_a_cached_function_that_logs_does_so_once(caplog, breaks):
    def f(x):
        warn_once("said once")
        return x * 2

    fast = cdynamo.optimize(f)
    with caplog.at_level(logging.INFO, logger=logger.name):
        for n in (2, 3, 4):
            fast(torch.zeros(n))
    assert [r.getMessage() for r in caplog.records] == ["said once"]
    assert breaks() == 0


def test_a_cached_function_that_changes_something_is_called_once():
    seen = []

    @functools.lru_cache(None)
    def note(n):
        seen.append(n)
        return n

    fast = cdynamo.optimize(lambda x: x + note(3))
    for _ in range(3):
        assert fast(torch.zeros(1)).item() == 3
    assert seen == [3]


class Recipe:
    def __init__(self, pattern):
        self.axes = pattern.split()


@functools.lru_cache
def recipe_of(pattern):
    return Recipe(pattern)


@functools.lru_cache
def shape_of(recipe, shape):
    return [shape[int(axis)] for axis in recipe.axes], None


def test_cached_recipes_of_patterns(breaks):
    def f(x):
        recipe = recipe_of("1 0")
        shape, nothing = shape_of(recipe, tuple(x.shape))
        assert recipe is recipe_of("1 0") and nothing is None
        return x.reshape(shape) * 2

    fast = cdynamo.optimize(f)
    for n in (2, 3, 4, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(fast(x), f(x))
    assert breaks() == 0


def test_autograd_function_without_gradients(breaks):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x * x * scale if not any(ctx.needs_input_grad) else x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad * ctx.scale, None

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    fast = cdynamo.optimize(lambda x: Square.apply(x, 3) + Cube.apply(x))
    x = torch.randn(5)
    torch.testing.assert_close(fast(x), 3 * x * x + x**3)
    with torch.no_grad():
        torch.testing.assert_close(fast(x.clone().requires_grad_()), x + x**3)  # as in eager, it needs a gradient
    assert breaks() == 0
    leaf = x.clone().requires_grad_()
    fast(leaf).sum().backward()
    torch.testing.assert_close(leaf.grad, 6 * x + 3 * x * x)
    assert breaks() == 0


def test_copies_of_configurations(breaks):
    class Config:
        def __init__(self):
            self.width, self.names, self.nested = 3, ["a"], {"b": 2}

        def __setattr__(self, name, value):
            super().__setattr__(name, value)

    config = Config()

    def f(x):
        mine = copy.deepcopy(config)
        mine.width += 1
        mine.names.append("c")
        return x * mine.width, mine

    got, mine = cdynamo.optimize(f)(torch.ones(2))
    assert got.tolist() == [4, 4] and vars(mine) == {"width": 4, "names": ["a", "c"], "nested": {"b": 2}}
    assert config.width == 3 and config.names == ["a"] and mine.nested is not config.nested
    assert breaks() == 0


def test_weight_norm():
    for dim in (0, 1, 2, None):
        eager = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3), dim=dim)
        twin = copy.deepcopy(eager)
        x, results = torch.randn(2, 4, 9), []
        for module, call in ((eager, eager), (twin, cdynamo.optimize(twin))):
            call(x).square().mean().backward()
            results.append([call(x), *(p.grad for p in module.parameters())])
        for theirs, mine in zip(*results):
            torch.testing.assert_close(mine, theirs)


def test_arange_of_integers_with_float_bounds(breaks):
    fast = cdynamo.optimize(lambda x: x + torch.arange(0, 7, 2.0, dtype=torch.int64))
    assert fast(torch.zeros(4)).tolist() == [0, 2, 4, 6]
    assert breaks() == 0


def test_wrappers_made_in_forward(breaks):
    def maybe(function):
        @functools.wraps(function)
        def inner(x, *args):
            return x if x is None else function(x, *args)

        return inner

    def double(x: int):
        """Doubles."""
        return 2 * x

    double.mark = "own"

    def f(x):
        wrapper = maybe(double)
        again = maybe(wrapper)
        known = wrapper.__name__, wrapper.__doc__, wrapper.mark, again.mark, again.__wrapped__ is wrapper
        return again(x), maybe(lambda y: y + 1)(x), again(None), known, wrapper

    fast = cdynamo.optimize(f)
    for _ in range(2):
        got, expected = fast(torch.ones(2)), f(torch.ones(2))
        assert got[0].tolist() == [2, 2] and got[1].tolist() == [2, 2]
        assert got[2:4] == expected[2:4]
        assert got[4].__annotations__ == {"x": int} and got[4].__wrapped__ is double and got[4].mark == "own"
    assert breaks() == 0


def test_no_tensor_is_pinned_before_cuda_is_used(breaks):
    def f(x):
        return x + 1 if x.is_pinned() else x * 2

    x = torch.randn(3)
    assert torch.equal(cdynamo.optimize(f)(x), x * 2)
    assert breaks() == 0


def test_annotations_of_typing_are_known():
    from typing import Callable, Dict, List, Optional

    def program(x):
        parts = torch.jit.annotate(List[torch.Tensor], [])
        parts.append(x + 1)
        return parts[0] * 2, Dict[str, int], Callable[[int], str], Optional[int]

    x = torch.ones(2)
    assert str(cdynamo.optimize(program, fullgraph=True)(x)) == str(program(x))
