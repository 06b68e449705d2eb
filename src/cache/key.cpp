#include "cache/key.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {
namespace {

constexpr size_t kShownBytes = 500;

// Length first, so that no two lists of values run together into the same bytes.
void append_framed(std::string& to, std::string_view value) { to.append(fmt::format("{}:", value.size())).append(value); }

std::string one_line(std::string_view value) {
  std::string text;
  for (char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\\') {
      text += "\\\\";
    } else {
      text += c;
    }
  }
  return text;
}

std::map<std::string, std::string> parse_parts(std::string_view parts) {
  std::map<std::string, std::string> values;
  for (bool first = true; !parts.empty(); first = false) {
    const size_t end = std::min(parts.find('\n'), parts.size());
    const std::string_view line = parts.substr(0, end);
    parts.remove_prefix(std::min(end + 1, parts.size()));
    const size_t colon = line.find(": ");
    if (first || colon == std::string_view::npos) {
      values["kind"] = line;
    } else {
      values[std::string(line.substr(0, colon))] = line.substr(colon + 2);
    }
  }
  return values;
}

}  // namespace

KeyBuilder::KeyBuilder(std::string_view kind, int version) : kind_(kind), parts_(fmt::format("{} {}\n", kind, version)) {
  std::string framed;
  append_framed(framed, kind);
  append_framed(framed, std::to_string(version));
  hash_.update(framed);
}

KeyBuilder& KeyBuilder::add_part(std::string_view label, std::string_view hashed, std::string_view shown) {
  TOROID_CHECK(label.find_first_of(":\n") == std::string_view::npos, "label '{}'", label);
  TOROID_CHECK(std::find(labels_.begin(), labels_.end(), label) == labels_.end(), "label '{}' twice", label);
  labels_.emplace_back(label);
  std::string framed;
  append_framed(framed, label);
  append_framed(framed, hashed);
  hash_.update(framed);
  const bool is_long = shown.size() > kShownBytes;
  parts_ +=
      fmt::format("{}: {}\n", label, is_long ? fmt::format("sha256 {}, {} bytes", sha256(hashed).hex(), hashed.size()) : one_line(shown));
  return *this;
}

KeyBuilder& KeyBuilder::add(std::string_view label, std::string_view value) { return add_part(label, value, value); }

KeyBuilder& KeyBuilder::add(std::string_view label, std::span<const std::string> values) {
  std::string framed;
  for (const std::string& value : values) append_framed(framed, value);
  return add_part(label, framed, fmt::format("{}", fmt::join(values, " ")));
}

KeyBuilder& KeyBuilder::add(std::string_view label, const std::map<std::string, std::string>& values) {
  std::string framed, shown;
  for (const auto& [name, value] : values) {
    append_framed(framed, name);
    append_framed(framed, value);
    shown += fmt::format("{}{}={}", shown.empty() ? "" : " ", name, value);
  }
  return add_part(label, framed, shown);
}

KeyBuilder& KeyBuilder::add_source(std::string_view label, std::string_view source) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t first = source.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return add(label, "");
  return add(label, source.substr(first, source.find_last_not_of(kSpace) - first + 1));
}

CacheKey KeyBuilder::finish() { return {std::move(kind_), hash_.finish().hex(), std::move(parts_)}; }

std::optional<std::string> part_text(std::string_view parts, std::string_view label) {
  const auto all = parse_parts(parts);
  const auto found = all.find(std::string(label));
  return found == all.end() ? std::nullopt : std::optional<std::string>(found->second);
}

std::vector<std::string> differing_labels(std::string_view parts, std::string_view other_parts) {
  const auto ours = parse_parts(parts), theirs = parse_parts(other_parts);
  std::vector<std::string> labels;
  for (const auto& [label, value] : ours) {
    auto other = theirs.find(label);
    if (other == theirs.end() || other->second != value) labels.push_back(label);
  }
  for (const auto& [label, value] : theirs) {
    if (!ours.contains(label)) labels.push_back(label);
  }
  return labels;
}

}  // namespace toroid
