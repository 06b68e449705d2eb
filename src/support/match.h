// match(variant, handlers...): std::visit with one lambda per alternative and no default, so a new alternative fails to
// compile wherever somebody must think about it.
#pragma once

#include <utility>
#include <variant>

namespace toroid {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

template <class Variant, class... Handlers>
decltype(auto) match(Variant&& variant, Handlers&&... handlers) {
  return std::visit(Overloaded{std::forward<Handlers>(handlers)...}, std::forward<Variant>(variant));
}

// Whether the variant holds one of these alternatives.
template <class... Alternatives, class Variant>
bool is_any(const Variant& variant) {
  return (std::holds_alternative<Alternatives>(variant) || ...);
}

}  // namespace toroid
