// What the cache keeps of a compiled program beside its library, so that a later process can run the program without compiling
// anything, and, when the model file is the same, without even reading it as a model:
//
//   "TOROIDG1" | header, JSON, as a sized text (base/file/framing.h) | inlined constants
//
//   header: {"library": "2c26b4…",                             the library's key in the store
//            "constants": [["file", 4096, 512], ["program", 3, 512], ["inline", 0, 64]],   where each one's bytes are, and how many
//            "kernels": 8, "kernel_calls": 18, "library_calls": 14, "seconds": 0.41, "guards": ["s0 <= 128"]}
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "graph/graph.h"

namespace toroid {

struct ConstantSource {
  enum class Place {
    Inline,   // made by the compiler: at an offset of `inlined`
    Program,  // a weight: the number of a constant of the imported program
    File,     // the same, as an offset in the model's file
  };
  Place place;
  int64_t position;
  int64_t bytes;
  bool operator==(const ConstantSource&) const = default;
};

struct CompiledGraph {
  std::string library_key;                     // 64 hex digits
  std::vector<ConstantSource> constants = {};  // in the order of ToroidProgram::constants
  std::string inlined = {};
  std::vector<std::string> guards;  // what the compiler assumed beyond the program's own, as text
  int kernels = 0;
  int kernel_calls = 0;
  int library_calls = 0;
  double seconds = 0;  // that compiling took, and a hit saves
};

std::string to_bytes(const CompiledGraph& graph);
// Throws Error{InvalidInput} for anything that to_bytes did not write.
CompiledGraph parse_compiled_graph(std::string_view bytes);

// Says for each of a library's constants where a later process finds it: among the constants of the program as it was imported, or
// nowhere; then it is inlined.
void locate_constants(CompiledGraph& graph, Span<const Span<const std::byte>> constants, std::span<const ConstantData> imported);
// The same with places in the file that the imported constants are ranges of. False when one lies elsewhere, as it does when the
// archive holds it compressed.
bool locate_in_file(CompiledGraph& graph, std::span<const ConstantData> imported, Span<const std::byte> file);

// The constants' bytes again. Throws Error{InvalidInput} where a place is outside of what is given.
struct FoundConstants {
  std::vector<Span<const std::byte>> bytes;
  std::shared_ptr<const void> owner;
};
FoundConstants find_constants(CompiledGraph graph, std::span<const ConstantData> imported, Span<const std::byte> file,
                              std::shared_ptr<const void> file_owner);

}  // namespace toroid
