"""torch.vmap, and torch.func's jvp, jacrev, jacfwd and hessian, which are batches of derivatives."""

import torch
from torch.utils import _pytree as pytree

from cdynamo.polyfills.function_transforms import _leaves, _map, _seen_outside, _variable
from cdynamo.polyfills.rules import (
    called_jacfwd,
    called_jacrev,
    enter_batch,
    example_like,
    example_of,
    graph_position,
    leave_batch,
    level_gradients,
    level_result,
    level_variable,
    not_captured,
    place_of,
    refuse_draws,
    stays_inside,
    stop_batch,
)


def func_vmap(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    if not args or chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        not_captured("vmap of nothing, or in such chunks")
    if not isinstance(in_dims, int) and not isinstance(in_dims, (tuple, list)):
        not_captured("vmap with such in_dims")
    leaves, spec = pytree.tree_flatten(args)
    dims = _spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
    batches = [None if dim is None else _batch_first(leaf, dim) for leaf, dim in zip(leaves, dims)]
    counts = [batch.shape[0] for batch in batches if batch is not None]
    if not counts or any(count != counts[0] for count in counts):
        not_captured("vmap of batches of several sizes, or of none")
    chunks = []
    for start in range(0, counts[0], chunk_size) if chunk_size is not None and chunk_size < counts[0] else (None,):
        chunk = [batch if batch is None or start is None else batch[start : start + chunk_size] for batch in batches]
        given = [leaf if batch is None else batch for leaf, batch in zip(leaves, chunk)]
        are_batches = [batch is not None for batch in chunk]
        chunks.append(_map_batch(func, given, are_batches, spec, out_dims, kwargs))
    results, dims, out_spec = chunks[0]
    if len(chunks) > 1:
        columns = zip(*[results for results, _, _ in chunks])
        results = [torch.cat(column, dim) for column, dim in zip(columns, dims)]
    return pytree.tree_unflatten(results, out_spec)


def _map_batch(func, leaves, are_batches, spec, out_dims, kwargs):
    """What a batch gives, the dim of each result along which its examples lie, and the structure of the results."""
    enter_batch()
    given = [example_of(leaf) if is_batch else leaf for leaf, is_batch in zip(leaves, are_batches)]
    result = func(*pytree.tree_unflatten(given, spec), **kwargs)
    dims = _spread(out_dims, result)
    result, out_spec = pytree.tree_flatten(result)
    if not all(isinstance(leaf, torch.Tensor) for leaf in result):
        not_captured("vmap of a function that gives something else than tensors")
    stop_batch()
    tensors = tuple([leaf for leaf, is_batch in zip(leaves, are_batches) if is_batch])
    examples = [leaf for leaf, is_batch in zip(given, are_batches) if is_batch]
    places = [place_of(leaf, examples) for leaf in result]
    found = iter(leave_batch(tensors, tuple([leaf for leaf, place in zip(result, places) if place is None]), True))
    if None in dims:
        not_captured("vmap with such out_dims")
    results = []
    for place, dim in zip(places, dims):
        leaf = next(found) if place is None else tensors[place]
        results.append(leaf if dim == 0 else leaf.movedim(0, dim))
    return results, dims, out_spec


def _spread(dims, tree):
    """A dim for each leaf of the tree, of one for several or of a structure like the tree's."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(pytree.tree_leaves(tree))
    if type(dims) not in (tuple, list, dict) or type(dims) is not type(tree) or len(dims) != len(tree):
        not_captured("vmap with in_dims or out_dims of another structure")
    if type(dims) is dict:
        if any(key not in tree for key in dims):
            not_captured("vmap with in_dims or out_dims of another structure")
        return [dim for key in tree for dim in _spread(dims[key], tree[key])]
    return [dim for of_item, item in zip(dims, tree) for dim in _spread(of_item, item)]


def _batch_first(leaf, dim):
    if not isinstance(leaf, torch.Tensor) or not isinstance(dim, int) or not -leaf.dim() <= dim < leaf.dim():
        not_captured("vmap over such a dim")
    batch = leaf if dim % leaf.dim() == 0 else leaf.movedim(dim, 0)
    # What is computed of it is in the order of its memory.
    within = [size * stride for size, stride in zip(batch.shape[1:], batch.stride()[1:])]
    if batch.shape[0] == 0 or any(batch.stride(0) < extent for extent in within):
        not_captured("vmap over a dim that is not the outermost in memory")
    return batch


def _tensor_of(output, what):
    if not isinstance(output, torch.Tensor) or not output.is_floating_point():
        not_captured(what)
    return output


def _parted(result, has_aux):
    """The result of a function, and what it gives beside."""
    if not has_aux:
        return result, ()
    if type(result) is not tuple or len(result) != 2:
        not_captured("a function whose result is no pair")
    if not all(isinstance(leaf, torch.Tensor) for leaf in _leaves(result[1])):
        not_captured("a function that gives something else than tensors beside")
    return result


# ---- Forward-mode derivatives: the gradients of gradients, which are linear in what those are given.


def _linearized(outputs, variables, level):
    """The gradients of `variables`, and what they are linear in."""
    seeds = tuple([level_variable(torch.zeros_like(output)) for output in outputs])
    return level_gradients(tuple(outputs), seeds, variables, level), seeds


def _push_forward(outputs, variables, tangents, level=None):
    gradients, seeds = _linearized(outputs, variables, level)
    return level_gradients(gradients, tangents, seeds, level)


def _are_like(tangents, variables):
    return len(tangents) == len(variables) and all(
        isinstance(t, torch.Tensor) and t.shape == v.shape and t.dtype == v.dtype for t, v in zip(tangents, variables)
    )


def func_jvp(func, primals, tangents, *, strict=False, has_aux=False):
    if strict or type(primals) is not tuple or type(tangents) is not tuple:
        not_captured("jvp with strict, or other containers than tuples")
    grad_mode, level = torch.is_grad_enabled(), stays_inside("a level of torch.func")
    given, moving = _map(_variable, primals), _leaves(tangents)
    variables = tuple(_leaves(given))
    if not _are_like(moving, variables):
        not_captured("jvp with tangents of other shapes")
    with torch.enable_grad():
        output, aux = _parted(func(*given), has_aux)
        outputs = [_tensor_of(leaf, "jvp of what is no tensor of floats") for leaf in _leaves(output)]
        pushed = iter(_push_forward(outputs, variables, tuple(moving), level))
    tangent = _map(lambda _: next(pushed), output)
    arguments = tuple(_leaves(primals))
    output, aux = [
        _primal_of(_seen_outside(tree, grad_mode, variables, arguments), arguments) for tree in (output, aux)
    ]
    seen = output, _seen_outside(tangent, grad_mode, variables)
    return (*seen, aux) if has_aux else seen


def _primal_of(tree, arguments):
    """An argument that is given back is a view of itself."""

    def primal(leaf):
        return leaf if place_of(leaf, arguments) is None else leaf.view_as(leaf)

    return _map(primal, tree)


def func_linearize(func, *primals):
    """Eager calls the function twice: for what it gives, and to trace it."""
    if any(leaf.requires_grad for leaf in _leaves(primals) if isinstance(leaf, torch.Tensor)):
        not_captured("linearize at what requires grad")
    level, position = stays_inside("the function that torch.func.linearize gives"), graph_position()
    value = func(*primals)
    given = _map(_variable, primals)
    variables = tuple(_leaves(given))
    with torch.enable_grad():
        output = func(*given)
        outputs = [_tensor_of(leaf, "linearize of what is no tensor of floats") for leaf in _leaves(output)]
        gradients, seeds = _linearized(outputs, variables, level)
    refuse_draws(position)

    def jvp(*tangents):
        moving = _leaves(tangents)
        if pytree.tree_structure(tangents) != pytree.tree_structure(primals) or not _are_like(moving, variables):
            not_captured("the function that linearize gives, with other tangents")
        grad_mode = torch.is_grad_enabled()
        with torch.enable_grad():
            pushed = iter(level_gradients(gradients, tuple(moving), seeds, level))
        return _seen_outside(_map(lambda _: next(pushed), output), grad_mode, variables)

    return value, jvp


# ---- Jacobians: a batch of derivatives, one for each element of the result, or of the argument


def _checked(argnums):
    if not isinstance(argnums, (int, tuple)):
        not_captured("a Jacobian with respect to such arguments")


def _given_back(aux, variables, args, places):
    """By leaf of `aux`, the argument that it is, or None."""
    own = _leaves([args[place] for place in places])
    others = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    found = [place_of(leaf, variables) for leaf in _leaves(aux)]
    beside = [place_of(leaf, others) for leaf in _leaves(aux)]
    return [own[i] if i is not None else others[j] if j is not None else None for i, j in zip(found, beside)]


def _computed(aux, given):
    return [leaf for leaf, argument in zip(_leaves(aux), given) if argument is None]


def _aux_of(aux, given, batches, seen):
    """`aux`, of which what is not given was computed in a batch and does not vary there; `seen`: as it is outside."""
    given, batches = iter(given), iter(batches)

    def leaf_of(_):
        argument = next(given)
        return seen(next(batches)[0].clone()) if argument is None else argument

    return _map(leaf_of, aux)


def _places(argnums, args):
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    places = [place + len(args) if place < 0 else place for place in places]
    if len(set(places)) != len(places) or not all(0 <= place < len(args) for place in places):
        not_captured("a derivative with respect to such arguments")
    return places


def _with_variables(args, places):
    """The arguments with variables of a level at these places, and those in a row."""
    given = list(args)
    for place in places:
        given[place] = _map(_variable, args[place])
    return given, tuple([leaf for place in places for leaf in _leaves(given[place])])


def _basis(like):
    if like.numel() == 0:
        not_captured("a Jacobian of nothing")
    return torch.eye(like.numel(), dtype=like.dtype, device=like.device).reshape(like.numel(), *like.shape)


def func_jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    # In chunks it takes less memory, and gives the same.
    _checked(argnums)
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        not_captured("a Jacobian in such chunks")
    return lambda *args: called_jacrev(func, argnums, has_aux, chunk_size, *args)


def jacrev_call(func, argnums, has_aux, chunk_size, *args):
    """The rows of the Jacobians of all results, one under the other, are one batch."""
    grad_mode, places = torch.is_grad_enabled(), _places(argnums, args)
    enter_batch()
    given, variables = _with_variables(args, places)
    with torch.enable_grad():
        output, aux = _parted(func(*given), has_aux)
        outputs = [_tensor_of(leaf, "a Jacobian of what is no tensor of floats") for leaf in _leaves(output)]
        if not outputs or any(leaf.dtype != outputs[0].dtype for leaf in outputs):
            not_captured("a Jacobian of nothing, or of several dtypes")
        seen = outputs[0] if len(outputs) == 1 else torch.cat([leaf.reshape(-1) for leaf in outputs])
        gradients = level_gradients((seen,), (example_like(seen),), variables)
    stop_batch()
    counts, shapes = [leaf.numel() for leaf in outputs], [tuple(leaf.shape) for leaf in outputs]
    beside = _given_back(aux, variables, args, places)
    found = leave_batch((_basis(seen),), (*gradients, *_computed(aux, beside)), False)
    rows = [row.split(counts) for row in found[: len(gradients)]]
    aux = _aux_of(aux, beside, found[len(gradients) :], lambda leaf: level_result(leaf, grad_mode, variables, ()))
    numbers = iter(range(len(outputs)))
    found = _map(lambda _: _jacobian(rows, next(numbers), shapes, args, places, argnums), output)
    found = _seen_outside(found, grad_mode, variables)
    return (found, aux) if has_aux else found


def _jacobian(rows, number, shapes, args, places, argnums):
    """Of one result: by argument."""
    rows = iter(rows)
    found = [
        _map(lambda leaf: next(rows)[number].reshape(*shapes[number], *leaf.shape), args[place]) for place in places
    ]
    return tuple(found) if isinstance(argnums, tuple) else found[0]


def func_jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    _checked(argnums)
    if randomness not in ("error", "same", "different"):  # what draws random numbers is not captured
        not_captured("a Jacobian with such a randomness")
    return lambda *args: called_jacfwd(func, argnums, has_aux, randomness, *args)


def jacfwd_call(func, argnums, has_aux, randomness, *args):
    """The columns of the Jacobians of all results, one for each element of the argument, are one batch."""
    grad_mode, places = torch.is_grad_enabled(), _places(argnums, args)
    if isinstance(argnums, tuple) or not isinstance(args[places[0]], torch.Tensor):
        not_captured("jacfwd with respect to several tensors")
    of = args[places[0]]
    enter_batch()
    given, variables = _with_variables(args, places)
    with torch.enable_grad():
        output, aux = _parted(func(*given), has_aux)
        outputs = [_tensor_of(leaf, "a Jacobian of what is no tensor of floats") for leaf in _leaves(output)]
        if not outputs:
            not_captured("a Jacobian of nothing")
        pushed = _push_forward(outputs, variables, (example_like(variables[0]),))
    stop_batch()
    beside = _given_back(aux, variables, args, places)
    found = leave_batch((_basis(of),), (*pushed, *_computed(aux, beside)), False)
    columns = iter(found[: len(pushed)])
    beside = [argument if argument is None else argument.view_as(argument) for argument in beside]
    aux = _aux_of(aux, beside, found[len(pushed) :], lambda leaf: level_result(leaf, grad_mode, variables, ()))
    found = _map(lambda leaf: next(columns).movedim(0, -1).reshape(*leaf.shape, *of.shape), output)
    found = _seen_outside(found, grad_mode, variables)
    return (found, aux) if has_aux else found


def func_hessian(func, argnums=0):
    return func_jacfwd(func_jacrev(func, argnums), argnums)
