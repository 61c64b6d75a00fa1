"""PyTorch's samples of its modules (torch.testing's module_db): results, gradients, buffers and errors against eager's.

    python tests/sweeps/modules.py                 # some three minutes on one core
    python tests/sweeps/modules.py --only Norm     # modules whose names contain this

Each sample is a module and what it is called with, in training and evaluation, twice one after the other. The work is done in
another process: a crash costs one module. Last line: 'N same, M differ, K crashed'. Exit status 1 if M or K is not 0.
"""

from __future__ import annotations

import copy
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from expressions import Check, main, outcome, same

# Their draws are eager's own where a random generator is not followed number by number.
RANDOM = re.compile(r"Dropout|RReLU|Transformer|FractionalMaxPool")


def near(expected: Any, got: Any) -> bool:
    """`same`, where a sum's terms may be far larger than the sum: up to the rounding of the largest element."""
    import torch

    if isinstance(expected, (list, tuple)):
        return isinstance(got, type(expected)) and len(got) == len(expected) and all(map(near, expected, got))
    if not isinstance(expected, torch.Tensor) or not isinstance(got, torch.Tensor) or same(expected, got):
        return same(expected, got)
    if (expected.shape, expected.dtype) != (got.shape, got.dtype) or not expected.is_floating_point():
        return False
    return bool((expected - got).abs().max() <= 1e4 * torch.finfo(expected.dtype).eps * expected.abs().max())


def ends(run: Callable, module: Any, args: tuple, kwargs: dict) -> Any:
    """What a call gives, the gradients of its tensors and parameters, and the module's buffers; or the error."""
    import torch
    from torch.utils._pytree import tree_leaves

    torch.manual_seed(1)
    result = outcome(run, (module, args, kwargs))
    if isinstance(result, Exception):
        return result
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    wanted = [leaf for leaf in [*given, *module.parameters()] if leaf.requires_grad]
    outputs = [tensor for tensor in tensors if tensor.requires_grad]
    slopes = [torch.linspace(-1, 1, o.numel(), dtype=o.dtype).reshape(o.shape) for o in outputs]
    gradients = outcome(lambda: torch.autograd.grad(outputs, wanted, slopes, allow_unused=True), ()) if outputs else ()
    return [tensor.detach() for tensor in tensors], gradients, [buffer.clone() for buffer in module.buffers()]


def check_module(name: str, state: Path) -> tuple[int, int]:
    import torch
    from torch.testing._internal.common_modules import module_db

    import cdynamo

    def run(module: Any, args: tuple, kwargs: dict) -> Any:
        return module(*args, **kwargs)

    (info,) = (info for info in module_db if info.name == name)
    counts = [0, 0]

    def compare(what: str, sample: Any, dtype: torch.dtype, training: bool) -> None:
        torch.manual_seed(0)
        constructor, given = sample.constructor_input, sample.forward_input
        plain = outcome(lambda: info.module_cls(*constructor.args, **constructor.kwargs).to(dtype), ())
        if given is None or isinstance(plain, Exception):
            return
        plain.train(training)
        ours, compiled = copy.deepcopy(plain), cdynamo.optimize(run)
        for call in range(2):
            state.write_text(f"{name}, {what}, call {call}")
            want = ends(run, plain, given.args, given.kwargs)
            got = ends(compiled, ours, given.args, given.kwargs)
            alike = near(want, got) or (training and RANDOM.search(name) is not None)
            counts[not alike] += 1
            if not alike:
                print(f"{name}, {what}, call {call}: {want!r:.200} | {got!r:.200}".replace("\n", " "), flush=True)

    for dtype, training in itertools.product((torch.float32, torch.float64), (True, False)):
        options = {"device": "cpu", "dtype": dtype, "requires_grad": True, "training": training}
        if dtype not in info.dtypes:
            continue
        for i, sample in enumerate(info.module_inputs_func(info, **options)):
            compare(f"{dtype}, training {training}, sample {i}", sample, dtype, training)
        for i, refused in enumerate(
            info.module_error_inputs_func(info, **options) if info.module_error_inputs_func else ()
        ):
            compare(f"{dtype}, training {training}, error {i}", refused.module_error_input, dtype, training)
    return counts[0], counts[1]


def prepare() -> Check:
    return check_module


def names() -> list[str]:
    from torch.testing._internal.common_modules import module_db

    return [info.name for info in module_db]


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, names(), prepare))
