#include "codegen/triton/triton_kernel.h"

#include <limits>

#include <fmt/format.h>

#include "support/text/json_writer.h"

namespace toroid::codegen {

std::string to_text(const TritonKernel& kernel) {
  JsonWriter json;
  json.begin_object();
  json.add("entry", kernel.entry);
  json.add("function", kernel.function);
  json.add("file", kernel.file);
  json.add("line", static_cast<int64_t>(kernel.line));
  json.add("num_warps", kernel.warps);
  json.add("num_stages", kernel.stages);
  if (!kernel.fuses_products) json.add("enable_fp_fusion", false);
  if (!kernel.flushes_subnormals) json.add("enable_reflect_ftz", false);
  json.end();
  std::string text = json.take();
  text.pop_back();
  text += ",\"arguments\":[";
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const TritonKernel::Argument& each = kernel.arguments[i];
    text += fmt::format("{}{{\"name\":{}", i == 0 ? "" : ",", json_string(each.name));
    text += each.type.empty() ? fmt::format(",\"value\":{}", each.constant) : fmt::format(",\"type\":{}", json_string(each.type));
    if (each.multiple > 1) text += fmt::format(",\"multiple\":{}", each.multiple);
    text += "}";
  }
  return text + fmt::format("],\"source\":{}}}", json_string(kernel.source));
}

std::optional<std::string> triton_pointer(DType dtype) {
  switch (dtype) {
    case DType::F32: return "*fp32";
    case DType::F64: return "*fp64";
    case DType::F16: return "*fp16";
    case DType::BF16: return "*bf16";
    case DType::I64: return "*i64";
    case DType::I32: return "*i32";
    case DType::I16: return "*i16";
    case DType::I8: return "*i8";
    case DType::U8: return "*u8";
    case DType::Bool: return "*i1";
    default: return std::nullopt;
  }
}

TritonKernel::Argument triton_integer(std::string name, sym::Expr value) {
  if (value.is_const(1)) return {.name = std::move(name), .constant = "1"};
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  const sym::Range range = value.range();
  const bool is_narrow = range.min >= kLeast && range.max <= kMost;
  return {.name = std::move(name),
          .type = is_narrow ? "i32" : "i64",
          .multiple = sym::known_divisible(value, kTritonMultiple) ? kTritonMultiple : 1};
}

}  // namespace toroid::codegen
