#include "codegen/custom/custom_triton.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::codegen {
namespace {

// Buffers begin at multiples of this.
constexpr int64_t kAlignment = 16;

class ArgumentMaker {
 public:
  ArgumentMaker(const CustomOperator& op, const program::LibraryCall& call) : op_(op), call_(call) {}

  void add(CustomTriton& result, const CustomArgument& each) const {
    if (each.dtype) {
      const std::optional<std::string> type = triton_pointer(*each.dtype);
      if (!type)
        throw Error(ErrorKind::Unsupported,
                    fmt::format("{} has a tensor of {}, which kernels in Triton do not take here", op_.schema.name, to_string(*each.dtype)))
            .help("give the operator a kernel in CUDA");
      result.kernel.arguments.push_back({.name = each.name, .type = *type, .multiple = is_aligned(each) ? kTritonMultiple : 1});
      result.passed.emplace_back("void*", fmt::format("(void*)({})", each.value));
    } else if (each.type == "double") {
      result.kernel.arguments.push_back({.name = each.name, .type = "fp32"});
      result.passed.emplace_back("float", fmt::format("(float)({})", each.value));
    } else if (each.type == "bool") {
      result.kernel.arguments.push_back({.name = each.name, .type = "i1"});
      result.passed.emplace_back("int8_t", fmt::format("(int8_t)({})", each.value));
    } else {
      TritonKernel::Argument argument = triton_integer(each.name, each.number.value());
      if (!argument.type.empty()) {
        const std::string type = argument.type == "i32" ? "int32_t" : "int64_t";
        result.passed.emplace_back(type, fmt::format("({})({})", type, each.value));
      }
      result.kernel.arguments.push_back(std::move(argument));
    }
  }

 private:
  bool is_aligned(const CustomArgument& each) const {
    if (!each.input && !each.output) return false;
    const program::Operand& operand = each.input ? call_.inputs.at(*each.input) : call_.outputs.at(*each.output);
    return sym::known_divisible(operand.offset * static_cast<int64_t>(size_bytes(*each.dtype)), kAlignment);
  }

  const CustomOperator& op_;
  const program::LibraryCall& call_;
};

}  // namespace

CustomTriton custom_triton(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made, const program::LibraryCall& call,
                           size_t configuration) {
  const TritonConfiguration& chosen = kernel.configurations.at(configuration);
  CustomTriton result;
  result.kernel = {.entry = "",
                   .function = kernel.function,
                   .source = kernel.source,
                   .file = op.file,
                   .line = kernel.source_line,
                   .arguments = {},
                   .warps = chosen.warps,
                   .stages = chosen.stages};
  const ArgumentMaker maker(op, call);
  std::vector<std::string> order = kernel.order;
  if (order.empty()) {
    for (const CustomArgument& each : made.arguments) order.push_back(each.name);
    for (const auto& [name, value] : chosen.constants) order.push_back(name);
  }
  for (const std::string& name : order) {
    const auto constant = std::ranges::find(chosen.constants, name, &std::pair<std::string, std::string>::first);
    if (constant != chosen.constants.end()) {
      result.kernel.arguments.push_back({.name = name, .constant = constant->second});
      continue;
    }
    const auto argument = std::ranges::find(made.arguments, name, &CustomArgument::name);
    TOROID_CHECK(argument != made.arguments.end(), "{} has no argument '{}'", op.file, name);
    maker.add(result, *argument);
  }
  return result;
}

}  // namespace toroid::codegen
