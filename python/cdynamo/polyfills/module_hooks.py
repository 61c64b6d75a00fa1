"""torch.utils.hooks.BackwardHook, what calls the full backward hooks of a module, in the form that capture inlines.

Two nodes core.function (graph/core.h) stand around the module, one behind its arguments and one behind its results:
what the hooks do to gradients, where they only compute. The hooks of the first see the grad_outputs that came to the
second: its gradients go to tokens as well, zeros that have a history from the first node and are read by the second.
"""

import torch

from cdynamo.polyfills.autograd import leave_backward_of_sets, sets_of_gradients
from cdynamo.polyfills.rules import (
    any_depends_on,
    around_backward,
    enter_backward,
    graph_position,
    has_levels,
    hooked_copy,
    hooks_are_captured,
    hooks_not_captured,
    is_batched,
    move_behind,
    stays_inside,
)


def backward_hook(module, user_hooks, user_pre_hooks):
    hooks_are_captured()
    if is_batched() or has_levels():
        hooks_not_captured("PyTorch refuses it under torch.func")
    return ModuleHooks(module, user_hooks, user_pre_hooks)


class ModuleHooks:
    def __init__(self, module, hooks, pre_hooks):
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.stays_inside = stays_inside("what calls the backward hooks of a module")

    def setup_input_hook(self, args):
        self.args = args
        self.inner_args = other_side(args)
        return args if self.inner_args is None else remade(args, self.inner_args)

    def setup_output_hook(self, result):
        results = result if isinstance(result, tuple) else (result,)
        outer = other_side(results)
        around_backward(lambda results: connect(self, results, outer), results)
        if outer is None:
            return result
        return remade(results, outer) if isinstance(result, tuple) else outer[0]


def other_side(items):
    """What the hooked module, or its caller, is given for `items`. None: no gradients, they are left as they are."""
    tensors = [x for x in items if isinstance(x, torch.Tensor)]
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors)):
        return None
    return [hooked_copy(x) if is_hooked(x) else x.view_as(x) if isinstance(x, torch.Tensor) else x for x in items]


def is_hooked(x):
    return isinstance(x, torch.Tensor) and x.requires_grad


def remade(items, others):
    return tuple(others) if type(items) is tuple else type(items)(*others)


def connect(module_hooks, results, outer):
    """Both nodes, when the module has run."""
    ends = [] if outer is None else [i for i, x in enumerate(results) if is_hooked(x)]
    inner_args = module_hooks.inner_args
    if inner_args is None:
        if ends:
            hooks_not_captured("no argument of the module requires a gradient, of which PyTorch warns in the backward")
        return
    begins = [i for i, x in enumerate(module_hooks.args) if is_hooked(x)]
    copies = tuple([inner_args[i] for i in begins])
    position = graph_position()
    tokens = []
    if module_hooks.hooks and any_depends_on(tuple([results[i] for i in ends]), copies):
        with torch.no_grad():
            tokens = [zeros_for(results[i]) for i in ends]
    hook_arguments(module_hooks, begins, copies, tokens, ends, len(results))
    move_behind(copies, position)
    if ends:
        hook_results(module_hooks, ends, results, outer, tokens)


def spread(places, values, count):
    return tuple([values[places.index(i)] if i in places else None for i in range(count)])


def hook_arguments(module_hooks, begins, copies, tokens, ends, count):
    """The gradients of the arguments: what the hooks make of what comes, once grad_outputs have come to the results."""
    grads = enter_backward((*copies, *tokens), True)
    runs = []
    for given in sets_of_gradients(grads, len(tokens)):
        came, grad_outputs = given[: len(copies)], given[len(copies) :]
        if any(grad is not None for grad in grad_outputs):
            runs.append(hooked_gradients(module_hooks, begins, came, spread(ends, grad_outputs, count)))
        else:
            runs.append(came)
    arguments = [module_hooks.args[i] for i in begins]
    leave_backward_of_sets(grads, (*copies, *tokens), arguments, runs, len(tokens))


def hooked_gradients(module_hooks, begins, came, grad_outputs):
    """What the hooks leave of the gradients that `came` for the arguments at `begins`."""
    grad_inputs = [zeros_for(x) for x in module_hooks.args]
    for i, grad in zip(begins, came):
        grad_inputs[i] = grad
    result = called(module_hooks.hooks, module_hooks, tuple(grad_inputs), grad_outputs, of="arguments")
    # PyTorch looks at all of them.
    checked = [gradient_like(new, old) for new, old in zip(result, grad_inputs)]
    return [checked[i] for i in begins]


def zeros_for(x):
    """What hooks are given for an argument that requires no gradient."""
    return torch.zeros(x.shape, dtype=x.dtype, device=x.device) if isinstance(x, torch.Tensor) else None


def called(hooks, module_hooks, grads, *grad_outputs, of):
    """What `hooks` leave of `grads`, one for each of the module's arguments or results, which `of` names."""
    for hook in hooks:
        result = hook(module_hooks.module, grads, *grad_outputs)
        if result is not None:
            if len(result) != len(grads):
                hooks_not_captured("it gives another number of gradients than the module has " + of)
            grads = result
    return grads


def hook_results(module_hooks, ends, results, outer, tokens):
    """The gradients of the results, and of the tokens: the grad_outputs as the hooks that run before leave them."""
    outputs = tuple([outer[i] for i in ends])
    grads = enter_backward(outputs, True)
    optional = len(ends) if len(ends) > 1 else 0
    runs = []
    for given in sets_of_gradients(grads, optional):
        found = given
        if any(grad is not None for grad in given):
            found = gradients_before(module_hooks, ends, spread(ends, given, len(results)))
        runs.append([*found, *found] if tokens else found)
    inputs = [results[i] for i in ends]
    leave_backward_of_sets(grads, outputs, inputs + tokens, runs, optional)


def gradients_before(module_hooks, ends, grad_outputs):
    """What those hooks leave of the gradients of the results at `ends`."""
    after = called(module_hooks.pre_hooks, module_hooks, grad_outputs, of="results")
    if any((old is None) is not (new is None) for old, new in zip(grad_outputs, after)):
        hooks_not_captured("one that runs before the others gives None for a gradient, or one for None")
    return [gradient_like(after[i], grad_outputs[i]) for i in ends]


def gradient_like(gradient, like):
    """What takes the place of `like`; a tensor of another kind is an error in eager."""
    if gradient is None or (gradient is like):
        return gradient
    if like is None or not isinstance(gradient, torch.Tensor):
        hooks_not_captured("it gives what is no gradient, or one for None")
    if gradient.shape != like.shape or gradient.dtype != like.dtype:
        hooks_not_captured("it gives a gradient of other sizes or another type")
    return gradient
