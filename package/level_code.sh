#!/usr/bin/env bash
# Lists the functions of library kernels that a package may leave out, as it is for some instructions alone
# (src/driver/package/absent_code.h): a line each of what it is for, its symbol, and its name.
#
#   avx512 _ZN6toroid14small_m_levels6Avx5124dotsILi1ELi4EEEvlPKflS3_lPfl toroid::small_m_levels::Avx512::dots<1, 4>
#
# Those of a level are what a namespace …_levels has under its name. Those of AMX are where its code is entered; none is called on a machine
# without (has_amx). Its emulation is for tests.
#
# usage: level_code.sh RUNTIME_ARCHIVE
set -euo pipefail
amx=(
  'run_attention_tiles\(' 'FewQueriesInTiles::(add|scores|pack_queries)\(' 'ImageTiles::(band|places|gathered|overlapping)\('
  'plan_(bf16|bytes|int8|int4|half)_tiles\(' '(multiply|multiply_rows|multiply_panel)\(.*PackedBf16x3' 'multiply_as_bf16x3\('
  'pack_(filters_)?bf16x3\(' 'PassingStrips::(begin|multiply|multiply_strip)\('
  'TileConvolver::(run|run_rows|run_band|pack_filters)\(' 'convolve_band\('
  'multiply_(tiles|line)_of_parts\(' 'split_rows\(' 'join_columns\(' 'ColumnsInParts::split(_line)?\(' 'widen_int4_tiles\(' 'multiply_int4_groups\('
  'pack_(left|right)_tiles\(' 'multiply_in_tiles\(' 'multiply_tile_rows\(' 'multiply_packed_tiles\(' 'multiply_tiles\('
  'TileRegisters::~?TileRegisters\('
)
symbols=$(nm --defined-only "$1" 2>/dev/null | awk '$2 ~ /[TW]/ && $3 ~ /^_ZNK?6toroid/ { print $3 }' | LC_ALL=C sort -u)
named=$(paste -d' ' <(echo "$symbols") <(c++filt <<<"$symbols" | sed -E 's/^(void|bool|long|float) //'))
# level_of NAMES LEVEL
level_of() { sed -nE "s/^([^ ]+) (toroid::[a-z0-9_]+_levels::$1.*)/$2 \1 \2/p" <<<"$named"; }
level_of '([a-z_]+_)?(baseline|Baseline)' baseline
level_of '(Avx2|[a-z_]*avx2)' avx2
level_of '(Avx512|[a-z_]*avx512)' avx512
for name in "${amx[@]}"; do
  grep -E "^[^ ]+ toroid::($name)" <<<"$named" | sed 's/^/amx /' || { echo "level_code.sh: no function is called $name" >&2 && exit 1; }
done | sort -u
sed -nE 's/^([^ ]+ toroid::emulated[a-z_]*::.*)/emulated-amx \1/p' <<<"$named"
