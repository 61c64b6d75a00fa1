"""torch.cond, scan, map, associative_scan and while_loop: branches as both ways where nothing shows it, loops
unrolled, or one node where only the graph knows how often a loop turns."""

import torch
from torch.utils import _pytree as pytree

from cdynamo.polyfills.rules import (
    begin_loop,
    calls_of_loop,
    changes_so_far,
    end_loop,
    enter_way,
    leave_way,
    not_captured,
)

MOST_STEPS = 64


def conditional(pred, true_fn, false_fn, operands=()):
    """On a tensor both ways are computed. Eager takes one: neither may write or draw random numbers."""
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not isinstance(pred, torch.Tensor) or pred.numel() != 1:
        not_captured("cond on what is no tensor of one element")
    pred = truth_of(pred)
    before = changes_so_far()
    taken, spec = pytree.tree_flatten(one_way(pred, True, true_fn, operands))
    left, other_spec = pytree.tree_flatten(one_way(pred, False, false_fn, operands))
    if changes_so_far() != before:
        not_captured("cond with branches that write or draw random numbers")
    if spec != other_spec:
        not_captured("cond with branches that give other structures")
    return pytree.tree_unflatten([selected(pred, a, b) for a, b in zip(taken, left)], spec)


def one_way(pred, if_true, function, operands):
    enter_way(pred, if_true)
    try:
        return function(*operands)
    finally:
        leave_way()


def truth_of(condition):
    return condition.reshape(()).to(torch.bool)


def selected_by(condition, a, b):
    """What a branch on `condition`, a tensor of one element, leaves in a variable."""
    return selected(condition.reshape(()).to(a.device, torch.bool), a, b)


def selected(pred, a, b):
    if a is None and b is None:
        return None
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        not_captured("cond with branches that give other things than tensors")
    if a.shape != b.shape or a.dtype != b.dtype or a.stride() != b.stride():
        not_captured("cond with branches that give other sizes")
    return torch.where(pred, a, b)


def steps_of(leaves, dim=0):
    """The number of steps along `dim`."""
    if not leaves or not all(isinstance(leaf, torch.Tensor) and leaf.dim() > dim for leaf in leaves):
        not_captured("a loop over what are no tensors")
    count = leaves[0].shape[dim]
    if any(leaf.shape[dim] != count for leaf in leaves) or not 0 < count <= MOST_STEPS:
        not_captured("a loop over sizes that differ, over nothing, or over many")
    return count


def stacked(results):
    """The leaves of the results of all steps, one over the other."""
    flat = [pytree.tree_flatten(result) for result in results]
    spec = flat[0][1]
    columns = zip(*[leaves for leaves, _ in flat])
    return pytree.tree_unflatten([None if column[0] is None else torch.stack(column) for column in columns], spec)


def map_steps(f, xs, *args):
    leaves, spec = pytree.tree_flatten(xs)
    steps = range(steps_of(leaves))
    return stacked([f(pytree.tree_unflatten([leaf[i] for leaf in leaves], spec), *args) for i in steps])


def along_first(xs, dim, reverse):
    leaves, spec = pytree.tree_flatten(xs)
    if leaves and dim < 0:
        dim += leaves[0].dim()
    steps_of(leaves, dim)
    if dim != 0:
        leaves = [torch.movedim(leaf, dim, 0) for leaf in leaves]
    if reverse:
        leaves = [torch.flip(leaf, [0]) for leaf in leaves]
    return leaves, spec, dim


def back_along(out, dim, reverse):
    if reverse:
        out = pytree.tree_map(lambda leaf: leaf.flip([0]), out)
    if dim != 0:
        out = pytree.tree_map(lambda leaf: torch.movedim(leaf, 0, dim) if dim < leaf.dim() else leaf, out)
    return out


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    leaves, spec, dim = along_first(xs, dim, reverse)
    carry, results = init, []
    for i in range(steps_of(leaves)):
        carry, out = combine_fn(carry, pytree.tree_unflatten([leaf[i] for leaf in leaves], spec))
        results.append(out)
    return carry, back_along(stacked(results), dim, reverse)


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    leaves, spec, dim = along_first(xs, dim, reverse)
    if combine_mode not in ("pointwise", "generic") or (
        combine_mode == "pointwise" and leaves[0].device.type != "cuda"
    ):
        not_captured("associative_scan in this mode")
    results = [pytree.tree_unflatten([leaf[0] for leaf in leaves], spec)]
    for i in range(1, steps_of(leaves)):
        results.append(combine_fn(results[-1], pytree.tree_unflatten([leaf[i] for leaf in leaves], spec)))
    return back_along(stacked(results), dim, reverse)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Turns are unrolled where Python's numbers decide."""
    leaves, spec = pytree.tree_flatten(tuple(carried_inputs))
    if all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return loop_of_tensors(cond_fn, body_fn, leaves, spec)
    carried, given = tuple(carried_inputs), leaves
    for _ in range(MOST_STEPS):
        holds = cond_fn(*carried)
        if not isinstance(holds, bool):
            not_captured("while_loop over Python's numbers with a condition on tensors")
        if not holds:
            if given is leaves:
                leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
                return pytree.tree_unflatten(leaves, spec)
            return carried
        carried = body_fn(*carried)
        given = pytree.tree_leaves(carried)
    not_captured("while_loop of many turns")


def loop_of_tensors(cond_fn, body_fn, leaves, spec):
    carried = tuple(leaves)
    examples, nodes, calls = begin_loop(carried)
    try:
        holds = cond_fn(*pytree.tree_unflatten(examples, spec))
        if not isinstance(holds, torch.Tensor) or holds.dim() or holds.dtype != torch.bool:
            not_captured("while_loop with a condition that is no tensor of one bool")
        calls_of_condition = calls_of_loop()
        results, out_spec = pytree.tree_flatten(body_fn(*pytree.tree_unflatten(examples, spec)))
    except Exception:
        not_captured("while_loop of functions that raise")
    if len(results) != len(leaves):
        not_captured("while_loop that carries other things on than it was given")
    results = end_loop(carried, examples, nodes, calls, calls_of_condition, holds, tuple(results))
    return pytree.tree_unflatten(results, out_spec)
