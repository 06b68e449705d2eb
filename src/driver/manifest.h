// What a compiled program says about itself, without being run: JSON in its library.
//
//   {"toroid": 6, "training": "", "constants": [{"name": "fc.weight", "bytes": 1024, "mutable": false}], "variants": [V, …]}
//
// with one V for all calls, and before it one for each variant that some sizes choose:
//
//   {"when": ["s0", 1],                                                   sizes of the general program that choose it
//    "signature": "sym s0 in [2, 512]\ngraph(x: f32[s0, 128]) { … }",     text form: symbols, guards and inputs
//    "outputs": [{"name": "logits", "dtype": "f32", "rank": 2, "sizes": ["s0", "10"], "late": false, "kind": "user", "target": ""}],
//    "symbols": ["s0"],                                                   order of ToroidCall::symbols
//    "bytes": ["4*s0**2"],                                                of tensors, which must fit 63 bits
//    "bindings": ["u0", "2*s1"], "defines": ["u0", ""],                   order of ToroidRuntime::bind
//    "constants": [0],                                                    order of ToroidCall::constants
//    "temporaries": [[0, 3], [1, 2]],                                     first and last step alive
//    "forms": [[3, "persistent", "looped"]],                              order of ToroidCall::forms: the step, and what it can be
//    "prepared_bytes": 256,                                               of ToroidCall::prepared
//    "work": [["1024*s0", "0", "f32"]],                                   of each step, if it is profiled: bytes moved, multiplications and additions, of which numbers
//    "steps": ["linear", "gelu"], "origins": ["fc (aten::linear) in fc (Linear), from model.py:7", …],   of each step
//    "kernels": 3, "kernel_calls": 7, "kernel_steps": 6, "library_calls": 2}
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/wrapper/generate.h"
#include "graph/graph.h"

namespace toroid {

struct ManifestOutput {
  std::string name;  // as output_names() has it
  DType dtype;
  int64_t rank;
  std::vector<std::string> sizes = {};  // as text, to be read by people
  OutputKind kind;
  std::string target;
  bool late = false;  // its sizes become known while the program runs
};
// A number that the program reads from a tensor.
struct ManifestBinding {
  sym::Expr expr;                    // what it is the value of
  std::optional<sym::Expr> defines;  // the symbol whose value follows
};
struct ManifestConstant {
  std::string name;
  int64_t bytes;
  bool is_mutable;
};
struct ManifestVariant {
  std::vector<std::pair<std::string, int64_t>> when;  // sizes, by the names of the general program's symbols
  Program signature;                                  // inputs, symbols and guards; no computation
  std::vector<ManifestOutput> outputs;
  std::vector<std::string> symbols;
  std::vector<sym::Expr> bytes;  // of tensors, as tensor_bytes gives them
  std::vector<ManifestBinding> bindings;
  std::vector<size_t> constants;  // positions in Manifest::constants
  std::vector<std::array<int64_t, 2>> temporaries;
  int64_t prepared_bytes = 0;
  std::vector<std::string> steps;
  std::vector<std::string> origins;  // by step: its last operator, as to_string(Provenance); "" where there is none
  std::vector<program::Choice> choices;
  std::vector<schedule::StepWork> work;  // by step; empty unless compiled to be profiled
  int kernels = 0;
  int kernel_calls = 0;
  int kernel_steps = 0;
  int library_calls = 0;
};
struct Manifest {
  std::string training;  // the operators that are in training mode, as training_operators() has them
  std::vector<ManifestConstant> constants;
  std::vector<ManifestVariant> variants;  // the last one serves every call
  const ManifestVariant& general() const { return variants.back(); }
};

// One form of a program, ready to be compiled.
struct GeneratedVariant {
  std::vector<std::pair<std::string, int64_t>> when;
  Program program;  // at core level
  codegen::GeneratedProgram code;
};
// The constants of all variants, each once.
struct ConstantTable {
  explicit ConstantTable(const std::vector<GeneratedVariant>& variants);
  std::vector<const ConstantData*> all;
  std::vector<std::vector<size_t>> by_variant;  // positions in `all`
};

std::string manifest_text(const std::vector<GeneratedVariant>& variants, const ConstantTable& constants, std::string_view training = {});
// Throws Error{InvalidInput} for a manifest of another version.
Manifest parse_manifest(std::string_view text);

}  // namespace toroid
