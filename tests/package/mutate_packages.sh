#!/usr/bin/env bash
# mutate_packages on several packages and cores: damaged packages must be refused, whatever the damage.
#
# usage: mutate_packages.sh BUILD_FOLDER TIMES JOBS [SEED]      TIMES: mutants in all. Exit status 1 where one crashed, hung or was opened
set -euo pipefail
build=$(realpath "$1") times=$2 jobs=$3 seed=${4:-1}
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/toroid" compile "$root/tests/c_api/programs/scaled.txt" -o "$work/scaled.so" --cpu baseline 2>"$work/log"
"$build/toroid" compile "$root/tests/c_api/programs/counter.txt" -o "$work/counter.so" --cpu portable 2>"$work/log"
"$build/toroid" compile "$build/conformance/models/mlp.pt2" -o "$work/mlp.so" 2>"$work/log"
packages=("$work"/{scaled,counter,mlp}.so)
parts=$((jobs * 3)) # a third of them of each package
for ((part = 0; part < parts; ++part)); do
  printf '%s %s %s\n' "${packages[part % 3]}" $(((times + parts - 1) / parts)) $((seed * 1000 + part))
done | xargs -P "$jobs" -L 1 "$build/tests/mutate_packages" >"$work/results" || true
sed 's|.*/||' "$work/results"
count=$(grep -c ' refused, 0 crashed, hung or opened, ' "$work/results" || true)
echo "$count of $parts parts without a finding"
((count == parts))
