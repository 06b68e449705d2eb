#!/usr/bin/env bash
# A folder under src/ includes only itself and folders declared before it in CMakeLists.txt.
# Some folders may use only a part of those: tune knows kernels and their operands, but no graphs and schedules; what compiles and runs programs
# uses nothing of the evaluator, which is what tests compare with. Those of runtime too, though it is declared later.
# What programs need while they run (base, tensor, library, runtime) prints text without fmt.
#
# usage: include_direction_test.sh [ROOT]      prints each violation as FILE:LINE and exits 1 when there is one
#
# Linking catches a missing symbol only; an include against the direction that needs no symbol (a header of constants,
# a template) would go unseen, and the next one would follow it.
set -euo pipefail
root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"

# FOLDER:INCLUDE: what these folders may not use although it comes earlier.
apart='^tune:(symbolic|graph|signature|passes|loop|lower|schedule|codegen)/'
# The same but for tests, which may use all of the evaluator.
apart_but_tests='^(loop|lower|schedule|program|codegen|toolchain|cache|tune|driver):interp/'
# What tests of a folder may use although it comes later.
later_for_tests='^runtime:(interp|graph)/'

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
    elif [[ $file =~ _test\.cpp$|_for_test\.h$ && $name:$included =~ $later_for_tests ]]; then
      continue
    elif ((position[$folder] > ${position[$name]:-0})); then
      echo "$file:$line: includes \"$included\", but $folder is declared after $name"
    elif [[ $name:$included =~ $apart ]]; then
      echo "$file:$line: includes \"$included\", but $name knows nothing of it"
    elif [[ ! $file =~ _test\.cpp$|_for_test\.h$ && $name:$included =~ $apart_but_tests ]]; then
      echo "$file:$line: includes \"$included\", but $name calls no evaluator"
    fi
  done < <(grep -rnE '^ *# *include *"' src --include='*.cpp' --include='*.h')
  for folder in base tensor library runtime; do
    [[ -d src/$folder ]] || continue
    while IFS=: read -r file line included; do
      [[ $file =~ _test\.cpp$|_for_test\.h$ ]] || echo "$file:$line: uses fmt, but programs run without it"
    done < <(grep -rnE '<fmt/|fmt::' "src/$folder" --include='*.cpp' --include='*.h')
  done
}

# The check is checked first: a planted tree with three wrong includes must be reported, and only those includes.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/src/{base,early,late,graph,interp,tune}
printf 'toroid_folder(%s)\n' base 'early LIBS x' late graph interp tune >"$planted/CMakeLists.txt"
printf '#include <fmt/format.h>\n' >"$planted/src/base/a.h"
printf '#include <vector>\n#include "late/b.h"\n' >"$planted/src/early/a.h"
printf '#include "early/a.h"\n#include "late/b.h"\n' >"$planted/src/late/b.h"
touch "$planted"/src/graph/graph.h "$planted"/src/interp/evaluate.h
printf '#include "graph/graph.h"\n#include "late/b.h"\n#include "interp/evaluate.h"\n' >"$planted/src/tune/c.h"
printf '#include "interp/evaluate.h"\n' >"$planted/src/tune/c_test.cpp"
found=$(cd "$planted" && check | sort)
expected='src/base/a.h:1: uses fmt, but programs run without it
src/early/a.h:2: includes "late/b.h", but late is declared after early
src/tune/c.h:1: includes "graph/graph.h", but tune knows nothing of it
src/tune/c.h:3: includes "interp/evaluate.h", but tune calls no evaluator'
[[ $found == "$expected" ]] || {
  echo "the include check does not see the planted violations: '$found'"
  exit 1
}

violations=$(check)
[[ -z $violations ]] || {
  echo "$violations"
  exit 1
}
