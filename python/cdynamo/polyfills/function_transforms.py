"""torch.func.grad, grad_and_value and vjp: a level of differentiation within the graph."""

import torch

from cdynamo.polyfills.rules import level_gradients, level_result, level_variable, not_captured, stays_inside


def _map(function, tree):
    """Of tuples, lists and dicts; other containers are eager's."""
    if type(tree) is tuple:
        return tuple([_map(function, item) for item in tree])
    if type(tree) is list:
        return [_map(function, item) for item in tree]
    if type(tree) is dict:
        return {key: _map(function, item) for key, item in tree.items()}
    return function(tree)


def _leaves(tree):
    found = []
    _map(found.append, tree)
    return found


def _variable(leaf):
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
        not_captured("a derivative with respect to what is no tensor of floats")
    return level_variable(leaf)


def _gradient_tree(like, gradients):
    return _map(lambda _: next(gradients), like)


def _seen_outside(tree, grad_mode, variables, arguments=()):
    """`arguments`: what the variables stand for, where the tree may hold these."""
    return _map(
        lambda leaf: level_result(leaf, grad_mode, variables, arguments) if isinstance(leaf, torch.Tensor) else leaf,
        tree,
    )


def func_grad_and_value(func, argnums, has_aux, args, kwargs):
    grad_mode, level = torch.is_grad_enabled(), stays_inside("a level of torch.func")
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    places = [place + len(args) if place < 0 else place for place in places]
    if len(set(places)) != len(places) or not all(0 <= place < len(args) for place in places):
        not_captured("a derivative with respect to such arguments")
    args, arguments = list(args), tuple(_leaves([args[place] for place in places]))
    for place in places:
        args[place] = _map(_variable, args[place])
    chosen = tuple([args[place] for place in places])
    with torch.enable_grad():
        output, aux = func(*args, **kwargs), None
        if has_aux:
            if type(output) is not tuple or len(output) != 2:
                not_captured("a function whose result is no pair")
            output, aux = output
        if not isinstance(output, torch.Tensor) or output.dim() != 0 or not output.is_floating_point():
            not_captured("the derivative of what is no number")
        variables = tuple(_leaves(chosen))
        gradients = level_gradients((output,), None, variables, level)
    found = _seen_outside(_gradient_tree(chosen, iter(gradients)), grad_mode, variables)
    value = _seen_outside(output, grad_mode, variables, arguments)
    found = found if isinstance(argnums, tuple) else found[0]
    return (found, (value, _seen_outside(aux, grad_mode, variables, arguments))) if has_aux else (found, value)


def func_grad(func, argnums, has_aux, args, kwargs):
    found, value = func_grad_and_value(func, argnums, has_aux, args, kwargs)
    return (found, value[1]) if has_aux else found


def func_vjp(func, *primals, has_aux=False):
    grad_mode = torch.is_grad_enabled()
    level = stays_inside("the function that torch.func.vjp gives")
    given, arguments = _map(_variable, primals), tuple(_leaves(primals))
    variables = tuple(_leaves(given))
    with torch.enable_grad():
        output, aux = func(*given), None
    if has_aux:
        if type(output) is not tuple or len(output) != 2:
            not_captured("a function whose result is no pair")
        output, aux = output
    outputs = _leaves(output)

    def vjp(grad_outputs, retain_graph=True, create_graph=None):
        with torch.enable_grad():
            gradients = level_gradients(tuple(outputs), tuple(_leaves(grad_outputs)), variables, level)
        return _seen_outside(_gradient_tree(given, iter(gradients)), grad_mode, variables)

    value = _seen_outside(output, grad_mode, variables, arguments)
    return (value, vjp, _seen_outside(aux, grad_mode, variables, arguments)) if has_aux else (value, vjp)
