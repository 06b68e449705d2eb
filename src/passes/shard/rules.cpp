#include "passes/shard/rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "support/text/number.h"

namespace toroid::shard {
namespace {

bool fits(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  name.remove_prefix(star);
  for (;; name.remove_prefix(1)) {
    if (fits(pattern, name)) return true;
    if (name.empty()) return false;
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  for (size_t at = line.find_first_not_of(kBlank); at != line.npos;) {
    const size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
  return words;
}

std::optional<Rule> rule_of(const std::vector<std::string_view>& words) {
  if (words.size() == 2) {
    const std::string pattern(words[0]);
    if (words[1] == "replicated") return Rule{pattern, RuleKind::Replicated};
    if (words[1] == "columns") return Rule{pattern, RuleKind::Columns};
    if (words[1] == "rows") return Rule{pattern, RuleKind::Rows};
    if (words[1] == "batch") return Rule{pattern, RuleKind::Batch};
  }
  if (words.size() == 3 && words[1] == "dim") {
    constexpr int64_t kMostDims = 64;
    const std::optional<int64_t> dim = number_of(words[2]);
    if (dim && *dim < kMostDims) return Rule{std::string(words[0]), RuleKind::Dim, static_cast<int>(*dim)};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Rule> parse_rules(std::string_view text) {
  std::vector<Rule> rules;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    std::optional<Rule> rule = rule_of(words);
    if (!rule) {
      throw Error(ErrorKind::InvalidOption, fmt::format("line {} of the rules is no rule of a sharding: {}", number, line))
          .help("a line is a name and replicated, columns, rows, batch, or dim N: *.down_proj.weight rows");
    }
    rules.push_back(std::move(*rule));
  }
  return rules;
}

const Rule* rule_for(const std::vector<Rule>& rules, std::string_view name) {
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return fits(rule.pattern, name); });
  return found == rules.end() ? nullptr : &*found;
}

}  // namespace toroid::shard
