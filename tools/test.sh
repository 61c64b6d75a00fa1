#!/usr/bin/env bash
# Every test: lint and format, C++, then the Python tests with torch and NumPy on 3.11, and side by side on 3.12 and 3.13
# where these are found. Their torch is the package index's, with CUDA's libraries: about 5 GB in build/, once; where it
# cannot be had they run the tests that need no torch, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
# A test that hangs ends its run, with where it stood.
tests="pytest -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true"
torch=$($python -c 'from importlib.metadata import version; print(version("torch").split("+")[0])')

echo "== format and lint"
git ls-files '*.cpp' '*.h' '*.c' | xargs clang-format-19 --dry-run -Werror
$python -m ruff check python tests examples benchmarks tools
$python -m ruff format --check python tests examples benchmarks tools

echo "== layers"
$python tools/layers.py

# Downloads while the tests of 3.11 run: one after the other, since the second shares what the first brought.
(
  for version in 3.12 3.13; do
    code=0
    bash tools/environment.sh "build/venv-$version" "$version" "$torch" || code=$?
    echo $code >"build/environment-$version.code"
  done
) >build/environments.log 2>&1 &
environments=$!

echo "== C++"
CDYNAMO_PTXAS=$(bash tools/ptxas.sh) || true
export CDYNAMO_PTXAS
for binary in build/cpython-311/*_tests; do
  "$binary" --gtest_brief=1
done

echo "== Python 3.11"
failed=0
$python -m $tests tests -m "not long" || failed=1

# What is captured, run by other backends: the same results. A process for each file.
other_backends() {
  local backend file code failed=0
  for backend in eager callable; do
    echo "== Python 3.11, backend $backend"
    for file in tests/symbolic/test_*.py tests/frame_eval/test_*.py; do
      case $file in */test_bytecode.py | */test_frame.py) continue ;; esac
      code=0
      CDYNAMO_TEST_BACKEND=$backend $python -m $tests "$file" -m "not long and not native" -p no:cacheprovider || code=$?
      [ $code = 0 ] || [ $code = 5 ] || failed=1  # 5: all of its tests are native's
    done
  done
  return $failed
}

emulated_gpu() {
  local names="core_ops dtypes layers models numpy_programs optimizers programs random_and_norms recurrent sizes_across_widths training"
  echo "== Python 3.11, a GPU's code in the emulator"
  CDYNAMO_TEST_TARGET=emulated-gpu $python -m $tests $(printf 'tests/python/test_%s.py ' $names) -m "not long" -p no:cacheprovider
}

# Side by side, a thread each: 3.11's tests had them all.
export OMP_NUM_THREADS=1
other_backends >build/tests-backends.log 2>&1 &
backends=$!
emulated_gpu >build/tests-emulated.log 2>&1 || failed=1
wait $backends || failed=1
cat build/tests-backends.log build/tests-emulated.log

wait $environments
cat build/environments.log
versions=()
for version in 3.12 3.13; do
  case $(cat "build/environment-$version.code") in
    0) bash tools/build.sh "build/venv-$version/bin/python" && versions+=("$version") ;;
    3) echo "== Python $version: not found, left out" ;;
    *) echo "== Python $version: no environment" && failed=1 ;;
  esac
done

declare -A processes=()
for version in "${versions[@]}"; do
  "build/venv-$version/bin/python" -m $tests tests -m "not long" -p no:cacheprovider >"build/tests-$version.log" 2>&1 &
  processes[$version]=$!
done
for version in "${versions[@]}"; do
  code=0
  wait "${processes[$version]}" || code=$?
  echo "== Python $version"
  cat "build/tests-$version.log"
  [ $code = 0 ] || failed=1
done
exit $failed
