"""What is one object, or one piece of memory, in one call and two in the next."""

from __future__ import annotations

import pytest

import cdynamo

np = pytest.importorskip("numpy")


class Box:
    def __init__(self, value=0.0):
        self.value = value


def agree(f, *calls):
    """The same sequence of calls, plain and compiled: each call is a function that makes the arguments."""
    fast = cdynamo.optimize(f)
    for make in [*calls, *calls]:
        plain, compiled = make(), make()
        expected, got = f(*plain), fast(*compiled)
        assert str(got) == str(expected)
        assert show(compiled) == show(plain)


def show(thing):
    if isinstance(thing, Box):
        return show(thing.value)
    if isinstance(thing, dict):
        return {key: show(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [show(item) for item in thing]
    return str(thing)


def one_and_two(make):
    def same():
        thing = make()
        return thing, thing

    return lambda: (make(), make()), same


def test_arrays():
    def f(a, b):
        a += 1
        b *= 2
        return a + b

    agree(f, *one_and_two(lambda: np.arange(4.0)))


def test_identity_is_looked_at():
    agree(lambda a, b: a + (1 if a is b else 2), *one_and_two(lambda: np.arange(4.0)))


def test_views_that_overlap_and_do_not():
    def f(a, b):
        a *= 2
        return a + b

    def make(first, second):
        def arguments():
            memory = np.arange(16.0)
            return memory[first : first + 4], memory[second : second + 4]

        return arguments

    agree(f, make(0, 8), make(0, 2), make(0, 4), make(2, 0), make(0, 0))


@pytest.mark.parametrize("make", (Box, dict, list), ids=("object", "dict", "list"))
def test_two_arguments(make):
    def boxes(a, b, x):
        a.value = x + 1
        return b.value

    def dicts(a, b, x):
        a["k"] = x + 1
        return b.get("k")

    def lists(a, b, x):
        a.append(x + 1)
        return len(b)

    f = {Box: boxes, dict: dicts, list: lists}[make]
    x = np.ones(2)
    agree(f, *((lambda args=arguments: (*args(), x)) for arguments in one_and_two(make)))


def test_two_things_of_one_argument():
    """Both are reached from one root."""

    def f(pair, x):
        pair[0].value = x + 1
        return pair[1].value

    x = np.ones(2)
    agree(f, *((lambda args=arguments: (list(args()), x)) for arguments in one_and_two(Box)))


def test_attributes_of_one_object():
    def f(box, x):
        box.value.value = x * 2
        return box.other.value

    def make(two):
        def arguments():
            box = Box(Box())
            box.other = Box() if two else box.value
            return box, np.ones(2)

        return arguments

    agree(f, make(True), make(False))


def test_it_is_the_same_object_later():
    """Neither the root nor the function is another one: only an attribute is."""

    def f(box, x):
        box.value.value = x * 2
        return box.other.value

    fast, box, x = cdynamo.optimize(f), Box(Box(1.0)), np.ones(2)
    box.other = Box(5.0)
    for _ in range(4):
        assert fast(box, x) == 5.0
    box.other = box.value
    for _ in range(4):
        assert fast(box, x).tolist() == [2, 2]
    box.other = Box(6.0)
    for _ in range(4):
        assert fast(box, x) == 6.0


@pytest.mark.parametrize("count", (10, 100))
def test_many_objects(count):
    def f(boxes, x):
        for box in boxes:
            box.value = box.value + x.sum()
        return [box.value for box in boxes]

    def make(repeated):
        def arguments():
            boxes = [Box(float(i)) for i in range(count)]
            if repeated:
                boxes[-1] = boxes[repeated]
            return boxes, np.ones(2)

        return arguments

    agree(f, make(0), make(count // 2), make(0), make(count - 2))


@pytest.mark.parametrize("count", (10, 70, 130))
def test_many_arguments_one_of_them_written(count):
    """More than 64 pairs."""
    names = [f"a{i}" for i in range(count)]
    scope = {}
    exec(
        f"def f(x, w, {', '.join(names)}):\n    w.value = x + 1\n    return [b.value for b in ({', '.join(names)})]",
        scope,
    )

    def make(same):
        def arguments():
            boxes = [Box(float(i)) for i in range(count + 1)]
            if same is not None:
                boxes[same] = boxes[0]
            return np.ones(2), *boxes

        return arguments

    agree(scope["f"], make(None), make(count), make(1), make(count // 2))


torch = pytest.importorskip("torch")


@pytest.mark.parametrize("count", (3, 70, 130))
def test_many_tensors(count):
    def f(tensors):
        for i, tensor in enumerate(tensors):
            tensor.mul_(2).add_(i)
        return sum(tensors)

    def make(same, offset=0):
        def arguments():
            memory = torch.arange(4.0 * count + 4)
            tensors = [memory[4 * i : 4 * i + 4] for i in range(count)]
            if same is not None:
                tensors[same] = memory[4 * count - 4 - offset : 4 * count - offset]
            return (tensors,)

        return arguments

    agree(f, make(None), make(0), make(0, 2), make(1))
    one = torch.ones(3)
    agree(f, lambda: ([one.clone() for _ in range(count)],), lambda: ([one.clone()] * count,))


def test_a_parameter_that_is_tied_later():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)))

    model = Two()
    fast = cdynamo.optimize(model)
    x = torch.randn(2, 3)
    for tied in (False, True, False, True):
        model.b.weight = model.a.weight if tied else torch.nn.Parameter(torch.randn(3, 3))
        grads = []
        for called in (model, fast):
            model.zero_grad()
            called(x).sum().backward()
            grads.append([parameter.grad.clone() for parameter in model.parameters()])
        for got, expected in zip(*grads):
            torch.testing.assert_close(got, expected)
