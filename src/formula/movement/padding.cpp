#include "formula/movement/padding.h"

#include <fmt/format.h>

#include "base/error.h"

namespace toroid::formula {
namespace {

// Amounts before and after each dim. PyTorch lists pairs from the last dim on; negative ones crop.
struct Border {
  Sizes low, high;
};
Border border_of(Tensor x, const Sizes& pad) {
  if (pad.size() % 2 != 0 || pad.size() / 2 > x.sizes().size()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("{} padding amounts for a tensor of rank {}", pad.size(), x.rank()));
  }
  Border border{Sizes(x.sizes().size(), 0), Sizes(x.sizes().size(), 0)};
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    border.low[x.sizes().size() - 1 - i] = pad[2 * i];
    border.high[x.sizes().size() - 1 - i] = pad[2 * i + 1];
  }
  return border;
}

// What a border of this amount takes off: of an amount whose sign the caller's sizes tell, a maximum.
sym::Expr cropped_by(sym::Expr amount) {
  if (sym::known_le(0, amount)) return 0;
  return sym::known_le(amount, 0) ? -amount : sym::max(-amount, 0);
}

// Takes off what negative amounts ask for, and leaves the others.
Tensor crop(Tensor x, Sizes& pad) {
  border_of(x, pad);  // checks the amounts
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int64_t dim = x.rank() - 1 - static_cast<int64_t>(i);
    const sym::Expr low = cropped_by(pad[2 * i]);
    const sym::Expr high = cropped_by(pad[2 * i + 1]);
    x = x.builder().slice(x, dim, low, x.size(dim) - low - high);
    pad[2 * i] += low;
    pad[2 * i + 1] += high;
  }
  return x;
}

// Elements outside come from the index that `inside` gives, from an index that may be negative or too large, and the
// size.
template <class F>
Tensor pad_with_own(Tensor x, const Sizes& pad, F inside) {
  Builder& b = x.builder();
  const Border border = border_of(x, pad);
  Sizes axes, index;
  for (size_t dim = 0; dim < x.sizes().size(); ++dim) {
    const sym::Expr size = x.sizes()[dim];
    axes.push_back(b.axis(size + border.low[dim] + border.high[dim]));
    const bool is_bordered = !border.low[dim].is_const(0) || !border.high[dim].is_const(0);
    index.push_back(is_bordered ? inside(axes.back() - border.low[dim], size) : axes.back());
  }
  return b.remap(x, axes, index);
}

// As many elements beside a border as the tensor can show there: `spare` fewer than it has.
void require_enough(Tensor x, const Sizes& pad, int64_t spare) {
  const Border border = border_of(x, pad);
  for (size_t dim = 0; dim < x.sizes().size(); ++dim) {
    const sym::Expr most = x.sizes()[dim] - spare;
    for (sym::Expr amount : {border.low[dim], border.high[dim]}) {
      if (amount.is_const() && amount.value() <= 0) continue;
      if (sym::known_lt(most, amount)) {
        throw Error(ErrorKind::InvalidModel, fmt::format("a border of {} elements, which a dim of size {} cannot fill",
                                                         sym::to_string(amount), sym::to_string(x.sizes()[dim])));
      }
      x.builder().require_equal(sym::le(amount, most), 1, "padding");
    }
  }
}

}  // namespace

Tensor pad_constant(Tensor x, Sizes pad, const Scalar& value) {
  x = crop(x, pad);
  const Border border = border_of(x, pad);
  return x.builder().pad(x, border.low, border.high, value);
}

Tensor pad_reflect(Tensor x, const Sizes& pad) {
  require_enough(x, pad, 1);
  return pad_with_own(x, pad, [](sym::Expr i, sym::Expr size) {
    const sym::Expr from_start = sym::max(i, -i);
    const sym::Expr from_end = size - 1 - from_start;
    return size - 1 - sym::max(from_end, -from_end);
  });
}

Tensor pad_replicate(Tensor x, const Sizes& pad) {
  return pad_with_own(x, pad, [](sym::Expr i, sym::Expr size) { return sym::min(sym::max(i, 0), size - 1); });
}

Tensor pad_circular(Tensor x, const Sizes& pad) {
  Sizes amounts = pad;
  x = crop(x, amounts);
  require_enough(x, amounts, 0);
  return pad_with_own(x, amounts, [](sym::Expr i, sym::Expr size) { return sym::mod(i, size); });
}

}  // namespace toroid::formula
