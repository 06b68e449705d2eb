// What a user says of a sharding: a file of lines, the first of which that fits a name holds for it.
//
//   # weights of products, by their names in the model; * stands for any characters
//   lm_head.weight              replicated
//   *.mlp.up_proj.weight        columns      each process has some columns of the product (output features)
//   *.mlp.down_proj.weight      rows         each has some rows of the right side (input features), and the products are added
//   *.self_attn.*               batch        each has the whole weight, and multiplies its part of the batch by it
//   # inputs and results by their names: the caller gives and gets this process's part along a dim
//   past_key_values.*           dim 1
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::shard {

enum class RuleKind : uint8_t { Replicated, Columns, Rows, Batch, Dim };

struct Rule {
  std::string pattern;
  RuleKind kind;
  int dim = 0;  // of RuleKind::Dim

  // A pattern with a * leaves alone what the processes do not divide; a name alone must be cut.
  bool is_of_many() const { return pattern.find('*') != std::string::npos; }
};

// Throws Error{InvalidOption} that names the line.
std::vector<Rule> parse_rules(std::string_view text);

// The first rule whose pattern fits.
const Rule* rule_for(const std::vector<Rule>& rules, std::string_view name);

}  // namespace toroid::shard
