// A Builder's operations but its views (builder_views.cpp) and the operators on tensors (promotion.cpp).
#include "graph/builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/number.h"
#include "graph/operator_scope.h"
#include "graph/shape_error.h"
#include "graph/type_rules.h"
#include "symbolic/real.h"

namespace toroid {

const TensorType& Tensor::type() const { return builder().graph().type(id_); }

sym::Expr Tensor::size(int64_t dim) const {
  const int64_t position = dim < 0 ? dim + rank() : dim;
  if (position < 0 || position >= rank()) shape_error(fmt::format("{} has no dim {}", builder().describe(*this), dim));
  return sizes()[static_cast<size_t>(position)];
}

void Tensor::throw_undefined() const {
  shape_error(absent_ == nullptr ? "a tensor is None, but its elements are needed"
                                 : fmt::format("argument '{}' is None, but it is needed here", absent_->name));
}

std::string Builder::describe(Tensor x) const {
  const std::string parameter = scope_ == nullptr ? "" : scope_->parameter_of(x);
  if (parameter.empty()) return fmt::format("a tensor {}", to_string(x.type()));
  return fmt::format("argument '{}' ({})", parameter, to_string(x.type()));
}

void Builder::spend(sym::Expr count, std::string_view what) {
  if (!count.is_const()) return;
  if (count.value() > steps_left_) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} {} are more than one operator may take ({})", count.value(), what, kMaxSteps))
        .help("make the size smaller, or split the operator in the model");
  }
  steps_left_ -= std::max<int64_t>(count.value(), 0);
}

namespace {

// What is given rather than computed.
bool is_leaf(const Op& op) {
  return std::holds_alternative<Input>(op) || std::holds_alternative<Constant>(op) || std::holds_alternative<HigherOrder>(op);
}

// What no tensor has, whatever made it.
void require_possible(const Op& op, const TensorType& type, const OperatorScope* scope) {
  const auto maker = [&] { return scope == nullptr ? to_string(op) : scope->schema().name; };
  if (!is_leaf(op) && !is_computed(type.dtype)) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("{} would need a tensor of {}, which is not computed with", maker(), to_string(type.dtype)))
        .help("convert to another dtype in the model");
  }
  int64_t bytes = size_bytes(type.dtype);
  bool is_empty = false, is_too_large = false, overflows = false;
  for (sym::Expr size : type.sizes) {
    if (!sym::known_lt(size, 0)) continue;
    shape_error(fmt::format("{} would need a tensor of shape {}, where a size is negative", maker(), shape_text(type.sizes)));
  }
  for (sym::Expr size : type.sizes) {
    if (!size.is_const()) return;
    is_empty = is_empty || size.is_const(0);
    if (size.is_const(0)) continue;
    overflows = overflows || __builtin_mul_overflow(bytes, size.value(), &bytes);
    is_too_large = is_too_large || overflows || bytes > kMaxTensorBytes;
  }
  if (is_empty ? !overflows : !is_too_large) return;
  throw Error(ErrorKind::Unsupported,
              fmt::format("{} would need a tensor {}, more than {} bytes", maker(), to_string(type), kMaxTensorBytes))
      .help("no machine holds such a tensor: make its sizes smaller");
}

// A size that a call's sizes could make negative is a fact about the call.
void guard_sizes(const std::vector<TensorType>& types, std::vector<sym::Expr>& guards) {
  for (const TensorType& type : types) {
    for (sym::Expr size : type.sizes) {
      if (!size.is_const() && size.range().min < 0) may_hold(sym::le(0, size), &guards);
    }
  }
}

}  // namespace

void Builder::set_provenance(ProvenanceId provenance, std::string name_hint) {
  provenance_ = provenance;
  name_hint_ = std::move(name_hint);
}

std::vector<TensorType> Builder::types_by_rule(const Op& op, const std::vector<Tensor>& inputs,
                                               const std::vector<TensorType>& declared) const {
  std::vector<const TensorType*> operands;
  for (const Tensor& input : inputs) operands.push_back(&input.type());
  return result_types(op, operands, declared, guards_);
}

// `check` runs before a node is made.
template <class Check>
std::vector<Tensor> Builder::add(Op op, std::vector<Tensor> inputs, std::vector<TensorType> types, Check check) {
  std::vector<ValueId> ids;
  std::string key = to_string(op);
  for (const Tensor& input : inputs) {
    ids.push_back(input.id());
    key += fmt::format(" %{}", static_cast<uint32_t>(input.id()));
  }
  for (const TensorType& type : types) key += " " + to_string(type);
  if (scope_ != nullptr) spend(1, "steps");
  auto made = made_.find(key);
  if (made == made_.end()) {
    for (const TensorType& type : types) require_possible(op, type, scope_);
    if (guards_ != nullptr && !is_leaf(op)) guard_sizes(types, *guards_);
    check(op, inputs, types);
    std::vector<std::string> names(types.size(), name_hint_);
    const NodeId node = graph_.add_node(std::move(op), std::move(ids), std::move(types), provenance_, std::move(names));
    made = made_.emplace(std::move(key), node).first;
  }
  std::vector<Tensor> results;
  for (ValueId output : graph_.node(made->second).outputs) results.push_back(wrap(output));
  return results;
}

// What the operation gives is as its rule says, so that arguments that do not fit are found where their operator is known.
std::vector<Tensor> Builder::emit(Op op, std::vector<Tensor> inputs, std::vector<TensorType> types) {
  const auto follow_rule = [this](const Op& op, const std::vector<Tensor>& inputs, const std::vector<TensorType>& types) {
    const std::vector<TensorType> ruled = types_by_rule(op, inputs, types);
    for (size_t i = 0; i < types.size(); ++i) {
      if (i < ruled.size() && may_agree(ruled[i], types[i])) continue;
      shape_error(
          fmt::format("{} gives {}, not {}", to_string(op), i < ruled.size() ? to_string(ruled[i]) : "nothing", to_string(types[i])));
    }
  };
  return add(std::move(op), std::move(inputs), std::move(types), follow_rule);
}

std::vector<Tensor> Builder::emit(Op op, std::vector<Tensor> inputs) {
  std::vector<TensorType> types = types_by_rule(op, inputs, {});
  return add(std::move(op), std::move(inputs), std::move(types), [](const auto&...) {});
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
  if (is_symbolic && dtype != DType::I64 && dtype != DType::F32 && dtype != DType::F64)
    return cast(full(std::move(sizes), DType::I64, value), dtype);
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
    require(operands[i].dtype() == operands[first].dtype(), "operands of {} have dtypes {} and {}", to_string(op),
            to_string(operands[first].dtype()), to_string(operands[i].dtype()));
  }
  require(first == 0 || operands[0].dtype() == DType::Bool, "the condition of where is {}", to_string(operands[0].dtype()));
  for (Tensor& operand : operands) operand = expand(operand, sizes);
  const DType dtype = result_dtype(op, operands[first].dtype());
  return emit(Pointwise{op}, std::move(operands), {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
}

Tensor Builder::cast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (is_complex(dtype) || is_complex(x.dtype())) {
    throw Error(ErrorKind::Unsupported,
                fmt::format("cannot convert {} to {}: complex tensors are not supported", to_string(x.dtype()), to_string(dtype)));
  }
  return emit(Cast{}, {x}, {{.dtype = dtype, .sizes = x.sizes()}})[0];
}

Tensor Builder::bitcast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  require(size_bytes(x.dtype()) == size_bytes(dtype), "a bitcast keeps the element size");
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
  require(static_cast<int64_t>(indices.size()) == x.rank(), "gather needs one index tensor per dim");
  if (indices.empty()) return x;
  Sizes sizes = indices[0].sizes();
  for (const Tensor& index : indices) sizes = broadcast(sizes, index.sizes());
  std::vector<Tensor> operands = {x};
  for (const Tensor& index : indices) operands.push_back(expand(cast(index, DType::I64), sizes));
  const DType dtype = x.dtype();
  return emit(Gather{}, std::move(operands), {{.dtype = dtype, .sizes = std::move(sizes)}})[0];
}

Tensor Builder::scatter(Tensor base, Tensor source, std::vector<Tensor> indices, ScatterMode mode) {
  require(static_cast<int64_t>(indices.size()) == base.rank(), "scatter needs one index tensor per dim");
  require(base.dtype() == source.dtype(), "scatter of {} into {}", to_string(source.dtype()), to_string(base.dtype()));
  Sizes sizes = source.sizes();
  for (const Tensor& index : indices) sizes = broadcast(sizes, index.sizes());
  std::vector<Tensor> operands = {base, expand(source, sizes)};
  for (const Tensor& index : indices) operands.push_back(expand(cast(index, DType::I64), sizes));
  return emit(Scatter{mode}, std::move(operands))[0];
}

// ---- reductions --------------------------------------------------------------------------------------------------------

std::vector<Tensor> Builder::reduce(ReduceOp op, Tensor x, const Dims& dims, std::optional<DType> dtype) {
  std::vector<int> over;
  for (int64_t dim : wrap_dims(dims, x.rank())) over.push_back(static_cast<int>(dim));
  if (op == ReduceOp::Any || op == ReduceOp::All) x = cast(x, DType::Bool);
  const Reduce reduction{op, std::move(over)};
  if (!dtype || *dtype == x.dtype()) return emit(reduction, {x});
  return emit(reduction, {x}, types_by_rule(reduction, {x}, {{.dtype = *dtype}}));
}

Tensor Builder::mean(Tensor x, const Dims& dims) {
  sym::Expr count = 1;
  for (int64_t dim : wrap_dims(dims, x.rank())) count = count * x.size(dim);
  if (x.dtype() != DType::F32) return binary(ScalarOp::Div, sum(x, dims), Scalar(count));
  return cast(binary(ScalarOp::Div, reduce(ReduceOp::Sum, x, dims, DType::F64)[0], Scalar(count)), DType::F32);
}

std::vector<Tensor> Builder::scan(ScanOp op, Tensor x, int64_t dim) {
  return emit(Scan{op, static_cast<int>(wrap_dim(dim, x.rank()))}, {x});
}

std::pair<Tensor, Tensor> Builder::sort(Tensor x, int64_t dim, bool descending, bool stable) {
  const std::vector<Tensor> results = emit(Sort{static_cast<int>(wrap_dim(dim, x.rank())), descending, stable}, {x});
  return {results[0], results[1]};
}

// ---- kept whole --------------------------------------------------------------------------------------------------------

Tensor Builder::matmul(Tensor a, Tensor b) {
  if (a.rank() < 2 || b.rank() < 2) shape_error("matmul needs tensors of rank 2 or more");
  require(a.dtype() == b.dtype(), "matmul of {} and {}", to_string(a.dtype()), to_string(b.dtype()));
  require_equal(a.size(-1), b.size(-2), fmt::format("matmul of {} and {}", shape_text(a.sizes()), shape_text(b.sizes())));
  Sizes batch = broadcast(a.sizes().without_last(2), b.sizes().without_last(2));
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
  const size_t spatial = static_cast<size_t>(x.rank() - 2);
  if (x.rank() < 3 || weight.rank() != x.rank()) {
    shape_error(fmt::format("convolution of {} with weight {}", shape_text(x.sizes()), shape_text(weight.sizes())));
  }
  require(stride.size() == spatial && padding.size() == spatial && dilation.size() == spatial && output_padding.size() == spatial,
          "convolution of {}: stride, padding, dilation and output_padding need {} entries each", shape_text(x.sizes()), spatial);
  require_equal(transposed ? weight.size(0) : weight.size(1) * groups, x.size(1), "convolution channels");
  std::vector<Tensor> inputs = {x, weight};
  if (bias.defined()) inputs.push_back(bias);
  const Convolution op{std::move(stride), std::move(padding), std::move(dilation), std::move(output_padding), transposed, groups};
  const TensorType type = types_by_rule(op, inputs, {})[0];
  for (sym::Expr size : type.sizes) {
    if (!sym::known_lt(size, 0)) continue;
    shape_error(fmt::format("convolution of {} with weight {} has a size of {}", shape_text(x.sizes()), shape_text(weight.sizes()),
                            sym::to_string(size)));
  }
  return emit(op, std::move(inputs), {type})[0];
}

Tensor Builder::attention(Tensor q, Tensor k, Tensor v, Tensor mask, bool causal, double scale) {
  std::vector<Tensor> inputs = {q, k, v};
  if (mask.defined()) inputs.push_back(mask);
  return emit(Attention{causal, scale}, std::move(inputs))[0];
}

std::vector<Tensor> Builder::library(std::string name, std::vector<Tensor> inputs, std::vector<TensorType> outputs,
                                     std::vector<Scalar> attributes) {
  return emit(Library{std::move(name), std::move(attributes)}, std::move(inputs), std::move(outputs));
}

}  // namespace toroid
