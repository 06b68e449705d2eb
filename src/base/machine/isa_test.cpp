#include "base/machine/isa.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/error_for_test.h"
#include "base/machine/machine.h"

namespace toroid {
namespace {

TEST(Isa, NamesParseBack) {
  for (const char* name : {"baseline", "avx2", "avx512", "avx512+vnni", "avx512+bf16+fp16", "avx512+vnni+bf16+fp16+amx"}) {
    EXPECT_EQ(parse_isa(name).name(), name);
  }
  EXPECT_EQ(parse_isa("avx512").vector_bytes(), 64);
  EXPECT_EQ(parse_isa("avx2").vector_bytes(), 32);
  EXPECT_EQ(parse_isa("baseline").vector_bytes(), 16);
}

TEST(Isa, UnknownNamesAreRefusedWithTheKnownOnes) {
  for (const char* name : {"", "sse9", "avx2+bf16", "avx512+", "avx512+avx2", "AVX2"}) {
    EXPECT_THROW(parse_isa(name), Error) << name;
  }
  try {
    parse_isa("avx512+fp8");
  } catch (const Error& error) {
    EXPECT_EQ(error.report(),
              "error: unknown instruction set 'fp8' in 'avx512+fp8'\n"
              "  help: known are baseline, avx2 and avx512, the last with +vnni, +bf16, +fp16 and +amx");
  }
}

TEST(Isa, SaysWhatAMachineLacks) {
  const auto refusal = [](const char* needed, const char* here) {
    return error_of([&] { refuse_missing_instructions(parse_isa(needed), "p.so", parse_isa(here)); });
  };
  EXPECT_EQ(refusal("avx512+vnni+amx", "avx512+vnni+bf16").report(),
            "error: p.so needs the instruction set avx512+vnni+amx; this machine has avx512+vnni+bf16, and lacks amx\n"
            "  help: for this machine compile with TOROID_ISA=avx512+vnni+bf16, or without TOROID_ISA on it");
  EXPECT_EQ(refusal("avx512+bf16", "avx2").message(),
            "p.so needs the instruction set avx512+bf16; this machine has avx2, and lacks avx512, bf16");
  for (const char* needed : {"baseline", "avx2", "avx512", "avx512+bf16"}) {
    EXPECT_EQ(refusal(needed, "avx512+vnni+bf16").message(), "no error") << needed;
  }
  EXPECT_EQ(refusal("avx2", "baseline").kind(), ErrorKind::Environment);
}

#ifdef __x86_64__
// libgcc's answers, which packages do without.
TEST(Isa, ReportedIsThatOfTheCompilersLibrary) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  const Isa& isa = reported_isa();
  EXPECT_EQ(isa.level, avx512 ? IsaLevel::Avx512 : avx2 ? IsaLevel::Avx2 : IsaLevel::Baseline);
  EXPECT_EQ(isa.vnni, avx512 && __builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(isa.bf16, avx512 && __builtin_cpu_supports("avx512bf16"));
#ifndef __clang__
  EXPECT_EQ(isa.fp16, avx512 && __builtin_cpu_supports("avx512fp16"));
#endif
  EXPECT_EQ(is_intel(), __builtin_cpu_is("intel") != 0);
}
#endif

TEST(Isa, FallbacksLoseOneThingAtATime) {
  std::string names;
  for (const Isa& isa : fallbacks_of(parse_isa("avx512+vnni+bf16+amx"))) names += isa.name() + " ";
  EXPECT_EQ(names, "avx512+vnni+bf16+amx avx512+vnni+bf16 avx512+vnni avx512 avx2 baseline ");
  EXPECT_EQ(fallbacks_of(Isa{}).size(), 1u);
}

}  // namespace
}  // namespace toroid
