#!/usr/bin/env bash
# Do two builds of toroid generate the same code? For refactors that should change nothing.
#
#   tests/replay.sh OLD NEW [EVERY]      OLD, NEW: the command toroid of each build; EVERY: one in so many recorded operators (default 1)
#
# Takes the recorded models, control flow, extensions and operators of build/conformance and the programs of tests/programs as far as the
# sources of each, or the refusal; no compiler runs. Prints the files that differ, and exits with 1 when there are any.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
old=$(realpath "${1:?"usage: tests/replay.sh OLD NEW [EVERY]"}") new=$(realpath "${2:?"usage: tests/replay.sh OLD NEW [EVERY]"}") every=${3:-1}
data=$here/build/conformance
[[ -d $data/models ]] || { echo "error: $data is missing: ./run build unpacks it" >&2 && exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/g++" <<'FAKE'
#!/bin/sh
case "$1" in --version) echo 'g++ (Fake) 1.0'; exit;; -print-prog-name=*) exit;; esac
echo refused >&2; exit 1
FAKE
chmod +x "$folder/g++"
# With no better compiler, the sources are kept and the compilation fails. What it says has no path in it.
export folder TOROID_CXX=$folder/g++ TOROID_MACHINE=${TOROID_MACHINE:-baseline} TMPDIR=$folder/temporary
mkdir "$TMPDIR"
generate() {
  local name
  name=$(basename "$(dirname "$2")")-$(basename "$2")
  mkdir -p "$3/$name"
  { timeout 120 "$1" compile "$2" -o "$folder/none.so" --no-cache --threads 1 --save-source "$3/$name" 2>&1 || true; } |
    grep -v -- '-failed-' >"$3/$name/messages" || true
}
export -f generate
list() {
  ls "$data"/{models,control_flow,extensions}/*.pt2 "$here"/tests/programs/*.txt
  ls "$data"/opinfo/*.pt2 | awk -v every="$every" 'NR % every == 0'
}
for build in old new; do
  list | xargs -P "${TOROID_JOBS:-$(nproc)}" -I{} bash -c "generate '${!build}' '{}' '$folder/$build'"
  rm -rf "${TMPDIR:?}"/*
done
programs=$(ls "$folder/old" | wc -l) files=$(find "$folder/old" -name '*.cpp' | wc -l)
if ! diff -rq "$folder/old" "$folder/new"; then
  echo "$programs programs, $files files of source: they differ"
  exit 1
fi
((files > 0)) || { echo "no source was generated" && exit 1; }
echo "$programs programs, $files files of source: the same bytes"
