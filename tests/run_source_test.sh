#!/usr/bin/env bash
# The sources of a package for processors (`compile --emit-source`) link: from the objects of a release build that are of the files of
# package/run_source.sh and package/source/CMakeLists.txt, instead of minutes of compiling. tests/package/conform_sources.sh builds and runs
# whole ones.
#
# usage: run_source_test.sh BUILD
set -euo pipefail
build=$(realpath "${1:?"usage: run_source_test.sh BUILD"}")
here=$(realpath "$(dirname "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TOROID_CACHE_DIR=$folder/cache
"$build/toroid" compile "$here/c_api/programs/scaled.txt" --emit-source "$folder/source" --cpu baseline 2>/dev/null
cd "$folder"
g++ -std=gnu++17 -fPIC -w -O1 -DTOROID_NAMESPACE=level0 -c source/program/unit*.cpp source/program/entry.cpp

# Of several files in one object all are of the tree: those of base_apart, runtime_apart_too and of the interface in C.
objects=("$build"/CMakeFiles/toroid_{api,base,base_apart,library,runtime,runtime_apart_too,tensor}.dir)
not_there='pch|/runtime/cuda/|/gpu_runs|/no_own_program|/loaded_library|/kernels/onednn/|/linalg'
mapfile -t objects < <(find "${objects[@]}" -name '*.o' | grep -vE "$not_there")
for part in loader gpu onednn; do
  stand_in=$build/package/CMakeFiles/toroid_without_$part.dir
  objects+=("$stand_in"/*/*.o "$stand_in"/*.o)
done
link=() # one of the two patterns names no file
for object in "${objects[@]}"; do [[ ! -e $object ]] || link+=("$object"); done
((${#link[@]} > 100)) || { echo "only ${#link[@]} objects in $build" && exit 1; }
ar rcsP librun_side.a "${link[@]}"
g++ -shared -o model.so ./*.o -Wl,--gc-sections -Wl,-u,toroid_api -Wl,-z,defs -Wl,--version-script="$here/../package/exports.map" \
  librun_side.a -ldl
