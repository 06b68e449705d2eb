// What compilers differ in. toroid's own build is C++20; source packages are C++17, and go without some checks while they are compiled.
#pragma once

#if __cplusplus >= 202002L
#define TOROID_CONSTEVAL consteval
#define TOROID_CONSTINIT constinit
#else
#define TOROID_CONSTEVAL constexpr
#define TOROID_CONSTINIT
#endif

// Compilers that know AMX, and the instructions of AVX512_BF16. What others make has no code for these, and takes no machine to have them.
#if defined(__x86_64__) && defined(__linux__)
#ifdef __clang__
#if __clang_major__ >= 12
#define TOROID_KNOWS_AMX 1
#endif
#if __clang_major__ >= 9
#define TOROID_KNOWS_BF16 1
#endif
#else
#if __GNUC__ >= 11
#define TOROID_KNOWS_AMX 1
#endif
#if __GNUC__ >= 10
#define TOROID_KNOWS_BF16 1
#endif
#endif
#endif
