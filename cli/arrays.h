// A program's inputs and outputs as safetensors files.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tensor/host_tensor.h"

namespace toroid::cli {

// "a, b, c", at most thirty and how many more there are.
std::string list_of_names(std::span<const std::string> names);

// The program's inputs, in its order: by their names if the file has the first of them, else as in0, in1, …. Throws
// Error{InvalidInput} for one that is missing. Complex tensors of a file are read as pairs: f32[…, 2], 8-bit floats as u8.
std::vector<HostTensor> read_inputs(const std::filesystem::path& path, const Program& program);

// out0, out1, … of a file, as many as there are.
std::vector<HostTensor> read_outputs(const std::filesystem::path& path);
// `names`: one a tensor; all different.
void write_outputs(const std::filesystem::path& path, std::span<const HostTensor> outputs, std::span<const std::string> names);

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};
// Every tensor of a file, in its order.
std::vector<NamedTensor> read_tensors(const std::filesystem::path& path);

// Those of a call's results that the model returns to the user, and their positions among all outputs.
std::vector<size_t> user_outputs(const Program& program);

}  // namespace toroid::cli
