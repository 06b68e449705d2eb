// From a program's sources to its library: compilers, side by side, and the linker.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/shared_work.h"
#include "codegen/wrapper/program_tables.h"
#include "toolchain/halide/halide.h"
#include "toolchain/nvrtc.h"
#include "toolchain/toolchain.h"
#include "toolchain/triton/triton.h"

namespace toroid {

// The binaries of kernels in Triton for an architecture; toroid::compile_triton, or that with a cache before it.
using CompileTriton = std::function<std::vector<TritonBinary>(std::span<const std::string> kernels, std::string_view architecture)>;

// Of a program for a GPU.
struct GpuSources {
  std::vector<std::string> units = {};            // CUDA
  std::vector<std::string> triton = {};           // kernels in Triton, units behind those
  std::vector<codegen::GpuBinary> binaries = {};  // which become of them
  CompileTriton compile_triton = {};              // none: without a cache
};
// The objects of Halide pipelines for a target; toroid::compile_halide, or that with a cache before it.
using CompileHalide = std::function<std::vector<std::string>(std::span<const std::string> pipelines, const std::string& target)>;
struct HalideSources {
  std::vector<std::string> pipelines = {};  // texts (codegen/halide/halide_pipeline.h)
  CompileHalide compile = {};               // none: without a cache
};
struct LibrarySources {
  std::vector<std::string> units;              // C++
  std::vector<bool> is_optimised = {};         // of a program for a GPU, by unit: has it kernels that the processor runs? Else none has
  std::vector<std::string> custom_units = {};  // C++ of the user's own kernels
  GpuSources gpu = {};
  HalideSources halide = {};
};

// What each kernel takes of a GPU is told, from several threads.
using ResourcesTold = std::function<void(const KernelResources&)>;

// Where several processes with a common cache make the same library: each object is made by one of them, and the library is linked by one.
// What Pythons compile, kernels in Triton and Halide, each process asks the cache for by itself.
struct SharedBuild {
  Cache& cache;
  Part part;
  CacheKey library;                        // under which it is kept
  std::string gpu_target = {};             // what binaries of a GPU are made for and by
  std::atomic<int> objects = 0, made = 0;  // in all; by this process
};

// The bytes of the shared library, made by `threads` compilers at a time. Throws what the compiler of the first unit that failed does; the
// sources of all that failed are kept in one folder.
std::string build_library(const LibrarySources& sources, const Toolchain& tools, int threads, const CompileOptions& asked,
                          const ResourcesTold& told = {}, SharedBuild* shared = nullptr);

// A package's library: units of a program compiled once for each level, and the run side (codegen/wrapper/package_entry.h).
struct PackageSources {
  std::vector<std::string> units;
  std::vector<bool> is_optimised = {};  // as in LibrarySources
  // Of the user's own kernels: compiled once, for the least demanding level. Templates of headers would otherwise be one function for all.
  std::vector<std::string> custom_units;
  std::vector<Isa> levels;  // the most demanding first
  std::string entry;
  RunSide run_side;
  RunSideUse use;
  GpuSources gpu = {};
  HalideSources halide = {};  // compiled once, for the least demanding level
  std::string prefix = {};    // not empty: one object for a program to link, in the place of a library
  // Where others compile them: what the language is, and how many bytes of each unit are the prelude.
  std::vector<std::string> flags = {};
  std::vector<size_t> prelude_bytes = {};
};
std::string build_package(const PackageSources& sources, const Toolchain& tools, int threads, const CompileOptions& asked,
                          const ResourcesTold& told = {}, SharedBuild* shared = nullptr);

// The binaries of a program for a GPU as C++ units, in their order (codegen/wrapper/program_tables.h).
std::vector<std::string> binary_units(const GpuSources& gpu, int threads);

// As compilers' messages and kept files call it: "program" where it is the only one.
std::string name_of_unit(const std::vector<std::string>& units, size_t unit);

}  // namespace toroid
