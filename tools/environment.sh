#!/usr/bin/env bash
# Makes a virtual environment with what the tests use; does nothing where it is there already.
#   tools/environment.sh build/venv-3.12 3.12 2.13.0       torch 2.13.0 for Python 3.12
#   tools/environment.sh build/venv-torch-new 3.11 newest  the newest torch that pip finds
# Where torch cannot be had (no network, not enough disk) the environment has NumPy alone, and a line says so.
# Ends with 3 where there is no such Python.
set -uo pipefail
cd "$(dirname "$0")/.."
venv=$1 version=$2 torch=$3
tests="numpy pytest hypothesis expecttest optree"
# GiB for torch, CUDA's libraries and what unpacking them takes; for torch alone where the libraries are there.
needed_gib=8
[ -f "build/cuda-for-torch-$torch/packages.txt" ] && needed_gib=3

note() { echo "environment: $venv: $*"; }
pip() { "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" >>"$log" 2>&1; }
has_tests() { "$venv/bin/python" -c 'import numpy, pytest, hypothesis, expecttest, optree' 2>/dev/null; }
torch_version() { "$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch").split("+")[0])' 2>/dev/null; }
# Whether the torch that is wanted is there and can be imported.
has_torch() {
  local there
  there=$(torch_version) || return 1
  [ "$torch" = newest ] || [ "$there" = "$torch" ] || return 1
  "$venv/bin/python" -c 'import torch' 2>>"$log"
}
free_gib() { df --output=avail -BG . | tail -n 1 | tr -dc 0-9; }

# CUDA's libraries are the same for every Python. The first environment of a torch gives them to a folder that the
# next ones link to: torch finds them relative to its own place.
share_cuda() {
  local site shared=build/cuda-for-torch-$torch
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  [ "$torch" != newest ] && [ -d "$site/nvidia" ] && [ ! -e "$shared" ] || return 0
  "$venv/bin/python" -m pip freeze --disable-pip-version-check >"$site/packages.txt" 2>>"$log" || return 0
  mkdir -p "$shared.new" && mv "$site/nvidia" "$site/packages.txt" "$shared.new/" && mv "$shared.new" "$shared" &&
    ln -s "$PWD/$shared/nvidia" "$site/nvidia"
}
install_beside_shared_cuda() {
  local site shared=build/cuda-for-torch-$torch
  [ -f "$shared/packages.txt" ] || return 1
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  grep -v '^nvidia' "$shared/packages.txt" >"$log.packages"
  pip --no-deps -r "$log.packages" && ln -sfn "$PWD/$shared/nvidia" "$site/nvidia" && has_torch
}
install_torch() {
  [ "$torch" = newest ] && { pip --upgrade torch; return; }
  install_beside_shared_cuda || pip "torch==$torch"
}

mkdir -p build
log=build/environment-$(basename "$venv").log
if [ ! -x "$venv/bin/python" ]; then
  python=""
  for candidate in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
    "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null || continue
    python=$candidate
    break
  done
  [ -n "$python" ] || { note "there is no Python $version"; exit 3; }
  "$python" -m venv "$venv" || { note "$python cannot make a virtual environment"; exit 1; }
fi
if ! has_torch; then
  if [ "$(free_gib)" -lt $needed_gib ]; then
    note "torch $torch needs $needed_gib GiB of disk, $(free_gib) are free: NumPy alone"
  else
    note "installing torch $torch"
    if install_torch && has_torch; then
      share_cuda
    else
      note "torch $torch cannot be installed (see $log): NumPy alone"
    fi
  fi
fi
# shellcheck disable=SC2086
has_tests || pip $tests || { note "pip could not install $tests (see $log)"; exit 1; }
