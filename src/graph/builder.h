// Builds core-level graphs: every emitter infers its result's type, and equal nodes are made once (common subexpressions
// never arise). Tensor is a handle with operators, so that a decomposition reads like its formula:
//
//   Tensor mean = b.mean(x, {-1});
//   Tensor y = (x - b.keep(mean, {-1})) * 2.0;
//
// Dims may be negative and count from the end. Emitters throw Error{InvalidModel} when shapes cannot fit. Where two symbolic
// sizes must agree and cannot be proven to, a guard is recorded.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace toroid {

class Builder;
class OperatorScope;

// A value being built. Arithmetic operators broadcast and promote as PyTorch does; two integers divided by `/` give F32.
//
// A tensor may be undefined: an argument that is None. All but defined() throws Error{InvalidModel} then.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Builder& builder, ValueId id) : builder_(&builder), id_(id) {}
  // Undefined: the argument of this parameter, which lives as long as its schema.
  explicit Tensor(const Parameter& absent) : absent_(&absent) {}

  bool defined() const { return builder_ != nullptr; }
  ValueId id() const { return require_defined(), id_; }
  Builder& builder() const { return require_defined(), *builder_; }
  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  const Sizes& sizes() const { return type().sizes; }
  int64_t rank() const { return type().rank(); }
  sym::Expr size(int64_t dim) const;  // dim may be negative; throws Error{InvalidModel} when out of range
  sym::Expr numel() const { return type().numel(); }

 private:
  void require_defined() const {
    if (builder_ == nullptr) [[unlikely]]
      throw_undefined();
  }
  [[noreturn]] void throw_undefined() const;

  Builder* builder_ = nullptr;
  const Parameter* absent_ = nullptr;
  ValueId id_{};
};

using Dims = List<int64_t>;
using Tensors = List<Tensor>;

// What a Builder makes for one operator, at most: nodes, and turns of loops as long as an argument says. Some 0.5 s and 100 MB.
inline constexpr int64_t kMaxSteps = 1 << 17;
// Of one tensor: more than any machine has, and far from where offsets overflow.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 47;

class Builder {
 public:
  // `guards` receives facts that could not be proven: equal sizes, sizes of at least 0. It may be null, then an unproven equality throws.
  Builder(Graph& graph, sym::Context& symbols, std::vector<sym::Expr>* guards = nullptr)
      : graph_(graph), symbols_(symbols), guards_(guards) {}

  Graph& graph() { return graph_; }
  sym::Context& symbols() { return symbols_; }
  Tensor wrap(ValueId id) { return Tensor(*this, id); }
  // Nodes made from now on carry this provenance, and their values names made from `name_hint`.
  void set_provenance(ProvenanceId provenance, std::string name_hint = {});

  // ---- leaves
  Tensor full(Sizes sizes, DType dtype, Scalar value);
  Tensor scalar(DType dtype, Scalar value) { return full({}, dtype, value); }
  Tensor iota(Sizes sizes, int64_t dim, DType dtype = DType::I64);
  // start + step*i for i in [0, count), as I64 or another dtype.
  Tensor arange(sym::Expr count, sym::Expr start = 0, sym::Expr step = 1, DType dtype = DType::I64);
  Tensor random_state();  // I64 [2]: seed and call, the same node each time
  Tensor constant(ConstantId id, TensorType type, std::string name);

  // ---- element by element. Operands are broadcast; pointwise() needs equal dtypes already (Where: Bool, T, T).
  Tensor pointwise(ScalarOp op, std::vector<Tensor> operands);
  Tensor cast(Tensor x, DType dtype);
  Tensor bitcast(Tensor x, DType dtype);
  Tensor where(Tensor condition, Tensor a, Tensor b);  // promotes a and b
  // Broadcasts and promotes as torch does, then applies.
  Tensor binary(ScalarOp op, Tensor a, Tensor b);
  Tensor binary(ScalarOp op, Tensor a, Scalar b);
  Tensor binary(ScalarOp op, Scalar a, Tensor b);
  Tensor unary(ScalarOp op, Tensor x) { return pointwise(op, {x}); }

  // ---- views
  Tensor expand(Tensor x, const Sizes& sizes);  // may add leading dims
  Tensor permute(Tensor x, const Dims& dims);
  Tensor transpose(Tensor x, int64_t a, int64_t b);
  Tensor reshape(Tensor x, Sizes sizes);    // one size may be -1
  Tensor squeeze(Tensor x, int64_t dim);    // the dim must have size 1
  Tensor unsqueeze(Tensor x, int64_t dim);  // dim in [-rank-1, rank]
  // After a reduction over `dims` of a tensor of rank `rank(x) + dims.size()`: puts them back with size 1.
  Tensor keep(Tensor x, const Dims& dims);
  Tensor slice(Tensor x, int64_t dim, sym::Expr start, sym::Expr length, sym::Expr step = 1);
  Tensor slice(Tensor x, Sizes starts, Sizes steps, Sizes sizes);
  Tensor select(Tensor x, int64_t dim, sym::Expr index);  // index in [0, size)
  Tensor flip(Tensor x, const Dims& dims);
  // out[axes] = x[index]; axes are made with axis() and give the shape by their extents.
  Tensor remap(Tensor x, std::vector<sym::Expr> axes, std::vector<sym::Expr> index);
  sym::Expr axis(sym::Expr extent) { return symbols_.axis(extent, "a"); }
  Tensor pad(Tensor x, Sizes low, Sizes high, Scalar value);  // amounts >= 0
  Tensor cat(const std::vector<Tensor>& parts, int64_t dim);  // dtypes equal
  Tensor stack(const std::vector<Tensor>& parts, int64_t dim);

  // ---- indexing. Index tensors are integers in bounds (already wrapped), broadcast together.
  Tensor gather(Tensor x, std::vector<Tensor> indices);
  Tensor scatter(Tensor base, Tensor source, std::vector<Tensor> indices, ScatterMode mode);

  // ---- reductions; the dims vanish. An empty `dims` reduces over all of them. Sums and moments of F32 may be given as F64.
  std::vector<Tensor> reduce(ReduceOp op, Tensor x, const Dims& dims, std::optional<DType> dtype = {});
  Tensor sum(Tensor x, const Dims& dims) { return reduce(ReduceOp::Sum, x, dims)[0]; }
  Tensor mean(Tensor x, const Dims& dims);  // floating x; accumulates in x's dtype
  Tensor amax(Tensor x, const Dims& dims) { return reduce(ReduceOp::Max, x, dims)[0]; }
  Tensor amin(Tensor x, const Dims& dims) { return reduce(ReduceOp::Min, x, dims)[0]; }
  std::vector<Tensor> scan(ScanOp op, Tensor x, int64_t dim);
  std::pair<Tensor, Tensor> sort(Tensor x, int64_t dim, bool descending, bool stable);

  // ---- kept whole
  Tensor matmul(Tensor a, Tensor b);  // batch dims are broadcast; ranks >= 2; dtypes equal
  // bias may be undefined. `stride` … have one entry per spatial dim.
  Tensor convolution(Tensor x, Tensor weight, Tensor bias, Sizes stride, Sizes padding, Sizes dilation, bool transposed,
                     Sizes output_padding, sym::Expr groups);
  Tensor attention(Tensor q, Tensor k, Tensor v, Tensor mask, bool causal, double scale);  // mask may be undefined
  std::vector<Tensor> library(std::string name, std::vector<Tensor> inputs, std::vector<TensorType> outputs,
                              std::vector<Scalar> attributes = {});

  // ---- helpers
  // "argument 'self' (f32[2, 3])" for what the operator at hand was called with, else "a tensor f32[2, 3]".
  std::string describe(Tensor x) const;
  // Throws Error{Unsupported} when an operator would take more than kMaxSteps steps, those of emit() and `count` more. Loops whose length
  // is in the arguments ask before they begin.
  void spend(sym::Expr count, std::string_view what);
  int64_t wrap_dim(int64_t dim, int64_t rank) const;  // throws Error{InvalidModel} when out of range
  Dims wrap_dims(Dims dims, int64_t rank) const;      // sorted, unique; empty means all
  Sizes broadcast(const Sizes& a, const Sizes& b);
  // Records that a == b must hold (throws when it provably cannot).
  void require_equal(sym::Expr a, sym::Expr b, std::string_view what);
  std::vector<Tensor> emit(Op op, std::vector<Tensor> inputs, std::vector<TensorType> types);
  std::vector<Tensor> emit(Op op, std::vector<Tensor> inputs);  // with the types that its rule gives (type_rules.h)

 private:
  friend OperatorScope;
  std::vector<TensorType> types_by_rule(const Op& op, const std::vector<Tensor>& inputs, const std::vector<TensorType>& declared) const;
  template <class Check>
  std::vector<Tensor> add(Op op, std::vector<Tensor> inputs, std::vector<TensorType> types, Check check);

  Graph& graph_;
  sym::Context& symbols_;
  std::vector<sym::Expr>* guards_;
  const OperatorScope* scope_ = nullptr;  // of the operator at hand
  int64_t steps_left_ = kMaxSteps;
  ProvenanceId provenance_{};
  std::string name_hint_;
  std::unordered_map<std::string, NodeId> made_;  // node text -> node
};

// The dtype PyTorch gives an operation on these tensors (dimensioned tensors outrank rank-0 ones of their class).
DType result_dtype(std::span<const Tensor> tensors);
// That of a Python number alone: Bool, I64 or F32. Numbers computed in doubles (symbolic/real.h) are floats.
DType number_dtype(const Scalar& number);
// … and with a Python number beside a tensor.
DType result_dtype(Tensor tensor, const Scalar& number);

Tensor operator+(Tensor a, Tensor b);
Tensor operator-(Tensor a, Tensor b);
Tensor operator*(Tensor a, Tensor b);
Tensor operator/(Tensor a, Tensor b);  // true division
Tensor operator+(Tensor a, double b);
Tensor operator-(Tensor a, double b);
Tensor operator*(Tensor a, double b);
Tensor operator/(Tensor a, double b);
Tensor operator+(double a, Tensor b);
Tensor operator-(double a, Tensor b);
Tensor operator*(double a, Tensor b);
Tensor operator/(double a, Tensor b);
Tensor operator-(Tensor a);

// Text of an operation and its attributes, without operands: "reduce.sum(dims=[1])". Equal operations have equal text.
std::string to_string(const Op& op);
std::string to_string(const Scalar& scalar);
std::string to_string(const TensorType& type);  // "f32[s0, 128]"

}  // namespace toroid
