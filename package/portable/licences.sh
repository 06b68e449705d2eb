#!/usr/bin/env bash
# Writes the licences of all that is inside a portable toroid, or that it puts into packages: a table, then each text, as Debian's packages
# have them.
#
# usage: licences.sh FILE [COMPILER]
set -euo pipefail
file=${1:?"usage: licences.sh FILE [COMPILER]"} compiler=${2:-c++}
root=$(realpath "$(dirname "$0")/../..")
major=$("$compiler" -dumpversion | cut -d. -f1)
# Name, package, licence, where it is.
parts=(
  "fmt|libfmt-dev|MIT|in the command"
  "nlohmann/json|nlohmann-json3-dev|MIT|in the command"
  "CLI11|libcli11-dev|BSD-3-Clause|in the command"
  "OpenSSL (libcrypto)|libssl-dev|Apache-2.0|in the command"
  "zlib|zlib1g-dev|Zlib|in the command"
  "SQLite|libsqlite3-dev|public domain|in the command"
  "hiredis|libhiredis-dev|BSD-3-Clause|in the command"
  "Eigen|libeigen3-dev|MPL-2.0|in the command, in packages"
  "libstdc++, libgcc|libstdc++-$major-dev|GPL-3.0 with the GCC Runtime Library Exception|in the command, in packages"
  "libmvec of the GNU C library|libc6-dev|LGPL-2.1-or-later|in packages"
)
{
  printf 'toroid is under the Apache License, version 2.0. A portable toroid, and packages that toroid makes, hold parts of other projects:\n\n'
  for part in "${parts[@]}"; do
    IFS='|' read -r name package licence where <<<"$part"
    version=$(dpkg-query -W -f='${Version}' "$package" 2>/dev/null || echo unknown)
    printf '  %-30s %-26s %-48s %s\n' "$name" "$version" "$licence" "$where"
  done
  printf '\nTheir texts follow: toroid'\''s, the others'\'', and the licences that those name.\n'
  heading() { printf '\n======== %s ========\n\n' "$1"; }
  heading toroid
  cat "$root/LICENSE"
  for part in "${parts[@]}"; do
    IFS='|' read -r name package licence where <<<"$part"
    heading "$name"
    cat "/usr/share/doc/$package/copyright" 2>/dev/null || printf '%s; the text is in its sources.\n' "$licence"
  done
  for licence in GPL-3 LGPL-2.1 MPL-2.0; do
    [[ ! -e /usr/share/common-licenses/$licence ]] || { heading "$licence" && cat "/usr/share/common-licenses/$licence"; }
  done
} >"$file.new"
mv "$file.new" "$file"
