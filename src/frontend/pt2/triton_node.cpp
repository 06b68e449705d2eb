#include "frontend/pt2/triton_node.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/pt2/types.h"

namespace toroid::pt2 {
namespace {

const JsonMember* argument_called(const JsonValue& node, std::string_view name) {
  for (const JsonValue& input : node.at("inputs").elements()) {
    if (input.at("name").as_string() == name) return &read_union(input.at("arg"));
  }
  return nullptr;
}

// Of 32 letters and digits or more.
bool is_hash(std::string_view text) {
  constexpr size_t kLeast = 32;
  return text.size() >= kLeast &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

}  // namespace

std::string triton_operator(const JsonValue& node) {
  const JsonMember* const name = argument_called(node, "name");
  if (name == nullptr || name->key != "as_string") node.at("inputs").fail("expected the name of a kernel in Triton");
  std::string_view kernel = name->value.as_string();
  const size_t last = kernel.rfind('_');
  if (last != kernel.npos && is_hash(kernel.substr(last + 1))) kernel = kernel.substr(0, last);
  return fmt::format("triton::{}", kernel);
}

TritonNode read_triton_node(const JsonValue& node, const Schema& schema) {
  TritonNode result;
  for (const JsonValue& input : node.at("inputs").elements()) {
    if (input.at("name").as_string().empty()) result.arguments.push_back(input);
  }
  if (result.arguments.size() != schema.parameters.size())
    throw Error(ErrorKind::Unsupported, fmt::format("the model gives {} {} arguments, and its file says {}", schema.name,
                                                    result.arguments.size(), schema.parameters.size()))
        .help("list all arguments of the kernel but its constants, in its order");
  std::vector<size_t> by_schema;
  for (size_t i = 0; i < schema.parameters.size(); ++i) {
    if (schema.parameters[i].mutated) by_schema.push_back(i);
  }
  const JsonMember* const written = argument_called(node, "output_indices");
  if (written == nullptr || written->key != "as_ints")
    node.at("inputs").fail("expected the positions of tensors that the kernel writes to");
  for (const JsonValue& each : written->value.elements()) result.written.push_back(static_cast<size_t>(each.as_integer()));
  // PyTorch names all tensors where it could not read the kernel: the file then says which.
  std::vector<size_t> by_model = result.written;
  std::ranges::sort(by_model);
  if (!std::ranges::includes(by_model, by_schema) || !schema.results.empty())
    throw Error(ErrorKind::Unsupported, fmt::format("the kernel of {} writes to its arguments {}, and its file says {}", schema.name,
                                                    fmt::join(by_model, ", "), fmt::join(by_schema, ", ")))
        .help("mark each argument that the kernel writes to as Tensor(a!), with a letter of its own, and give no results: -> ()");
  return result;
}

}  // namespace toroid::pt2
