// Makes CPUID report less than the processor has, for libraries that have no switch of their own. Preloaded into a process:
//   cc -O2 -shared -fPIC held_to.c -o held_to.so; LD_PRELOAD=./held_to.so HELD_TO=avx2 python3 …
//
// arch_prctl(ARCH_SET_CPUID, 0) makes the instruction fault in this thread and in those that it starts ("CPUID faulting": cpuid_fault in
// /proc/cpuinfo). The handler executes it with faults off and clears bits of leaf 7:
//   avx2         all of AVX-512, AVX-VNNI, AMX
//   avx512       AVX512_VNNI, _BF16 and _FP16, AVX-VNNI, AMX; what Skylake-X has stays
//   avx512+vnni  AVX512_BF16 and _FP16, AMX
// The loader and the C library have chosen their memcpy by then; GLIBC_TUNABLES governs those.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// Bits of leaf 7 that stay. Intel's Software Developer's Manual, volume 2, CPUID.
static struct { uint32_t ebx, ecx, edx, eax_1, edx_1; } kept = {~0u, ~0u, ~0u, ~0u, ~0u};

static struct sigaction before;
static int holding;

static void set_faulting(int faulting) { syscall(SYS_arch_prctl, ARCH_SET_CPUID, !faulting); }

static void answer(int number, siginfo_t* info, void* context) {
  (void)number;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* code = (const unsigned char*)registers[REG_RIP];
  if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {  // another fault: dies as it would have
    holding = 0;
    sigaction(SIGSEGV, &before, NULL);
    return;
  }
  uint32_t leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
  set_faulting(0);
  __cpuid_count(leaf, subleaf, a, b, c, d);
  set_faulting(1);
  if (leaf == 7 && subleaf == 0) {
    b &= kept.ebx;
    c &= kept.ecx;
    d &= kept.edx;
  } else if (leaf == 7 && subleaf == 1) {
    a &= kept.eax_1;
    d &= kept.edx_1;
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

// The program's own handler of SIGSEGV (compilers have one) stands behind this one.
int sigaction(int number, const struct sigaction* wanted, struct sigaction* old) {
  static int (*real)(int, const struct sigaction*, struct sigaction*);
  if (!real) real = (int (*)(int, const struct sigaction*, struct sigaction*))dlsym(RTLD_NEXT, "sigaction");
  if (number != SIGSEGV || !holding) return real(number, wanted, old);
  if (old) *old = before;
  if (wanted) before = *wanted;
  return 0;
}

sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction wanted = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
  return sigaction(number, &wanted, &old) == 0 ? old.sa_handler : SIG_ERR;
}

__attribute__((constructor)) static void hold(void) {
  const char* isa = getenv("HELD_TO");
  if (!isa) return;
  const uint32_t amx = 1u << 22 | 1u << 24 | 1u << 25;
  const uint32_t amx_1 = 1u << 21, amx_complex_1 = 1u << 8, avx10_1 = 1u << 19;
  kept.edx = ~(amx | 1u << 23 | 1u << 2 | 1u << 3 | 1u << 8);  // FP16, 4VNNIW, 4FMAPS, VP2INTERSECT
  kept.eax_1 = ~(amx_1 | 1u << 5);                             // BF16
  kept.edx_1 = ~(amx_complex_1 | avx10_1);
  if (strcmp(isa, "avx512+vnni") != 0) {
    kept.ecx = ~(1u << 11);                         // AVX512_VNNI
    kept.eax_1 &= ~(1u << 4 | 1u << 23);            // AVX-VNNI, AVX-IFMA
    kept.edx_1 &= ~(1u << 4 | 1u << 5 | 1u << 10);  // AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16
  }
  if (strcmp(isa, "avx2") == 0) {
    kept.ebx = ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
    kept.ecx &= ~(1u << 1 | 1u << 6 | 1u << 12 | 1u << 14);  // VBMI, VBMI2, BITALG, VPOPCNTDQ
  }
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, &before);
  holding = 1;
  if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) != 0) {
    fprintf(stderr, "error: this machine cannot hide instructions: CPUID faulting is missing\n");
    _exit(1);
  }
}
