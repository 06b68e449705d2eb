// toroid ops [--missing MODEL]
#include <fmt/format.h>

#include "command.h"
#include "flags.h"
#include "frontend/pt2/import.h"
#include "graph/schema.h"
#include "passes/decompose/decompose.h"

namespace toroid::cli {
namespace {

void list_supported() {
  for (std::string_view name : schema_names()) {
    if (find_decomposition(*find_schema(name)) != nullptr) fmt::print("{}\n", name);
  }
}

bool is_supported(const OperatorUse& use) {
  if (use.op.starts_with("higher_order::")) return use.is_known;
  const Schema* schema = find_schema(use.op);
  return schema != nullptr && find_decomposition(*schema) != nullptr;
}

int list_missing(const std::string& model) {
  int missing = 0;
  for (const OperatorUse& use : pt2_operators(model)) {
    if (is_supported(use)) continue;
    ++missing;
    fmt::print("{}\t{} use{}\tfirst at '{}'{}\n", use.op, use.uses, use.uses == 1 ? "" : "s", use.first.name,
               use.first.source.empty() ? "" : ", " + use.first.source);
  }
  return missing;
}

}  // namespace

int cmd_ops(int argc, const char* const* argv) {
  std::string model;
  Flags flags("ops", "Lists the operators that toroid supports, or those of a model that it does not.");
  flags.add_option("--missing", model,
                   "a .pt2 file: list its unsupported operators; exit status 1 when there are some");
  if (const auto status = flags.read(argc, argv)) return *status;
  if (!model.empty()) return list_missing(model) > 0 ? 1 : 0;
  list_supported();
  return 0;
}

}  // namespace toroid::cli
