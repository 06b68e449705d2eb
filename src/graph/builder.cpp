// A Builder's operations but its views (builder_views.cpp) and the operators on tensors (promotion.cpp).
#include "graph/builder.h"

#include <algorithm>

#include "graph/number.h"
#include "graph/shape_error.h"
#include "symbolic/real.h"

namespace toroid {

const TensorType& Tensor::type() const { return builder_->graph().type(id_); }
sym::Expr Tensor::size(int64_t dim) const {
  const int64_t position = dim < 0 ? dim + rank() : dim;
  if (position < 0 || position >= rank()) shape_error(fmt::format("a tensor of rank {} has no dim {}", rank(), dim));
  return sizes()[static_cast<size_t>(position)];
}

void Builder::set_provenance(ProvenanceId provenance, std::string name_hint) {
  provenance_ = provenance;
  name_hint_ = std::move(name_hint);
}

std::vector<Tensor> Builder::emit(Op op, std::vector<Tensor> inputs, std::vector<TensorType> types) {
  std::vector<ValueId> ids;
  std::string key = to_string(op);
  for (const Tensor& input : inputs) {
    ids.push_back(input.id());
    key += fmt::format(" %{}", static_cast<uint32_t>(input.id()));
  }
  for (const TensorType& type : types) key += " " + to_string(type);
  auto [slot, is_new] = made_.try_emplace(std::move(key), NodeId{});
  if (is_new) {
    std::vector<std::string> names(types.size(), name_hint_);
    slot->second = graph_.add_node(std::move(op), std::move(ids), std::move(types), provenance_, std::move(names));
  }
  std::vector<Tensor> results;
  for (ValueId output : graph_.node(slot->second).outputs) results.push_back(wrap(output));
  return results;
}

// ---- helpers -----------------------------------------------------------------------------------------------------------

int64_t Builder::wrap_dim(int64_t dim, int64_t rank) const {
  const int64_t bound = std::max<int64_t>(rank, 1);
  if (dim < -bound || dim >= bound) {
    shape_error(fmt::format("dimension {} is out of range for a tensor of rank {}", dim, rank));
  }
  return dim < 0 ? dim + bound : dim;
}

Dims Builder::wrap_dims(Dims dims, int64_t rank) const {
  if (dims.empty()) {
    for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
    return dims;
  }
  if (rank == 0) {
    for (int64_t dim : dims) wrap_dim(dim, rank);
    return {};
  }
  for (int64_t& dim : dims) dim = wrap_dim(dim, rank);
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end()) shape_error("a dimension appears twice in a list of dims");
  return dims;
}

void Builder::require_equal(sym::Expr a, sym::Expr b, std::string_view what) {
  if (sym::known_eq(a, b)) return;
  if (sym::known_ne(a, b) || guards_ == nullptr) {
    shape_error(fmt::format("{}: sizes {} and {} do not agree", what, sym::to_string(a), sym::to_string(b)));
  }
  const sym::Expr guard = sym::eq(a, b);
  if (std::find(guards_->begin(), guards_->end(), guard) == guards_->end()) guards_->push_back(guard);
}

Sizes Builder::broadcast(const Sizes& a, const Sizes& b) {
  const size_t rank = std::max(a.size(), b.size());
  Sizes out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const sym::Expr x = i < a.size() ? a[a.size() - 1 - i] : sym::Expr(1);
    const sym::Expr y = i < b.size() ? b[b.size() - 1 - i] : sym::Expr(1);
    sym::Expr& size = out[rank - 1 - i];
    if (x.is_const(1)) {
      size = y;
    } else if (y.is_const(1) || sym::known_eq(x, y)) {
      size = x;
    } else {
      if (sym::known_ne(x, y)) shape_error(fmt::format("shapes {} and {} do not broadcast", shape_text(a), shape_text(b)));
      require_equal(x, y, "broadcast");
      size = x.is_const() ? x : y;
    }
  }
  return out;
}

// ---- leaves ------------------------------------------------------------------------------------------------------------

Tensor Builder::full(Sizes sizes, DType dtype, Scalar value) {
  if (const auto* e = std::get_if<sym::Expr>(&value); e && sym::is_real(*e)) {
    const Tensor bits = emit(Full{value}, {}, {{.dtype = DType::I64}})[0];
    return expand(cast(bitcast(bits, DType::F64), dtype), sizes);
  }
  value = element_of(dtype, value);
  const bool is_symbolic = std::holds_alternative<sym::Expr>(value) && !std::get<sym::Expr>(value).is_const();
  if (is_symbolic && dtype != DType::I64 && dtype != DType::F32 && dtype != DType::F64) return cast(full(std::move(sizes), DType::I64, value), dtype);
  return emit(Full{value}, {}, {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
}

Tensor Builder::iota(Sizes sizes, int64_t dim, DType dtype) {
  dim = wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  return emit(Iota{static_cast<int>(dim)}, {}, {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
}

Tensor Builder::arange(sym::Expr count, sym::Expr start, sym::Expr step, DType dtype) {
  Tensor index = iota({count}, 0, DType::I64);
  if (!step.is_const(1)) index = pointwise(ScalarOp::Mul, {index, scalar(DType::I64, step)});
  if (!start.is_const(0)) index = pointwise(ScalarOp::Add, {index, scalar(DType::I64, start)});
  return cast(index, dtype);
}

Tensor Builder::random_state() { return emit(RandomState{}, {}, {{.dtype = DType::I64, .sizes = {2}}})[0]; }

Tensor Builder::constant(ConstantId id, TensorType type, std::string name) {
  const std::string saved = std::exchange(name_hint_, std::move(name));
  Tensor result = emit(Constant{id}, {}, {std::move(type)})[0];
  name_hint_ = saved;
  return result;
}

// ---- element by element ------------------------------------------------------------------------------------------------

Tensor Builder::pointwise(ScalarOp op, std::vector<Tensor> operands) {
  TOROID_CHECK(static_cast<int>(operands.size()) == arity(op), "{} takes {} operands", to_string(op), arity(op));
  Sizes sizes = operands[0].sizes();
  for (const Tensor& operand : operands) sizes = broadcast(sizes, operand.sizes());
  const size_t first = op == ScalarOp::Where ? 1 : 0;
  for (size_t i = first; i < operands.size(); ++i) {
    TOROID_CHECK(operands[i].dtype() == operands[first].dtype(), "operands of {} have dtypes {} and {}", to_string(op),
                 to_string(operands[first].dtype()), to_string(operands[i].dtype()));
  }
  TOROID_CHECK(first == 0 || operands[0].dtype() == DType::Bool, "the condition of where is {}", to_string(operands[0].dtype()));
  for (Tensor& operand : operands) operand = expand(operand, sizes);
  const DType dtype = result_dtype(op, operands[first].dtype());
  return emit(Pointwise{op}, std::move(operands), {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
}

Tensor Builder::cast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (is_complex(dtype) || is_complex(x.dtype())) {
    throw Error(ErrorKind::Unsupported, fmt::format("cannot convert {} to {}: complex tensors are not supported",
                                                    to_string(x.dtype()), to_string(dtype)));
  }
  return emit(Cast{}, {x}, {{.dtype = dtype, .sizes = x.sizes()}})[0];
}

Tensor Builder::bitcast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  TOROID_CHECK(size_bytes(x.dtype()) == size_bytes(dtype), "a bitcast keeps the element size");
  return emit(Bitcast{}, {x}, {{.dtype = dtype, .sizes = x.sizes()}})[0];
}

Tensor Builder::where(Tensor condition, Tensor a, Tensor b) {
  const DType dtype = result_dtype(std::vector<Tensor>{a, b});
  return pointwise(ScalarOp::Where, {cast(condition, DType::Bool), cast(a, dtype), cast(b, dtype)});
}

Tensor Builder::binary(ScalarOp op, Tensor a, Tensor b) {
  const DType dtype = result_dtype(std::vector<Tensor>{a, b});
  return pointwise(op, {cast(a, dtype), cast(b, dtype)});
}

Tensor Builder::binary(ScalarOp op, Tensor a, Scalar b) {
  const DType dtype = result_dtype(a, b);
  return pointwise(op, {cast(a, dtype), scalar(dtype, b)});
}

Tensor Builder::binary(ScalarOp op, Scalar a, Tensor b) {
  const DType dtype = result_dtype(b, a);
  return pointwise(op, {scalar(dtype, a), cast(b, dtype)});
}

// ---- indexing ----------------------------------------------------------------------------------------------------------

Tensor Builder::gather(Tensor x, std::vector<Tensor> indices) {
  TOROID_CHECK(static_cast<int64_t>(indices.size()) == x.rank(), "gather needs one index tensor per dim");
  if (indices.empty()) return x;
  Sizes sizes = indices[0].sizes();
  for (const Tensor& index : indices) sizes = broadcast(sizes, index.sizes());
  std::vector<Tensor> operands = {x};
  for (const Tensor& index : indices) operands.push_back(expand(cast(index, DType::I64), sizes));
  const DType dtype = x.dtype();
  return emit(Gather{}, std::move(operands), {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
}

Tensor Builder::scatter(Tensor base, Tensor source, std::vector<Tensor> indices, ScatterMode mode) {
  TOROID_CHECK(static_cast<int64_t>(indices.size()) == base.rank(), "scatter needs one index tensor per dim");
  TOROID_CHECK(base.dtype() == source.dtype(), "scatter of {} into {}", to_string(source.dtype()), to_string(base.dtype()));
  Sizes sizes = source.sizes();
  for (const Tensor& index : indices) sizes = broadcast(sizes, index.sizes());
  std::vector<Tensor> operands = {base, expand(source, sizes)};
  for (const Tensor& index : indices) operands.push_back(expand(cast(index, DType::I64), sizes));
  return emit(Scatter{mode}, std::move(operands), {{.dtype = base.dtype(), .sizes = base.sizes()}})[0];
}

// ---- reductions --------------------------------------------------------------------------------------------------------

std::vector<Tensor> Builder::reduce(ReduceOp op, Tensor x, const Dims& dims) {
  std::vector<int> over;
  for (int64_t dim : wrap_dims(dims, x.rank())) over.push_back(static_cast<int>(dim));
  Sizes sizes;
  for (int d = 0; d < static_cast<int>(x.rank()); ++d) {
    if (!std::binary_search(over.begin(), over.end(), d)) sizes.push_back(x.sizes()[static_cast<size_t>(d)]);
  }
  DType dtype = x.dtype();
  if (op == ReduceOp::Any || op == ReduceOp::All) {
    dtype = DType::Bool;
    x = cast(x, DType::Bool);
  }
  if (op == ReduceOp::ArgMin || op == ReduceOp::ArgMax) dtype = DType::I64;
  TensorType type{.dtype = dtype, .sizes = std::move(sizes)};
  std::vector<TensorType> types(op == ReduceOp::Welford ? 2 : 1, type);
  return emit(Reduce{op, std::move(over)}, {x}, std::move(types));
}

Tensor Builder::mean(Tensor x, const Dims& dims) {
  sym::Expr count = 1;
  for (int64_t dim : wrap_dims(dims, x.rank())) count = count * x.size(dim);
  return binary(ScalarOp::Div, sum(x, dims), Scalar(count));
}

std::vector<Tensor> Builder::scan(ScanOp op, Tensor x, int64_t dim) {
  dim = wrap_dim(dim, x.rank());
  std::vector<TensorType> types = {{.dtype = x.dtype(), .sizes = x.sizes()}};
  if (op == ScanOp::Max || op == ScanOp::Min) types.push_back({.dtype = DType::I64, .sizes = x.sizes()});
  return emit(Scan{op, static_cast<int>(dim)}, {x}, std::move(types));
}

std::pair<Tensor, Tensor> Builder::sort(Tensor x, int64_t dim, bool descending, bool stable) {
  dim = wrap_dim(dim, x.rank());
  std::vector<Tensor> results = emit(Sort{static_cast<int>(dim), descending, stable}, {x},
                                     {{.dtype = x.dtype(), .sizes = x.sizes()}, {.dtype = DType::I64, .sizes = x.sizes()}});
  return {results[0], results[1]};
}

// ---- kept whole --------------------------------------------------------------------------------------------------------

Tensor Builder::matmul(Tensor a, Tensor b) {
  if (a.rank() < 2 || b.rank() < 2) shape_error("matmul needs tensors of rank 2 or more");
  TOROID_CHECK(a.dtype() == b.dtype(), "matmul of {} and {}", to_string(a.dtype()), to_string(b.dtype()));
  require_equal(a.size(-1), b.size(-2), fmt::format("matmul of {} and {}", shape_text(a.sizes()), shape_text(b.sizes())));
  Sizes batch = broadcast(Sizes(a.sizes().begin(), a.sizes().end() - 2), Sizes(b.sizes().begin(), b.sizes().end() - 2));
  auto with = [&](sym::Expr rows, sym::Expr columns) {
    Sizes sizes = batch;
    sizes.push_back(rows);
    sizes.push_back(columns);
    return sizes;
  };
  Sizes sizes = with(a.size(-2), b.size(-1));
  Tensor left = expand(a, with(a.size(-2), a.size(-1)));
  Tensor right = expand(b, with(b.size(-2), b.size(-1)));
  return emit(Matmul{}, {left, right}, {{.dtype = a.dtype(), .sizes = std::move(sizes)}})[0];
}

Tensor Builder::convolution(Tensor x, Tensor weight, Tensor bias, Sizes stride, Sizes padding, Sizes dilation, bool transposed,
                            Sizes output_padding, sym::Expr groups) {
  const size_t spatial = x.sizes().size() - 2;
  if (x.rank() < 3 || weight.rank() != x.rank()) {
    shape_error(fmt::format("convolution of {} with weight {}", shape_text(x.sizes()), shape_text(weight.sizes())));
  }
  TOROID_CHECK(stride.size() == spatial && padding.size() == spatial && dilation.size() == spatial &&
               output_padding.size() == spatial);
  require_equal(transposed ? weight.size(0) : weight.size(1) * groups, x.size(1), "convolution channels");
  Sizes sizes = {x.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (size_t d = 0; d < spatial; ++d) {
    const sym::Expr in = x.sizes()[d + 2];
    const sym::Expr reach = dilation[d] * (weight.sizes()[d + 2] - 1);
    if (transposed) {
      sizes.push_back((in - 1) * stride[d] - padding[d] * 2 + reach + output_padding[d] + 1);
    } else {
      sizes.push_back(sym::floor_div(in + padding[d] * 2 - reach - 1, stride[d]) + 1);
    }
    if (sym::known_lt(sizes.back(), 0)) {
      shape_error(fmt::format("convolution of {} with weight {} has a size of {}", shape_text(x.sizes()), shape_text(weight.sizes()),
                              sym::to_string(sizes.back())));
    }
  }
  std::vector<Tensor> inputs = {x, weight};
  if (bias.defined()) inputs.push_back(bias);
  Convolution op{std::move(stride), std::move(padding), std::move(dilation), std::move(output_padding), transposed, groups};
  return emit(std::move(op), std::move(inputs), {{.dtype = x.dtype(), .sizes = std::move(sizes)}})[0];
}

Tensor Builder::attention(Tensor q, Tensor k, Tensor v, Tensor mask, bool causal, double scale) {
  Sizes sizes = q.sizes();
  sizes.back() = v.size(-1);
  std::vector<Tensor> inputs = {q, k, v};
  if (mask.defined()) inputs.push_back(mask);
  return emit(Attention{causal, scale}, std::move(inputs), {{.dtype = q.dtype(), .sizes = std::move(sizes)}})[0];
}

std::vector<Tensor> Builder::library(std::string name, std::vector<Tensor> inputs, std::vector<TensorType> outputs,
                                     std::vector<Scalar> attributes) {
  return emit(Library{std::move(name), std::move(attributes)}, std::move(inputs), std::move(outputs));
}

}  // namespace toroid
