// Weights by name from a safetensors file (src/frontend/safetensors.h has the format).
//
// A reader of its own: what runs programs has no library for JSON, and needs no JSON but the header's. It takes what the format allows and
// nothing else: an object of tensors, each with its dtype, shape and data_offsets once, and "__metadata__", an object of strings; no name
// twice, no bytes of data that belong to no tensor or to two. The file is mapped: weights lie in it, and are copied where the program
// wants other strides, or the file has them at an address that is no multiple of an element's size.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "tensor/dtype.h"
#include "toroid/program_abi.h"

namespace toroid {

struct HostMemory;

inline constexpr const char* kSafetensorsExtension = ".safetensors";

struct WeightInFile {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  Span<const std::byte> bytes;  // row-major
};
// Of the whole file's bytes, in the order of its header. Throws Error{InvalidInput} with the place in the file.
std::vector<WeightInFile> parse_weights(std::string_view file);

// Where a program's constants are, in the order of its table.
struct ConstantBytes {
  std::vector<const void*> places;
  std::vector<std::shared_ptr<const void>> owners;
};
// A constant without a name goes by its number: "constant.3". Tensors that the program does not have are left alone. Throws
// Error{InvalidInput} for a file that is none, and for one that lacks a constant, or has it with another dtype or other sizes.
//
// memory: of the host's, for weights that are copied; or null.
ConstantBytes read_safetensors_weights(const std::string& path, const ToroidProgram& program, const HostMemory* memory = nullptr);
std::string weight_name(const ToroidConstantInfo& constant, size_t position);

}  // namespace toroid
