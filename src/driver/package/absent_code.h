// Which functions of the run side a package is linked without: those for other instructions than its levels', and of the kernels of products
// in float32, which there are for each number of rows and each width of a panel, those that the program's products never take.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine/machine.h"
#include "codegen/wrapper/generate.h"

namespace toroid {

struct PackageNeeds {
  std::vector<Machine> code;             // that library kernels are linked for
  std::set<std::string> linked_kernels;  // as of GeneratedProgram
  std::vector<codegen::ProductShape> products;
};
// Their symbols. `level_code`: the text that package/level_code.sh writes.
std::vector<std::string> absent_code(const PackageNeeds& needs, std::string_view level_code);

// What library kernels of a package are linked for: its levels, and where it is to run anywhere the extras of all machines too.
std::vector<Machine> code_of_levels(std::span<const Isa> levels, bool is_portable);
// As toroid_linked_code (base/machine/machine.h).
std::string linked_code_text(std::span<const Machine> code);

}  // namespace toroid
