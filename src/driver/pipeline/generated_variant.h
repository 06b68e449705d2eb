// One form of a program, ready to be compiled; and the constants of all forms.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/wrapper/generate.h"
#include "codegen/wrapper/program_tables.h"
#include "graph/graph.h"

namespace toroid {

struct GeneratedVariant {
  std::vector<std::pair<std::string, int64_t>> when;  // sizes, by the names of the general program's symbols
  Program program;                                    // at core level
  codegen::GeneratedProgram code;
};

// The constants of all variants, each once.
struct ConstantTable {
  explicit ConstantTable(const std::vector<GeneratedVariant>& variants);
  std::vector<const ConstantData*> all;
  std::vector<std::vector<size_t>> by_variant;  // positions in `all`
};

// The tables of the program that the variants are, to go behind one of its units. Throws as codegen::program_tables.
std::string tables_text(const std::vector<GeneratedVariant>& variants, const ConstantTable& constants,
                        const codegen::ProgramTexts& texts = {});

}  // namespace toroid
