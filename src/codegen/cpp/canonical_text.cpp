#include "codegen/cpp/canonical_text.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen {
namespace {

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

}  // namespace

std::string canonical_text(const KernelSource& source, const loop::LoopProgram& program) {
  std::set<std::string, std::less<>> buffers;
  for (const KernelParameter& parameter : source.parameters) buffers.insert(identifier(program.buffer(parameter.buffer).name));
  std::unordered_map<std::string, std::string> names;
  auto rename = [&](const std::string& name) { return names.try_emplace(name, fmt::format("${}", names.size())).first->second; };
  std::string result;
  const std::string& text = source.text;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      // With the whole line where it is alone on it: equal code may come from operators that are told apart differently.
      while (!result.empty() && result.back() == ' ') result.pop_back();
      i = std::min(text.find('\n', i), text.size());
      if (i < text.size() && (result.empty() || result.back() == '\n')) ++i;
      continue;
    }
    if (!is_name_character(text[i])) {
      result += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_name_character(text[end])) ++end;
    const std::string word = text.substr(i, end - i);
    i = end;
    if (word == source.name) {
      result += "$kernel";
    } else if (word.starts_with(source.name) && word.substr(source.name.size()) == "_in_cpp") {
      result += "$kernel_in_cpp";
    } else if (buffers.count(word)) {
      result += rename(word);
    } else if (const size_t mark = word.rfind("_v"); mark != std::string::npos && buffers.count(word.substr(0, mark))) {
      result += rename(word.substr(0, mark)) + word.substr(mark);  // a value loaded from that buffer
    } else {
      result += word;
    }
  }
  return result;
}

}  // namespace toroid::codegen
