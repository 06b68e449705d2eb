#include "codegen/cpp/origin.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen {
namespace {

constexpr std::string_view kMark = "// of ";
constexpr size_t kCommentLimit = 240;

std::string_view trimmed(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

bool is_mark(std::string_view line) { return trimmed(line).starts_with(kMark); }

std::vector<std::string_view> first_lines(std::string_view text, size_t count) {
  std::vector<std::string_view> lines;
  while (lines.size() < count && !text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::string origin_comment(const Provenance& provenance) { return std::string(kMark) + comment_text(to_string(provenance), kCommentLimit); }

Origins::Origins(const Graph& graph, const std::vector<ProvenanceId>& of, bool even_one) {
  for (ProvenanceId id : of) {
    if (!graph.provenance(id).op.empty()) comments_.try_emplace(id, origin_comment(graph.provenance(id)));
  }
  if (comments_.size() == 1 && !even_one) comments_.clear();
}

const std::string* Origins::comment(ProvenanceId id) const {
  const auto found = comments_.find(id);
  return found == comments_.end() ? nullptr : &found->second;
}

void drop_repeated_origins(std::vector<std::string>& lines) {
  std::vector<std::string> kept;
  std::string in_force;
  std::string before;  // what the last kept comment took the place of
  for (std::string& line : lines) {
    if (!is_mark(line)) {
      kept.push_back(std::move(line));
      continue;
    }
    if (!kept.empty() && is_mark(kept.back())) {
      kept.pop_back();
      in_force = before;
    }
    const std::string_view text = trimmed(line);
    if (text == in_force) continue;
    before = std::exchange(in_force, std::string(text));
    kept.push_back(std::move(line));
  }
  lines = std::move(kept);
}

std::string origin_of_line(std::string_view source, size_t line) {
  const std::vector<std::string_view> lines = first_lines(source, line);
  if (line == 0 || lines.size() < line) return "";
  size_t i = line;
  while (i-- > 0) {
    const std::string_view text = trimmed(lines[i]);
    if (text.starts_with(kMark)) return std::string(text.substr(kMark.size()));
    // Functions begin and end at the margin.
    if (i + 1 < line && lines[i] == "}") return "";
    const size_t name = lines[i].starts_with("extern \"C\" void ") ? 16 : lines[i].starts_with("static void ") ? 12 : 0;
    if (name == 0) continue;
    const std::string head = fmt::format("// {}: ", lines[i].substr(name, lines[i].find('(') - name));
    // Above a kernel: its operators, then a line for each parameter.
    while (i > 0 && lines[i - 1].starts_with("//   ")) --i;
    return i > 0 && lines[i - 1].starts_with(head) ? std::string(lines[i - 1].substr(3)) : "";
  }
  return "";
}

}  // namespace toroid::codegen
