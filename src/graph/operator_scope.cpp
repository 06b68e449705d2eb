#include "graph/operator_scope.h"

#include <algorithm>

#include <fmt/format.h>

namespace toroid {
namespace {

constexpr size_t kMostShown = 8;   // elements of a list
constexpr size_t kMostText = 200;  // characters of an argument

std::string shown(std::string text) {
  if (text.size() <= kMostText) return text;
  text.resize(kMostText);
  return text += "…";
}

std::string text_of(std::span<const Tensor> inputs, const std::optional<InputRef>& ref) {
  if (!ref || ref->index >= inputs.size() || !inputs[ref->index].defined()) return "none";
  return to_string(inputs[ref->index].type());
}

// A tensor is shown by its type.
std::string text_of(std::span<const Tensor> inputs, const Argument& argument) {
  if (const auto* ref = std::get_if<InputRef>(&argument)) return text_of(inputs, std::optional(*ref));
  const auto* list = std::get_if<InputList>(&argument);
  if (list == nullptr) return shown(to_string(argument));
  std::string text = "[";
  for (size_t i = 0; i < std::min(list->size(), kMostShown); ++i) text += (i > 0 ? ", " : "") + text_of(inputs, (*list)[i]);
  return text + (list->size() > kMostShown ? fmt::format(", … {} in all]", list->size()) : "]");
}

bool refers_to(const Argument& argument, size_t index) {
  if (const auto* ref = std::get_if<InputRef>(&argument)) return ref->index == index;
  const auto* list = std::get_if<InputList>(&argument);
  return list != nullptr && std::any_of(list->begin(), list->end(), [&](const auto& ref) { return ref && ref->index == index; });
}

}  // namespace

OperatorScope::OperatorScope(Builder& builder, const Schema& schema, const std::vector<Argument>& arguments, std::span<const Tensor> inputs)
    : builder_(builder), schema_(schema), arguments_(arguments), inputs_(inputs), outer_(builder.scope_), context_([this] {
        return text();
      }) {
  builder_.scope_ = this;
  // Lists of tensors are work that the model has spelled out.
  if (outer_ == nullptr) builder_.steps_left_ = kMaxSteps + 256 * static_cast<int64_t>(inputs.size());
}

OperatorScope::~OperatorScope() { builder_.scope_ = outer_; }

std::string OperatorScope::parameter_of(Tensor x) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].defined() || inputs_[i].id() != x.id()) continue;
    for (size_t p = 0; p < arguments_.size() && p < schema_.parameters.size(); ++p) {
      if (refers_to(arguments_[p], i)) return schema_.parameters[p].name;
    }
  }
  return outer_ == nullptr ? "" : outer_->parameter_of(x);
}

std::string OperatorScope::text() const {
  std::string text = fmt::format("computing {}(", schema_.name);
  for (size_t p = 0; p < schema_.parameters.size(); ++p) {
    const Parameter& parameter = schema_.parameters[p];
    if (p >= arguments_.size()) {
      if (!parameter.default_value) break;
      continue;
    }
    text += fmt::format("{}{}: {}", p > 0 ? ", " : "", parameter.name, text_of(inputs_, arguments_[p]));
  }
  return text + ")";
}

}  // namespace toroid
