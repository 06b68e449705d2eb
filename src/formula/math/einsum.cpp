#include "formula/math/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/math/contraction.h"

namespace toroid::formula {
namespace {

// Dims under "..." are labelled from the right, so that those of different operands line up as broadcasting does.
constexpr int kEllipsis = 1000;

[[noreturn]] void bad_equation(std::string_view equation, std::string_view why) {
  throw Error(ErrorKind::InvalidModel, fmt::format("einsum equation '{}': {}", equation, why));
}

// The labels of one term, "ab...": `ellipsis` dims stand for the dots.
Labels parse_term(std::string_view equation, std::string_view term, int ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "...") {
      for (int k = ellipsis - 1; k >= 0; --k) labels.push_back(kEllipsis + k);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else {
      bad_equation(equation, fmt::format("unexpected '{}'", term[i]));
    }
  }
  return labels;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// A label that occurs twice in one operand takes its diagonal.
Labelled diagonal_of_repeats(Tensor x, const Labels& labels) {
  Labels distinct;
  Sizes axes;
  Sizes index;
  Builder& b = x.builder();
  for (size_t d = 0; d < labels.size(); ++d) {
    const size_t at = position(distinct, labels[d]);
    if (at == distinct.size()) {
      distinct.push_back(labels[d]);
      axes.push_back(b.axis(x.sizes()[d]));
    } else {
      b.require_equal(*axes[at].node()->extent, x.sizes()[d], "einsum diagonal");
    }
    index.push_back(axes[at]);
  }
  if (distinct.size() == labels.size()) return {x, labels};
  return {b.remap(x, axes, index), distinct};
}

struct Equation {
  std::vector<Labelled> operands;
  Labels output;
};

std::string without_spaces(const std::string& written) {
  std::string text;
  for (char c : written) {
    if (c != ' ') text += c;
  }
  return text;
}

// The letters that occur once in all terms, in alphabetic order.
std::string letters_of_result(const std::vector<std::string>& terms) {
  std::map<char, int> count;
  for (const std::string& term : terms) {
    for (char c : term) ++count[c];
  }
  std::string letters;
  for (auto [c, n] : count) {
    if (c != '.' && n == 1) letters += c;
  }
  return letters;
}

// Positions of the two operands of each product among the `count` that are left.
class Order {
 public:
  explicit Order(const std::optional<Dims>& path) : pairs_(path.value_or(Dims{})) {}

  std::pair<size_t, size_t> next(size_t count) {
    if (pairs_.size() < 2) return {0, 1};
    size_t i = static_cast<size_t>(pairs_[0]), j = static_cast<size_t>(pairs_[1]);
    pairs_.erase(pairs_.begin(), pairs_.begin() + 2);
    if (i > j) std::swap(i, j);
    if (i == j || j >= count) throw Error(ErrorKind::InvalidModel, "einsum path names a missing operand");
    return {i, j};
  }

 private:
  Dims pairs_;
};

// Puts what two operands have become in their place: at the end where a path tells the order, else at the front.
template <class Operand>
void replace_pair(std::vector<Operand>& operands, size_t i, size_t j, bool at_end, Operand product) {
  operands.erase(operands.begin() + static_cast<int64_t>(j));
  operands.erase(operands.begin() + static_cast<int64_t>(i));
  operands.insert(at_end ? operands.end() : operands.begin(), std::move(product));
}

Equation parse_equation(const std::string& written, const std::vector<Tensor>& tensors) {
  const std::string text = without_spaces(written);
  const size_t arrow = text.find("->");
  const std::vector<std::string> terms = split(std::string_view(text).substr(0, arrow), ',');
  if (terms.size() != tensors.size()) {
    bad_equation(written, fmt::format("{} terms for {} tensors", terms.size(), tensors.size()));
  }

  Equation equation;
  int widest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool dots = terms[i].find("...") != std::string::npos;
    const int letters = static_cast<int>(terms[i].size()) - (dots ? 3 : 0);
    const int ellipsis = static_cast<int>(tensors[i].rank()) - letters;
    if (ellipsis < 0 || (!dots && ellipsis > 0)) {
      bad_equation(written, fmt::format("term '{}' for a tensor of rank {}", terms[i], tensors[i].rank()));
    }
    widest = std::max(widest, ellipsis);
    equation.operands.push_back(diagonal_of_repeats(tensors[i], parse_term(written, terms[i], ellipsis)));
  }
  if (arrow != std::string::npos) {
    equation.output = parse_term(written, std::string_view(text).substr(arrow + 2), widest);
    return equation;
  }
  // Implicit output: the broadcast dims, then the letters that occur once, in alphabetic order.
  equation.output = parse_term(written, "..." + letters_of_result(terms), widest);
  return equation;
}

// A dim of size 1 whose label is larger elsewhere only repeats: drop it, so that shared labels have equal sizes.
void drop_broadcast_dims(Builder& b, std::vector<Labelled>& operands) {
  std::map<int, sym::Expr> size;
  for (const Labelled& operand : operands) {
    for (size_t d = 0; d < operand.labels.size(); ++d) {
      auto [slot, is_new] = size.try_emplace(operand.labels[d], operand.x.sizes()[d]);
      if (!is_new && slot->second.is_const(1)) slot->second = operand.x.sizes()[d];
    }
  }
  for (Labelled& operand : operands) {
    for (size_t d = operand.labels.size(); d-- > 0;) {
      if (!operand.x.sizes()[d].is_const(1) || size[operand.labels[d]].is_const(1)) continue;
      operand.x = b.squeeze(operand.x, static_cast<int64_t>(d));
      operand.labels.erase(operand.labels.begin() + static_cast<int64_t>(d));
    }
  }
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors, const std::optional<Dims>& path) {
  Equation parsed = parse_equation(equation, tensors);
  Builder& b = tensors[0].builder();
  std::vector<Labelled>& operands = parsed.operands;
  drop_broadcast_dims(b, operands);
  Order order(path);
  while (operands.size() > 1) {
    const auto [i, j] = order.next(operands.size());
    Labels keep = parsed.output;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (k != i && k != j) keep = joined(keep, operands[k].labels);
    }
    replace_pair(operands, i, j, path.has_value(), contract(operands[i], operands[j], keep));
  }
  Labelled last = operands[0];
  // A sum of integers is I64 in PyTorch; products keep their dtype.
  auto vanishes = [&](int label) { return !contains(parsed.output, label); };
  const bool sums = std::any_of(last.labels.begin(), last.labels.end(), vanishes);
  if (sums && !is_floating(last.x.dtype())) last.x = b.cast(last.x, DType::I64);
  Labelled result = sum_to(last, parsed.output);
  for (int label : parsed.output) {
    if (!contains(result.labels, label)) bad_equation(equation, "an output label is in no operand");
  }
  return with_order(result, parsed.output).x;
}

std::vector<EinsumPair> einsum_in_pairs(const std::string& equation, const std::optional<Dims>& path) {
  const std::string text = without_spaces(equation);
  const size_t arrow = text.find("->");
  std::vector<std::string> terms = split(std::string_view(text).substr(0, arrow), ',');
  if (terms.size() < 2) bad_equation(equation, "one term is no product");
  const std::string output = arrow != std::string::npos              ? text.substr(arrow + 2)
                             : text.find("...") != std::string::npos ? "..." + letters_of_result(terms)
                                                                     : letters_of_result(terms);
  std::vector<EinsumPair> pairs;
  Order order(path);
  while (terms.size() > 1) {
    const auto [i, j] = order.next(terms.size());
    std::string result = output;
    if (terms.size() > 2) {
      std::string wanted = output;
      for (size_t k = 0; k < terms.size(); ++k) {
        if (k != i && k != j) wanted += terms[k];
      }
      const std::string both = terms[i] + terms[j];
      const bool has_dots = both.find("...") != std::string::npos && wanted.find("...") != std::string::npos;
      result = has_dots ? "..." : "";
      for (char c : both) {
        if (c != '.' && result.find(c) == std::string::npos && wanted.find(c) != std::string::npos) result += c;
      }
    }
    pairs.push_back({i, j, terms[i] + "," + terms[j] + "->" + result});
    replace_pair(terms, i, j, path.has_value(), result);
  }
  return pairs;
}

}  // namespace toroid::formula
