// A Halide pipeline as a program has it: a Python source that builds it with Halide's Python bindings, and what it is compiled with. It
// becomes an object by a Python that has Halide (toolchain/halide/halide.h).
#pragma once

#include <string>
#include <string_view>

namespace toroid::codegen {

struct HalidePipeline {
  std::string entry;          // the C function's name in the object; follows from the rest
  std::string source;         // defines pipeline(): the list of arguments, and that of outputs
  std::string autoscheduler;  // "Mullapudi2016"
  std::string file = {};      // that the source is from, and its first line there; for messages
  size_t line = 1;
};
// The pipeline with its entry: "toroid_halide_" and digits of a digest, so that equal pipelines are one.
HalidePipeline with_entry(HalidePipeline pipeline);
// As JSON, in the form that toolchain/halide/compile_halide.py takes; a part of keys.
std::string to_text(const HalidePipeline& pipeline);

}  // namespace toroid::codegen
