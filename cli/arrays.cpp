#include "arrays.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/safetensors.h"

namespace toroid::cli {
namespace {

// Complex numbers as pairs in a last dim and 8-bit floats as their bits, which is how programs take and give them.
HostTensor host_tensor(const SafeTensors& file, const SafeTensor& tensor) {
  if (tensor.dtype == DType::C64) {
    std::vector<int64_t> sizes = tensor.sizes;
    sizes.push_back(2);
    return HostTensor(DType::F32, std::move(sizes), tensor.bytes, file.owner);
  }
  const bool is_float8 = is_floating(tensor.dtype) && size_bytes(tensor.dtype) == 1;
  return HostTensor(is_float8 ? DType::U8 : tensor.dtype, tensor.sizes, tensor.bytes, file.owner);
}

}  // namespace

std::string list_of_names(std::span<const std::string> names) {
  constexpr size_t kMost = 30;
  const std::string text = fmt::format("{}", fmt::join(names.first(std::min(names.size(), kMost)), ", "));
  return names.size() > kMost ? fmt::format("{} and {} more", text, names.size() - kMost) : text;
}

std::vector<HostTensor> read_inputs(const std::filesystem::path& path, const Program& program) {
  const SafeTensors file = read_safetensors(path);
  const bool by_name = !program.inputs.empty() && file.find(program.inputs[0].name) != nullptr;
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string name = by_name ? program.inputs[i].name : fmt::format("in{}", i);
    const SafeTensor* tensor = file.find(name);
    if (tensor == nullptr) {
      std::vector<std::string> given, wanted;
      for (const SafeTensor& other : file.tensors) given.push_back(other.name);
      for (const InputSpec& input : program.inputs) wanted.push_back(input.name);
      throw Error(ErrorKind::InvalidInput, fmt::format("{} has no tensor '{}'{} for input {} of {}", path.string(), program.inputs[i].name,
                                                       by_name ? "" : fmt::format(" and no 'in{}'", i), i + 1, program.inputs.size()))
          .help(fmt::format("it has: {}; name them as the program does ({}), or in0, in1, …", list_of_names(given), list_of_names(wanted)));
    }
    inputs.push_back(host_tensor(file, *tensor));
  }
  // Other names are the file's own business, such as the labels beside images.
  const std::string next = fmt::format("in{}", program.inputs.size());
  if (!by_name && file.find(next) != nullptr) {
    throw Error(ErrorKind::InvalidInput, fmt::format("{} holds '{}', but the program takes {} input{}", path.string(), next, inputs.size(),
                                                     inputs.size() == 1 ? "" : "s"))
        .help("give one tensor an input: in0, in1, …");
  }
  return inputs;
}

std::vector<HostTensor> read_outputs(const std::filesystem::path& path) {
  const SafeTensors file = read_safetensors(path);
  std::vector<HostTensor> outputs;
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const SafeTensor* tensor = file.find(fmt::format("out{}", i));
    if (tensor == nullptr) {
      throw Error(ErrorKind::InvalidInput, fmt::format("{} has {} tensors but no 'out{}'", path.string(), file.tensors.size(), i));
    }
    outputs.push_back(host_tensor(file, *tensor));
  }
  return outputs;
}

std::vector<NamedTensor> read_tensors(const std::filesystem::path& path) {
  const SafeTensors file = read_safetensors(path);
  std::vector<NamedTensor> tensors;
  for (const SafeTensor& tensor : file.tensors) tensors.push_back({tensor.name, host_tensor(file, tensor)});
  return tensors;
}

void write_outputs(const std::filesystem::path& path, std::span<const HostTensor> outputs, std::span<const std::string> names) {
  std::vector<SafeTensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    tensors.push_back({names[i], outputs[i].dtype(), outputs[i].sizes(), outputs[i].bytes()});
  }
  write_safetensors(path, tensors);
}

std::vector<size_t> user_outputs(const Program& program) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (is_returned(program.outputs[i])) positions.push_back(i);
  }
  return positions;
}

}  // namespace toroid::cli
