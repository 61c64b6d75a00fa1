"""`torch.autograd.gradcheck` and `gradgradcheck`, in float64, of every entry of the operator table that has a derivative.

The cases are PyTorch's own samples (op_db, with its settings for gradcheck), compiled, and those of gradcheck_cases.py
for entries that these do not reach. The ordinary run takes the smallest samples; `long` takes all, and of all that are
not large each column of the Jacobians.
"""

from __future__ import annotations

import functools
import re
import unittest
from dataclasses import dataclass, field

import numpy as np
import pytest

import cdynamo
from cdynamo import _C
from cdynamo._explain import listening

torch = pytest.importorskip("torch")
from gradcheck_cases import (  # noqa: E402
    CASTS,
    ELSEWHERE,
    NOT_DIFFERENTIABLE,
    NUMPY,
    NUMPY_NOT_DIFFERENTIABLE,
    TORCH,
    array,
)
from torch.testing._internal import common_methods_invocations  # noqa: E402
from training_check import tensors_of  # noqa: E402

SAMPLES = 2  # an operator, in the ordinary run
LARGE = 64  # numbers in a sample: its Jacobians are checked along random directions only


# Operators that differences say nothing about. PyTorch leaves them out as well, each release in its own way.
NO_DIFFERENCES = {
    "half": "its results have 11 bits",
    "bfloat16": "its results have 8 bits",
    "float": "its results have 24 bits",
    "cfloat": "its results have 24 bits",
    "normal": "each call draws other numbers",
    "normal.number_mean": "each call draws other numbers",
    "masked.logaddexp": "some samples are of infinities alone",
    "linalg.norm.subgradients_at_zero": "the samples lie where there is no gradient",
}


def is_checked_by_torch(op, test: str) -> bool:
    """Whether PyTorch runs its own test of gradients on this operator: not where it skips it or knows it to fail."""
    if op.full_name in NO_DIFFERENCES:
        return False
    for decorator in op.get_decorators("TestBwdGradients", test, "cpu", torch.float64, {}):
        if decorator is unittest.expectedFailure:
            return False
        if getattr(decorator(lambda self: None), "__unittest_skip__", False):
            return False
    return True


OPERATORS: dict[str, list] = {}
for _op in common_methods_invocations.op_db:
    if _op.supports_autograd and torch.float64 in _op.supported_backward_dtypes("cpu"):
        if is_checked_by_torch(_op, "test_fn_grad"):
            OPERATORS.setdefault(_op.full_name, []).append(_op)


@pytest.fixture(autouse=True, scope="module")
def seeds_are_set_outside():
    """Operators that draw numbers set the seed around their call, which ends a graph; `Case` does it around all."""
    plain = lambda op, *args, **kwargs: op(*args, **kwargs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common_methods_invocations, "wrapper_set_seed", plain)
        yield


def mapped(function, tree):
    """`tree` with `function` applied to its tensors."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        items = [mapped(function, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {key: mapped(function, item) for key, item in tree.items()}
    return tree


@dataclass
class Findings:
    """What the checks of some samples found."""

    entries: set[str] = field(default_factory=set)  # of the table, in graphs whose derivatives were right
    checked: int = 0
    failures: list[str] = field(default_factory=list)


class Case:
    """One sample of an operator, as a function of its differentiable tensors that runs compiled.

    `on_products`: of products of them, made inside. Views of inputs are PyTorch's, not the compiled function's.
    """

    def __init__(self, op, sample, variant=None, on_products=False) -> None:
        self.op, self.sample, self.variant, self.on_products = op, sample, variant, on_products
        self.call = (sample.input, *sample.args), sample.kwargs
        self.inputs = [x for x in tensors_of(self.call) if x.requires_grad]
        variant = variant or op.op

        def function(*args, **kwargs):
            if on_products:
                args, kwargs = mapped(lambda x: x * 1.5 if x.requires_grad else x, [args, kwargs])
            return variant(*args, **kwargs)

        function.__name__ = getattr(variant, "__name__", "function")  # torch.masked's wrappers look at it
        self.function, self.compiled = function, cdynamo.optimize(function, dynamic=False)

    def is_in_the_table(self) -> bool:
        """Whether all of it is captured, and no operator is left to PyTorch."""
        args, kwargs = self.call
        captured = _C._capture(lambda: self.function(*args, **kwargs), ())
        return captured["end"] == "return" and "%library_" not in captured["graph"]

    def __call__(self, *tensors):
        given = iter(tensors)
        args, kwargs = mapped(lambda x: next(given) if x.requires_grad else x, self.call)
        torch.manual_seed(42)
        result = self.op.gradcheck_wrapper(self.compiled, *args, **kwargs)
        process = self.sample.output_process_fn_grad
        return process(result) if process else result


def size_of(sample) -> tuple[bool, int]:
    sizes = [x.numel() for x in tensors_of([sample.input, sample.args, sample.kwargs])]
    return 0 in sizes, sum(sizes)


def entries_in(explanation) -> tuple[set[str], set[str]]:
    """The entries in the captured graphs, and those in the joint graphs made of them."""
    names = lambda text: set(re.findall(r"%(?!library_)\w+: .* = (?:aten::)?([\w.]+?)_?\(", text))
    captured = set().union(*(names(graph) for graph in explanation.graphs))
    joint = set().union(*(names(graph.print_readable(False)) for graph in explanation.stage("joint")))
    return captured, joint


def check(case: Case, found: Findings, what: str, slow: bool = False) -> None:
    """Both checks of one case."""
    cdynamo.reset()
    op = case.op
    with listening() as explanation:
        results = tensors_of(case(*case.inputs))
    if not all(x.isfinite().all() for x in results if x.requires_grad):
        return  # powers of negative numbers, in some releases' samples: differences say nothing
    captured, joint = entries_in(explanation)
    if not joint:
        if not case.on_products:
            check(Case(op, case.sample, case.variant, on_products=True), found, what, slow)
        return
    fast = op.gradcheck_fast_mode
    if fast is None:
        fast = not slow or size_of(case.sample)[1] > LARGE
    options = dict(check_grad_dtypes=True, nondet_tol=op.gradcheck_nondet_tol, fast_mode=fast)
    try:
        case.compiled, compiled = case.function, case.compiled
        eager = tensors_of(case(*case.inputs))
        case.compiled = compiled
        assert [x.requires_grad for x in results] == [x.requires_grad for x in eager]
        torch.autograd.gradcheck(case, case.inputs, check_batched_grad=op.check_batched_grad, **options)
        found.entries |= captured
        if op.supports_gradgrad and is_checked_by_torch(op, "test_fn_gradgrad"):
            torch.autograd.gradgradcheck(
                case,
                case.inputs,
                gen_non_contig_grad_outputs=False,
                check_batched_grad=op.check_batched_gradgrad,
                **options,
            )
            found.entries |= joint
    except Exception as error:
        found.failures.append(f"{what}: {type(error).__name__}: {error}")
    found.checked += 1


@functools.cache
def check_samples(name: str, limit: int, slow: bool = False) -> Findings:
    """Checks the smallest samples of an operator that are compiled from the table alone."""
    found = Findings()
    for op in OPERATORS[name]:
        torch.manual_seed(0)
        samples = sorted(op.sample_inputs("cpu", torch.float64, requires_grad=True), key=size_of)
        for sample in samples[: 3 * limit]:
            case = Case(op, sample)
            if case.inputs and case.is_in_the_table():
                check(case, found, f"{name}{sample.summary()}", slow)
            if found.checked >= limit:
                break
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_smallest_samples(name):
    found = check_samples(name, SAMPLES)
    assert not found.failures, "\n".join(found.failures)
    if not found.checked:
        pytest.skip("no sample is compiled from the table alone")


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATORS)
def test_all_samples(name):
    found = check_samples(name, 10**6, slow=True)
    assert not found.failures, "\n".join(found.failures)


# ---- what op_db does not reach -------------------------------------------------------------------------------------


def inputs_of(shapes) -> list:
    return [torch.from_numpy(array(*shape, shift=0.3 * i)).requires_grad_() for i, shape in enumerate(shapes)]


@functools.cache
def check_case(name: str) -> set[str]:
    """The entries in the graph of a case of `TORCH`, once its derivatives are right."""
    cdynamo.reset()
    function, shapes = TORCH[name]
    inputs, compiled = inputs_of(shapes), cdynamo.optimize(function, dynamic=False)
    with listening() as explanation:
        compiled(*inputs)
    assert torch.autograd.gradcheck(compiled, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(compiled, inputs, fast_mode=True)
    captured, joint = entries_in(explanation)
    assert explanation.graph_break_count == 0 and joint
    return captured | joint


@pytest.mark.parametrize("name", TORCH)
def test_case(name):
    assert name in check_case(name)


def slopes(function, arrays: list, weights) -> list:
    """The gradients of (function(...) * weights).sum(), by differences of the uncompiled function."""
    step, found = 1e-6, []
    for i, x in enumerate(arrays):
        slope = np.zeros_like(x)
        for at in np.ndindex(x.shape):
            ends = []
            for sign in (1, -1):
                moved = [y.copy() for y in arrays]
                moved[i][at] += sign * step
                ends.append((function(*moved) * weights).sum())
            slope[at] = (ends[0] - ends[1]) / (2 * step)
        found.append(slope)
    return found


@functools.cache
def check_numpy_case(name: str) -> set[str]:
    """The entries in the graph of a case of `NUMPY`, once first and second derivatives are right."""
    cdynamo.reset()
    function, shapes = NUMPY[name]
    arrays = [np.asarray(array(*shape, shift=0.3 * i)) for i, shape in enumerate(shapes)]
    weights, places = np.asarray(array(*np.shape(function(*arrays)), shift=0.7)), tuple(range(len(arrays)))
    gradient = cdynamo.grad(lambda *xs: (function(*xs) * weights).sum(), places)
    with listening() as explanation:
        for got, expected in zip(gradient(*arrays), slopes(function, arrays, weights)):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)
    for place in places:  # of one gradient after the other
        weights_2 = np.asarray(array(*shapes[place], shift=0.9))
        second = cdynamo.grad(lambda *xs: (gradient(*xs)[place] * weights_2).sum(), places)
        for got, expected in zip(second(*arrays), slopes(lambda *xs: gradient(*xs)[place], arrays, weights_2)):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)
    return entries_in(explanation)[0]


@pytest.mark.parametrize("name", CASTS)
def test_gradients_of_casts(name):
    """There are no differences to take of what is rounded: the gradient is eager's."""
    function = lambda x: x * CASTS[name](x).double()
    (x,), weights = inputs_of([(2, 3)]), torch.from_numpy(array(2, 3, shift=0.5))
    with listening() as explanation:
        (gradient,) = torch.autograd.grad(cdynamo.optimize(function)(x), x, weights)
    assert torch.equal(gradient, torch.autograd.grad(function(x), x, weights)[0])
    assert name in entries_in(explanation)[0]


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_case(name):
    assert name in check_numpy_case(name)


@pytest.mark.parametrize("name", NOT_DIFFERENTIABLE)
def test_results_without_history(name):
    function, compiled = NOT_DIFFERENTIABLE[name], cdynamo.optimize(NOT_DIFFERENTIABLE[name])
    (x,) = inputs_of([(2, 3)])
    with listening() as explanation:
        assert not compiled(x).requires_grad
    assert not function(x).requires_grad
    assert name in entries_in(explanation)[0]


@pytest.mark.parametrize("name", NUMPY_NOT_DIFFERENTIABLE)
def test_numpy_results_that_are_no_floats(name):
    function, x = NUMPY_NOT_DIFFERENTIABLE[name], array(3)
    with listening() as explanation:
        result = np.asarray(cdynamo.optimize(function)(x))
    assert result.dtype.kind in "bi" and np.array_equal(result, function(x))
    assert name in entries_in(explanation)[0]


# ---- nothing is left out -------------------------------------------------------------------------------------------


def test_every_entry_that_has_a_derivative_is_checked():
    """A new entry of the table needs a sample of PyTorch's, or a row in gradcheck_cases.py."""
    covered = {*NOT_DIFFERENTIABLE, *NUMPY_NOT_DIFFERENTIABLE, *ELSEWHERE, *CASTS}
    covered = covered.union(*(check_samples(name, SAMPLES).entries for name in OPERATORS))
    covered = covered.union(*(check_case(name) for name in TORCH))
    covered = covered.union(*(check_numpy_case(name) for name in NUMPY))
    table = {name: differentiable for name, differentiable, _ in _C._operators()}
    missing = [name for name, differentiable in table.items() if differentiable and name not in covered]
    assert not missing, f"no case checks the derivatives of {', '.join(missing)}: gradcheck_cases.py wants rows"
    excused = [*NOT_DIFFERENTIABLE, *NUMPY_NOT_DIFFERENTIABLE, *ELSEWHERE]
    assert [name for name in excused if name not in table] == []
