#include "codegen/wrapper/kernel_set.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen {
namespace {

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// The kernel's text with its buffers' names replaced by their order of appearance, so that equal kernels of different layers compare equal.
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

}  // namespace

std::string KernelSet::fresh_name(const std::string& base) {
  const int count = names_[base]++;
  return count == 0 ? base : fmt::format("{}_{}", base, count);
}

const std::string& KernelSet::add(const KernelSource& source, const loop::LoopProgram& program) {
  auto [slot, is_new] = distinct_.try_emplace(canonical_text(source, program), source.name);
  if (is_new) {
    // The last one at the margin: comments hold what the model says, and it may say anything.
    declarations_.push_back(source.text.substr(source.text.rfind("\nextern \"C\"") + 1));
    declarations_.back().resize(declarations_.back().find(" {\n"));
    declarations_.back() += ";";
    kernels_.push_back({source.name, source.text});
    preludes_.add(source.preludes);
  }
  return slot->second;
}

}  // namespace toroid::codegen
