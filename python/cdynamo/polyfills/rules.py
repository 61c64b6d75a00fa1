"""Rules of capture that polyfills call by name: what they do is in symbolic/torch. None of them is run, but where it
says so."""

import sys


def not_captured(what):
    """Ends the graph before the call that the user wrote."""
    raise AssertionError(what)


def enter_checkpoint(preserve_rng_state):
    """What is captured from here on belongs to a checkpoint, until leave_checkpoint()."""
    raise AssertionError


def leave_checkpoint():
    raise AssertionError


def enter_way(condition, if_true):
    """What is captured until leave_way() is what eager computes where the tensor `condition` is `if_true`."""
    raise AssertionError


def leave_way():
    raise AssertionError


def begin_loop(carried):
    """What stands for each of these tensors in one turn of a loop, which is captured until end_loop(), and two
    positions that end_loop() is given."""
    raise AssertionError


def calls_of_loop():
    """How many calls the program has made up to here."""
    raise AssertionError


def end_loop(carried, examples, nodes, calls, calls_of_condition, condition, results):
    """What is carried in the end: `condition` and `results` are what is computed of the examples."""
    raise AssertionError


def packed_recurrence(function, weight_sizes, options, operands, like):
    """What a function of torch's gives of a packed sequence, in tensors like these: see _library/recurrence.py."""
    raise AssertionError


def graph_position():
    """What is made from here on can be told from what was there: see own_tensor."""
    raise AssertionError


def own_tensor(tensor, position, arguments):
    """`tensor`, or a copy where it is an argument or a view. What was there before `position` breaks the graph."""
    raise AssertionError


def enter_backward(tensors, is_hook=False):
    """The gradient of each of `tensors`. What follows, up to leave_backward, is a backward, or hooks of a module."""
    raise AssertionError


def leave_backward(grad_outputs, outputs, inputs, gradients, optional, places, frees):
    """The gradients of `inputs`, in terms of the grad_outputs of `outputs`, are these from here on.

    `optional`, `places`, `frees`: those of core.function (graph/core.h).
    """
    raise AssertionError


def takes_zeros(tensor):
    """Whether it is the result of a Function whose backward is given zeros where no gradient comes."""
    raise AssertionError


def is_batched():
    """Whether this is computed of one example of a batch of torch.vmap's."""
    raise AssertionError


def refuse_draws(position):
    """Ends the graph where random numbers were drawn since graph_position() gave this."""
    raise AssertionError


def has_levels():
    """Whether this is a part of what torch.func differentiates."""
    raise AssertionError


def around_backward(function, results):
    """`function(results)`, which enters the backward of a module's hooks."""
    raise AssertionError


def hooks_are_captured():
    """Ends the graph where backward hooks of modules are left to Python."""
    raise AssertionError


def hooks_not_captured(what):
    """Ends the graph before the call of the module."""
    raise AssertionError(what)


def hooked_copy(tensor):
    """What stands for `tensor` on the other side of a module's hooks, and gets its history from leave_backward."""
    raise AssertionError


def any_depends_on(results, arguments):
    """Whether a gradient flows from one of the `results` to one of the `arguments`."""
    raise AssertionError


def move_behind(copies, position):
    """What was captured since the graph's `position` comes to stand right behind the `copies`."""
    raise AssertionError


def once_differentiable(tensor, in_eager_too=False):
    """`tensor`, of which no derivative can be taken; `in_eager_too`: nor can it in eager. Run by backends in Python."""
    return tensor


def level_variable(tensor):
    """`tensor` as a value of its own, with respect to which a level of torch.func differentiates."""
    raise AssertionError


def level_gradients(outputs, grad_outputs, variables, token=None):
    """The gradients of the variables of a level; `grad_outputs` may be None."""
    raise AssertionError


def level_result(value, grad_mode, variables, arguments):
    """What a level gives, as it is seen outside of it; its variables stand for these arguments."""
    raise AssertionError


def stays_inside(what):
    """What makes an object or function that refers to it, `what` it is, stay inside of the capture."""
    raise AssertionError


def enter_batch():
    """What is captured until stop_batch() is computed of one example of a batch."""
    raise AssertionError


def example_of(tensor):
    """One example of the batch that lies along the tensor's first dim."""
    raise AssertionError


def example_like(tensor):
    """One example of a batch of such tensors, which is made after stop_batch()."""
    raise AssertionError


def place_of(tensor, among):
    """Which of these tensors it is; None: none."""
    raise AssertionError


def stop_batch():
    raise AssertionError


def leave_batch(tensors, outputs, all_vary):
    """What `outputs`, computed of one example, are for the whole batch; `tensors`: of each example its batch."""
    raise AssertionError


def called_jacrev(func, argnums, has_aux, chunk_size, *args):
    """`jacrev_call` as one call of the user's. Where that is left to Python it is eager's."""
    return sys.modules["torch"].func.jacrev(func, argnums, has_aux=has_aux, chunk_size=chunk_size)(*args)


def called_jacfwd(func, argnums, has_aux, randomness, *args):
    """`jacfwd_call`, likewise."""
    return sys.modules["torch"].func.jacfwd(func, argnums, has_aux=has_aux, randomness=randomness)(*args)


def nonzero_columns(tensor):
    """Where the tensor's elements are not zero: an index tensor for each dimension."""
    raise AssertionError


def changes_so_far():
    """How often the program has written to something, or drawn random numbers."""
    raise AssertionError


def required(condition):
    """From here on a relation of numbers that the graph reads from tensors holds. False: it is none, or does not."""
    raise AssertionError


def sums_at(size, places, weights):
    """An array of `size` zeros, in which each of `weights` is added at its place."""
    raise AssertionError


def pairs_of(array):
    """The real and imaginary parts of a complex array of NumPy's, along one more dim: its memory as real numbers."""
    raise AssertionError


def complex_of(pairs, is_scalar):
    """The complex array that has these pairs; `is_scalar`: without dims it is a scalar."""
    raise AssertionError
