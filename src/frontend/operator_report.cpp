#include "frontend/operator_report.h"

#include <algorithm>

#include <fmt/format.h>

namespace toroid {

void OperatorCounter::add(const Provenance& place, bool is_known) {
  const auto [found, is_new] = by_name_.try_emplace(place.op, uses_.size());
  if (is_new) uses_.push_back({.op = place.op, .uses = 0, .is_known = is_known, .first = place});
  OperatorUse& use = uses_[found->second];
  ++use.uses;
  auto is_there = [&](const Provenance& other) { return other.source == place.source; };
  if (!is_there(use.first) && std::none_of(use.others.begin(), use.others.end(), is_there)) use.others.push_back(place);
}

Error unsupported_operators(std::span<const OperatorUse> operators, std::string_view model_file) {
  Error error(ErrorKind::Unsupported, operators.size() == 1 ? fmt::format("operator '{}' is not supported", operators[0].op)
                                                            : fmt::format("{} operators are not supported", operators.size()));
  for (const OperatorUse& use : operators) {
    std::string place = fmt::format("at {} ({} {}), first at node '{}'", use.op, use.uses, use.uses == 1 ? "use" : "uses", use.first.name);
    if (!use.first.module.empty()) place += fmt::format(" in {}", use.first.module);
    if (!use.first.source.empty()) place += fmt::format(", {}", use.first.source);
    error.at(std::move(place));
  }
  // Steps of torch.func.jvp and its kin: PyTorch records what they compute when it decomposes the program.
  const bool has_transforms = std::any_of(operators.begin(), operators.end(),
                                          [](const OperatorUse& use) { return use.op.starts_with("torch._functorch.predispatch."); });
  if (has_transforms)
    return error.help("export the model with torch.export.export(…).run_decompositions({}), which computes these transforms");
  // torchao's quantised weights are such tensors, and its own operators are formulas of ATen's.
  const bool has_subclasses = std::any_of(operators.begin(), operators.end(), [](const OperatorUse& use) {
    return use.op.starts_with("export::access_subclass_inner_tensor") || use.op.starts_with("torchao::");
  });
  if (has_subclasses)
    return error.help(
        "export the model with torch.export.export(…).run_decompositions(), which takes tensor subclasses and torchao's "
        "operators apart");
  return error.help(
      fmt::format("'toroid ops --missing {}' lists every unsupported operator and where it is used; docs/unsupported-operators.md says "
                  "what can be done",
                  model_file));
}

}  // namespace toroid
