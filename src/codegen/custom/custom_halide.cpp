#include "codegen/custom/custom_halide.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::codegen {
namespace {

struct UserType {
  std::string name;
  int code, bits;
};
// As a user of Halide knows them: 16-bit floats and truth values are types of their own.
UserType user_type(DType dtype, const CustomOperator& op) {
  constexpr int kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4;
  const int bits = 8 * static_cast<int>(size_bytes(dtype));
  switch (dtype) {
    case DType::Bool: return {"hl.UInt(1)", kUInt, 1};
    case DType::U8: return {"hl.UInt(8)", kUInt, 8};
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64: return {fmt::format("hl.Int({})", bits), kInt, bits};
    case DType::F16:
    case DType::F32:
    case DType::F64: return {fmt::format("hl.Float({})", bits), kFloat, bits};
    case DType::BF16: return {"hl.BFloat(16)", kBFloat, 16};
    default: break;
  }
  throw Error(ErrorKind::Unsupported,
              fmt::format("{} has a tensor of {}, which kernels in Halide do not take", op.schema.name, to_string(dtype)));
}

std::string estimates_of(const program::Operand& operand) {
  std::vector<std::string> dims;
  for (size_t d = operand.sizes.size(); d-- > 0;)
    dims.push_back(fmt::format("(0, {})", std::max<int64_t>(1, sym::evaluate_hint(operand.sizes[d]))));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

}  // namespace

CustomHalide custom_halide(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& made, const loop::LoopProgram& loops,
                           const program::LibraryCall& call) {
  CustomHalide result;
  std::string text, types, estimates;
  std::vector<std::string> names, numbers;
  const auto is_parameter = [&](const std::string& name) {
    return std::ranges::any_of(op.schema.parameters, [&](const Parameter& each) { return each.name == name; });
  };
  for (const CustomArgument& each : made.arguments) {
    if (each.input || each.output) {
      const program::Operand& operand = each.input ? call.inputs.at(*each.input) : call.outputs.at(*each.output);
      const DType dtype = loops.buffer(operand.buffer).dtype;
      const UserType type = user_type(dtype, op);
      const std::string memory = each.input ? fmt::format("inputs[{}].data", *each.input) : fmt::format("outputs[{}].data", *each.output);
      result.arguments.push_back(
          {.type = "", .value = memory, .operand = operand, .dtype = dtype, .type_code = type.code, .bits = type.bits});
      if (each.input) {
        names.push_back(each.name);
        text += fmt::format("    {0} = hl.ImageParam({1}, {2}, \"{0}\")\n    {0}.set_estimates({3})\n", each.name, type.name,
                            operand.sizes.size(), estimates_of(operand));
        for (size_t d = operand.sizes.size(), place = 0; d-- > 0; ++place) {
          if (operand.sizes[d].is_const())
            text += fmt::format("    {}.dim({}).set_bounds(0, {})\n", each.name, place, operand.sizes[d].value());
        }
      } else {
        types += (types.empty() ? "" : ", ") + type.name;
        estimates += (estimates.empty() ? "" : ", ") + estimates_of(operand);
      }
      continue;
    }
    if (!is_parameter(each.name)) continue;  // a size, which the tensors tell
    const std::string_view type = each.type == "double" ? "hl.Float(64)" : each.type == "bool" ? "hl.UInt(1)" : "hl.Int(64)";
    result.arguments.push_back({.type = each.type, .value = each.value});
    names.push_back(each.name);
    text += fmt::format("    {0} = hl.Param({1}, \"{0}\")\n", each.name, type);
    if (each.number && each.number->is_const())
      text += fmt::format("    {}.set_estimate({})\n", each.name, each.number->value());
    else
      text += fmt::format("    {}.set_estimate(1)\n", each.name);
  }
  result.pipeline = with_entry(
      {.entry = "",
       .source = fmt::format("{}\n\n\ndef pipeline():\n    import halide as hl\n\n{}    made = {}({})\n"
                             "    outputs = list(made) if isinstance(made, (list, tuple)) else [made]\n"
                             "    wanted, estimates = [{}], [{}]\n"
                             "    if [each.type() for each in outputs] != wanted:\n"
                             "        raise LookupError(f\"{} gives {{[str(each.type()) for each in outputs]}}, and the rules say "
                             "{{[str(each) for each in wanted]}}\")\n"
                             "    for each, bounds in zip(outputs, estimates):\n        each.set_estimates(bounds)\n"
                             "    return [{}], outputs\n",
                             kernel.source, text, kernel.function, fmt::join(names, ", "), types, estimates, kernel.function,
                             fmt::join(names, ", ")),
       .autoscheduler = kernel.autoscheduler,
       .file = op.file,
       .line = kernel.source_line});
  return result;
}

}  // namespace toroid::codegen
