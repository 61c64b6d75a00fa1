#!/usr/bin/env bash
# Builds with sanitizers, into a folder of its own, and runs tests under them:
#   tools/sanitize.sh asan    AddressSanitizer and UndefinedBehaviorSanitizer: the C++ tests, the Python tests
#   tools/sanitize.sh tsan    ThreadSanitizer: the C++ tests of runtime and lowering, the Python tests of threads
# More arguments are pytest's, in place of its usual ones: tools/sanitize.sh asan tests/symbolic -k dict
# What is not reported, and why, is in tools/sanitizers/*.supp. The build (-O1) takes half an hour on two cores, once.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
shift
python=$PWD/.venv/bin/python
folder=build/$kind
mkdir -p build
case $kind in
  asan) sanitizers=address,undefined libraries="libasan.so libubsan.so" binaries="runtime graph lowering"
        layers="runtime;graph;lowering;symbolic;frame_eval" ;;
  # What holds the GIL all the time is built as it always is.
  tsan) sanitizers=thread libraries=libtsan.so binaries="runtime lowering" layers="runtime;lowering;frame_eval" ;;
  *) echo "sanitize: asan or tsan" >&2; exit 1 ;;
esac

cmake -S . -B "$folder" -G Ninja -DPython_EXECUTABLE="$python" -DPython_FIND_VIRTUALENV=ONLY -DCDYNAMO_BUILD_TESTS=ON \
  -DCDYNAMO_TEST_HOOKS=ON -DCDYNAMO_SANITIZE=$sanitizers -DCDYNAMO_SANITIZE_LAYERS="$layers" >"$folder.cmake.log" 2>&1 || { cat "$folder.cmake.log" >&2; exit 1; }
cmake --build "$folder" -j"$(nproc)" --target _C ${binaries// /_tests }_tests -- --quiet

# The package with this build's extension: the checkout's Python files, and no other extension.
package=$folder/python
rm -rf "$package"
mkdir -p "$package/cdynamo"
for file in python/cdynamo/*; do
  case $file in *.so) ;; *) ln -s "$PWD/$file" "$package/cdynamo/" ;; esac
done
for file in python/*.dist-info; do ln -s "$PWD/$file" "$package/"; done
ln -s "$PWD/$folder"/_C.*.so "$package/cdynamo/"

supp=$PWD/tools/sanitizers
export UBSAN_OPTIONS=print_stacktrace=1:suppressions=$supp/ubsan.supp
export LSAN_OPTIONS=suppressions=$supp/lsan.supp:print_suppressions=0
# Memory of torch and Python is reported where it is misused, not where a process ends with some of it.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1
# What libraries without ThreadSanitizer do among themselves is theirs.
export TSAN_OPTIONS=suppressions=$supp/tsan.supp:ignore_noninstrumented_modules=1:history_size=4:second_deadlock_stack=1
# ThreadSanitizer of this compiler knows one layout of memory: addresses are not randomized.
plain=(setarch "$(uname -m)" -R)

echo "== C++"
for binary in $binaries; do
  "${plain[@]}" "$folder/${binary}_tests" --gtest_brief=1
done

echo "== Python"
preload=""
for library in $libraries libstdc++.so; do preload+="$(g++ -print-file-name="$library") "; done
tests=("$@")
if ((${#tests[@]} == 0)); then
  # Not those that measure this process's memory.
  [ "$kind" = asan ] && tests=(tests --deselect tests/python/test_memory.py --deselect tests/python/test_training_memory.py
    --deselect tests/python/test_training_loops.py::test_memory_of_some_steps)
  # Not threads of a forked child, which ThreadSanitizer cannot follow.
  [ "$kind" = tsan ] && tests=(tests/frame_eval/test_threads.py tests/python/test_threads_and_processes.py
    --deselect tests/python/test_threads_and_processes.py::test_fork_after_compiling)
fi
export PYTHONPATH=$PWD/$package PYTHONMALLOC=malloc ASAN_OPTIONS=${ASAN_OPTIONS/detect_leaks=1/detect_leaks=0}
# A report ends the process: what pytest had captured of standard error would be lost with it.
LD_PRELOAD=$preload "${plain[@]}" "$python" -m pytest "${tests[@]}" -m "not long" -p no:cacheprovider --capture=sys
