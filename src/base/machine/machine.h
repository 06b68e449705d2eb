// What this machine is said to have: the one place that asks the processor. The compiler's flags (toolchain.h), the runtime's kernels and
// the loader of packages all go by it.
//
// That is what the processor and the system report, or less of it where TOROID_MACHINE says so:
//
//   TOROID_MACHINE=avx2                  generated code and kernels as on a machine with AVX2
//   TOROID_MACHINE=avx512+emulated-amx   AVX-512, and AMX tiles in plain code: AMX's results on any machine, slowly, for tests
//
// It is read once. A set that the machine lacks is an error:
//
//   error: TOROID_MACHINE needs the instruction set avx512+amx; this machine has avx2, and lacks avx512, amx
//     help: name what this machine has, as in TOROID_MACHINE=avx2, or unset it
//
// A package that was linked without the code for some instructions has less of it too (linked_code).
//
// TOROID_ISA is another thing: it says what to compile for, and may name what only other machines have.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/language.h"
#include "base/machine/isa.h"

namespace toroid {

struct Machine {
  Isa isa;
  bool emulates_amx = false;  // isa.amx is then false: no generated code has such instructions

  TOROID_COMPARED_FIELDS(Machine, isa, emulates_amx)
  bool has_amx() const { return isa.amx || emulates_amx; }
  std::string name() const;
};

// The inverse of Machine::name. Throws Error{InvalidOption} as parse_isa does.
Machine parse_machine(std::string_view text);
// What TOROID_MACHINE names on a machine with `here`. Throws Error{Environment} when that is more.
Machine machine_named(std::string_view text, const Isa& here);

// What the processor and the operating system report. A first filter: emulators and old assemblers may still fail. Asks Linux to let this
// process use AMX's registers, and has no AMX where it says no.
const Isa& reported_isa();
// Is the processor Intel's?
bool is_intel();

namespace machine_details {
extern TOROID_CONSTINIT std::atomic<const Machine*> in_use;  // null until the first question
}  // namespace machine_details

// Throws Error{InvalidOption} or Error{Environment} for a wrong TOROID_MACHINE. Not in line: library kernels ask at a hundred places, which
// would be 3 KB of a small package.
[[gnu::pure]] const Machine& machine();

// What the code of this process was linked for, as names of machines: "baseline,avx512+vnni". Null, as in toroid itself and in the run
// library (all_code.cpp), for all; a package defines it where it leaves kernels out.
extern "C" const char* const toroid_linked_code;
// What of a machine the code of `linked`, such a list, uses: the best of its levels, and of the extras those that some of it names.
Machine with_code_of(const Machine& machine, std::string_view linked);

// As the one in isa.h, for this machine.
void refuse_missing_instructions(const Isa& needed, std::string_view what);

}  // namespace toroid
