#!/usr/bin/env bash
# Gathers what a portable toroid brings along (src/support/files/embedded_files.h): files.tar.gz with the folders run_side and run_source
# and licences.txt of a build, and `list` with their digests. The same files give the same bytes.
#
# usage: embed.sh FOLDER BUILD
set -euo pipefail
folder=${1:?"usage: embed.sh FOLDER BUILD"} build=${2:?}
mkdir -p "$folder"
cd "$build"
find run_side run_source licences.txt -type f -print0 | LC_ALL=C sort -z >"$folder/names"
# licences.txt is first, for it is read alone.
{ printf 'licences.txt\0' && grep -zvx licences.txt "$folder/names"; } |
  tar --create --format=ustar --null --files-from=- --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 |
  gzip -n >"$folder/files.tar.gz"
xargs -0 sha256sum <"$folder/names" >"$folder/list"
rm "$folder/names"
