// Flags of all commands that compile: which passes run, and how the generated C++ is built.
#pragma once

#include <string>
#include <string_view>

#include "driver/compile.h"
#include "flags/flags.h"

namespace toroid::cli {

void add_build_flags(Flags& flags, CompileModelOptions& options);  // --operators too
// --device, whose names set_device takes; `what` begins its help, as "where to run".
void add_device_flag(Flags& flags, std::string& device, std::string_view what);
void add_operators_flag(Flags& flags, CompileModelOptions& options);
void add_tune_limit(Flags& flags, ChooseOptions& options);  // --tune-limit, beside --mode

// Throws Error{InvalidOption} when one of them was given where nothing is compiled: `what` says why, as "a compiled program".
void refuse_build_flags(const CompileModelOptions& options, std::string_view what);

}  // namespace toroid::cli
