// toroid ops [--missing MODEL]
//
// Supported operators are printed one a line, then how many of the schema list they are. Missing ones are printed one a
// line, each followed by a line for every other line of the model's source that uses it:
//
//   aten::fft_rfft	3 uses	first at 'fft_rfft' in encoder (Encoder), model.py:12, in forward: y = torch.fft.rfft(x)
//   		also at 'fft_rfft_2', model.py:20, in forward: z = torch.fft.rfft(y)
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "build_flags.h"
#include "command.h"
#include "driver/compile.h"
#include "flags/flags.h"
#include "frontend/pt2/import.h"
#include "graph/custom/custom_operators.h"
#include "graph/schema.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid::cli {
namespace {

void list_supported() {
  size_t supported = 0, known = 0;
  for (std::string_view name : schema_names()) {
    const bool has_meaning = toroid::is_supported(*find_schema(name));
    if (has_meaning) fmt::print("{}\n", name);
    if (!name.starts_with("aten::")) continue;
    ++known;
    if (has_meaning) ++supported;
  }
  fmt::print("{} of the {} overloads of ATen that an exported program can hold are supported\n", supported, known);
}

bool is_supported(const OperatorUse& use, CustomOperators& operators) {
  if (use.op.starts_with("higher_order::")) return use.is_known;
  const Schema* schema = find_schema(use.op);
  return schema != nullptr ? toroid::is_supported(*schema) : operators.find(use.op) != nullptr;
}

std::string describe_place(const Provenance& place) {
  std::string text = fmt::format("'{}'", place.name);
  if (!place.module.empty()) text += fmt::format(" in {}", place.module);
  if (!place.source.empty()) text += fmt::format(", {}", place.source);
  return text;
}

int list_missing(const std::string& model, const CompileModelOptions& options) {
  if (std::filesystem::path(model).extension() == ".txt") {
    throw Error(ErrorKind::InvalidOption, fmt::format("{} is a program in text form", model))
        .help("give the .pt2: a text holds only operators that are known");
  }
  int missing = 0;
  const std::vector<OperatorUse> uses = pt2_operators(model);
  const std::shared_ptr<CustomOperators> operators = find_operators(model, options);
  for (const OperatorUse& use : uses) {
    if (is_supported(use, *operators)) continue;
    ++missing;
    fmt::print("{}\t{} use{}\tfirst at {}\n", use.op, use.uses, use.uses == 1 ? "" : "s", describe_place(use.first));
    for (const Provenance& place : use.others) fmt::print("\t\talso at {}\n", describe_place(place));
  }
  if (missing == 0) fmt::print("all {} operators of {} are supported\n", uses.size(), model);
  if (missing > 0) fmt::print(stderr, "what can be done: docs/unsupported-operators.md\n");
  return missing;
}

}  // namespace

int cmd_ops(int argc, const char* const* argv) {
  std::string model;
  CompileModelOptions options;
  Flags flags("toroid ops", "Lists the operators that toroid supports, or those of a model that it does not.");
  flags.add_option("--missing", model, "a .pt2 file: list its unsupported operators; exit status 1 when there are some");
  add_operators_flag(flags, options);
  if (const auto status = flags.read(argc, argv)) return *status;
  if (!model.empty()) return list_missing(model, options) > 0 ? 1 : 0;
  list_supported();
  return 0;
}

}  // namespace toroid::cli
