#!/usr/bin/env bash
# Every test: C++, Python 3.11 with torch and NumPy, then 3.12 and 3.13 with NumPy where they are found; lint and format.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python

echo "== format and lint"
git ls-files '*.cpp' '*.h' '*.c' | xargs clang-format-19 --dry-run -Werror
$python -m ruff check python tests examples benchmarks
$python -m ruff format --check python tests examples benchmarks

echo "== C++"
for binary in build/cpython-311/*_tests; do
  "$binary" --gtest_brief=1
done

echo "== Python 3.11"
$python -m pytest tests -m "not long"

# Other versions: NumPy and bytecode tests, in environments of their own.
for version in 3.12 3.13; do
  other=""
  for candidate in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
    "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null && other=$candidate && break
  done
  [ -n "$other" ] || { echo "== Python $version: not found, left out"; continue; }
  echo "== Python $version"
  venv=build/venv-$version
  if [ ! -x "$venv/bin/python" ]; then
    "$other" -m venv "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check numpy pytest hypothesis
  fi
  bash tools/build.sh "$venv/bin/python"
  "$venv/bin/python" -m pytest tests -m "not long"
done
