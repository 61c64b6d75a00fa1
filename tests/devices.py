"""The tests of the CPU on another device: CDYNAMO_TEST_DEVICE=cuda makes PyTorch's factories make tensors there where a test does
not say. (torch.set_default_device is a mode, under which nothing is compiled.)"""

from __future__ import annotations

import functools

FACTORIES = (
    *("arange", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn"),
    *("randperm", "scalar_tensor", "tensor", "zeros"),
)


def make_default(device: str) -> None:
    import torch

    def on_device(factory):
        @functools.wraps(factory)
        def make(*args, **kwargs):
            if kwargs.get("device") is not None or kwargs.get("out") is not None:
                return factory(*args, **kwargs)
            if kwargs.get("generator") is not None:  # the CPU's, whose numbers are wanted
                requires_grad = kwargs.pop("requires_grad", False)
                return factory(*args, **kwargs).to(device).requires_grad_(requires_grad)
            return factory(*args, **{**kwargs, "device": device})

        return make

    for name in FACTORIES:
        setattr(torch, name, on_device(getattr(torch, name)))
