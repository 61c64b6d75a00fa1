#!/usr/bin/env bash
# A wheel with LLVM inside, in dist/, for the interpreter given (default: .venv's).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
"$python" -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
ls -l dist/*.whl
