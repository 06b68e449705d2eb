#!/usr/bin/env bash
# Runs what pages of docs/ show: their blocks of code, in order. A block that opens with ```LANGUAGE FILE is written to FILE; ```sh is run
# by bash in the page's folder, which is empty at first, beside build, include and examples; ```python FILE is run too, where a Python with
# PyTorch is given. A page that makes digits.pt2 in Python finds the one of examples/digits otherwise.
#
# usage: [TOROID_PYTHON=python] pages_test.sh BUILD [PAGE.md...]
set -euo pipefail
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
shift
pages=()
for page in "$@"; do pages+=("$(realpath "$page")"); done
(($#)) || pages=("$root"/docs/{start,deployment,moving}.md)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TOROID_CACHE_DIR=$work/cache
ln -s "$build" "$work/build"
ln -s "$root/include" "$root/examples" "$work/"

# blocks PAGE FOLDER: each block to FOLDER/N.block.LANGUAGE, with the name of its file in FOLDER/N.name.
blocks() {
  awk -v folder="$2" '
    /^```/ && !inside { inside = 1; split(substr($0, 4), words, " "); file = sprintf("%s/%03d.block.%s", folder, ++count, words[1] == "" ? "text" : words[1])
                        printf "%s", words[2] > sprintf("%s/%03d.name", folder, count); printf "" > file; next }
    /^```/ { inside = 0; close(file); next }
    inside { print > file }' "$1"
}

for page in "${pages[@]}"; do
  name=$(basename "$page" .md)
  mkdir "$work/$name.blocks" "$work/$name"
  blocks "$page" "$work/$name.blocks"
  cd "$work/$name"
  for name_file in "$work/$name.blocks"/*.name; do
    block=("${name_file%.name}".block.*)
    file=$(cat "$name_file")
    [[ -z $file ]] || cp "${block[0]}" "$file"
    case ${block[0]} in
      *.sh) bash -euo pipefail "${block[0]}" >"$work/log" 2>&1 ;;
      *.python)
        if [[ -n ${TOROID_PYTHON:-} ]]; then
          "$TOROID_PYTHON" "${block[0]}" >"$work/log" 2>&1
        else
          cp "$root/examples/digits/digits.pt2" .
        fi
        ;;
      *) [[ -n $file ]] ;;
    esac || { echo "$page: block $(basename "${block[0]}") fails:" && cat "${block[0]}" "$work/log" && exit 1; }
  done
done
