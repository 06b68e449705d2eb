#!/usr/bin/env bash
# Makes an archive with the entries of libmvec, each in a file of its own. Those of libmvec.a ask the loader for the processor, by a
# symbol that only the C library itself may use; here the vectors' width tells, as each level has it: AVX-512 for 64 bytes, AVX2 for 32. For
# 16 bytes the processor is asked when the package is loaded.
#
# usage: vector_math.sh ARCHIVE [COMPILER]
set -euo pipefail
archive=$(realpath -m "${1:?"usage: vector_math.sh ARCHIVE [COMPILER]"}") compiler=${2:-cc}
library=$("$compiler" -print-file-name=libmvec.a)
[[ -e $library ]] || exit 0
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"
cat >sse41.c <<'C'
#include <cpuid.h>
__attribute__((visibility("hidden"))) char toroid_has_sse41;
__attribute__((constructor(101))) static void ask(void) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  toroid_has_sse41 = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_SSE4_1) != 0;
}
C
"$compiler" -O1 -fPIC -c sse41.c
nm "$library" 2>/dev/null | awk '$2 == "i" { print $3 }' | sort -u | while read -r name; do
  {
    printf '.text\n.p2align 4\n.globl %s\n.hidden %s\n.type %s, @function\n%s:\n' "$name" "$name" "$name" "$name"
    case $name in
      _ZGVe*) printf 'jmp %s_skx\n' "$name" ;;
      _ZGVd*) printf 'jmp %s_avx2\n' "$name" ;;
      _ZGVb*) printf 'cmpb $0, toroid_has_sse41(%%rip)\nje 1f\njmp %s_sse4\n1: jmp %s_sse2\n' "$name" "$name" ;;
    esac
    printf '.size %s, .-%s\n.section .note.GNU-stack,"",@progbits\n' "$name" "$name"
  } >"$name.s"
done
"$compiler" -c ./*.s
rm -f "$archive"
ar rcsD "$archive" ./*.o
