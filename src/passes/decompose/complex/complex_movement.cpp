// Operators that do the same to the real and the imaginary part of complex tensors: views, moves, sums.
#include "base/error.h"
#include "passes/decompose/arguments/recorded.h"
#include "passes/decompose/complex/complex.h"
#include "passes/decompose/complex/complex_parts.h"

namespace toroid {
namespace {

// A real tensor among complex ones has no imaginary part; masks and indices serve both parts.
Tensor part_of_real(Builder& b, Tensor x, int64_t part) {
  return part == 0 || !is_floating(x.dtype()) ? x : b.full(x.sizes(), x.dtype(), 0.0);
}

// A number to fill with has no imaginary part; a factor, as alpha is, multiplies both.
bool is_filling(const Parameter& parameter) {
  return (parameter.type == ArgType::Scalar || parameter.type == ArgType::Float) && parameter.name != "alpha";
}

// Views, sums and what else does the same to both parts.
std::vector<Tensor> by_part(Decomposer& d, const Args& a) {
  std::vector<std::vector<Tensor>> results;
  for (int64_t part = 0; part < 2; ++part) {
    std::vector<Decomposer::Value> values;
    for (const Parameter& parameter : a.schema().parameters) {
      const Argument& argument = a.raw(parameter.name);
      if (is_complex_input(d, argument)) {
        values.emplace_back(d.b.select(a.tensor(parameter.name), -1, part));
      } else if (const auto* list = std::get_if<InputList>(&argument)) {
        Tensors tensors = a.optional_tensors(parameter.name);
        for (size_t i = 0; i < tensors.size(); ++i) {
          if (!(*list)[i]) continue;
          const bool is_pair = is_complex_input(d, *(*list)[i]);
          tensors[i] = is_pair ? d.b.select(tensors[i], -1, part) : part_of_real(d.b, tensors[i], part);
        }
        values.emplace_back(tensors);
      } else if (parameter.type == ArgType::Tensor && std::holds_alternative<InputRef>(argument)) {
        values.emplace_back(part_of_real(d.b, a.tensor(parameter.name), part));
      } else if (part == 1 && is_filling(parameter) && !std::holds_alternative<None>(argument)) {
        values.emplace_back(Argument(0.0));
      } else if (const auto* dtype = std::get_if<DType>(&argument)) {
        values.emplace_back(part_dtype(*dtype));
      } else {
        values.emplace_back(argument);
      }
    }
    results.push_back(d.call(a.schema().name, std::move(values)));
  }
  std::vector<Tensor> joined;
  for (size_t i = 0; i < results[0].size(); ++i) joined.push_back(pairs_of({results[0][i], results[1][i]}));
  return joined;
}

// Views of the pairs themselves, which may be written to: the dim of the parts stays the last one.
std::vector<Tensor> of_pairs(Decomposer& d, const Args& a) {
  const int64_t rank = a.tensor("self").rank() - 1;
  const std::string_view op = a.schema().name;
  if (rank == 0 && op.starts_with("aten::flatten")) return {d.b.unsqueeze(a.tensor("self"), 0)};
  auto wrapped = [&](int64_t dim) { return d.b.wrap_dim(dim, op == "aten::unsqueeze" ? rank + 1 : rank); };
  std::vector<Decomposer::Value> values;
  for (const Parameter& each : a.schema().parameters) {
    const std::string_view name = each.name;
    if (is_complex_input(d, a.raw(name))) {
      values.emplace_back(a.tensor(name));
    } else if (name == "dims") {
      Dims dims = a.dims(name);
      for (int64_t& dim : dims) dim = wrapped(dim);
      dims.push_back(rank);
      values.emplace_back(dims);
    } else if (each.type == ArgType::Int &&
               (name.starts_with("dim") || name == "start_dim" || name == "end_dim" || name.starts_with("axis"))) {
      values.emplace_back(wrapped(a.constant(name)));
    } else if (name == "size" || name == "shape") {
      Sizes sizes = a.integers(name);
      sizes.emplace_back(2);
      values.emplace_back(sizes);
    } else {
      values.emplace_back(a.raw(name));
    }
  }
  return d.call(op, std::move(values));
}

std::vector<Tensor> matrix_transpose(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  return {x.rank() < 3 ? x : d.b.transpose(x, -3, -2)};
}

// Shapes are taken from the second argument, which has a last dim of its own as pairs. Either may be real.
std::vector<Tensor> in_shape_of_other(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("self");
  Sizes sizes = a.tensor("other").sizes();
  if (is_complex_input(d, a.raw("other"))) sizes.pop_back();
  if (is_complex_input(d, a.raw("self"))) sizes.emplace_back(2);
  const bool expands = a.schema().name == "aten::expand_as";
  return {expands ? d.b.expand(x, sizes) : d.b.reshape(x, sizes)};
}

// A result of one real number everywhere, whose dtype may be real.
Tensor full_of(Decomposer& d, double number) {
  const TensorType type = required_result_type(d);
  if (!is_complex(type.dtype)) return d.b.cast(d.b.full(type.sizes, DType::F64, number), type.dtype);
  const TensorType pairs = type_of_pairs(type);
  const Sizes sizes(pairs.sizes.begin(), pairs.sizes.end() - 1);
  return pairs_of({d.b.full(sizes, pairs.dtype, number), d.b.full(sizes, pairs.dtype, 0.0)});
}
std::vector<Tensor> ones(Decomposer& d, const Args&) { return {full_of(d, 1.0)}; }
std::vector<Tensor> zeros(Decomposer& d, const Args&) { return {full_of(d, 0.0)}; }

// The value may be complex, or real.
std::vector<Tensor> filled(Decomposer& d, const Args& a) {
  const TensorType type = required_result_type(d);
  const bool is_one_number = a.schema().name.starts_with("aten::scalar_tensor");
  const Complex value =
      complex_argument(d, a, is_one_number ? "s" : "fill_value", is_complex(type.dtype) ? part_dtype(type.dtype) : type.dtype);
  if (!is_complex(type.dtype)) return {d.b.expand(value.re, type.sizes)};
  return {pairs_of({d.b.expand(value.re, type.sizes), d.b.expand(value.im, type.sizes)})};
}

std::vector<Tensor> filled_in_place(Decomposer& d, const Args& a) {
  Tensor self = a.tensor("self");
  const Sizes sizes = self.sizes().without_last(1);
  const Complex value = complex_argument(d, a, "value", self.dtype());
  return {pairs_of({d.b.expand(value.re, sizes), d.b.expand(value.im, sizes)})};
}

std::vector<Tensor> masked_fill(Decomposer& d, const Args& a) {
  const Complex x = parts(a.tensor("self")), value = complex_argument(d, a, "value", x.re.dtype());
  Tensor mask = a.tensor("mask");
  const Sizes sizes = d.b.broadcast(mask.sizes(), x.re.sizes());
  auto chosen = [&](Tensor filling, Tensor part) { return d.b.expand(d.b.where(mask, filling, part), sizes); };
  return {pairs_of({chosen(value.re, x.re), chosen(value.im, x.im)})};
}

// To a complex dtype from any, or to a real one, which the imaginary part does not reach.
std::vector<Tensor> convert(Decomposer& d, const Args& a) {
  const DType to = required_result_type(d).dtype;
  const Complex x = complex_argument(d, a, "self", is_complex(to) ? part_dtype(to) : a.tensor("self").dtype());
  if (is_complex(to)) return {pairs_of(x)};
  const Tensor real = d.b.cast(x.re, to);
  return {to == DType::Bool ? real | d.b.cast(x.im, to) : real};  // of a number that is not zero; others lose the imaginary part
}

std::vector<Tensor> nothing(Decomposer&, const Args&) { return {}; }

constexpr DecompositionRow kComplexMovementRows[] = {
    {"aten::_assert_tensor_metadata", nothing},
    {"aten::sym_size.*", nothing},
    {"aten::sym_numel", nothing},
    {"aten::full", filled},
    {"aten::full_like", filled},
    {"aten::new_full", filled},
    {"aten::scalar_tensor", filled},
    {"aten::fill.*", filled_in_place},
    {"aten::masked_fill.*", masked_fill},
    {"aten::ones", ones},
    {"aten::ones_like", ones},
    {"aten::new_ones", ones},
    {"aten::expand_as", in_shape_of_other},
    {"aten::view_as", in_shape_of_other},
    {"aten::reshape_as", in_shape_of_other},
    {"aten::to.*", convert},
    {"aten::_to_copy", convert},
    {"aten::type_as", convert},
    {"aten::chalf", convert},
    {"prims::convert_element_type", convert},

    {"aten::atleast_1d", by_part},
    {"aten::atleast_2d", by_part},
    {"aten::alias", of_pairs},
    {"aten::broadcast_to", of_pairs},
    {"aten::chunk", of_pairs},
    {"aten::clone", of_pairs},
    {"aten::contiguous", of_pairs},
    {"aten::detach", of_pairs},
    {"aten::lift", of_pairs},
    {"aten::lift_fresh", of_pairs},
    {"aten::expand", of_pairs},
    {"aten::flatten.using_ints", of_pairs},
    {"aten::narrow", of_pairs},
    {"aten::permute", of_pairs},
    {"aten::reshape", of_pairs},
    {"aten::select.int", of_pairs},
    {"aten::slice.Tensor", of_pairs},
    {"aten::split.Tensor", of_pairs},
    {"aten::split_with_sizes", of_pairs},
    {"aten::squeeze", of_pairs},
    {"aten::squeeze.dim", of_pairs},
    {"aten::swapaxes", of_pairs},
    {"aten::swapdims", of_pairs},
    {"aten::transpose.int", of_pairs},
    {"aten::unbind.int", of_pairs},
    {"aten::unsqueeze", of_pairs},
    {"aten::_unsafe_view", of_pairs},
    {"aten::_reshape_alias", of_pairs},
    {"aten::view", of_pairs},

    {"aten::cat", by_part},
    {"aten::concat", by_part},
    {"aten::concatenate", by_part},
    {"aten::constant_pad_nd", by_part},
    {"aten::copy", by_part},
    {"aten::zero", by_part},
    {"aten::cumsum", by_part},
    {"aten::diag", by_part},
    {"aten::diag_embed", by_part},
    {"aten::diagonal", by_part},
    {"aten::diff", by_part},
    {"aten::empty.memory_format", zeros},
    {"aten::empty_like", zeros},
    {"aten::fft_fftshift", by_part},
    {"aten::fft_ifftshift", by_part},
    {"aten::flip", by_part},
    {"aten::fliplr", by_part},
    {"aten::flipud", by_part},
    {"aten::gather", by_part},
    {"aten::hstack", by_part},
    {"aten::index.Tensor", by_part},
    {"aten::index_add", by_part},
    {"aten::index_copy", by_part},
    {"aten::index_put", by_part},
    {"aten::index_select", by_part},
    {"aten::mT", matrix_transpose},
    {"aten::mean", by_part},
    {"aten::mean.dim", by_part},
    {"aten::moveaxis.int", by_part},
    {"aten::moveaxis.intlist", by_part},
    {"aten::movedim.int", by_part},
    {"aten::movedim.intlist", by_part},
    {"aten::neg", by_part},
    {"aten::new_empty", zeros},
    {"aten::new_zeros", zeros},
    {"aten::pad", by_part},
    {"aten::reflection_pad1d", by_part},
    {"aten::reflection_pad2d", by_part},
    {"aten::repeat", by_part},
    {"aten::replicate_pad1d", by_part},
    {"aten::replicate_pad2d", by_part},
    {"aten::roll", by_part},
    {"aten::rot90", by_part},
    {"aten::scatter.src", by_part},
    {"aten::scatter_add", by_part},
    {"aten::select_scatter", by_part},
    {"aten::slice_scatter", by_part},
    {"aten::squeeze.dims", by_part},
    {"aten::stack", by_part},
    {"aten::sum", by_part},
    {"aten::sum.dim_IntList", by_part},
    {"aten::t", matrix_transpose},
    {"aten::take", by_part},
    {"aten::tile", by_part},
    {"aten::trace", by_part},
    {"aten::tril", by_part},
    {"aten::triu", by_part},
    {"aten::unflatten.int", by_part},
    {"aten::unfold", by_part},
    {"aten::vstack", by_part},
    {"aten::where.self", by_part},
    {"aten::zeros", zeros},
    {"aten::zeros_like", zeros},
};

}  // namespace

std::span<const DecompositionRow> complex_movement_rows() { return kComplexMovementRows; }

}  // namespace toroid
