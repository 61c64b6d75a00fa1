"""GraphModules of tensors for graphs that call NumPy: what the parts of a torch program that pass through NumPy are to
backends written for torch.compile.

The calls are NumPy's own on memory that tensors and arrays share. Under a backend that traces (fake tensors, functional
tensors, dispatch modes) they are those of torch's NumPy layer, as in torch.compile's graphs.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from cdynamo._graph import map_leaves


def as_tensor(value: Any) -> Any:
    """The tensor on an array's memory; what has none (numbers, views in reverse, read-only arrays) as it is."""
    import numpy
    import torch

    layer = sys.modules.get("torch._numpy")
    if layer is not None and isinstance(value, layer.ndarray):
        return value.tensor
    if isinstance(value, numpy.generic):
        value = numpy.asarray(value)
    if not isinstance(value, numpy.ndarray) or not value.flags.writeable:
        return value
    try:
        return torch.from_numpy(value)
    except (TypeError, ValueError):
        return value


def as_array(value: Any, force: bool = False) -> Any:
    """The array on a tensor's memory; of a tensor that is traced, torch's own ndarray. The rest as it is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if _is_traced(value):
        import torch._numpy

        return torch._numpy.ndarray(value)
    return value.detach().numpy()


def as_number(value: Any) -> Any:
    """NumPy's scalar of a 0-dim tensor: unlike an array it is never written to."""
    array = as_array(value)
    return array[()] if is_array(array) else array


def _is_traced(tensor: Any) -> bool:
    import torch

    return type(tensor) is not torch.Tensor or torch._C._len_torch_dispatch_stack() > 0


class NumpyCall:
    """A function of NumPy's, and of torch's NumPy layer where an argument is that layer's array."""

    def __init__(self, function: Callable) -> None:
        self.__wrapped__ = function
        self.__name__ = self.__qualname__ = getattr(function, "__name__", "call")
        self.__module__ = "numpy"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        layer = sys.modules.get("torch._numpy")
        leaves: list[Any] = []
        map_leaves(leaves.append, [args, kwargs])
        if layer is None or not any(isinstance(leaf, layer.ndarray) for leaf in leaves):
            return self.__wrapped__(*args, **kwargs)
        return _in_torch(self.__wrapped__)(*map_leaves(_known_to_torch, args), **map_leaves(_known_to_torch, kwargs))


def _in_torch(function: Callable) -> Callable:
    """The function of torch's NumPy layer with this one's name."""
    import numpy
    import torch._numpy

    for theirs, ours in (
        (numpy, torch._numpy),
        (numpy.linalg, torch._numpy.linalg),
        (numpy.fft, torch._numpy.fft),
    ):
        name = getattr(function, "__name__", "")
        if getattr(theirs, name, None) is function and hasattr(ours, name):
            return getattr(ours, name)
    raise NotImplementedError(f"torch's NumPy layer has no {function!r}")


def _known_to_torch(leaf: Any) -> Any:
    import numpy
    import torch._numpy

    if isinstance(leaf, numpy.dtype) or (isinstance(leaf, type) and issubclass(leaf, numpy.generic)):
        return torch._numpy.dtype(numpy.dtype(leaf).name)
    return torch._numpy.asarray(leaf.item(), dtype=leaf.dtype.name) if isinstance(leaf, numpy.generic) else leaf


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_numpy_constant(leaf: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(leaf, (numpy.generic, numpy.dtype, numpy.ndarray))


def tensor_of_data(data: Any, **options: Any) -> Any:
    """torch.tensor, of an array that is traced too."""
    import torch

    layer = sys.modules.get("torch._numpy")
    if layer is None or not isinstance(data, layer.ndarray):
        return torch.tensor(data, **options)
    return data.tensor.clone().to(**options) if options else data.tensor.clone()


def tensor_on_data(data: Any, dtype: Any = None, **options: Any) -> Any:
    """torch.as_tensor and torch.asarray, of an array that is traced too."""
    import torch

    layer = sys.modules.get("torch._numpy")
    if layer is None or not isinstance(data, layer.ndarray):
        return torch.as_tensor(data, dtype=dtype, **options)
    return data.tensor if dtype is None else data.tensor.to(dtype)


class TorchCall:
    """A call of PyTorch's with arrays (as indices) or NumPy's scalars among the arguments.

    Of those of torch's NumPy layer it takes the tensors, scalars in the dtype that a number would have there.
    """

    def __init__(self, op: str, target: Any) -> None:
        self.__wrapped__ = target
        self._method = target if op == "call_method" else None
        self.__name__ = self.__qualname__ = self._method or getattr(target, "__name__", "call")
        self.__module__ = "cdynamo"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        layer = sys.modules.get("torch._numpy")
        tensors: list[Any] = []
        map_leaves(lambda leaf: tensors.append(leaf) if isinstance(leaf, torch.Tensor) else None, args)

        def convert(leaf: Any) -> Any:
            if layer is None or not isinstance(leaf, layer.ndarray):
                return leaf
            tensor = leaf.tensor
            if tensor.dim() > 0 or not tensors or not tensor.is_floating_point():
                return tensor
            return tensor.to(torch.result_type(tensors[0], 1.0))

        args, kwargs = map_leaves(convert, args), map_leaves(convert, kwargs)
        if self._method is not None:
            return getattr(args[0], self._method)(*args[1:], **kwargs)
        return self.__wrapped__(*args, **kwargs)


def call_of(op: str, target: Any, takes_arrays: bool) -> tuple[str, Any]:
    """The node for a call of PyTorch's on arrays, or one that gives arrays."""
    import torch

    if op == "call_method" and target == "numpy":
        return "call_function", as_array
    others = {
        torch.from_numpy: as_tensor,
        torch.tensor: tensor_of_data,
        torch.as_tensor: tensor_on_data,
        torch.asarray: tensor_on_data,
    }
    if callable(target) and target in others:
        return op, others[target]
    return ("call_function", TorchCall(op, target)) if takes_arrays else (op, target)


def target_of(target: Any) -> Any:
    """The target of a node for a call of the user's: operators and getattr find the array's own."""
    return NumpyCall(target) if isinstance(target, type) or is_of_numpy(target) else target


def is_of_numpy(target: Any) -> bool:
    holder = type(getattr(target, "__self__", None))  # of a method: np.add.reduce
    modules = (type(target).__module__, getattr(target, "__module__", None) or "", holder.__module__)
    return any(module.split(".")[0] == "numpy" for module in modules)


def on_arrays(compiled: Callable, arrays: set[int]) -> Callable:
    """What a backend made of such a GraphModule, as a callable of arrays that gives `arrays` of its outputs as such."""

    def call(*inputs: Any) -> list[Any]:
        outputs = compiled(*map(as_tensor, inputs))
        return [as_array(output) if i in arrays else output for i, output in enumerate(outputs)]

    return call


def uses_torch(names: dict[str, Any]) -> bool:
    """Whether the globals of a function name torch or something of torch's."""
    if not sys.modules.get("torch"):
        return False
    for value in list(names.values()):
        if isinstance(value, types.ModuleType):
            home: Any = types.ModuleType.__getattribute__(value, "__dict__").get("__name__")
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            home = value.__module__
        else:
            continue
        if isinstance(home, str) and home.split(".")[0] == "torch":
            return True
    return False
