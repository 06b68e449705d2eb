#include "codegen/cpp/prelude/prelude_parts.h"

#include <gtest/gtest.h>

namespace toroid::codegen {
namespace {

constexpr const char* kText = R"(// Words.
#define INLINE static inline
template <class T> struct Kind { static constexpr int number = 0; };  // it's the general one
template <> struct Kind<int> { static constexpr int number = 1; };
template <class T> constexpr int number_of = Kind<T>::number;
typedef int Whole;
enum class Color : char { red };
#if defined(__AVX2__)
#define WIDE(twin) extern "C" double wide_##twin(double);
#else
#define WIDE(twin)
#endif
#define FUNCTION(name, twin) \
  WIDE(twin) \
  template <class T> INLINE T op_##name(T x) { return __builtin_##twin##f(x); }
FUNCTION(sine, sin) FUNCTION(cosine, cos)
INLINE int zero() { return 0; }
#pragma GCC visibility push(hidden)
#if defined(__AVX2__)
INLINE int wide() { return 2; }
#else
INLINE int wide() { return 1; }
#endif
// Twice.
INLINE Whole twice(Whole x) {
#if defined(__AVX2__)
  if (x > 0) return 2 * x;
#endif
  return x + x;
}
template <class V = Whole>
INLINE V twice(V x, V y) { return twice(x) + wide() * y; }
extern "C" { __attribute__((weak)) Whole last[2]; }
extern "C" float outside(float);
)";

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(PreludeParts, NothingIsUsedByNothingButWhatHasNoName) {
  EXPECT_EQ(PreludeParts(kText).used_by("int x = 1;  // twice\n"), "#pragma GCC visibility push(hidden)\n");
}

TEST(PreludeParts, WhatHeadersReadIsKeptBeforeThem) {
  const std::string text = "#define _GNU_SOURCE 1  // for sincos\n#include <math.h>\n#define __inner 1\n#define OWN 1\n";
  EXPECT_EQ(PreludeParts(text).used_by(""), "#define _GNU_SOURCE 1  // for sincos\n#include <math.h>\n");
}

TEST(PreludeParts, NamesBringWhatTheirDeclarationsName) {
  const PreludeParts parts(kText);
  const std::string sine = parts.used_by("float f(float x) { return op_sine(x); }");
  EXPECT_TRUE(has(sine, "#define INLINE") && has(sine, "#define FUNCTION(name, twin)") && has(sine, "FUNCTION(sine, sin)\n")) << sine;
  EXPECT_TRUE(has(sine, "#define WIDE(twin)\n")) << sine;
  EXPECT_FALSE(has(sine, "cosine") || has(sine, "Kind") || has(sine, "twice")) << sine;
  const std::string number = parts.used_by("number_of<int>");
  EXPECT_TRUE(has(number, "struct Kind {") && has(number, "struct Kind<int>")) << number;
  EXPECT_FALSE(has(number, "INLINE")) << number;
}

TEST(PreludeParts, AllOverloadsAreKeptInTheirOrder) {
  const std::string text = PreludeParts(kText).used_by("#define MINE twice(3)\n");
  const size_t first = text.find("Whole twice(Whole x)"), second = text.find("V twice(V x, V y)");
  EXPECT_LT(first, second);
  EXPECT_NE(second, std::string::npos);
  EXPECT_TRUE(has(text, "typedef int Whole;") && has(text, "return 2; }") && has(text, "return 1; }")) << text;
}

TEST(PreludeParts, EveryDeclarationHasAName) {
  const std::vector<std::string_view> expected = {"Color",     "FUNCTION",  "INLINE",  "Kind",    "WIDE",  "Whole", "last",
                                                  "number_of", "op_cosine", "op_sine", "outside", "twice", "wide",  "zero"};
  EXPECT_EQ(PreludeParts(kText).names(), expected);
}

}  // namespace
}  // namespace toroid::codegen
