// A random program as text in pieces, so that it can be grown and shrunk node by node, and the file that keeps one.
//
// The file is a program in text form (graph/text/text.h). Comments at its head say what its inputs hold and at which sizes it runs:
//
//   # values v0: grid 17          kind and seed of the elements of input v0
//   # run s0=3, data=1            one call: its sizes, and which elements its inputs have; calls share buffers
//   sym s0 in [1, 64] hint 8
//   sym u0 in [0, 9] from data
//   buffer 0 "v5": f32[3] = external
//   subgraph 0(v6: f32[3]) {
//     v7: f32[3] = aten::exp(v6)
//     return v7
//   }
//   graph(v0: f32[s0, 3], v1: i64[3], v2: bool[]) {
//     v5: f32[3] = constant(0)
//     v3: f32[s0] = aten::sum.dim_IntList(v0, [1])
//     v4: i64[u0, 1] = aten::nonzero(v1)
//     v8: f32[3] = higher_order::cond(v2, @0, @0, [v5])
//     return v3, v4, v8
//   }
//
// Kinds of elements:
//
//   grid      multiples of 1/4 in [-4, 4]: sums and products of a few are exact     unit      uniform in [-2, 2]
//   positive  uniform in [0.25, 4]         distinct  no two equal                   special   grid with NaN, infinities, -0, …
//   small     integers in [-8, 8]          extreme   integers with the dtype's ends nonzero   small integers and the dtype's ends, but 0
//   index N   integers in [0, N)           wrap N    integers in [-N, N)            shift     integers in [-8, 70], half of them in [0, 7]
//   permute   0 … n - 1 in random order along the last dim      sorted    grid, ascending along the last dim
//   chance    uniform in [0, 1]      negative  below 0           ties      a few numbers again and again, NaN among floats
//   signs     zeros of both signs among a few others
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/host_tensor.h"

namespace toroid::fuzz {

struct Symbol {
  std::string name;
  int64_t least, most, hint;
  bool from_data = false;  // a node of the program defines it
};
enum class InputKind : uint8_t { Argument, Weight, Buffer };
struct Input {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::string> sizes;    // integers or expressions over symbols
  std::vector<std::string> strides;  // empty: contiguous
  std::string values;                // "grid 17"
  InputKind kind = InputKind::Argument;
};
struct Body;
struct Node {
  std::vector<std::string> results;  // none of an operator that writes to a list of tensors: aten::_foreach_add_
  std::vector<std::string> types;    // "f32[s0, 3]", one a result
  std::string call;                  // "aten::add.Tensor(v0, v1)"; @0 is the first of the bodies
  std::vector<Body> bodies = {};     // of control flow
  std::string bound = {};            // the symbol that is what the first result holds: "u0"
};
struct Body {
  std::vector<std::pair<std::string, std::string>> parameters;  // names and types
  std::vector<Node> nodes;
  std::vector<std::string> outputs;
};
// The value of each symbol; "data" numbers the elements that the inputs have.
using Run = std::vector<std::pair<std::string, int64_t>>;
constexpr std::string_view kData = "data";

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
// "f32" and {"s0", "3"} of "f32[s0, 3] strides [1, s0]".
DType dtype_of(const std::string& type);
std::vector<std::string> sizes_of(const std::string& type);
// Does the operator write to its first argument: "aten::add_.Tensor(…)"?
bool is_in_place(std::string_view call);
// The type without strides.
std::string plain_type(const std::string& type);
// The arguments of a call, as text: "v0", "[1, 2]", "dtype=dtype.f32".
std::vector<std::string> arguments_of(std::string_view call);
// The names of values (v and digits) in a call, in order, with repetitions.
std::vector<std::string> values_in(std::string_view call);
// The text with every whole word that `replace` knows replaced.
std::string replace_words(std::string_view text, const std::vector<std::pair<std::string, std::string>>& replacements);
// What an expression over symbols is in a run.
int64_t size_in(const std::string& expression, const Run& run);
std::vector<int64_t> sizes_in(const std::vector<std::string>& expressions, const Run& run);
// Where each element lies in memory, for strides that are not those of a contiguous tensor.
std::vector<int64_t> places_in_memory(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
// The elements as the input's strides lay them out, with zeros in the gaps.
HostTensor memory_of(const Input& input, const Run& run);
// The elements of an input in a run, logically contiguous; elements that share memory (stride 0) are equal.
HostTensor elements_of(const Input& input, const Run& run);

}  // namespace toroid::fuzz
