// A random program as text in pieces, so that it can be grown and shrunk node by node, and the file that keeps one.
//
// The file is a program in text form (graph/text.h). Comments at its head say what its inputs hold and at which sizes it runs:
//
//   # values v0: grid 17          kind and seed of the elements of input v0
//   # run s0=3, s1=16             one call; a program without symbols has one run without sizes
//   sym s0 in [1, 64] hint 8
//   graph(v0: f32[s0, 3], v1: i64[3]) {
//     v2: f32[s0] = aten::sum.dim_IntList(v0, [1])
//     return v2
//   }
//
// Kinds of elements:
//
//   grid      multiples of 1/4 in [-4, 4]: sums and products of a few are exact     unit      uniform in [-2, 2]
//   positive  uniform in [0.25, 4]         distinct  no two equal                   special   grid with NaN, infinities, -0, …
//   small     integers in [-8, 8]          extreme   integers with the dtype's ends nonzero   small integers but 0
//   index N   integers in [0, N)           wrap N    integers in [-N, N)            shift     integers in [0, 6]
//   permute   0 … n - 1 in random order along the last dim
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/dtype.h"
#include "interp/host_tensor.h"

namespace toroid::fuzz {

struct Symbol {
  std::string name;
  int64_t least, most, hint;
};
struct Input {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::string> sizes;    // integers or expressions over symbols
  std::vector<std::string> strides;  // empty: contiguous
  std::string values;                // "grid 17"
};
struct Node {
  std::vector<std::string> results;
  std::vector<std::string> types;  // "f32[s0, 3]", one a result
  std::string call;                // "aten::add.Tensor(v0, v1)"
};
using Run = std::vector<std::pair<std::string, int64_t>>;  // the value of each symbol

struct Program {
  std::vector<std::string> comments;  // without "# "; those that say values and runs are written from the fields
  std::vector<Symbol> symbols;
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<std::string> outputs;
  std::vector<Run> runs;
};

std::string to_text(const Program& program);
// Throws Error{InvalidInput} when the text is not one that to_text writes.
Program parse_program(std::string_view text);

std::string type_text(DType dtype, const std::vector<std::string>& sizes);
// The names of values (v and digits) in a call, in order, with repetitions.
std::vector<std::string> values_in(std::string_view call);
// The text with every whole word that `replace` knows replaced.
std::string replace_words(std::string_view text, const std::vector<std::pair<std::string, std::string>>& replacements);
// What an expression over symbols is in a run.
int64_t size_in(const std::string& expression, const Run& run);
std::vector<int64_t> sizes_in(const std::vector<std::string>& expressions, const Run& run);
// The elements of an input in a run, logically contiguous; elements that share memory (stride 0) are equal.
HostTensor elements_of(const Input& input, const Run& run);

}  // namespace toroid::fuzz
