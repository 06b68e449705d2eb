#include "lower/index_map.h"

#include "base/error.h"

namespace toroid {
namespace {

// Matches dims of both shapes in groups of equal products, so that untouched dims keep their own axis and no division is needed
// for them: [a, b, c] -> [a*b, c] gives the groups {a, b | a*b} and {c | c}.
std::vector<sym::Expr> reshape_index(const std::vector<sym::Expr>& in, const std::vector<sym::Expr>& out,
                                     const std::vector<sym::Expr>& axes) {
  std::vector<sym::Expr> index(in.size(), sym::Expr(0));
  size_t i = 0;
  size_t o = 0;
  while (i < in.size() || o < out.size()) {
    if (i < in.size() && in[i].is_const(1)) {
      ++i;
      continue;
    }
    if (o < out.size() && out[o].is_const(1)) {
      ++o;
      continue;
    }
    if (i == in.size() || o == out.size()) break;
    size_t i_end = i + 1;
    size_t o_end = o + 1;
    sym::Expr in_product = in[i];
    sym::Expr out_product = out[o];
    while (!sym::known_eq(in_product, out_product)) {
      // Grow the smaller side; where neither is known to be smaller, grow whichever has dims left, to the end if need be.
      const bool grow_in = o_end == out.size() || (i_end < in.size() && sym::known_lt(in_product, out_product)) ||
                           (i_end < in.size() && in_product.is_const() && !out_product.is_const());
      if (grow_in && i_end < in.size()) {
        in_product = in_product * in[i_end++];
      } else if (o_end < out.size()) {
        out_product = out_product * out[o_end++];
      } else if (i_end < in.size()) {
        in_product = in_product * in[i_end++];
      } else {
        break;  // equal only by a guard
      }
    }
    const std::vector<sym::Expr> group_axes(axes.begin() + static_cast<ptrdiff_t>(o), axes.begin() + static_cast<ptrdiff_t>(o_end));
    const std::vector<sym::Expr> group_out(out.begin() + static_cast<ptrdiff_t>(o), out.begin() + static_cast<ptrdiff_t>(o_end));
    const std::vector<sym::Expr> group_in(in.begin() + static_cast<ptrdiff_t>(i), in.begin() + static_cast<ptrdiff_t>(i_end));
    const std::vector<sym::Expr> parts = unflatten_index(flatten_index(group_axes, group_out), group_in);
    for (size_t d = 0; d < parts.size(); ++d) index[i + d] = parts[d];
    i = i_end;
    o = o_end;
  }
  return index;
}

}  // namespace

bool is_view(const Op& op) {
  return std::holds_alternative<Expand>(op) || std::holds_alternative<Permute>(op) || std::holds_alternative<Reshape>(op) ||
         std::holds_alternative<Slice>(op) || std::holds_alternative<Remap>(op);
}

sym::Expr flatten_index(const std::vector<sym::Expr>& index, const std::vector<sym::Expr>& sizes) {
  sym::Expr position = 0;
  for (size_t d = 0; d < sizes.size(); ++d) position = position * sizes[d] + index[d];
  return position;
}

std::vector<sym::Expr> unflatten_index(sym::Expr position, const std::vector<sym::Expr>& sizes) {
  std::vector<sym::Expr> index(sizes.size(), sym::Expr(0));
  sym::Expr stride = 1;
  size_t first = 0;  // the first dim that is not of size 1 needs no remainder
  while (first < sizes.size() && sizes[first].is_const(1)) ++first;
  for (size_t d = sizes.size(); d-- > first;) {
    if (sizes[d].is_const(0)) return index;
    const sym::Expr quotient = stride.is_const(1) ? position : sym::floor_div(position, stride);
    index[d] = d == first ? quotient : sizes[d].is_const(1) ? sym::Expr(0) : sym::mod(quotient, sizes[d]);
    stride = stride * sizes[d];
  }
  return index;
}

std::vector<sym::Expr> view_index(const Op& op, const std::vector<sym::Expr>& in, const std::vector<sym::Expr>& out,
                                  const std::vector<sym::Expr>& axes) {
  std::vector<sym::Expr> index(in.size());
  if (std::holds_alternative<Expand>(op)) {
    for (size_t d = 0; d < in.size(); ++d) index[d] = in[d].is_const(1) && !out[d].is_const(1) ? sym::Expr(0) : axes[d];
  } else if (const auto* permute = std::get_if<Permute>(&op)) {
    for (size_t d = 0; d < in.size(); ++d) index[static_cast<size_t>(permute->dims[d])] = axes[d];
  } else if (std::holds_alternative<Reshape>(op)) {
    return reshape_index(in, out, axes);
  } else if (const auto* slice = std::get_if<Slice>(&op)) {
    for (size_t d = 0; d < in.size(); ++d) index[d] = slice->starts[d] + slice->steps[d] * axes[d];
  } else if (const auto* remap = std::get_if<Remap>(&op)) {
    sym::Substitution replacements;
    for (size_t d = 0; d < axes.size(); ++d) replacements.emplace_back(remap->axes[d], axes[d]);
    for (size_t d = 0; d < in.size(); ++d) index[d] = sym::substitute(remap->index[d], replacements);
  } else {
    TOROID_CHECK(false, "not a view");
  }
  return index;
}

}  // namespace toroid
