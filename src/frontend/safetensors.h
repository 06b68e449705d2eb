// Reads and writes safetensors files: the arrays that go into and come out of a program, and weights to swap in.
//
// Format: 8 bytes little-endian length N, N bytes of JSON, then the tensors' bytes. The JSON maps each name to
//   {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}   (offsets from the end of the JSON)
// and "__metadata__" to an object of strings. The data must be covered exactly: no holes, no overlaps. Names keep their
// order. Tensors are read in place; a file may place them at any alignment, so copy through memcpy, not through a cast.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace toroid {

struct SafeTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  std::span<const std::byte> bytes;  // row-major, little-endian
};

struct SafeTensors {
  std::vector<SafeTensor> tensors;  // in the order of the file's header
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const void> owner;  // keeps the tensors' bytes alive

  const SafeTensor* find(std::string_view name) const;
};

// `owner` keeps `bytes` alive; `file` names the file in errors. Throws Error{InvalidInput}.
SafeTensors parse_safetensors(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view file);
SafeTensors read_safetensors(const std::filesystem::path& path);

// The tensors' bytes are laid out by falling alignment so that each lies aligned; the header keeps the given order.
std::string format_safetensors(std::span<const SafeTensor> tensors, const std::map<std::string, std::string>& metadata = {});
void write_safetensors(const std::filesystem::path& path, std::span<const SafeTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace toroid
