// einsum, tensordot, inner, bilinear: products summed over labelled dims, in terms of one batched matrix product.
//
// Two operands at a time. A label that both have and somebody still needs is a batch dim; one that both have and nobody
// needs is contracted; the rest are rows (left) or columns (right):
//
//   abk, bkc -> abc    batch b, contracted k, rows a, columns c:    [b, a, k] x [b, k, c]
//
// Without a contracted label there is nothing for a matrix product to do, and a broadcast multiplication fuses.
#include "passes/decompose/linalg/contraction.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

bool contains(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

size_t position(const Labels& labels, int label) {
  return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

Labels joined(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Sizes sizes_of(const Labelled& operand, const Labels& labels) {
  Sizes sizes;
  for (int label : labels) sizes.push_back(operand.x.sizes()[position(operand.labels, label)]);
  return sizes;
}

// Sums over the labels for which `vanishes` holds.
template <class F>
Labelled sum_out(const Labelled& operand, F vanishes) {
  Dims dims;
  Labels rest;
  for (size_t d = 0; d < operand.labels.size(); ++d) {
    if (vanishes(operand.labels[d])) {
      dims.push_back(static_cast<int64_t>(d));
    } else {
      rest.push_back(operand.labels[d]);
    }
  }
  return dims.empty() ? operand : Labelled{wide_sum(operand.x, dims), rest};
}

// [batch…, rows…, columns…] as a stack of matrices [batch…, product(rows), product(columns)].
Tensor as_matrices(const Labelled& operand, const Labels& batch, const Labels& rows, const Labels& columns) {
  Sizes sizes = sizes_of(operand, batch);
  sizes.push_back(sym::product(sizes_of(operand, rows)));
  sizes.push_back(sym::product(sizes_of(operand, columns)));
  return operand.x.builder().reshape(with_order(operand, joined(joined(batch, rows), columns)).x, sizes);
}

// Dims of the labels that are missing in `operand` have size 1.
Tensor aligned(const Labelled& operand, const Labels& labels) {
  Labels own;
  Sizes sizes;
  for (int label : labels) {
    const bool has = contains(operand.labels, label);
    if (has) own.push_back(label);
    sizes.push_back(has ? operand.x.sizes()[position(operand.labels, label)] : sym::Expr(1));
  }
  return operand.x.builder().reshape(with_order(operand, own).x, sizes);
}

}  // namespace

Labelled with_order(const Labelled& operand, const Labels& labels) {
  Dims dims;
  for (int label : labels) dims.push_back(static_cast<int64_t>(position(operand.labels, label)));
  return {operand.x.builder().permute(operand.x, dims), labels};
}

Labelled contract(Labelled left, Labelled right, const Labels& keep) {
  left = sum_out(left, [&](int label) { return !contains(keep, label) && !contains(right.labels, label); });
  right = sum_out(right, [&](int label) { return !contains(keep, label) && !contains(left.labels, label); });
  Labels batch, contracted, rows, columns;
  for (int label : left.labels) {
    (!contains(right.labels, label) ? rows : contains(keep, label) ? batch : contracted).push_back(label);
  }
  for (int label : right.labels) {
    if (!contains(left.labels, label)) columns.push_back(label);
  }
  Builder& b = left.x.builder();
  const Labels labels = joined(joined(batch, rows), columns);
  if (contracted.empty()) return {aligned(left, labels) * aligned(right, labels), labels};
  Tensor product = b.matmul(as_matrices(left, batch, rows, contracted), as_matrices(right, batch, contracted, columns));
  Sizes sizes = sizes_of(left, joined(batch, rows));
  for (sym::Expr size : sizes_of(right, columns)) sizes.push_back(size);
  return {b.reshape(product, sizes), labels};
}

namespace {

// ---- einsum ---------------------------------------------------------------------------------------------------------

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

Equation parse_equation(const std::string& written, const std::vector<Tensor>& tensors) {
  std::string text;
  for (char c : written) {
    if (c != ' ') text += c;
  }
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
  std::map<char, int> count;
  for (const std::string& term : terms) {
    for (char c : term) ++count[c];
  }
  equation.output = parse_term(written, "...", widest);
  for (auto [c, n] : count) {
    if (c != '.' && n == 1) equation.output.push_back(c);
  }
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

std::vector<Tensor> einsum(Decomposer& d, const Args& a) {
  Equation equation = parse_equation(a.text("equation"), a.tensors("tensors"));
  std::vector<Labelled>& operands = equation.operands;
  drop_broadcast_dims(d.b, operands);
  // `path` lists pairs of positions; each product goes to the end. What it leaves is taken from the left.
  Dims path = a.has("path") ? a.dims("path") : Dims{};
  while (operands.size() > 1) {
    size_t i = 0, j = 1;
    if (path.size() >= 2) {
      i = static_cast<size_t>(path[0]);
      j = static_cast<size_t>(path[1]);
      path.erase(path.begin(), path.begin() + 2);
      if (i > j) std::swap(i, j);
      if (i == j || j >= operands.size()) throw Error(ErrorKind::InvalidModel, "einsum path names a missing operand");
    }
    Labelled left = operands[i], right = operands[j];
    operands.erase(operands.begin() + static_cast<int64_t>(j));
    operands.erase(operands.begin() + static_cast<int64_t>(i));
    Labels keep = equation.output;
    for (const Labelled& other : operands) keep = joined(keep, other.labels);
    Labelled product = contract(left, right, keep);
    operands.insert(a.has("path") ? operands.end() : operands.begin(), product);
  }
  auto vanishes = [&](int label) { return !contains(equation.output, label); };
  Labelled last = operands[0];
  // A sum of integers is I64 in PyTorch; products keep their dtype.
  const bool sums = std::any_of(last.labels.begin(), last.labels.end(), vanishes);
  if (sums && !is_floating(last.x.dtype())) last.x = d.b.cast(last.x, DType::I64);
  Labelled result = sum_out(last, vanishes);
  for (int label : equation.output) {
    if (!contains(result.labels, label)) bad_equation(a.text("equation"), "an output label is in no operand");
  }
  return {with_order(result, equation.output).x};
}

// ---- the special cases ----------------------------------------------------------------------------------------------

Labels numbered(int64_t count, int first) {
  Labels labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(first + static_cast<int>(i));
  return labels;
}

std::vector<Tensor> tensordot(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self"), y = a.tensor("other");
  const Dims x_dims = a.dims("dims_self"), y_dims = a.dims("dims_other");
  if (x_dims.size() != y_dims.size()) {
    throw Error(ErrorKind::InvalidModel, "tensordot: both tensors need equally many dims");
  }
  Labels x_labels = numbered(x.rank(), 0), y_labels = numbered(y.rank(), 100);
  Labels keep = joined(x_labels, y_labels);
  d.b.wrap_dims(x_dims, x.rank());  // none twice
  d.b.wrap_dims(y_dims, y.rank());
  for (size_t i = 0; i < x_dims.size(); ++i) {
    int& x_label = x_labels[static_cast<size_t>(d.b.wrap_dim(x_dims[i], x.rank()))];
    int& y_label = y_labels[static_cast<size_t>(d.b.wrap_dim(y_dims[i], y.rank()))];
    keep.erase(keep.begin() + static_cast<int64_t>(position(keep, x_label)));
    keep.erase(keep.begin() + static_cast<int64_t>(position(keep, y_label)));
    // A size of 1 broadcasts, which means summing the other side alone.
    const bool broadcasts = x.size(x_dims[i]).is_const(1) || y.size(y_dims[i]).is_const(1);
    if (!broadcasts) x_label = y_label = 200 + static_cast<int>(i);
  }
  return {contract({x, x_labels}, {y, y_labels}, keep).x};
}

std::vector<Tensor> inner(Decomposer&, const Args& a) {
  Tensor x = a.tensor("self"), y = a.tensor("other");
  if (x.rank() == 0 || y.rank() == 0) return {x * y};
  Labels x_labels = numbered(x.rank(), 0), y_labels = numbered(y.rank(), 100);
  x_labels.back() = y_labels.back() = 200;
  Labels keep = numbered(x.rank() - 1, 0);
  return {contract({x, x_labels}, {y, y_labels}, joined(keep, numbered(y.rank() - 1, 100))).x};
}

// y[…, o] = sum over i, j of x1[…, i] weight[o, i, j] x2[…, j], plus bias[o]
std::vector<Tensor> bilinear(Decomposer&, const Args& a) {
  Tensor x1 = a.tensor("input1"), x2 = a.tensor("input2"), weight = a.tensor("weight"), bias = a.optional_tensor("bias");
  const int o = 200, i = 201, j = 202;
  Labels batch = numbered(x1.rank() - 1, 0);
  Labelled half = contract({x1, joined(batch, {i})}, {weight, {o, i, j}}, joined(batch, {o, j}));
  Labelled full = contract(half, {x2, joined(batch, {j})}, joined(batch, {o}));
  Tensor y = with_order(full, joined(batch, {o})).x;
  return {bias.defined() ? y + bias : y};
}

constexpr DecompositionRow kRows[] = {
    {"aten::einsum", einsum},
    {"aten::tensordot", tensordot},
    {"aten::inner", inner},
    {"aten::bilinear", bilinear},
};

}  // namespace

std::span<const DecompositionRow> contraction_rows() { return kRows; }

}  // namespace toroid
