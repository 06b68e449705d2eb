#!/usr/bin/env bash
# Makes the folder that packages are linked with (src/toolchain/run_side.h):
#
#   libtoroid_run.a            the run side and the C++ library's part of it
#   libtoroid_without_*.a      in the place of what a program does not need
#   libtoroid_vector_math.a    libmvec's entries; libmvec.a what they jump to
#   libc.so.6, libm.so.6, …    the C library of glibc 2.28, without code
#   libtoroid_in_program.a     in the place of libtoroid_glibc.a where a program links its own
#   exports.map                what a package shows
#   toroid.h                   the interface in C
#   level_code                 which of the run side's functions a package may leave out (level_code.sh)
#   fingerprint                of all that
#
# usage: run_side.sh FOLDER COMPILER RUNTIME_ARCHIVE OTHER_RUN_SIDE_ARCHIVES... -- WITHOUT_ARCHIVES... -- EXPORTS HEADER
set -euo pipefail
folder=$1 compiler=$2
shift 2
here=$(dirname "$(realpath "$0")")
rm -rf "$folder.new"
mkdir -p "$folder.new"
"$here/level_code.sh" "$1" >"$folder.new/level_code"
{
  echo "CREATE $folder.new/libtoroid_run.a"
  for (( ; ; )); do
    archive=$1
    shift
    [[ $archive != -- ]] || break
    echo "ADDLIB $archive"
  done
  for archive in libstdc++.a libgcc_eh.a libgcc.a; do echo "ADDLIB $("$compiler" -print-file-name=$archive)"; done
  echo 'SAVE'
  echo 'END'
} >"$folder.new/archive.mri"
# ar reads names up to a '+'.
sed -i "s#/libstdc++\.a\$#/libstdcxx.a#" "$folder.new/archive.mri"
cp "$("$compiler" -print-file-name=libstdc++.a)" "$folder.new/libstdcxx.a"
# Without streams, locales and paths. What packages leave out refers to them, and what they set up at their start would be linked with them,
# 6 KB. What a package runs refers to none: it would not link.
ar t "$folder.new/libstdcxx.a" | grep -E 'locale|ios|stream|facet|_members|^(cow-)?fs_|^(codecvt|ctype)' |
  sort -u | xargs ar d "$folder.new/libstdcxx.a"
sed -i "s#^ADDLIB .*/libstdcxx\.a#ADDLIB $folder.new/libstdcxx.a#" "$folder.new/archive.mri"
ar -M <"$folder.new/archive.mri"
rm "$folder.new/archive.mri" "$folder.new/libstdcxx.a"
# glibc.c has what takes the place of these.
renamed=()
for name in create join key_create key_delete getspecific setspecific; do renamed+=(--redefine-sym "pthread_$name=toroid_pthread_$name"); done
objcopy --enable-deterministic-archives --strip-debug "${renamed[@]}" "$folder.new/libtoroid_run.a"
while [[ $1 != -- ]]; do
  cp "$1" "$folder.new/"
  shift
done
cp "$2" "$folder.new/exports.map"
cp "$3" "$folder.new/toroid.h"
"$here/symbols_of_glibc.sh" "$folder.new" "$compiler"
"$here/vector_math.sh" "$folder.new/libtoroid_vector_math.a" "$compiler"
mvec=$("$compiler" -print-file-name=libmvec.a)
[[ ! -e $mvec ]] || cp "$mvec" "$folder.new/"
(cd "$folder.new" && sha256sum -- * | sha256sum | cut -c1-64) >"$folder.new/fingerprint"
rm -rf "$folder"
mv "$folder.new" "$folder"
