#!/usr/bin/env bash
# What needs a CUDA device, in one command for a machine that is there for a short while: tests side by side, then figures, one
# after the other. Logs and outcomes go to a folder as they come.
#   tools/gpu.sh FOLDER [SECONDS]    # all of it in about so many seconds (default: 540)
# PYTHON: the interpreter, which has cdynamo, torch, pytest and pytest-xdist (default: python3). PARTS: some of tests, programs,
# bench, kernels (default: all of them).
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(mkdir -p "$1" && cd "$1" && pwd)
seconds=${2:-540}
python=${PYTHON:-python3}
parts=${PARTS:-tests programs bench kernels}
export PYTHONUNBUFFERED=1 PYTHONPATH=tests:${PYTHONPATH:-}
pytest="$python -m pytest -p no:cacheprovider -p device_guard --max-worker-restart 500 --tb=short"
wants() { [[ " $parts " == *" $1 "* ]]; }
left() { echo $((seconds - SECONDS > 1 ? seconds - SECONDS : 1)); }
say() { echo "== $* ($SECONDS s)"; }

$python -c 'import torch; assert torch.cuda.is_available()' 2>"$out/device.log" || { echo "there is no CUDA device"; exit 0; }
$python -c 'import cdynamo, torch; print(torch.cuda.get_device_name(), "torch", torch.__version__, cdynamo.__file__)'

if wants tests; then
  say "tests/gpu"
  CDYNAMO_OUTCOMES=$out/tests.jsonl OMP_NUM_THREADS=1 timeout "$(left)" $pytest tests/gpu -n 4 -rs >"$out/tests.log" 2>&1 &
fi
if wants programs; then
  # Some tests make no sense on a device: those that fail in plain PyTorch too.
  say "the CPU's tests on the device"
  export CDYNAMO_TEST_DEVICE=cuda
  CDYNAMO_OUTCOMES=$out/programs.jsonl OMP_NUM_THREADS=1 timeout $(($(left) / 2)) $pytest tests/python tests/symbolic -n 10 \
    -m "not long" --deselect tests/python/test_distributed.py >"$out/programs.log" 2>&1
  $python -c 'import json, sys; print(*sorted({row["test"] for row in map(json.loads, open(sys.argv[1])) if row["outcome"] == "failed"}), sep="\n")' \
    "$out/programs.jsonl" >"$out/failed.txt"
  tail -n 1 "$out/programs.log"
  if [ -s "$out/failed.txt" ]; then
    say "what failed, with backend eager"
    CDYNAMO_TEST_BACKEND=eager CDYNAMO_OUTCOMES=$out/eager.jsonl OMP_NUM_THREADS=1 timeout $(($(left) / 3)) $pytest \
      "@$out/failed.txt" -n 12 >"$out/eager.log" 2>&1
    tail -n 1 "$out/eager.log"
  fi
  unset CDYNAMO_TEST_DEVICE
fi
wait
wants tests && tail -n 8 "$out/tests.log"
if wants bench; then
  say "benchmarks/gpu.py"
  timeout "$(left)" $python benchmarks/gpu.py --systems eager,cdynamo,cdynamo:reduce-overhead 2>&1 | tee "$out/bench.log"
fi
if wants kernels; then
  say "benchmarks/gpu_kernels.py"
  timeout "$(left)" $python benchmarks/gpu_kernels.py --models bert,llama >"$out/kernels.log" 2>&1
  grep "a step" "$out/kernels.log"
fi
say "done"
