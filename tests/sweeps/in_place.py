"""The in-place form of PyTorch's operators (op_db) on what a function has made: results, gradients and errors against eager's.

    python tests/sweeps/in_place.py                 # some minute on one core
    python tests/sweeps/in_place.py --only clamp    # operators whose names contain this

Each is called with some of its samples on a tensor, on views of one, and under no_grad. The work is done in another process: a
crash costs one operator. Last line: 'N same, M differ, K crashed'. Exit status 1 if M or K is not 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from expressions import Check, main, outcome, same

SAMPLES = 7  # of an operator, at most
LARGEST = 5000  # elements of one

# Of these eager has no derivative in place, and compiled code has that of the operator; or they are refused under no_grad alone.
WITHOUT_GRADIENT = ("acosh", "asinh", "atanh", "heaviside", "resize_", "resize_as_")


def forms(write: Callable) -> dict[str, Callable]:
    import torch

    def whole(x, args, kwargs):
        y = x * 1
        write(y, *args, **kwargs)
        return y + 0

    def returned(x, args, kwargs):
        return write(x * 1, *args, **kwargs)

    def row(x, args, kwargs):
        y = torch.stack([x * 1, x * 2])
        write(y[1], *args, **kwargs)
        return y * 3

    def reshaped(x, args, kwargs):
        y = (x * 1).flatten()
        write(y.view(x.shape), *args, **kwargs)
        return y * 2

    def past_gradient(x, args, kwargs):
        y = x * 2
        with torch.no_grad():
            write(y, *args, **kwargs)
        return y * 1

    return {f.__name__: f for f in (whole, returned, row, reshaped, past_gradient)}


def ends(run: Callable, sample: Any, with_gradients: bool) -> Any:
    """The result and the gradients of the sample's tensors; or the error."""
    import torch

    def fresh(given: Any) -> Any:
        is_tensor = isinstance(given, torch.Tensor)
        return given.detach().clone().requires_grad_(given.requires_grad) if is_tensor else given

    x, *args = map(fresh, (sample.input, *sample.args))
    torch.manual_seed(0)
    result = outcome(run, (x, args, sample.kwargs))
    if isinstance(result, Exception):
        return result
    wanted = [each for each in (x, *args) if isinstance(each, torch.Tensor) and each.requires_grad]
    if not (with_gradients and wanted and result.requires_grad):
        return [result.detach()]
    return [result.detach(), outcome(lambda: torch.autograd.grad(result.sum(), wanted, allow_unused=True), ())]


def check_operator(name: str, state: Path) -> tuple[int, int]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    import cdynamo

    counts = [0, 0]
    with_gradients = name not in WITHOUT_GRADIENT
    for op in (op for op in op_db if op.name == name and op.inplace_variant):
        for dtype in {torch.float64, torch.int64} & op.supported_dtypes("cpu"):
            samples = outcome(lambda: list(op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point)), ())
            if isinstance(samples, Exception):
                continue
            for sample in samples[:: max(1, len(samples) // SAMPLES)]:
                if not isinstance(sample.input, torch.Tensor) or sample.input.numel() > LARGEST:
                    continue
                for form, function in forms(op.inplace_variant).items():
                    state.write_text(f"{name}, {form}, {sample}")
                    want, got = (ends(run, sample, with_gradients) for run in (function, cdynamo.optimize(function)))
                    alike = same(want, got) or (not with_gradients and isinstance(want, Exception))
                    counts[not alike] += 1
                    if not alike:
                        print(f"{name}, {form}: {want!r:.200} | {got!r:.200}".replace("\n", " "), flush=True)
    return counts[0], counts[1]


def prepare() -> Check:
    return check_operator


def names() -> list[str]:
    from torch.testing._internal.common_methods_invocations import op_db

    return sorted({op.name for op in op_db if op.inplace_variant})


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, names(), prepare))
