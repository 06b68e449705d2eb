#include "frontend/pt2/provenance.h"

#include <fmt/format.h>

namespace toroid::pt2 {
namespace {

constexpr size_t kMaxCodeBytes = 160;  // of a source line shown in messages and comments

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Control characters would break the one-line form, and a terminal.
std::string one_line(std::string_view text) {
  std::string line;
  for (char c : text) line += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
  return line;
}

// Cut between characters, not inside one.
std::string shortened(std::string_view code) {
  if (code.size() <= kMaxCodeBytes) return std::string(code);
  size_t end = kMaxCodeBytes;
  while (end > 0 && (static_cast<unsigned char>(code[end]) & 0xc0) == 0x80) --end;
  return std::string(code.substr(0, end)) + "…";
}

bool is_users_own(std::string_view file) {
  return !file.starts_with('<') && file.find("/site-packages/torch/") == file.npos && file.find("/dist-packages/torch/") == file.npos;
}

// A package's files keep their path inside it; the user's own are known by their name.
std::string_view short_file(std::string_view file) {
  constexpr std::string_view kPackages = "-packages/";
  if (const size_t found = file.rfind(kPackages); found != file.npos) return file.substr(found + kPackages.size());
  return file.substr(file.rfind('/') + 1);  // npos + 1 is 0
}

struct Frame {
  std::string_view file;
  std::string_view line;
  std::string_view function;
  std::string_view code;
};

// `File "FILE", line N, in FUNCTION`; the code follows on the next line.
bool read_frame(std::string_view line, Frame& frame) {
  constexpr std::string_view kFile = "File \"";
  line = trimmed(line);
  if (!line.starts_with(kFile)) return false;
  line.remove_prefix(kFile.size());
  const size_t quote = line.find('"');
  if (quote == line.npos) return false;
  frame = {.file = line.substr(0, quote), .line = {}, .function = {}, .code = {}};
  line.remove_prefix(quote + 1);
  constexpr std::string_view kLine = ", line ";
  if (!line.starts_with(kLine)) return true;
  line.remove_prefix(kLine.size());
  const size_t comma = line.find(',');
  frame.line = line.substr(0, comma);
  constexpr std::string_view kIn = ", in ";
  if (comma != line.npos && line.substr(comma).starts_with(kIn)) frame.function = line.substr(comma + kIn.size());
  return true;
}

}  // namespace

std::string source_of(std::string_view stack_trace) {
  Frame last;
  bool in_last = false;  // the next line is the code of `last`
  while (!stack_trace.empty()) {
    const size_t end = std::min(stack_trace.find('\n'), stack_trace.size());
    const std::string_view line = stack_trace.substr(0, end);
    stack_trace.remove_prefix(std::min(end + 1, stack_trace.size()));
    Frame frame;
    if (read_frame(line, frame)) {
      in_last = is_users_own(frame.file);
      if (in_last) last = frame;
    } else if (in_last && last.code.empty()) {
      last.code = trimmed(line);
    }
  }
  if (last.file.empty()) return {};
  std::string text(short_file(last.file));
  if (!last.line.empty()) text += fmt::format(":{}", last.line);
  if (!last.function.empty()) text += fmt::format(", in {}", last.function);
  if (!last.code.empty()) {
    text += ": ";
    text += shortened(last.code);
  }
  return one_line(text);
}

std::string module_of(std::string_view nn_module_stack) {
  const size_t last = nn_module_stack.rfind(';');
  const std::string_view entry = last == nn_module_stack.npos ? nn_module_stack : nn_module_stack.substr(last + 1);
  const size_t key_end = entry.find(',');
  const size_t type_begin = entry.rfind(',');
  if (key_end == entry.npos || key_end == type_begin) return {};
  const std::string_view path = entry.substr(key_end + 1, type_begin - key_end - 1);
  std::string_view type = entry.substr(type_begin + 1);
  type = type.substr(type.rfind('.') + 1);
  return one_line(path.empty() ? std::string(type) : fmt::format("{} ({})", path, type));
}

Provenance read_provenance(std::string op, std::string_view node_name, const JsonValue* metadata) {
  Provenance provenance{.op = std::move(op), .name = std::string(node_name), .module = {}, .source = {}};
  if (!metadata) return provenance;
  if (const JsonValue* stack = metadata->find_value("stack_trace")) provenance.source = source_of(stack->as_string());
  if (const JsonValue* modules = metadata->find_value("nn_module_stack")) {
    provenance.module = module_of(modules->as_string());
  }
  return provenance;
}

}  // namespace toroid::pt2
