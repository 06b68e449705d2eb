#!/usr/bin/env bash
# Installs a build and uses it as somebody who has nothing else: a project that finds it with find_package, compiles models in its own build
# and calls them from C++; and pkg-config.
#
# usage: install_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: install_test.sh BUILD"}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TOROID_CACHE_DIR=$folder/cache

cmake --install "$build" --prefix "$folder/installed" >"$folder/log" || { cat "$folder/log" && exit 1; }
mkdir "$folder/user"
cmake -G Ninja -S "$here/install" -B "$folder/user" -DCMAKE_PREFIX_PATH="$folder/installed" -DCMAKE_BUILD_TYPE=Debug >"$folder/log" 2>&1 &&
  cmake --build "$folder/user" >>"$folder/log" 2>&1 || { cat "$folder/log" && exit 1; }
"$folder/user/in_cpp" "$folder/user"
for program in compiles compiles_beside; do
  mkdir "$folder/$program"
  "$folder/user/$program" "$here/c_api/programs" "$folder/$program"
done
touch "$folder/user/further"
cmake --build "$folder/user" >"$folder/log" 2>&1
grep -q 'Compiling counter.so' "$folder/log" && ! grep -q 'Compiling scaled.so' "$folder/log" || { cat "$folder/log" && exit 1; }
touch -d '1 hour ago' "$folder/user/scaled.so"
touch "$folder/installed/bin/toroid"
cmake --build "$folder/user" >"$folder/log" 2>&1
grep -q 'Compiling scaled.so' "$folder/log" || { echo "the model is not compiled again for a new toroid" && exit 1; }

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$(dirname "$(find "$folder/installed" -name toroid.pc)")
  # shellcheck disable=SC2046
  cc -std=c99 -pedantic -Wall -Werror "$here/c_api/run.c" $(pkg-config --cflags --libs toroid) -o "$folder/run"
  [[ $(pkg-config --modversion toroid) == 0.1.0 && $(pkg-config --modversion toroid-compiler) == 0.1.0 ]]
  # shellcheck disable=SC2046
  cc -std=c99 -Wall -Werror "$here/c_compiler/compile.c" $(pkg-config --cflags --libs toroid-compiler) \
    "-Wl,-rpath,$(pkg-config --variable=libdir toroid-compiler)" -o "$folder/compile"
  mkdir "$folder/written"
  "$folder/compile" "$here/c_api/programs" "$folder/written"
fi
