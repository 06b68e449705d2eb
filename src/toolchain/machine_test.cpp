#include "base/machine/machine.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/error_for_test.h"
#include "base/machine/machine_for_test.h"
#include "toolchain/toolchain.h"

namespace toroid {
namespace {

TEST(Machine, NamesParseBack) {
  for (const char* name : {"baseline", "avx2+emulated-amx", "avx512+vnni+bf16", "avx512+vnni+bf16+amx", "avx512+bf16+emulated-amx"}) {
    EXPECT_EQ(parse_machine(name).name(), name);
  }
  EXPECT_EQ(parse_machine("avx512+amx+emulated-amx"), parse_machine("avx512+amx")) << "what is there is not emulated";
  EXPECT_EQ(error_of([] { parse_machine("sse9"); }).kind(), ErrorKind::InvalidOption);
}

TEST(Machine, MayBeTakenForOneWithLess) {
  const Isa here = parse_isa("avx512+vnni+bf16");
  for (const char* name : {"baseline", "avx2", "avx512+bf16", "avx512+vnni+bf16+emulated-amx"})
    EXPECT_EQ(machine_named(name, here).name(), name);
}

TEST(Machine, IsNotTakenForOneWithMore) {
  const Error error = error_of([] { machine_named("avx512+amx", parse_isa("avx2")); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_EQ(error.report(),
            "error: TOROID_MACHINE needs the instruction set avx512+amx; this machine has avx2, and lacks avx512, amx\n"
            "  while reading TOROID_MACHINE\n"
            "  help: name what this machine has, as in TOROID_MACHINE=avx2, or unset it");
}

TEST(Machine, DecidesForTheCompilerAndTheLoader) {
  refuse_missing_instructions(machine().isa, "p.so");
  const MachineScope scope("baseline");
  EXPECT_EQ(machine().name(), "baseline");
  EXPECT_EQ(Toolchain().isa(), Isa{});
  EXPECT_EQ(error_of([] { refuse_missing_instructions(parse_isa("avx2"), "p.so"); }).message(),
            "p.so needs the instruction set avx2; this machine has baseline, and lacks avx2");
}

}  // namespace
}  // namespace toroid
