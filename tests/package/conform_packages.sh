#!/usr/bin/env bash
# Models as packages by their own run side against `toroid run` of the model: the results are the same bytes.
#
# usage: conform_packages.sh BUILD_FOLDER MODELS_FOLDER [OPTION...] [FLAGS OF COMPILE...]      prints what differs, and "N same, M differ"
#   --jobs N       so many models at a time
#   --all-levels   for each CPU level that this machine has, against `toroid run` on a machine taken for it, and as a package for all
#                  x86-64 (--cpu portable)
#   --emulated     a package for all x86-64, run by qemu-x86_64-static on a processor without AVX, against `toroid run` on a machine taken for
#                  one
set -euo pipefail

# compare NAME LEVEL: one model for one level. Prints a line for each of its inputs: same or differ.
compare() {
  local name=$1 level=$2 inputs verdict machine=() cpu=() runner=()
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  case $level in
    native) ;;
    portable) cpu=(--cpu portable) ;;
    emulated) cpu=(--cpu portable) machine=(TOROID_MACHINE=baseline) runner=(qemu-x86_64-static -cpu Nehalem) ;;
    *) cpu=(--cpu "$level") machine=("TOROID_MACHINE=$level") ;;
  esac
  "$build/toroid" compile "$models/$name.pt2" -o "$work/m.so" "${cpu[@]}" "${flags[@]}" >"$work/log" 2>&1 || {
    echo "differ $level $name: $(head -n 1 "$work/log")"
    return
  }
  for inputs in "$models/$name".in*.safetensors; do
    verdict=differ
    if "${runner[@]}" "$build/tests/run_package" "$work/m.so" "$inputs" "$work/package.safetensors" 2>"$work/log" &&
      env "${machine[@]}" "$build/toroid" run "$models/$name.pt2" --inputs "$inputs" --outputs "$work/model.safetensors" 2>"$work/log"; then
      ! cmp "$work/package.safetensors" "$work/model.safetensors" >"$work/log" 2>&1 || verdict=same
    fi
    echo "$verdict $level $(basename "$inputs")$([[ $verdict != differ ]] || printf ': %s' "$(head -n 1 "$work/log")")"
    rm -f "$work"/*.safetensors
  done
}

if [[ ${1:-} == --one ]]; then
  build=$2 models=$3 flags=("${@:5}")
  compare "${4#* }" "${4%% *}"
  exit
fi

build=$(realpath "$1") models=$(realpath "$2") jobs=1 levels=(native)
shift 2
while (($#)); do
  case $1 in
    --jobs) jobs=$2 && shift 2 ;;
    --all-levels)
      has=$("$build/toroid" doctor 2>/dev/null | awk '$2 == "instructions" { print $3 }')
      levels=(portable baseline)
      for level in avx2 avx512 avx512+vnni avx512+vnni+bf16 avx512+vnni+bf16+amx; do
        missing=$(comm -23 <(tr + '\n' <<<"$level" | sort) <(tr + '\n' <<<"avx2+$has" | sort))
        [[ $has == baseline || -n $missing ]] || levels+=("$level")
      done
      [[ " ${levels[*]} " == *" $has "* ]] || levels+=("$has")
      shift
      ;;
    --emulated) levels=(emulated) && shift ;;
    *) break ;;
  esac
done
results=$(mktemp)
trap 'rm -f "$results"' EXIT
for level in "${levels[@]}"; do
  for model in "$models"/*.pt2; do printf '%s %s\0' "$level" "$(basename "$model" .pt2)"; done
done | xargs -0 -P "$jobs" -I{} "$0" --one "$build" "$models" {} "$@" >"$results" || true
sort "$results" | grep -v '^same' || true
if ((${#levels[@]} > 1)); then
  awk '{ count[$2]++; if ($1 == "same") same[$2]++ } END { for (level in count) printf "%s: %d of %d same\n", level, same[level], count[level] }' "$results" | sort
fi
differ=$(grep -c '^differ' "$results" || true) same=$(grep -c '^same' "$results" || true)
expected=0 # where something ended early
for model in "$models"/*.pt2; do
  inputs=("${model%.pt2}".in*.safetensors)
  expected=$((expected + ${#inputs[@]} * ${#levels[@]}))
done
((same + differ >= expected)) || differ=$((expected - same))
echo "$same same, $differ differ"
((differ == 0))
