"""What torch does around autograd that capture inlines in this form: checkpoints, Functions of the user."""

import torch
from torch.autograd.function import Function, FunctionCtx, _SingleLevelFunction
from torch.utils.checkpoint import noop_context_fn

from cdynamo.polyfills.rules import (
    enter_backward,
    enter_checkpoint,
    graph_position,
    has_levels,
    is_batched,
    leave_backward,
    leave_checkpoint,
    not_captured,
    once_differentiable,
    own_tensor,
    takes_zeros,
)


def checkpoint(
    function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default", debug=False,
    early_stop=True, **kwargs,
):  # fmt: skip
    """The function is inlined; what it computes is computed again for the backward."""
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if use_reentrant is None:
        not_captured("checkpoint without use_reentrant, which warns")
    # Where eager stops computing again (early_stop), nobody can tell.
    if context_fn is not noop_context_fn or debug or torch.utils.checkpoint._checkpoint_debug_enabled is not None:
        not_captured("checkpoint with this context_fn, or debug")
    if determinism_check not in ("default", "none") or (use_reentrant and kwargs):
        not_captured("checkpoint with arguments that eager refuses")
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    if not use_reentrant and not torch._C._autograd._saved_tensors_hooks_is_enabled():
        not_captured("checkpoint where hooks of saved tensors are disabled")
    if use_reentrant and not any(isinstance(x, torch.Tensor) and x.requires_grad for x in args):
        not_captured("a reentrant checkpoint whose arguments require no gradient")
    enter_checkpoint(bool(preserve_rng_state))
    try:
        result = function(*args, **kwargs)
    finally:
        leave_checkpoint()
    if use_reentrant:
        check_reentrant_result(args, result)
    return result


def check_reentrant_result(args, result):
    """Eager makes every result require a gradient, and one that has none is an error in the backward."""
    for item in result if isinstance(result, tuple) else (result,):
        if not isinstance(item, torch.Tensor) or not item.requires_grad or any(item is x for x in args):
            not_captured("a reentrant checkpoint with such a result")


# ---- torch.autograd.Function


class FunctionContext:
    """The `ctx` of a Function: what its forward leaves for its backward."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.to_save = ()
        self.non_differentiable = ()
        self.dirty = ()
        self.materialize_grads = True
        self.reads_saved = False

    def save_for_backward(self, *tensors):
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, torch.Tensor):
                not_captured("save_for_backward of what is no tensor")
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors):
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self.non_differentiable = tensors

    def set_materialize_grads(self, value):
        self.materialize_grads = value

    @property
    def saved_tensors(self):
        self.reads_saved = True
        return self.to_save

    def __getattr__(self, name):
        if name in _NODE_ATTRIBUTES or hasattr(FunctionCtx, name):
            not_captured("a Function that asks for its node")
        raise AttributeError(name)


# What the context has because it is a node of PyTorch's graph.
_NODE_ATTRIBUTES = (
    "name", "metadata", "register_hook", "register_prehook", "next_functions", "saved_variables", "dirty_tensors",
    "mark_shared_storage", "maybe_clear_saved_tensors", "_raw_saved_tensors", "_sequence_nr",
)  # fmt: skip


def function_apply(cls, *args, **kwargs):
    """`cls.apply(*args)`: the forward, and a gradient that is what the backward says."""
    setup = cls.setup_context is not _SingleLevelFunction.setup_context
    if kwargs or (setup and cls.forward.__defaults__):
        not_captured("a Function with keyword arguments or defaults")
    if not setup and (is_batched() or has_levels()):
        not_captured("a Function without setup_context under torch.func")
    if is_batched() and (not cls.generate_vmap_rule or cls.vmap is not Function.vmap):
        not_captured("a Function whose vmap is its own, or missing")
    if getattr(cls, "boxed_grads_call", False):
        not_captured("a Function with boxed gradients")
    needs = tuple(isinstance(x, torch.Tensor) and x.requires_grad for x in args)
    ctx = FunctionContext(needs)
    differentiable = torch.is_grad_enabled() and any(needs)
    position = graph_position()
    given = writable(cls, args) if differentiable else args
    with torch.no_grad():
        if setup:
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
        else:
            result = cls.forward(ctx, *given)
        results = result if isinstance(result, tuple) else (result,)
        if differentiable:
            items = tuple(own_tensor(x, position, args) if isinstance(x, torch.Tensor) else x for x in results)
        else:
            items = tuple(x if is_among(x, ctx.dirty) else without_history(x, args) for x in results)
    if any(not is_among(x, given) or not is_among(x, results) for x in ctx.dirty):
        not_captured("a Function that marks what is no argument and result as dirty")
    if differentiable:
        differentiate_function(cls, ctx, args, results, items)
        items = written_back(ctx, args, given, results, items)
    return items if isinstance(result, tuple) else items[0]


def without_history(x, args):
    """What is handed out of a result that has no gradient: another tensor where it is an argument."""
    if not isinstance(x, torch.Tensor):
        return x
    if is_among(x, args):
        return x.detach() if x.requires_grad else x.view_as(x)
    if x.requires_grad and not x._is_view():
        not_captured("a Function that takes a tensor out of its history")
    return x


def is_among(x, tensors):
    return any(x is y for y in tensors)


def writable(cls, args):
    """The arguments, with a copy of the first one in its place where the forward marks an argument as dirty."""
    if "mark_dirty" not in cls.forward.__code__.co_names:
        return args
    if not isinstance(args[0], torch.Tensor) or not args[0].requires_grad or args[0].is_leaf:
        not_captured("a Function that writes to what is no first argument with a history")
    return (args[0].detach().clone(), *args[1:])


def written_back(ctx, args, given, results, items):
    """What the forward has left in the copy is written to the argument, with its history, and that is handed out."""
    if given[0] is args[0] and not ctx.dirty:
        return items
    if len(ctx.dirty) != 1 or given[0] is args[0] or ctx.dirty[0] is not given[0]:
        not_captured("a Function that writes to another argument than the first one")
    args[0].copy_(handed_out(given[0], results, items))
    return tuple(args[0] if x is given[0] else item for x, item in zip(results, items))


def differentiate_function(cls, ctx, args, results, items):
    """`items`: of each of the forward's results what is handed out."""
    tensors = [x for x in items if isinstance(x, torch.Tensor)]
    for i, x in enumerate(tensors):
        if any(x is y for y in tensors[:i]):
            not_captured("a Function that gives one tensor twice")
    outputs = [
        item
        for x, item in zip(results, items)
        if isinstance(x, torch.Tensor) and x.is_floating_point() and not any(x is y for y in ctx.non_differentiable)
    ]
    if not outputs:
        return
    # What was saved of the results is what is handed out.
    ctx.to_save = tuple(handed_out(x, results, items) for x in ctx.to_save)
    grad_outputs = enter_backward(tuple(outputs))
    optional = 0 if ctx.materialize_grads else len(outputs)
    runs = []  # by set of gradients: the gradient of each argument
    for given in sets_of_gradients(grad_outputs, optional):
        pending = iter(given)
        if all(grad is None for grad in given):
            runs.append([None] * len(args))
        else:
            runs.append(gradients_of(cls, ctx, args, [grad_output_of(ctx, x, outputs, pending) for x in items]))
    leave_backward_of_sets(grad_outputs, tuple(outputs), args, runs, optional, ctx.reads_saved)


# What takes None for a gradient is captured once for each set of gradients that may come.
_MAX_OPTIONAL_GRADIENTS = 4


def sets_of_gradients(grad_outputs, optional):
    """What a backward may be given, by set of the last `optional` gradients: None for those that do not come."""
    if optional > _MAX_OPTIONAL_GRADIENTS:
        not_captured("a backward of many results that takes None for a gradient")
    first = len(grad_outputs) - optional
    return [
        tuple([grad if i < first or n >> (i - first) & 1 else None for i, grad in enumerate(grad_outputs)])
        for n in range(2**optional)
    ]


def leave_backward_of_sets(grad_outputs, outputs, args, runs, optional, frees=False):
    """leave_backward, with what each run gives for each of the arguments, a gradient or None."""
    reached = [i for i in range(len(args)) if any(grads[i] is not None for grads in runs)]
    places, gradients = [], []
    for grads in runs:
        for i in reached:
            places.append(-1 if grads[i] is None else len(gradients))
            if grads[i] is not None:
                gradients.append(grads[i])
    inputs = tuple([args[i] for i in reached])
    leave_backward(grad_outputs, outputs, inputs, tuple(gradients), optional, tuple(places) if optional else (), frees)


def gradients_of(cls, ctx, args, grad_outputs):
    """What the backward gives for each argument that needs it."""
    grads = called_backward(backward_of(cls), ctx, grad_outputs)
    if not isinstance(grads, tuple):
        grads = (grads,)
    if len(grads) < len(args) or any(g is not None for g in grads[len(args) :]):
        not_captured("a Function whose backward gives another number of gradients")
    return [gradient_of(x, needed, grad) for x, needed, grad in zip(args, ctx.needs_input_grad, grads)]


def gradient_of(x, needed, grad):
    if grad is None:  # the engine goes on all the same
        return torch.zeros_like(x) if needed and takes_zeros(x) else None
    if not isinstance(x, torch.Tensor) or not isinstance(grad, torch.Tensor):
        not_captured("a Function whose backward gives a gradient of what has none")
    if not needed:
        return None
    if grad.shape != x.shape:
        not_captured("a Function whose backward gives a gradient of another shape")
    return grad.to(x.dtype)


def backward_of(cls):
    if cls.vjp is not Function.vjp:
        if cls.backward is not Function.backward:
            not_captured("a Function with both backward and vjp")
        return cls.vjp
    return cls.backward


# The code of all functions that torch.autograd.function.once_differentiable makes.
_ONCE_DIFFERENTIABLE = torch.autograd.function.once_differentiable(lambda ctx: None).__code__


def called_backward(backward, ctx, grad_outputs):
    """Under once_differentiable what was saved is constant, and there is no derivative with respect to grad_outputs."""
    if getattr(backward, "__code__", None) is not _ONCE_DIFFERENTIABLE:
        return backward(ctx, *grad_outputs)
    ctx.to_save = tuple(x if x is None else x.detach() for x in ctx.to_save)
    grads = backward.__wrapped__(ctx, *grad_outputs)
    grads = grads if isinstance(grads, tuple) else (grads,)
    return tuple(once_differentiable(x) if isinstance(x, torch.Tensor) else x for x in grads)


def handed_out(x, results, items):
    for result, item in zip(results, items):
        if x is result:
            return item
    return x


def grad_output_of(ctx, item, outputs, given):
    """What the backward is given for a result of the forward."""
    if any(item is x for x in outputs):
        return next(given)
    return torch.zeros_like(item) if isinstance(item, torch.Tensor) and ctx.materialize_grads else None
