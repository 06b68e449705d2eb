// What a package, a library that holds its own run side, has besides its program: one form of it for each instruction set, which are told
// apart by namespaces, and a file that says which there are and what of the run side is linked.
//
//   namespace level0 { …, const ToroidProgram toroid_program = … }     compiled for avx512
//   namespace level1 { … }                                             the same text, compiled for the baseline
//   const char* const toroid_linked_code = "baseline,avx512";
//   const ToroidLevels toroid_levels = {…}; const LinkedKernel* const toroid_linked_kernels[] = {&toroid_kernel_matmul_f32, nullptr};
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::codegen {

// The unit as one of the level whose namespace that is, "level0" for the first. Its first line is line kLinesBeforeUnit + 1 of the result.
std::string unit_of_level(std::string_view unit, std::string_view name_space);
inline constexpr size_t kLinesBeforeUnit = 2;

struct PackageEntry {
  std::vector<std::string> isas;         // of each level, the most demanding first
  std::set<std::string> linked_kernels;  // as of GeneratedProgram
  // What of the run side is left out: symbols of functions, which nothing then calls; and what is there, as toroid_linked_code, "" for all.
  std::vector<std::string> absent_code = {};
  std::string linked_code = {};
  // Of one level alone. Its kernels that only the GPU has are not linked.
  bool is_for_gpu = false;
  // Of an archive: what begins its names. Its weights are then an object that defines PREFIX_toroid_weights and …_weights_end.
  std::string prefix = {};
};
// Where a package comes from, as ToroidModelInfo::provenance, is a text behind this word, in so many bytes with it, the rest zeros; its
// symbol toroid_provenance points behind the word. What compiles the package is in it by itself; what is known of the model alone is
// written there when the file is, for the same program of another file may come from the cache.
inline constexpr std::string_view kProvenanceWord = "TOROID-PROVENANCE\n";
inline constexpr size_t kProvenanceBytes = 640;

// A C++ file. Throws Error{Internal} for a kernel that there is not.
std::string package_entry(const PackageEntry& entry);

}  // namespace toroid::codegen
