#!/usr/bin/env bash
# A wheel with LLVM inside, in dist/, for the interpreter given (default: .venv's).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
# Extensions of other Pythons, built in the checkout, stay out of it.
own=_C$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
settings=()
for file in python/cdynamo/_C.*.so; do
  [ ! -e "$file" ] || [ "${file##*/}" = "$own" ] || settings+=("-Cwheel.exclude=cdynamo/${file##*/}")
done
"$python" -m pip wheel -q --disable-pip-version-check --no-deps -w dist "${settings[@]}" .
ls -l dist/*.whl
