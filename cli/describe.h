// What people are told of a compiled program: what goes in, what comes out, the sizes that may vary and the variants made for some of them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/program/executable.h"

namespace toroid::cli {

// Lines with a word and its thing, two spaces before each:
//
//   input    image: f32[s40, 3, 32]
//   output   out0 logits: f32[s40, 10]       what files call it, then its name in the model where that is another
//   updates  bn.running_mean
//   size     s40 = image.0, from 1 to 64
//   variant  s40=1: 9 steps: 5 library calls, 4 of generated kernels
//   variant  all other sizes: …
//
// Variants are left out where there is one alone.
// `most_outputs`: how many outputs to name, and how many of what is updated.
void print_interface(std::FILE* to, const ToroidProgram& program, size_t most_outputs = ~size_t{0});

// The same for scripts: "inputs" with "name" and "type"; "outputs" with also "file_name", as in "out0"; "updates", names; "sizes" with
// "symbol", "input", "dim", "least" and, unless it is open, "most".
nlohmann::ordered_json interface_json(const ToroidProgram& program);

// Of a program on a GPU, of its last call: "convolution and sort ran on the host, with copies", "calls are no CUDA graphs: it reads numbers
// from tensors"; nothing where neither is so.
std::vector<std::string> device_notes(const Executable& executable);

// "s40=1", "all other sizes"; "" where there is one variant alone.
std::string variant_text(const ToroidProgram& program, const ToroidVariant& variant);
// "21 steps: 14 library calls, 7 of generated kernels (8 kernels, some started together)"; the numbers outside of the brackets add up.
std::string steps_text(const ToroidVariant& variant);

}  // namespace toroid::cli
