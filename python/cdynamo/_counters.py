"""`cdynamo.counters()`."""

from __future__ import annotations

from cdynamo import _C


def counters() -> dict[str, int]:
    """What has happened since the process started, as a new flat dict of ints.

    Keys: frames_seen, frames_compiled, graphs_compiled, graph_breaks, recompiles, cache_hits, guard_failures,
    kernels_compiled, kernels_from_disk, library_calls_compiled, calls_in_python (calls of
    compiled code that ran in Python after all: an error, a setting of PyTorch's that has changed). They only grow;
    `reset()` leaves them.
    """
    return _C.counters()
