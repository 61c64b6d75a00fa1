#!/usr/bin/env bash
# Prints the path of NVIDIA's assembler for PTX, which needs no GPU: CDYNAMO_PTXAS if it is set, else the one of a package
# that pip installs into build/ptxas, once. Where that cannot be had it prints nothing, says so and ends with 1.
set -uo pipefail
cd "$(dirname "$0")/.."
package=nvidia-cuda-nvcc-cu12==12.8.93
folder=build/ptxas
log=build/ptxas.log
path=$folder/nvidia/cuda_nvcc/bin/ptxas

if [ -n "${CDYNAMO_PTXAS:-}" ]; then
  echo "$CDYNAMO_PTXAS"
  exit 0
fi
if [ ! -x $path ]; then
  mkdir -p build
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target $folder "$package" >$log 2>&1
fi
if ! $path --version >>$log 2>&1; then
  echo "ptxas: $package cannot be installed or run (see $log): PTX is not checked" >&2
  exit 1
fi
echo "$PWD/$path"
