#!/usr/bin/env bash
# Does the generator of random programs find bugs? Plants those of planted.patch, one at a time, in a copy of the tree.
#
#   tests/fuzz/planted.sh FOLDER [COUNT [BUG...]]     at most COUNT programs (default 300) a bug; all bugs unless named
#
# FOLDER becomes a worktree of HEAD with the patch, and is kept: a later call uses what is built there. All bugs are in one build, and
# $TOROID_PLANTED chooses the one that is there. Prints a row a bug: its name, the number of the first program that fails, and how.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?"usage: tests/fuzz/planted.sh FOLDER [COUNT [BUG...]]"}
count=${2:-300}
shift $(($# < 2 ? $# : 2))

if [[ ! -d $folder ]]; then
  git -C "$here" worktree add --detach "$folder" HEAD >&2
  git -C "$folder" apply "$here/planted.patch"
  for file in $(git -C "$folder" diff --name-only); do sed -i '1i #include "base/planted.h"' "$folder/$file"; done
fi
[[ -f $folder/build/build.ninja ]] || cmake -S "$folder" --preset release >&2
ninja -C "$folder/build" -j "${TOROID_JOBS:-$(nproc)}" fuzz_programs >&2

bugs=("$@")
if ((${#bugs[@]} == 0)); then
  mapfile -t bugs < <(grep -hoE '^\+.*(planted|replace)\("[a-z0-9-]+"' "$here/planted.patch" | grep -oE '"[a-z0-9-]+"$' | tr -d '"' | sort -u)
fi
found=0
for bug in "${bugs[@]}"; do
  output=$(TOROID_PLANTED=$bug "$folder/build/tests/fuzz_programs" --seed 77 --jobs 1 --stop-at 1 --no-shrink --count "$count" || true)
  failure=$(grep -m 1 '^program [0-9]*: ' <<<"$output" | cut -c 1-120) || true
  [[ -z $failure ]] || found=$((found + 1))
  printf '%-20s %s\n' "$bug" "${failure:-missed in $(grep -oE '^[0-9]+ programs' <<<"$output")}"
done
echo "$found of ${#bugs[@]} found"
