#include "describe.h"

#include <algorithm>

#include "graph/builder.h"
#include "interp/bind_symbols.h"

namespace toroid::cli {
namespace {

std::string range_text(const sym::Range& range) {
  return range.max == sym::kPosInf ? fmt::format("{} or more", range.min) : fmt::format("from {} to {}", range.min, range.max);
}

// "logits: f32[s40, 10]"
std::string output_text(const ManifestOutput& output, size_t number) {
  const std::string file_name = fmt::format("out{}", number);
  return fmt::format("{}{}: {}{}", file_name, output.name == file_name ? "" : " " + output.name, to_string(output.dtype),
                     fmt::format("[{}]", fmt::join(output.sizes, ", ")));
}

}  // namespace

std::string variant_text(const Manifest& manifest, const ManifestVariant& variant) {
  if (manifest.variants.size() == 1) return "";
  if (variant.when.empty()) return "all other sizes";
  std::string text;
  for (const auto& [name, value] : variant.when) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

std::string steps_text(const ManifestVariant& variant) {
  const int others = static_cast<int>(variant.steps.size()) - variant.library_calls - variant.kernel_steps;
  const std::string together =
      variant.kernel_calls > variant.kernel_steps ? fmt::format(" ({} kernels, some started together)", variant.kernel_calls) : "";
  return fmt::format("{} steps: {} library calls, {} of generated kernels{}{}", variant.steps.size(), variant.library_calls,
                     variant.kernel_steps, together,
                     others > 0 ? fmt::format(", {} of control flow or of sizes that are read", others) : "");
}

void print_interface(std::FILE* to, const Manifest& manifest, size_t most_outputs) {
  const Program& signature = manifest.general().signature;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    TensorType type = signature.graph.type(signature.graph.inputs[i]);
    type.strides.clear();
    fmt::print(to, "  input    {}: {}\n", signature.inputs[i].name, to_string(type));
  }
  size_t returned = 0, updated = 0;
  for (const ManifestOutput& output : manifest.general().outputs) {
    if (!is_returned({output.kind, output.target})) continue;
    if (returned < most_outputs) fmt::print(to, "  output   {}\n", output_text(output, returned));
    ++returned;
  }
  for (const ManifestOutput& output : manifest.general().outputs) {
    if (is_returned({output.kind, output.target})) continue;
    if (updated++ < most_outputs) fmt::print(to, "  updates  {}\n", output.target);
  }
  const auto more = [&](size_t count) { return count - std::min(count, most_outputs); };
  if (more(returned) + more(updated) > 0) fmt::print(to, "  and {} more outputs and updates\n", more(returned) + more(updated));
  for (const SymbolDefinition& size : plan_bindings(signature).definitions) {
    const std::string place = fmt::format("{}.{}", signature.inputs[size.source.input].name, size.source.dim);
    const bool is_itself = size.coefficient == 1 && size.rest.is_const(0);
    fmt::print(to, "  size     {} {} {}, {}\n", size.symbol.node()->name, is_itself ? "=" : "follows from", place,
               range_text(size.symbol.range()));
  }
  if (manifest.variants.size() == 1) return;
  for (const ManifestVariant& variant : manifest.variants)
    fmt::print(to, "  variant  {}: {}\n", variant_text(manifest, variant), steps_text(variant));
}

}  // namespace toroid::cli
