// The text form of programs: prints any graph, at both levels, and reads it back.
//
//   program "toy"
//   sym s0 in [2, 512] hint 8
//   guard s0 <= 128
//   constant 0 "fc.weight": f32[2] = [1.0, -0.5]
//   buffer 1 "cache": f32[64, 1024] = external
//   graph(x: f32[s0, 2]) {
//     w: f32[2] = constant(0)
//     w_t: f32[1, 2] = reshape(w)
//     w_t_1: f32[s0, 2] = expand(w_t)
//     y: f32[s0, 2] = mul(x, w_t_1)
//     s: f32[s0] = reduce.sum(y, dims=[1])        # linear, from model.py:42
//     return s, y -> input "x"
//   }
//
// A node is its results with their types, the operation, its operands, then its attributes by name. A type may be left
// out where the operation gives it. At import level the operation is a schema's name; arguments stand by position until the
// first named one, and those at their default are left out: aten::sum.dim_IntList(x, [1], keepdim=true).
//
//   sym       a size symbol with its range; "from data" if it is data-dependent; "hint" gives a likely value
//             in a graph, `sym u0 = n` says that u0 is what the rank 0 integer n holds at run time
//   constant  its number, its name in the model, its type and its elements: a flat list, hex bytes, or `external` for
//             data that is found by name; `buffer` if the program may change it
//   subgraph  like graph, with its number: subgraph 0(i: i64[]) { … }, which arguments call @0
//   return    an output is a user's unless it says otherwise: -> buffer "name", input, parameter, gradient, loss, token; what the model calls a
//             result stands before that: return y named "logits", l named "loss" -> loss
//   #         starts a comment that ends with the line
//
// Types may carry strides, offset and device: f32[4, 4] strides [1, 4] offset(2) on cuda:0. A name that is not an identifier is
// quoted: %"odd name". An input whose name in the model differs from its value's says so: x: f32[2] named "x.1".
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace toroid {

struct TextOptions {
  bool provenance = false;       // comments that say where a node comes from
  bool hints = true;             // of size symbols
  bool name = true;              // of the program
  bool constants = true;         // their lines
  int64_t inline_elements = 16;  // constants with a name and more elements than this are external
};
std::string to_text(const Program& program, const TextOptions& options = {});
// One node with its results: "t: f32[2] = mul(x, x)".
std::string to_text(const Graph& graph, NodeId id);

// Gives the bytes of an external constant: fills in `bytes` and `owner`.
using FindConstant = std::function<void(ConstantData& data)>;
// Throws Error{InvalidModel} that starts with line:column. Without `find_constant`, external constants have no bytes.
// `operators`: where those are looked for that PyTorch does not have.
Program parse_text(std::string_view text, const FindConstant& find_constant = {}, std::shared_ptr<CustomOperators> operators = {});

// The same of a text that goes on behind the graph: `end` is set to the place behind it.
Program parse_text_prefix(std::string_view text, size_t& end, const FindConstant& find_constant = {},
                          std::shared_ptr<CustomOperators> operators = {});

// Throws Error{InvalidInput} where the elements are `external` and were not found.
void require_elements(const ConstantData& constant);

}  // namespace toroid
