#include "formula/math/contraction.h"

#include <algorithm>

#include "base/error.h"
#include "formula/basics/precision.h"

namespace toroid::formula {

bool contains(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

size_t position(const Labels& labels, int label) {
  return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

Labels joined(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

namespace {

Sizes sizes_of(const Labelled& operand, const Labels& labels) {
  Sizes sizes;
  for (int label : labels) sizes.push_back(operand.x.sizes()[position(operand.labels, label)]);
  return sizes;
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

Labelled sum_to(const Labelled& operand, const Labels& keep) {
  Dims dims;
  Labels rest;
  for (size_t d = 0; d < operand.labels.size(); ++d) {
    if (contains(keep, operand.labels[d])) {
      rest.push_back(operand.labels[d]);
    } else {
      dims.push_back(static_cast<int64_t>(d));
    }
  }
  return dims.empty() ? operand : Labelled{wide_sum(operand.x, dims), rest};
}

Labelled contract(Labelled left, Labelled right, const Labels& keep) {
  left = sum_to(left, joined(keep, right.labels));
  right = sum_to(right, joined(keep, left.labels));
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

// ---- special cases --------------------------------------------------------------------------------------------------

namespace {

Labels numbered(int64_t count, int first) {
  Labels labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(first + static_cast<int>(i));
  return labels;
}

}  // namespace

Tensor tensordot(Tensor x, Tensor y, const Dims& x_dims, const Dims& y_dims) {
  Builder& b = x.builder();
  if (x_dims.size() != y_dims.size()) {
    throw Error(ErrorKind::InvalidModel, "tensordot: both tensors need equally many dims");
  }
  Labels x_labels = numbered(x.rank(), 0), y_labels = numbered(y.rank(), 100);
  Labels keep = joined(x_labels, y_labels);
  b.wrap_dims(x_dims, x.rank());  // none twice
  b.wrap_dims(y_dims, y.rank());
  for (size_t i = 0; i < x_dims.size(); ++i) {
    int& x_label = x_labels[static_cast<size_t>(b.wrap_dim(x_dims[i], x.rank()))];
    int& y_label = y_labels[static_cast<size_t>(b.wrap_dim(y_dims[i], y.rank()))];
    keep.erase(keep.begin() + static_cast<int64_t>(position(keep, x_label)));
    keep.erase(keep.begin() + static_cast<int64_t>(position(keep, y_label)));
    // A size of 1 broadcasts, which means summing the other side alone.
    const bool broadcasts = x.size(x_dims[i]).is_const(1) || y.size(y_dims[i]).is_const(1);
    if (!broadcasts) x_label = y_label = 200 + static_cast<int>(i);
  }
  return contract({x, x_labels}, {y, y_labels}, keep).x;
}

Tensor inner(Tensor x, Tensor y) {
  if (x.rank() == 0 || y.rank() == 0) return x * y;
  Labels x_labels = numbered(x.rank(), 0), y_labels = numbered(y.rank(), 100);
  x_labels.back() = y_labels.back() = 200;
  Labels keep = numbered(x.rank() - 1, 0);
  return contract({x, x_labels}, {y, y_labels}, joined(keep, numbered(y.rank() - 1, 100))).x;
}

Tensor bilinear(Tensor x1, Tensor x2, Tensor weight, Tensor bias) {
  const int o = 200, i = 201, j = 202;
  Labels batch = numbered(x1.rank() - 1, 0);
  Labelled half = contract({x1, joined(batch, {i})}, {weight, {o, i, j}}, joined(batch, {o, j}));
  Labelled full = contract(half, {x2, joined(batch, {j})}, joined(batch, {o}));
  Tensor y = with_order(full, joined(batch, {o})).x;
  return bias.defined() ? y + bias : y;
}

}  // namespace toroid::formula
