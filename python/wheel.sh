#!/usr/bin/env bash
# Makes the wheels of the Python package from a build that has the target portable_python: FOLDER/toroid-*.whl, one for each of CPython
# 3.10 and 3.11, and one for 3.12 and all later ones (abi3). Takes the given Pythons, or those of PATH and pyenv. What builds them
# (scikit-build-core, nanobind, CMake) comes from PyPI.
#
# usage: wheel.sh BUILD FOLDER [PYTHON...]
set -euo pipefail
build=$(realpath "${1:?"usage: wheel.sh BUILD FOLDER [PYTHON...]"}") folder=$(realpath -m "${2:?}")
shift 2
here=$(dirname "$(realpath "$0")")

# The first that runs of the Pythons with this version.
find_python() {
  local each
  for each in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
    if "$each" -c "import sys; sys.exit('$1' != '%d.%d' % sys.version_info[:2])" 2>/dev/null; then
      echo "$each"
      return
    fi
  done
}

pythons=("$@")
if ((!$#)); then
  for version in 3.10 3.11; do pythons+=($(find_python $version)); done
  for version in 3.12 3.13 3.14; do
    found=$(find_python $version)
    [[ -z $found ]] || { pythons+=("$found") && break; } # its wheel serves the later ones
  done
fi
((${#pythons[@]})) || { echo "error: no Python from 3.10 to 3.14 is here" >&2 && exit 1; }

mkdir -p "$folder"
for python in "${pythons[@]}"; do
  tools=$build/python/$("$python" -c "import sys; print('tools-%d.%d' % sys.version_info[:2])")
  if [[ ! -e $tools/complete ]]; then
    "$python" -m venv --clear "$tools"
    "$tools/bin/pip" --quiet --disable-pip-version-check install "scikit-build-core>=0.10" "nanobind>=2.9" "cmake>=3.26" ninja wheel
    touch "$tools/complete"
  fi
  rm -rf "$tools/made"
  PATH=$tools/bin:$PATH "$tools/bin/python" -m pip --quiet --disable-pip-version-check wheel --no-build-isolation --no-deps \
    --wheel-dir "$tools/made" --config-settings=cmake.define.TOROID_BUILD="$build" \
    --config-settings=wheel.py-api="$("$python" -c "import sys; print('cp312' if sys.version_info >= (3, 12) else '')")" "$here"
  # The libraries need no symbol newer than glibc 2.28's (package/portable), as tests/run.sh checks.
  "$tools/bin/python" -m wheel tags --remove --platform-tag manylinux_2_28_x86_64 "$tools"/made/*.whl >/dev/null
  mv "$tools"/made/*.whl "$folder/"
done
ls "$folder"/toroid-*.whl
