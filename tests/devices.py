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
            if kwargs.get("device") is None and kwargs.get("out") is None and kwargs.get("generator") is None:
                kwargs["device"] = device
            return factory(*args, **kwargs)

        return make

    for name in FACTORIES:
        setattr(torch, name, on_device(getattr(torch, name)))
