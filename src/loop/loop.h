// The loop IR: a list of computations over explicit axes, each defining buffers by a scalar expression.
//
//   out[i0, i1] = x[i0, i1] * exp(y[i1])            Map
//   s[i0]       = sum over r0 of x[i0, r0]          Reduction
//
// Scalar expressions form a DAG of interned nodes: equal expressions have equal ids, so common subexpressions are shared
// by construction. Indices are symbolic integer expressions (sym::Expr) over axes, sizes and "value symbols", which stand for
// integers computed by an expression (an index read from a tensor).
//
// Meaning. Expressions have one of the compute dtypes: Bool, U8, I8, I16, I32, I64, F32, F64; a load from an F16 or BF16 buffer
// gives F32, and a store rounds. Masked{c, a, b} is a where c holds, else b, and loads inside a happen only where c
// holds. Integer arithmetic wraps. Computations run in order.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace toroid::loop {

enum class ExprId : uint32_t {};
enum class BufferId : uint32_t {};
enum class AccumulatorId : uint32_t {};  // the result of a reduction inside the kernel at hand
enum class StashId : uint32_t {};        // a row of values kept between the stages of a kernel

struct Literal {
  Scalar value;
};  // of the node's dtype
struct Index {
  sym::Expr value;
};  // an integer expression as an I64
struct Load {
  BufferId buffer;
  std::vector<sym::Expr> index;
};  // one index per dim of the buffer
struct Compute {
  ScalarOp op;
  std::vector<ExprId> operands;
};
struct Convert {
  ExprId operand;
};  // to the node's dtype
struct BitcastTo {
  ExprId operand;
  DType from, to;
};  // storage dtypes: bits of `from` read as `to`. Of a float as itself: rounded
struct Masked {
  ExprId condition, value, otherwise;
};
struct Accumulated {
  AccumulatorId id;
};  // kernels only
struct Stashed {
  StashId id;
};  // kernels only

using ExprOp = std::variant<Literal, Index, Load, Compute, Convert, BitcastTo, Masked, Accumulated, Stashed>;

// The dtype that a kernel computes in with elements of a buffer.
inline DType register_dtype(DType storage) { return is_reduced_float(storage) ? DType::F32 : storage; }

struct ExprNode {
  ExprOp op;
  DType dtype;
  ProvenanceId origin{0};  // the model's operator that needed it first; of the graph that was lowered
};

// What a value symbol stands for: `index`, which must lie in [0, size).
struct ValueSymbol {
  ExprId index;
  sym::Expr size;
};

class ExprTable {
 public:
  explicit ExprTable(sym::Context& symbols) : symbols_(symbols) {}

  ExprId add(ExprOp op, DType dtype);
  // Nodes made from now on come from this operator of the model. Rewritten nodes keep their own.
  void set_origin(ProvenanceId origin) { origin_ = origin; }
  ProvenanceId origin() const { return origin_; }
  const ExprNode& node(ExprId id) const { return nodes_[static_cast<size_t>(id)]; }
  DType dtype(ExprId id) const { return node(id).dtype; }
  // What the literal `id` is, where it is one and holds a T: bool, double, or sym::Expr of integers.
  template <class T>
  const T* literal_as(ExprId id) const {
    const auto* literal = std::get_if<Literal>(&node(id).op);
    return literal == nullptr ? nullptr : std::get_if<T>(&literal->value);
  }
  size_t size() const { return nodes_.size(); }
  sym::Context& symbols() const { return symbols_; }

  // Shorthands that fold what is constant. F16 and BF16 mean F32 here.
  ExprId literal(Scalar value, DType dtype);
  ExprId index(sym::Expr value, DType dtype = DType::I64);
  ExprId load(BufferId buffer, std::vector<sym::Expr> index, DType storage);
  ExprId compute(ScalarOp op, std::vector<ExprId> operands);
  ExprId convert(ExprId operand, DType dtype);
  ExprId masked(ExprId condition, ExprId value, ExprId otherwise);

  // `id` as an index below `size`: the symbolic expression it is, or a value symbol for it.
  sym::Expr as_index(ExprId id, sym::Expr size);
  const ValueSymbol* value_symbol(sym::Expr symbol) const;  // null for other symbols
  // Makes the value symbol with this name: for a text that is read. The name must be free, which sym::named_value checks.
  sym::Expr define_value(std::string_view name, ExprId id, sym::Expr size);

  // Operands that are expressions, including those behind the value symbols of its indices.
  std::vector<ExprId> operands(ExprId id) const;

  // The expression with axes replaced; `leaf` may replace a node outright (nullopt descends). `memo` serves several calls
  // with the same axes and leaf.
  using Leaf = std::function<std::optional<ExprId>(ExprId)>;
  using Memo = std::unordered_map<ExprId, ExprId>;
  ExprId rewrite(ExprId id, const sym::Substitution& axes, const Leaf& leaf, Memo& memo);
  sym::Expr rewrite_index(sym::Expr index, const sym::Substitution& axes, const Leaf& leaf, Memo& memo);
  ExprId substitute(ExprId id, const sym::Substitution& axes);

 private:
  std::optional<sym::Expr> symbolic(ExprId id) const;
  std::optional<ExprId> comparison(ScalarOp op, const std::vector<ExprId>& operands);
  std::optional<ExprId> condition(ScalarOp op, const std::vector<ExprId>& operands);

  sym::Context& symbols_;
  ProvenanceId origin_{0};
  std::vector<ExprNode> nodes_;
  std::unordered_map<std::string, ExprId> interned_;
  std::unordered_map<sym::Expr, ValueSymbol> values_;
  std::unordered_map<std::string, sym::Expr> value_of_expr_;
};

// Prepared: computed from constants alone, once for all calls.
enum class BufferKind : uint8_t { Input, Constant, Output, Temporary, RandomState, Prepared };

struct Buffer {
  std::string name;
  DType dtype;
  std::vector<sym::Expr> sizes;
  std::vector<sym::Expr> strides;  // in elements
  BufferKind kind = BufferKind::Temporary;
  uint32_t position = 0;                    // of the input, constant or output
  std::optional<uint32_t> updated_by = {};  // of a constant that calls write: the main graph's output that is its new value
  bool on_host = false;                     // of a program for a GPU: in the process's memory; else where the program's tensors are
  // Rows lie further apart than they are long, and the memory behind each, the last one too, is the buffer's own.
  bool has_padded_rows = false;
};
// From the first element to the end of the memory that a temporary or prepared buffer has: as many as it has elements, or rows times their
// stride.
sym::Expr elements_in_memory(const Buffer& buffer);
// Does the buffer lie as padded rows do: the last dim contiguous, and all dims before it dense but for a constant stride of rows, which is
// larger than they are?
bool lies_in_padded_rows(const Buffer& buffer);
// Is it the constant's new value? A program may have both in the same memory.
inline bool updates(const Buffer& output, const Buffer& constant) {
  return output.kind == BufferKind::Output && constant.kind == BufferKind::Constant && constant.updated_by == output.position;
}

// out[axes] = value, for every value of the axes.
struct Map {
  std::vector<sym::Expr> axes;
  ExprId value;
};
// How a sum of F32 is added up, where errors are to be smaller than those of usual sums (docs/accuracy.md).
enum class SumCare : uint8_t {
  Usual,
  Fine,  // in shorter blocks
  Finest,  // so too, and what several lanes have is added in double: a result in F64 is not rounded before. For sums that elements do not wait for
};
// out[axes] = combination of value over reduce_axes. ArgMin and ArgMax yield the row-major position among reduce_axes.
struct Reduction {
  std::vector<sym::Expr> axes;
  std::vector<sym::Expr> reduce_axes;
  ReduceOp op;
  ExprId value;
  SumCare care = SumCare::Usual;
};
// out[.., i, ..] = combination of value over axes[dim] <= i.
struct ScanLoop {
  std::vector<sym::Expr> axes;
  size_t dim;
  ScanOp op;
  ExprId value;
};
// out = base; then in row-major order of axes: out[index] op= value.
struct ScatterLoop {
  BufferId base;
  std::vector<sym::Expr> axes;
  std::vector<sym::Expr> index;
  ScatterMode mode;
  ExprId value;
};
// A strided window on a buffer, as a library call sees it. Strides and offset in elements.
struct Operand {
  BufferId buffer;
  std::vector<sym::Expr> sizes;
  std::vector<sym::Expr> strides;
  sym::Expr offset;
};
// What an attention computes of its products, for its softmax (passes/attention/write_scores.h): `value` at [batch, head, query, key], an
// F32 in which the accumulator 0 stands for the product of the query and the key. Where `visible`, a Bool that does not depend on the
// product, is false, the score does not count.
struct Scores {
  std::vector<sym::Expr> axes;  // four
  ExprId value;
  std::optional<ExprId> visible;
  std::vector<BufferId> reads;  // what both load, each once: Scores::of
  static Scores of(const ExprTable& exprs, std::vector<sym::Expr> axes, ExprId value, std::optional<ExprId> visible);
};
// A node that stays whole: Matmul, Convolution, Attention, Sort, Library, HigherOrder. Outputs are contiguous, and so are the
// operands of a HigherOrder.
struct Call {
  Op op;
  std::vector<Operand> operands;
  std::optional<Scores> scores = {};
};
std::vector<ExprId> roots(const Scores& scores);
// The integer in a buffer of one element is what `expr` stands for from here on (Graph::bindings).
struct Bind {
  sym::Expr expr;
  BufferId value;
};

using Work = std::variant<Map, Reduction, ScanLoop, ScatterLoop, Call, Bind>;

struct Computation {
  Work work;
  std::vector<BufferId> outputs;
  std::string name;  // from the source operators
  std::vector<ProvenanceId> provenance;
};

struct LoopProgram {
  explicit LoopProgram(sym::Context& symbols) : exprs(symbols) {}

  ExprTable exprs;
  std::vector<Buffer> buffers;
  std::vector<Computation> computations;

  Buffer& buffer(BufferId id) { return buffers[static_cast<size_t>(id)]; }
  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id)]; }
  BufferId add_buffer(Buffer buffer);
};

// Of a program for a GPU: does the processor compute it? One for another memory reads and writes that alone, but for a copy.
bool is_on_host(const LoopProgram& program, const Computation& computation);
// Every expression a computation evaluates, indices included.
std::vector<ExprId> roots(const LoopProgram& program, const Computation& computation);
// Buffers read by a computation, each once.
std::vector<BufferId> reads(const LoopProgram& program, const Computation& computation);
// Size symbols that a computation needs the values of, each once.
std::vector<sym::Expr> size_symbols(const LoopProgram& program, const Computation& computation);
// Every expression reachable from `roots`, each once, operands before users.
std::vector<ExprId> reachable(const ExprTable& exprs, const std::vector<ExprId>& roots);

// As in the text form (text.h), shared parts and all.
std::string to_string(const LoopProgram& program, ExprId id);

}  // namespace toroid::loop
