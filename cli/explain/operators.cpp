#include "explain/operators.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace toroid::cli {

std::string operator_text(const Provenance& from) {
  if (from.op.empty()) return from.name.empty() ? "(made by toroid)" : from.name;
  return to_string(from);
}

std::string short_text(const Provenance& from) {
  return from.op.empty() ? operator_text(from) : fmt::format("{} ({})", from.name, from.op);
}

bool is_called(const Provenance& from, std::string_view name) {
  std::string_view op = from.op;
  op = op.substr(0, op.find('.'));
  const size_t colon = op.rfind(':');
  return !from.op.empty() && (from.name == name || from.op == name || op == name || (colon != op.npos && op.substr(colon + 1) == name));
}

void check_is_known(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const Provenance& from : graph.provenances()) {
    if (is_called(from, name)) return;
    if (!from.op.empty() && std::find(names.begin(), names.end(), from.op) == names.end()) names.push_back(from.op);
  }
  throw Error(ErrorKind::InvalidOption, fmt::format("the model has no operator or node called '{}'", name))
      .help(fmt::format("its operators: {}", fmt::join(names, ", ")));
}

}  // namespace toroid::cli
