#include "codegen/cpp/canonical_text.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen {
namespace {

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Is it the kernel's name, or that of a function that is printed with it: its finishes, and the twin of a kernel in Halide?
bool is_own_function(std::string_view word, std::string_view kernel) {
  if (!word.starts_with(kernel)) return false;
  word.remove_prefix(kernel.size());
  if (word.empty() || word == "_in_cpp") return true;
  constexpr std::string_view kFinish = "_finish";
  if (!word.starts_with(kFinish)) return false;
  word.remove_prefix(kFinish.size());
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

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
    if (is_own_function(word, source.name)) {
      result += "$kernel" + word.substr(source.name.size());
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
