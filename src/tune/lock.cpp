#include "tune/lock.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "runtime/kernels/registry/problem.h"

namespace toroid::tune {
namespace {

constexpr std::string_view kHeader = "toroid choices 1", kGpuSteps = "gpu.", kCpuSteps = "cpu.";

// Takes what lies before the last `separator` off the end of `text`; empty when there is none.
std::string_view take_last(std::string_view& text, std::string_view separator) {
  const size_t at = text.rfind(separator);
  if (at == std::string_view::npos) return {};
  const std::string_view taken = text.substr(at + separator.size());
  text = text.substr(0, at);
  return taken;
}

}  // namespace

ChoiceLock ChoiceLock::read(const std::filesystem::path& file) { return parse(read_file(file, 64 << 20), file.string()); }

ChoiceLock ChoiceLock::parse(std::string_view text, std::string name) {
  ChoiceLock lock;
  lock.name_ = std::move(name);
  size_t number = 0;
  bool has_header = false;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const ErrorContext context("reading {}, line {}", lock.name_, number);
    if (!has_header) {
      if (line != kHeader) {
        throw Error(ErrorKind::InvalidInput, fmt::format("this is no file of choices: it does not begin with '{}'", kHeader))
            .help("write one with 'toroid tune --write-lock', or with this version of toroid");
      }
      has_header = true;
      continue;
    }
    const std::string hash(take_last(line, " "));
    const std::string choice(take_last(line, " = "));
    if (hash.empty() || choice.empty())
      throw Error(ErrorKind::InvalidInput, "a line is 'PROBLEM = CHOICE HASH'").help("write the file anew");
    // Of a step of a program the text is a name and no more.
    const std::string problem =
        line.starts_with(kGpuSteps) || line.starts_with(kCpuSteps) ? std::string(line) : to_string(parse_problem(line));
    if (!lock.choices_.emplace(problem, LockedChoice{choice, hash}).second) {
      throw Error(ErrorKind::InvalidInput, "the problem has a choice already: " + problem).help("remove one of the lines");
    }
  }
  return lock;
}

const LockedChoice& ChoiceLock::at(const std::string& problem) const {
  const auto found = choices_.find(problem);
  if (found != choices_.end()) return found->second;
  throw Error(ErrorKind::InvalidInput, fmt::format("{} has no choice for {}", name_, problem))
      .help("write the lock anew for this model, or compile without it");
}

std::string ChoiceLock::text() const {
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [problem, locked] : choices_) text += fmt::format("{} = {} {}\n", problem, locked.choice, locked.hash);
  return text;
}

}  // namespace toroid::tune
