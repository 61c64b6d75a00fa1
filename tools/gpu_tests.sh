#!/usr/bin/env bash
# gpu_tests.sh PYTHON: the tests of the CPU that are tied to no device, on a CUDA device (tests/devices.py).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! "$1" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "there is no CUDA device: the tests of the CPU are not run on one"
  exit 0
fi
export CDYNAMO_TEST_DEVICE=cuda
cd tests/python
"$1" -m pytest \
  test_aliasing_between_calls.py test_grad.py test_grad_branches.py test_gradients_at_corners.py test_optimizers.py \
  test_random_and_norms.py test_training.py test_training_autograd.py test_training_loops.py test_training_writes.py \
  test_view_histories.py test_writes_of_other_sizes.py test_user_functions.py
