#!/usr/bin/env bash
# The Debian package of a build: its dependencies, what lintian says where that is installed, and a project of a user's over what is in it.
#
# usage: debian_package_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: debian_package_test.sh BUILD"}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TOROID_CACHE_DIR=$folder/cache
(cd "$build" && cpack -G DEB -B "$folder/made") >"$folder/log" 2>&1 || { cat "$folder/log" && exit 1; }
package=$(ls "$folder"/made/toroid_*_*.deb)
depends=", $(dpkg-deb -f "$package" Depends),"
for needed in 'g++ | clang' 'libc6 (' 'libstdc++6 (' 'libsqlite3-0 (' 'libssl3'; do
  [[ $depends == *", $needed"* ]] || { echo "the package does not depend on $needed: $depends" && exit 1; }
done
if command -v lintian >/dev/null; then
  complaints=$(lintian "$package" 2>/dev/null)
  [[ -z $complaints ]] || { echo "$complaints" && exit 1; }
fi
dpkg-deb -x "$package" "$folder/root"
[[ $("$folder/root/usr/bin/toroid" version) == "toroid "* ]]
mkdir "$folder/user"
cmake -G Ninja -S "$here/install" -B "$folder/user" -DCMAKE_PREFIX_PATH="$folder/root/usr" -DCMAKE_BUILD_TYPE=Debug >"$folder/log" 2>&1 &&
  cmake --build "$folder/user" >>"$folder/log" 2>&1 || { cat "$folder/log" && exit 1; }
"$folder/user/in_cpp" "$folder/user"
"$folder/user/compiles" "$here/c_api/programs" "$folder/user"
