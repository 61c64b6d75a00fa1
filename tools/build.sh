#!/usr/bin/env bash
# Builds the extension and the C++ tests for one interpreter and makes `import cdynamo` work in it:
#   tools/build.sh .venv/bin/python
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
tag=$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
# The Python that is asked for, not one that CMake finds first.
executable=$("$python" -c 'import sys; print(sys.executable)')
tests=OFF
[ "$tag" = cpython-311 ] && tests=ON
cmake -S . -B "build/$tag" -G Ninja -DPython_EXECUTABLE="$executable" -DPython_FIND_VIRTUALENV=ONLY \
  -DCDYNAMO_BUILD_TESTS=$tests -DCDYNAMO_TEST_HOOKS=ON >"/tmp/cdynamo-cmake-$tag.log" 2>&1 ||
  { cat "/tmp/cdynamo-cmake-$tag.log" >&2; echo "build: cmake failed" >&2; exit 1; }
cmake --build "build/$tag" -j"$(nproc)" -- --quiet || { echo "build: the compiler failed" >&2; exit 1; }
# The package is imported from the checkout: python/ on the path, the extension beside its sources.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/python" >"$site/cdynamo.pth"
# A process that has the old one loaded keeps it.
cp -u --remove-destination "build/$tag"/_C.*.so python/cdynamo/
# Entry points (torch.compile(backend="cdynamo")) are found through the package metadata.
"$python" tools/metadata.py python
