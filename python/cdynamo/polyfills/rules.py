"""Rules of capture that polyfills call by name: what they do is in symbolic/torch. None of them is ever run."""


def not_captured(what):
    """Ends the graph before the call that the user wrote."""
    raise AssertionError(what)


def enter_checkpoint(preserve_rng_state):
    """What is captured from here on belongs to a checkpoint, until leave_checkpoint()."""
    raise AssertionError


def leave_checkpoint():
    raise AssertionError


def graph_position():
    """What is made from here on can be told from what was there: see own_tensor."""
    raise AssertionError


def own_tensor(tensor, position):
    """`tensor`, or a copy where it was there before `position` or is a view."""
    raise AssertionError


def enter_backward(tensors):
    """A cotangent for each of `tensors`. What is captured until leave_backward is the backward of a Function."""
    raise AssertionError


def leave_backward(cotangents, outputs, inputs, gradients):
    """The gradients of `inputs`, in terms of the cotangents of `outputs`, are these from here on."""
    raise AssertionError
