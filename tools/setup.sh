#!/usr/bin/env bash
# Readies a fresh Debian 12 machine: system packages, a .venv with the Python packages that the demo and the tests use.
# Does nothing that is done already. Says in one line what is missing where it cannot go on.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "setup: $*" >&2; exit 1; }

packages=(g++ cmake ninja-build llvm-19-dev libabsl-dev libgtest-dev libgmock-dev libzstd-dev zlib1g-dev libxml2-dev
          ccache clang-format-19)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  command -v apt-get >/dev/null || fail "apt-get is missing; install these yourself: ${missing[*]}"
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "not root, and sudo is missing; install these as root: ${missing[*]}"
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  { "${sudo[@]}" apt-get update -qq && "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >/tmp/cdynamo-apt.log 2>&1 || fail "apt-get could not install ${missing[*]}; see /tmp/cdynamo-apt.log"
fi

# Python 3.11 with headers: PYTHON if given, else python3.11, else python3.
python=${PYTHON:-}
for candidate in "$python" python3.11 python3 /usr/bin/python3.11; do
  [ -n "$candidate" ] || continue
  "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)))' 2>/dev/null || continue
  include=$("$candidate" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -f "$include/Python.h" ] || continue
  python=$candidate
  break
done
[ -n "$python" ] || fail "Python 3.11, 3.12 or 3.13 with headers is missing (apt-get install python3.11-dev python3.11-venv)"

if [ ! -x .venv/bin/python ]; then
  "$python" -m venv .venv || fail "$python cannot make a virtual environment (apt-get install python3.11-venv)"
fi
stamp=.venv/.cdynamo-packages
# expecttest: what torch.testing needs to give its operator samples.
wanted="torch==2.13.0 numpy pytest hypothesis rich ruff scikit-build-core expecttest optree"
if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ]; then
  echo "setup: installing Python packages: $wanted"
  .venv/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0 ||
    fail "pip could not install torch 2.13.0"
  # shellcheck disable=SC2086
  .venv/bin/python -m pip install -q --disable-pip-version-check $wanted || fail "pip could not install $wanted"
  echo "$wanted" >$stamp
fi
