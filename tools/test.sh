#!/usr/bin/env bash
# Every test: lint and format, C++, then these jobs, two at a time, each a thread of its own:
#   python-3.11   the Python tests with torch and NumPy
#   builds        environments of 3.12 and 3.13, where these are found, and the extension for them
#   python-3.12, python-3.13   the same tests there. Their torch is the package index's, with CUDA's libraries: about
#                 5 GB in build/, once; where it cannot be had they run the tests that need no torch, and say so
#   backends      what is captured, run by other backends
#   emulated-gpu  whole programs, a GPU's code in the emulator
# One of them alone: tools/test.sh backends
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
# A test that hangs ends its run, with where it stood; a job that hangs elsewhere is ended.
tests="pytest -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true"
limit=45m
# Threads that wait leave the processor to the job beside.
export OMP_WAIT_POLICY=passive

say() { printf '== %s (%d min %d s)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

python_311() { $python -m $tests tests -m "not long"; }

python_other() {
  local version=$1
  case $(cat "build/build-$version.code") in
    0) OMP_NUM_THREADS=1 "build/venv-$version/bin/python" -m $tests tests -m "not long" -p no:cacheprovider ;;
    3) echo "Python $version: not found, left out" ;;
    *) echo "Python $version: not built"; return 1 ;;
  esac
}

# A build that fails is told by the job that would use it.
builds() {
  local version code torch
  torch=$($python -c 'from importlib.metadata import version; print(version("torch").split("+")[0])')
  for version in 3.12 3.13; do
    code=0
    bash tools/environment.sh "build/venv-$version" "$version" "$torch" || code=$?
    [ $code != 0 ] || bash tools/build.sh "build/venv-$version/bin/python" || code=1
    echo $code >"build/build-$version.code"
  done
}

# The same results, a process for each file.
backends() {
  local backend file code failed=0
  export OMP_NUM_THREADS=1
  for backend in eager callable; do
    for file in tests/symbolic/test_*.py tests/frame_eval/test_*.py; do
      case $file in */test_bytecode.py | */test_frame.py) continue ;; esac
      code=0
      echo "-- $backend: $file"
      CDYNAMO_TEST_BACKEND=$backend $python -m $tests "$file" -m "not long and not native" -p no:cacheprovider || code=$?
      [ $code = 0 ] || [ $code = 5 ] || failed=1  # 5: all of its tests are native's
    done
  done
  return $failed
}

emulated_gpu() {
  local names="core_ops dtypes layers models numpy_programs optimizers programs random_and_norms recurrent sizes_across_widths training"
  OMP_NUM_THREADS=1 CDYNAMO_TEST_TARGET=emulated-gpu \
    $python -m $tests $(printf 'tests/python/test_%s.py ' $names) -m "not long" -p no:cacheprovider
}

case ${1:-} in
  "") ;;
  python-3.11) python_311; exit ;;
  python-*) python_other "${1#python-}"; exit ;;
  builds) builds; exit ;;
  backends) backends; exit ;;
  emulated-gpu) emulated_gpu; exit ;;
  *) echo "test.sh: no job is called $1" >&2; exit 2 ;;
esac

say "format and lint"
git ls-files '*.cpp' '*.h' '*.c' | xargs clang-format-19 --dry-run -Werror
$python -m ruff check python tests examples benchmarks tools
$python -m ruff format --check python tests examples benchmarks tools

say "layers"
$python tools/layers.py

say "C++"
CDYNAMO_PTXAS=$(bash tools/ptxas.sh) || true
export CDYNAMO_PTXAS
for binary in build/cpython-311/*_tests; do
  "$binary" --gtest_brief=1
done

failed=0
declare -A names=()

# Waits for one job and prints what it said.
finish_one() {
  local process code=0
  wait -n -p process || code=$?
  say "${names[$process]}: ended with $code"
  cat "build/tests-${names[$process]}.log"
  [ $code = 0 ] || failed=1
  unset "names[$process]"
}

rm -f build/build-*.code
for job in python-3.11 builds emulated-gpu backends python-3.12 python-3.13; do
  [ ${#names[@]} -lt 2 ] || finish_one
  case $job in
    python-3.11) ;;
    python-*) until [ -f "build/build-${job#python-}.code" ] || [ ${#names[@]} = 0 ]; do finish_one; done ;;
  esac
  say "$job: starts"
  timeout --kill-after=60 $limit bash tools/test.sh $job >"build/tests-$job.log" 2>&1 &
  names[$!]=$job
done
while [ ${#names[@]} -gt 0 ]; do finish_one; done
say "done"
exit $failed
