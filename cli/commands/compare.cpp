// toroid compare A.safetensors B.safetensors: do two files hold the same tensors?
#include "compare.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/mapped_file.h"
#include "command.h"
#include "json_text.h"

namespace toroid::cli {
namespace {

const NamedTensor* find(std::span<const NamedTensor> tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& each) { return each.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string names_of(std::span<const NamedTensor> tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& each : tensors) names.push_back(each.name);
  return list_of_names(names);
}

std::string describe_differences(const Differences& found, const HostTensor& actual, const HostTensor& expected) {
  const bool exact = !is_floating(expected.dtype()) && found.most_absolute == 0;
  const std::string most = exact ? "" : fmt::format("largest difference {:.3g}, relative {:.3g}", found.most_absolute, found.most_relative);
  if (!found.worst) return exact ? "equal" : "within tolerance; " + most;
  return fmt::format("{} of {} elements differ; worst{} is {}, expected {} (allowed {:.3g}){}{}", found.differing, found.elements,
                     position_text(*found.worst, expected.sizes()), element_text(actual, *found.worst),
                     element_text(expected, *found.worst), found.allowed, most.empty() ? "" : "; ", most);
}

}  // namespace

void AskedTolerance::add_flags(Flags& flags) {
  flags.add_option("--rtol", relative, "relative tolerance (default: by dtype, as conform)");
  flags.add_option("--atol", absolute, "absolute tolerance (default: by dtype, as conform)");
}

Comparison compare_tensors(std::span<const NamedTensor> actual, std::span<const NamedTensor> expected, const AskedTolerance& asked) {
  if (expected.empty()) throw Error(ErrorKind::InvalidInput, "there is nothing to compare with: no tensor is expected");
  const bool is_asked = asked.relative >= 0 || asked.absolute >= 0;
  Comparison result;
  const auto is_there = [&](const NamedTensor& each) { return find(actual, each.name) != nullptr; };
  if (std::none_of(expected.begin(), expected.end(), is_there)) {
    throw Error(ErrorKind::InvalidInput,
                fmt::format("no tensor can be compared: there are {}, and expected are {}", names_of(actual), names_of(expected)))
        .help("name the tensors alike in both files");
  }
  size_t different = 0;
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const auto& [name, wanted] : expected) {
    nlohmann::ordered_json json = {{"name", name}};
    const NamedTensor* const given = find(actual, name);
    std::string line;
    bool is_equal = false;
    if (given == nullptr) {
      line = fmt::format("is missing; there are: {}", names_of(actual));
      json["reason"] = "missing";
    } else if (given->tensor.dtype() != wanted.dtype() || given->tensor.sizes() != wanted.sizes()) {
      line = fmt::format("is {}, expected {}", to_string(given->tensor), to_string(wanted));
      json["reason"] = line;
    } else {
      const Tolerance tolerance =
          is_asked ? Tolerance{std::max(asked.relative, 0.0), std::max(asked.absolute, 0.0)} : tolerance_of(wanted.dtype());
      const Differences found = compare_elements(given->tensor, wanted, tolerance, !is_asked);
      is_equal = found.differing == 0;
      line = fmt::format("{}: {}", to_string(wanted), describe_differences(found, given->tensor, wanted));
      json["elements"] = found.elements;
      json["differing"] = found.differing;
      json["most_absolute"] = found.most_absolute;
      json["most_relative"] = found.most_relative;
      if (found.worst) {
        json["worst"] = {{"element", *found.worst},
                         {"is", element_text(given->tensor, *found.worst)},
                         {"expected", element_text(wanted, *found.worst)},
                         {"allowed", found.allowed}};
      }
    }
    if (!is_equal) ++different;
    json["equal"] = is_equal;
    tensors.push_back(std::move(json));
    result.text += fmt::format("{} {} {}\n", is_equal ? "same  " : "DIFFER", name, line);
  }
  for (const NamedTensor& each : actual) {
    if (find(expected, each.name) == nullptr)
      result.text += fmt::format("       {} is not compared: nothing is expected of it\n", each.name);
  }
  result.is_equal = different == 0;
  result.text += fmt::format("{} tensors, {} differ\n", expected.size(), different);
  result.json = {{"equal", result.is_equal}, {"tensors", std::move(tensors)}};
  return result;
}

int cmd_compare(int argc, const char* const* argv) {
  std::string actual_path, expected_path;
  bool as_json = false;
  AskedTolerance tolerance;
  Flags flags("toroid compare", "Compares the tensors of two files by name. Exit status 1 where they differ by more than the tolerance.");
  flags.add_option("ACTUAL", actual_path, "safetensors, such as 'toroid run' writes").required();
  flags.add_option("EXPECTED", expected_path, "safetensors with what they should be").required();
  tolerance.add_flags(flags);
  flags.add_flag("--json", as_json, "print JSON");
  if (const auto status = flags.read(argc, argv)) return *status;
  const Comparison result = compare_tensors(read_tensors(actual_path), read_tensors(expected_path), tolerance);
  refuse_changed_files();
  fmt::print("{}", as_json ? json_text(result.json) + "\n" : result.text);
  return result.is_equal ? 0 : 1;
}

}  // namespace toroid::cli
