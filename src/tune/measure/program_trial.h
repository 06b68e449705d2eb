// Choices that are programs, each a library in a file of its own, CHOICE.so in a folder: ways in which a step of a GPU's program may be
// done. All take and give the same tensors. They run on a GPU, or emulated on a processor.
//
// A kernel that faults leaves nothing on the GPU that this process could use, so the process ends: who asked finds the candidate at fault,
// and starts another.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/cuda/product_memory.h"
#include "runtime/kernels/registry/problem.h"
#include "tune/measure/trial.h"

namespace toroid::tune {

// As the text that a request has: the problem, a line's end, the folder.
struct ProgramsToTry {
  Problem tensors;  // inputs and outputs, contiguous; of its integers the first is how many terms a sum has
                    // (same_result.h), the second, unless it is 1, into how many parts outputs of F32 are divided whose sum counts
  std::filesystem::path folder;
};
std::string to_string(const ProgramsToTry& programs);
// nullopt where it is the text of something else. Throws Error{InvalidModel} as parse_problem.
std::optional<ProgramsToTry> parse_programs(std::string_view text);

// On the GPU of this number, where the programs are for one. Throws Error also where they are none that can be loaded.
// `products`: keeps what is measured of a library's kernels; null: nothing is kept.
std::unique_ptr<Trial> make_program_trial(const ProgramsToTry& programs, const Request& request, int gpu,
                                          std::shared_ptr<cuda::ProductMemory> products = nullptr);

}  // namespace toroid::tune
