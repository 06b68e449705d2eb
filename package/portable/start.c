/* Where a portable program begins, in the place of the compiler's crt1.o: that of glibc 2.34 and later asks for a __libc_start_main which
 * runs constructors by itself, and which older systems lack. The older function, which all have, is given what runs them. */
#include <stddef.h>

typedef void Initialiser(int, char**, char**);
extern Initialiser* const __preinit_array_start[] __attribute__((visibility("hidden")));
extern Initialiser* const __preinit_array_end[] __attribute__((visibility("hidden")));
extern Initialiser* const __init_array_start[] __attribute__((visibility("hidden")));
extern Initialiser* const __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void) __attribute__((visibility("hidden")));

int main(int argc, char** argv, char** environment);
int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, Initialiser* init, void (*fini)(void), void (*loader_fini)(void),
                      void* stack_end);

static void run_constructors(int argc, char** argv, char** environment) {
  for (Initialiser* const* each = __preinit_array_start; each != __preinit_array_end; ++each) (*each)(argc, argv, environment);
  _init();
  for (Initialiser* const* each = __init_array_start; each != __init_array_end; ++each) (*each)(argc, argv, environment);
}

/* At `stack` lie the number of arguments and then these, as the kernel leaves them. Destructors the loader runs. */
__attribute__((visibility("hidden"), noreturn, used)) void toroid_start(long* stack, void (*loader_fini)(void)) {
  __libc_start_main(main, (int)stack[0], (char**)(stack + 1), run_constructors, NULL, loader_fini, stack);
  __builtin_trap();
}

__asm__(
    ".text\n"
    ".globl _start\n"
    ".type _start, @function\n"
    "_start:\n"
    "  .cfi_startproc\n"
    "  .cfi_undefined rip\n"
    "  xor %ebp, %ebp\n"
    "  mov %rsp, %rdi\n"
    "  mov %rdx, %rsi\n"
    "  and $-16, %rsp\n"
    "  call toroid_start\n"
    "  hlt\n"
    "  .cfi_endproc\n"
    ".size _start, .-_start\n");
