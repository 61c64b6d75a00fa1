# seed 8600571376, backend native
# crash
#   exit status -11
# Fatal Python error: Segmentation fault
#
# Current thread 0x00007fc56b57b140 (most recent call first):
#   File "/tmp/tests/fuzz/compare.py", line 313 in observe
#   File "/tmp/tests/fuzz/check.py", line 81 in run_calls
#   File "/tmp/tests/fuzz/check.py", line 155 in run_compiled
#   File "/tmp/tests/fuzz/check.py", line 189 in mismatch
#   File "/tmp/tests/fuzz/worker.py", line 33 in answer
#   File "/tmp/tests/fuzz/worker.py", line 48 in serve
#   File "/tmp/tests/fuzz/worker.py", line 59 in <module>
#   File "<frozen runpy>", line 88 in _run_code
#   File "<frozen runpy>", line 198 in _run_module_as_main
#
# Extension modules: numpy._core._multiarray_umath, numpy.linalg._umath_linalg, cdynamo._C, torch._C, torch._C._dynamo.autograd_compiler, torch._C._dynamo.eval_frame, torch._C._dynamo.guards, torch._C._dynamo.utils, torch._C._fft, torch._C._linalg, torch._C._nested, torch._C._nn, torch._C._sparse, torch._C._special, numpy.random._common, numpy.random.bit_generator, numpy.random._bounded_integers, numpy.random._pcg64, numpy.random._generator, numpy.random._mt19937, numpy.random._philox, numpy.random._sfc64, numpy.random.mtrand (total: 23)
#
from fuzz.prelude import *

SHARED = []
STATE = {"n": 0}
DYNAMIC = False


def f(x, y, l, d, o, z, n, m, s):
    l.append(l)
    i11 = np.asarray(l)


CALLS = [
    lambda: (
        (
            np.arange(16.0).reshape((1, 16)).astype(np.float32),
            np.arange(1.0).reshape((1,)).astype(np.bool),
            [(1, 2), {}],
            {"s": 0, 1: 2},
            Item([1]),
            iter([2.5, [1], None]),
            3,
            2,
            "sks",
        ),
        {},
    )
]
