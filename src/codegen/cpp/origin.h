// Which operator of the model each line of generated code comes from (feature A13), said by comments in the code itself:
//
//   // of gelu_1 (aten::gelu) in encoder.layer.0 (BertLayer), from model.py:42, in forward: x = gelu(x)
//   const auto mul_v3 = …
//
// A comment holds for the lines up to the next one or the end of the function; before the first, the comment above the function holds.
// So whoever has the text has the map: a debugger, a profiler, the message of a failed compilation.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace toroid::codegen {

// "// of NAME (OP) in MODULE, from SOURCE".
std::string origin_comment(const Provenance& provenance);

// The origins that are told apart within one function; none are when there is only one, which the comment above it names.
class Origins {
 public:
  Origins() = default;
  // `even_one`: also when there is only one.
  Origins(const Graph& graph, const std::vector<ProvenanceId>& of, bool even_one = false);
  // The comment for lines that come from `id`; null when it is not told apart.
  const std::string* comment(ProvenanceId id) const;

 private:
  std::unordered_map<ProvenanceId, std::string> comments_;
};

// Removes comments of origins that repeat the one before or are followed by the next one at once.
void drop_repeated_origins(std::vector<std::string>& lines);

// What the comments say of a line, counted from 1: "gelu_1 (aten::gelu) in …, from …"; empty for lines of the prelude and beyond the end.
std::string origin_of_line(std::string_view source, size_t line);

}  // namespace toroid::codegen
