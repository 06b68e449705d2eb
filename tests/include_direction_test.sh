#!/usr/bin/env bash
# A folder under src/ includes only itself and folders declared before it in CMakeLists.txt.
#
# usage: include_direction_test.sh [ROOT]      prints each violation as FILE:LINE and exits 1 when there is one
#
# Linking catches a missing symbol only; an include against the direction that needs no symbol (a header of constants,
# a template) would go unseen, and the next one would follow it.
set -euo pipefail
root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"

# Prints the violations in the tree at the working directory.
check() {
  local -A position=()
  local name folder file line included count=0
  while read -r name; do position[$name]=$((++count)); done < <(
    sed -nE 's/^toroid_folder\(([a-z_]+).*/\1/p' CMakeLists.txt
  )
  for folder in src/*/; do
    name=$(basename "$folder")
    [[ -n ${position[$name]:-} || -z $(find "$folder" -name '*.cpp' -o -name '*.h' | head -1) ]] ||
      echo "$folder: holds code but is not declared in CMakeLists.txt"
  done
  while IFS=: read -r file line included; do
    name=${file#src/} name=${name%%/*}
    included=${included#*\"} included=${included%%\"*}
    folder=${included%%/*}
    [[ $folder == toroid ]] && continue # the public headers in include/
    if [[ -z ${position[$folder]:-} || ! -e src/$included ]]; then
      echo "$file:$line: includes \"$included\", which is no path from src/"
    elif ((position[$folder] > ${position[$name]:-0})); then
      echo "$file:$line: includes \"$included\", but $folder is declared after $name"
    fi
  done < <(grep -rnE '^ *# *include *"' src --include='*.cpp' --include='*.h')
}

# The check is checked first: a planted tree with one wrong include must be reported, and only that include.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/src/{early,late}
printf 'toroid_folder(early LIBS x)\ntoroid_folder(late)\n' >"$planted/CMakeLists.txt"
printf '#include <vector>\n#include "late/b.h"\n' >"$planted/src/early/a.h"
printf '#include "early/a.h"\n#include "late/b.h"\n' >"$planted/src/late/b.h"
found=$(cd "$planted" && check)
[[ $found == 'src/early/a.h:2: includes "late/b.h", but late is declared after early' ]] || {
  echo "the include check does not see a planted violation: '$found'"
  exit 1
}

violations=$(check)
[[ -z $violations ]] || {
  echo "$violations"
  exit 1
}
