#!/usr/bin/env bash
# The tests of the public API (tests/python) with the oldest torch that cdynamo works with and with the newest that pip
# finds, each in an environment of its own in build/ (with CUDA's libraries up to 5 GB).
#   tools/versions.sh [TORCH...]       other releases
set -euo pipefail
cd "$(dirname "$0")/.."
releases=("$@")
((${#releases[@]})) || releases=(2.11.0 newest)
version=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

failed=0
for release in "${releases[@]}"; do
  venv=build/venv-torch-$release
  bash tools/environment.sh "$venv" "$version" "$release"
  torch=$("$venv/bin/python" -c 'import torch; print(torch.__version__)' 2>/dev/null) ||
    { echo "== torch $release: not to be had, left out"; continue; }
  echo "== torch $torch"
  bash tools/build.sh "$venv/bin/python"
  "$venv/bin/python" -m pytest tests/python -m "not long" -p no:cacheprovider || failed=1
done
exit $failed
