#!/usr/bin/env bash
# Makes FOLDER/toroid-VERSION-linux-x86_64.tar.gz of a build: what `cmake --install` installs, with the portable command in the place of the
# others, and what that brings along left out. The same build gives the same bytes.
#
# usage: package.sh BUILD FOLDER
set -euo pipefail
build=$(realpath "${1:?"usage: package.sh BUILD FOLDER"}") out=$(realpath "${2:?}")
here=$(dirname "$(realpath "$0")")
version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:[^=]*=(.*)/\1/p' "$build/CMakeCache.txt")
name=toroid-$version-linux-x86_64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/$name" >"$work/log" || { cat "$work/log" && exit 1; }
cd "$work/$name"
rm -r lib/toroid
install -m 755 "$build/portable/toroid" bin/toroid
for library in libtoroid.so libtoroid_compiler.so; do # not that of the Python package, which may lie beside them
  install -m 644 "$build/portable/$library" "$(find lib -type f -name "$library.*")"
done
install -m 644 "$here/README.md" README.md
install -m 644 "$here/../../LICENSE" LICENSE
chmod -R u=rwX,go=rX .
cd ..
tar --create --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner "$name" | gzip -n >"$out/$name.tar.gz.new"
mv "$out/$name.tar.gz.new" "$out/$name.tar.gz"
echo "$out/$name.tar.gz"
