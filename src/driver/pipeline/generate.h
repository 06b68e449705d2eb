// From an imported program to C++: decompose, simplify, lower, schedule, lay out a call, print.
#pragma once

#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/file/file.h"
#include "driver/compile_options.h"
#include "driver/pipeline/generated_variant.h"
#include "driver/pipeline/phase_clock.h"
#include "graph/graph.h"
#include "tune/tuner.h"

namespace toroid {

// Numbered dumps, one for each pass that changed the program and one for each later phase.
class Dumps {
 public:
  explicit Dumps(std::filesystem::path folder) : folder_(std::move(folder)) {
    if (!folder_.empty()) std::filesystem::create_directories(folder_);
  }
  template <class Text>
  void write(std::string_view phase, Text text) {
    if (folder_.empty()) return;
    write_file_atomically(folder_ / fmt::format("{:02}-{}.txt", ++count_, phase), std::string_view(text()));
  }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
};

// Who chooses, and the compiler of what is tried.
struct Choosing {
  tune::Tuner* tuner = nullptr;  // null: nobody
  const Toolchain* tools = nullptr;
};

// `when`, `suffix`: of the form of the program that this is. isa: of a package with several levels that of the most able one.
GeneratedVariant generate(const SizeValues& when, Program program, const CompileModelOptions& options, const Isa& isa, int threads,
                          std::string_view suffix, Dumps& dumps, PhaseClock& clock, const Choosing& choosing);

// The C++ of a program's general form, as compile() would build it for `threads` compilers; no compiler is needed, and nothing is measured.
// Consumes the program.
codegen::GeneratedProgram generate_code(Program program, const CompileModelOptions& options = {}, int threads = 1);

}  // namespace toroid
