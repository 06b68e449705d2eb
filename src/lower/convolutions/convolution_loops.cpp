#include "lower/convolutions/convolution_loops.h"

namespace toroid {
namespace {

sym::Expr axis(loop::ExprTable& exprs, sym::Expr size, std::string_view prefix) {
  return size.is_const(1) ? sym::Expr(0) : exprs.symbols().axis(size, prefix);
}

// Of a dim of the image: the place that a tap reads, and whether it is one.
struct Place {
  sym::Expr at, is_inside;
};
Place place_of(const Convolution& op, size_t d, sym::Expr out, sym::Expr tap, sym::Expr size) {
  const auto within = [&](sym::Expr at) { return sym::logical_and(sym::le(0, at), sym::lt(at, size)); };
  if (!op.transposed) {
    const sym::Expr at = out * op.stride[d] + tap * op.dilation[d] - op.padding[d];
    return {at, within(at)};
  }
  // The places that this one was spread to are `stride` apart.
  const sym::Expr spread = out + op.padding[d] - tap * op.dilation[d], at = sym::floor_div(spread, op.stride[d]);
  return {at, sym::logical_and(sym::eq(sym::mod(spread, op.stride[d]), 0), within(at))};
}

}  // namespace

ConvolutionLoops convolution_loops(loop::ExprTable& exprs, const Convolution& op, const std::vector<sym::Expr>& image_sizes,
                                   const std::vector<sym::Expr>& weight_sizes, const std::vector<sym::Expr>& output_sizes,
                                   const LoadAt& image, const LoadAt& weight) {
  ConvolutionLoops loops;
  for (sym::Expr size : output_sizes) loops.axes.push_back(axis(exprs, size, "i"));
  const auto reduced = [&](sym::Expr size) {
    const sym::Expr made = axis(exprs, size, "r");
    if (!made.is_const()) loops.reduce_axes.push_back(made);
    return made;
  };
  const sym::Expr in_of_group = sym::floor_div(image_sizes[1], op.groups), out_of_group = sym::floor_div(output_sizes[1], op.groups);
  const sym::Expr o = loops.axes[1], group = op.groups.is_const(1) ? sym::Expr(0) : sym::floor_div(o, out_of_group);
  sym::Expr inside = 1;
  std::vector<sym::Expr> taps, places;
  for (size_t d = 0; d + 2 < image_sizes.size(); ++d) {
    taps.push_back(reduced(weight_sizes[d + 2]));
    const Place place = place_of(op, d, loops.axes[d + 2], taps.back(), image_sizes[d + 2]);
    places.push_back(place.at);
    inside = sym::logical_and(inside, place.is_inside);
  }
  const sym::Expr c = reduced(in_of_group), channel = group * in_of_group + c;  // the innermost loop
  std::vector<sym::Expr> of_image = {loops.axes[0], channel}, of_weight = {o, c};
  if (op.transposed) of_weight = {channel, op.groups.is_const(1) ? o : sym::mod(o, out_of_group)};
  of_image.insert(of_image.end(), places.begin(), places.end());
  of_weight.insert(of_weight.end(), taps.begin(), taps.end());
  const auto product = [&] { return exprs.compute(ScalarOp::Mul, {image(of_image), weight(of_weight)}); };
  if (inside.is_const()) {
    loops.value = product();
  } else {
    const loop::ExprId added = product(), is_inside = exprs.convert(exprs.index(inside), DType::Bool);
    loops.value = exprs.masked(is_inside, added, exprs.literal(Scalar(sym::Expr(0)), exprs.dtype(added)));
  }
  return loops;
}

}  // namespace toroid
