// The vector instructions that kernels are compiled for.
//
// A level fixes the vector width; extras are instructions for narrow types that some machines of a level have. The text
// form is "baseline", "avx2", "avx512" or "avx512+vnni+bf16+fp16+amx", and serves TOROID_ISA, keys and messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"

namespace toroid {

enum class IsaLevel {
  Baseline,  // what every machine of the architecture has: 16-byte vectors
  Avx2,      // x86-64-v3: 32-byte vectors, fused multiply-add
  Avx512,    // x86-64-v4: 64-byte vectors, masks
};

struct Isa {
  IsaLevel level = IsaLevel::Baseline;
  // Only with Avx512.
  bool vnni = false;  // int8 dot products
  bool bf16 = false;  // bfloat16 dot products and conversion
  bool fp16 = false;  // half-precision arithmetic
  bool amx = false;   // tiles of int8 and bfloat16; a process must ask the kernel for them before first use

  TOROID_COMPARED_FIELDS(Isa, level, vnni, bf16, fp16, amx)
  int vector_bytes() const { return level == IsaLevel::Avx512 ? 64 : level == IsaLevel::Avx2 ? 32 : 16; }
  std::string name() const;
  // The same flags for g++ and clang++.
  std::vector<std::string> compiler_flags() const;
};

// The inverse of Isa::name. Throws Error{InvalidOption} that lists what is known.
Isa parse_isa(std::string_view text);

// Can code for `needed` run on a machine with `here`?
bool has_instructions(const Isa& needed, const Isa& here);

// Throws Error{Environment} when code for `needed` cannot run on a machine with `here`: what is needed, what the machine has, and what it
// lacks. `what`: whose code it is. `help`: instead of the advice to compile for that machine.
void refuse_missing_instructions(const Isa& needed, std::string_view what, const Isa& here, std::string help = {});

// `best` and what is left of it step by step, down to the baseline: the order in which a probe tries.
std::vector<Isa> fallbacks_of(Isa best);

// A program that executes an instruction of each set that its compile flags enable and exits with status 0 if all work.
std::string_view isa_probe_source();

}  // namespace toroid
