#include "graph/type_rules.h"

#include <algorithm>

#include "graph/library_rules.h"
#include "graph/number.h"
#include "graph/shape_error.h"
#include "support/match.h"

namespace toroid {
namespace {

// Whether a scalar operation means something on a dtype: bits and shifts are those of integers, roots and logarithms those of floats.
bool is_defined(ScalarOp op, DType dtype) {
  switch (op) {
    case ScalarOp::BitNot:
    case ScalarOp::Gcd:
    case ScalarOp::BitAnd:
    case ScalarOp::BitOr:
    case ScalarOp::BitXor:
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRight: return !is_floating(dtype);
    case ScalarOp::Neg:
    case ScalarOp::Abs:
    case ScalarOp::Sign:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round:
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
    case ScalarOp::SignBit:
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Mul:
    case ScalarOp::FloorDiv:
    case ScalarOp::TruncDiv:
    case ScalarOp::Mod:
    case ScalarOp::Fmod:
    case ScalarOp::Pow:
    case ScalarOp::Min:
    case ScalarOp::Max:
    case ScalarOp::Eq:
    case ScalarOp::Ne:
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Gt:
    case ScalarOp::Ge:
    case ScalarOp::PhiloxLow:
    case ScalarOp::PhiloxHigh:
    case ScalarOp::Where: return true;
    default: return is_floating(dtype);
  }
}

// The least and the greatest of several are taken apart, so that what is asked of a call is short: 0 <= Min(0, s0 - 1) is 0 < s0.
sym::Expr is_at_least(sym::Expr value, sym::Expr bound) {
  if (value.kind() != sym::Kind::Min) return sym::le(bound, value);
  sym::Expr all = 1;
  for (sym::Expr operand : value.operands()) all = sym::logical_and(all, is_at_least(operand, bound));
  return all;
}
sym::Expr is_below(sym::Expr value, sym::Expr bound) {
  if (value.kind() != sym::Kind::Max) return sym::lt(value, bound);
  sym::Expr all = 1;
  for (sym::Expr operand : value.operands()) all = sym::logical_and(all, is_below(operand, bound));
  return all;
}

class Rules {
 public:
  Rules(const Op& op, std::span<const TensorType* const> operands, const std::vector<TensorType>& declared, std::vector<sym::Expr>* guards)
      : op_(op), operands_(operands), declared_(declared), guards_(guards) {}

  std::vector<TensorType> run() {
    return match(op_, [this](const auto& op) { return types(op); });
  }

 private:
  void takes(size_t count) { require(operands_.size() == count, "{} takes {} operands, not {}", to_string(op_), count, operands_.size()); }
  void takes(size_t low, size_t high) {
    require(operands_.size() >= low && operands_.size() <= high, "{} takes {} to {} operands, not {}", to_string(op_), low, high,
            operands_.size());
  }
  const TensorType& operand(size_t i) const { return *operands_[i]; }

  // The one result's type, as the graph says.
  const TensorType& declared() const {
    require(declared_.size() == 1, "{} has one result, and its type must be given", to_string(op_));
    return declared_[0];
  }
  static TensorType tensor(DType dtype, Sizes sizes) { return {.dtype = dtype, .sizes = std::move(sizes)}; }

  void dim_in_range(int64_t dim, int64_t rank) const {
    require(dim >= 0 && dim < rank, "{}: dim {} is not a dim of a rank {} tensor", to_string(op_), dim, rank);
  }
  void same_size(sym::Expr a, sym::Expr b) const {
    require(agree(a, b, guards_), "{}: sizes {} and {} differ", to_string(op_), sym::to_string(a), sym::to_string(b));
  }
  void same_sizes(const Sizes& a, const Sizes& b) const {
    require(a.size() == b.size(), "{}: ranks {} and {} differ", to_string(op_), a.size(), b.size());
    for (size_t d = 0; d < a.size(); ++d) same_size(a[d], b[d]);
  }
  void same_dtype(DType a, DType b) const { require(a == b, "{}: dtypes {} and {} differ", to_string(op_), to_string(a), to_string(b)); }
  void same_count(size_t have, size_t wanted, std::string_view what) const {
    require(have == wanted, "{}: {} {} for {} dims", to_string(op_), have, what, wanted);
  }
  void known_not_negative(sym::Expr value, std::string_view what) const {
    require(!sym::known_lt(value, 0) && may_hold(sym::le(0, value), guards_), "{}: {} {} is negative", to_string(op_), what,
            sym::to_string(value));
  }

  // A symbolic integer is converted where it is used; a number has the dtype's own spelling.
  void number_fits(const Scalar& value, DType dtype) const {
    const auto* expr = std::get_if<sym::Expr>(&value);
    const bool is_symbolic = expr != nullptr && !expr->is_const();
    const bool fits = dtype == DType::Bool ? std::holds_alternative<bool>(value)
                      : is_integral(dtype) ? expr != nullptr && (is_symbolic || wrapped_to(dtype, expr->value()) == expr->value())
                                           : !std::holds_alternative<bool>(value);
    require(fits || is_symbolic, "{} does not fit the dtype {}", to_string(op_), to_string(dtype));
  }

  // ---- one rule an operation

  std::vector<TensorType> types(const Input&) { return takes(0), std::vector{declared()}; }
  std::vector<TensorType> types(const Constant&) { return takes(0), std::vector{declared()}; }
  std::vector<TensorType> types(const Aten& op) {
    same_count(op.arguments.size(), op.schema->parameters.size(), "arguments");
    return declared_;
  }
  std::vector<TensorType> types(const HigherOrder&) { return declared_; }
  std::vector<TensorType> types(const Library& op) { return check_linalg_operands(op, operands_, guards_), declared_; }

  std::vector<TensorType> types(const Full& op) {
    takes(0);
    number_fits(op.value, declared().dtype);
    return {declared()};
  }
  std::vector<TensorType> types(const Iota& op) {
    takes(0);
    dim_in_range(op.dim, declared().rank());
    return {declared()};
  }
  std::vector<TensorType> types(const RandomState&) { return takes(0), std::vector{tensor(DType::I64, {2})}; }
  std::vector<TensorType> types(const Pointwise& op) {
    takes(static_cast<size_t>(arity(op.op)));
    const size_t first = op.op == ScalarOp::Where ? 1 : 0;
    require(first == 0 || operand(0).dtype == DType::Bool, "the condition of where is {}", to_string(operand(0).dtype));
    for (size_t i = 0; i < operands_.size(); ++i) {
      same_sizes(operand(0).sizes, operand(i).sizes);
      if (i > first) same_dtype(operand(first).dtype, operand(i).dtype);
    }
    require(is_defined(op.op, operand(first).dtype), "{} is not defined on {}", to_string(op_), to_string(operand(first).dtype));
    const bool draws = op.op == ScalarOp::PhiloxLow || op.op == ScalarOp::PhiloxHigh;
    require(!draws || operand(0).dtype == DType::I64, "{} is defined on i64, not {}", to_string(op_), to_string(operand(0).dtype));
    return {tensor(result_dtype(op.op, operand(first).dtype), operand(0).sizes)};
  }
  std::vector<TensorType> types(const Cast&) {
    takes(1);
    return {tensor(declared().dtype, operand(0).sizes)};
  }
  std::vector<TensorType> types(const Bitcast&) {
    takes(1);
    require(size_bytes(declared().dtype) == size_bytes(operand(0).dtype), "bitcast from {} to {} changes the element size",
            to_string(operand(0).dtype), to_string(declared().dtype));
    return {tensor(declared().dtype, operand(0).sizes)};
  }
  std::vector<TensorType> types(const Expand&) {
    takes(1);
    same_count(operand(0).sizes.size(), declared().sizes.size(), "operand dims");
    for (size_t d = 0; d < declared().sizes.size(); ++d) {
      if (!operand(0).sizes[d].is_const(1)) same_size(operand(0).sizes[d], declared().sizes[d]);
    }
    return {tensor(operand(0).dtype, declared().sizes)};
  }
  std::vector<TensorType> types(const Permute& op) {
    takes(1);
    same_count(op.dims.size(), operand(0).sizes.size(), "entries");
    std::vector<bool> seen(op.dims.size());
    Sizes sizes;
    for (int dim : op.dims) {
      dim_in_range(dim, operand(0).rank());
      require(!seen[static_cast<size_t>(dim)], "{}: dim {} appears twice", to_string(op_), dim);
      seen[static_cast<size_t>(dim)] = true;
      sizes.push_back(operand(0).sizes[static_cast<size_t>(dim)]);
    }
    return {tensor(operand(0).dtype, std::move(sizes))};
  }
  std::vector<TensorType> types(const Reshape&) {
    takes(1);
    same_size(operand(0).numel(), declared().numel());
    return {tensor(operand(0).dtype, declared().sizes)};
  }
  std::vector<TensorType> types(const Slice& op) {
    takes(1);
    const Sizes& in = operand(0).sizes;
    const Sizes& out = declared().sizes;
    same_count(op.starts.size(), in.size(), "starts");
    same_count(op.steps.size(), in.size(), "steps");
    same_count(out.size(), in.size(), "result dims");
    for (size_t d = 0; d < in.size(); ++d) {
      if (out[d].is_const(0)) continue;
      const sym::Expr last = op.starts[d] + op.steps[d] * (out[d] - 1);
      const bool outside =
          sym::known_lt(op.starts[d], 0) || sym::known_le(in[d], op.starts[d]) || sym::known_lt(last, 0) || sym::known_le(in[d], last);
      require(!outside || !sym::known_lt(0, out[d]), "{}: elements {} to {} of dim {}, whose size is {}", to_string(op_),
              sym::to_string(op.starts[d]), sym::to_string(last), d, sym::to_string(in[d]));
      const bool rises = sym::known_lt(0, op.steps[d]);
      const sym::Expr low = rises ? op.starts[d] : sym::min(op.starts[d], last), high = rises ? last : sym::max(op.starts[d], last);
      may_hold(sym::logical_or(sym::le(out[d], 0), sym::logical_and(is_at_least(low, 0), is_below(high, in[d]))), guards_);
    }
    return {tensor(operand(0).dtype, out)};
  }
  // Whether the index is in [0, size) wherever each axis is at its first or last position. That decides for an index that rises or falls
  // along each axis, as nearly all do.
  static bool ends_are_inside(sym::Expr index, sym::Expr size) {
    constexpr size_t kMostAxes = 8;
    const sym::Range range = index.range();
    if (!size.is_const() || (range.min >= 0 && range.max < size.value())) return true;
    const std::vector<sym::Expr> axes = sym::free_symbols(index);
    for (sym::Expr axis : axes) {
      if (!axis.node()->extent || !axis.node()->extent->is_const()) return true;
    }
    for (size_t ends = 0; axes.size() <= kMostAxes && ends < size_t{1} << axes.size(); ++ends) {
      const int64_t at = sym::evaluate(index, [&](sym::Expr symbol) -> std::optional<int64_t> {
        const auto axis = static_cast<size_t>(std::find(axes.begin(), axes.end(), symbol) - axes.begin());
        return (ends >> axis & 1) != 0 ? symbol.node()->extent->value() - 1 : 0;
      });
      if (at < 0 || at >= size.value()) return false;
    }
    return true;
  }

  // The same where sizes decide it, for an index along up to four axes. Only tensors without elements need no position.
  void guard_ends(const Remap& op, sym::Expr index, sym::Expr size) const {
    constexpr size_t kMostAxes = 4;
    if (guards_ == nullptr || (sym::known_le(0, index) && sym::known_lt(index, size))) return;
    std::vector<sym::Expr> axes;
    sym::Expr is_empty = 0;
    for (sym::Expr axis : op.axes) {
      if (sym::depends_on(index, axis)) axes.push_back(axis);
      is_empty = sym::logical_or(is_empty, sym::le(*axis.node()->extent, 0));
    }
    for (size_t ends = 0; axes.size() <= kMostAxes && ends < size_t{1} << axes.size(); ++ends) {
      const sym::Expr at = sym::substitute(index, [&](sym::Expr symbol) -> std::optional<sym::Expr> {
        const auto axis = static_cast<size_t>(std::find(axes.begin(), axes.end(), symbol) - axes.begin());
        if (axis == axes.size()) return std::nullopt;
        return (ends >> axis & 1) != 0 ? *symbol.node()->extent - 1 : sym::Expr(0);
      });
      may_hold(sym::logical_or(is_empty, sym::logical_and(is_at_least(at, 0), is_below(at, size))), guards_);
    }
  }

  std::vector<TensorType> types(const Remap& op) {
    takes(1);
    same_count(op.index.size(), operand(0).sizes.size(), "indices");
    Sizes sizes;
    bool empty = false;
    for (sym::Expr axis : op.axes) {
      require(axis.is_symbol() && axis.node()->extent.has_value(), "{}: {} is not an axis", to_string(op_), sym::to_string(axis));
      sizes.push_back(*axis.node()->extent);
      empty = empty || sym::known_le(sizes.back(), 0);
    }
    for (size_t d = 0; d < op.index.size(); ++d) {
      for (sym::Expr symbol : sym::free_symbols(op.index[d])) {
        const bool is_own = std::find(op.axes.begin(), op.axes.end(), symbol) != op.axes.end();
        require(is_own || symbol.node()->symbol_kind != sym::SymbolKind::Axis, "{}: axis {} is not bound", to_string(op_),
                sym::to_string(symbol));
      }
      const bool outside = sym::known_lt(op.index[d], 0) || sym::known_le(operand(0).sizes[d], op.index[d]);
      require(empty || (!outside && ends_are_inside(op.index[d], operand(0).sizes[d])),
              "{}: index {} is out of bounds for dim {} of size {}", to_string(op_), sym::to_string(op.index[d]), d,
              sym::to_string(operand(0).sizes[d]));
      if (!empty) guard_ends(op, op.index[d], operand(0).sizes[d]);
    }
    return {tensor(operand(0).dtype, std::move(sizes))};
  }
  std::vector<TensorType> types(const Pad& op) {
    takes(1);
    same_count(op.low.size(), operand(0).sizes.size(), "amounts");
    number_fits(op.value, operand(0).dtype);
    same_count(declared().sizes.size(), operand(0).sizes.size(), "result dims");
    for (size_t d = 0; d < op.low.size(); ++d) {
      known_not_negative(op.low[d], "padding");
      known_not_negative(declared().sizes[d] - operand(0).sizes[d] - op.low[d], "padding");
    }
    return {tensor(operand(0).dtype, declared().sizes)};
  }
  std::vector<TensorType> types(const Cat& op) {
    require(!operands_.empty(), "cat of nothing");
    dim_in_range(op.dim, operand(0).rank());
    TensorType type = tensor(operand(0).dtype, operand(0).sizes);
    const size_t dim = static_cast<size_t>(op.dim);
    for (size_t i = 1; i < operands_.size(); ++i) {
      same_dtype(type.dtype, operand(i).dtype);
      require(operand(i).rank() == type.rank(), "{}: ranks {} and {} differ", to_string(op_), type.rank(), operand(i).rank());
      for (size_t d = 0; d < type.sizes.size(); ++d) {
        if (d != dim) same_size(type.sizes[d], operand(i).sizes[d]);
      }
      type.sizes[dim] = type.sizes[dim] + operand(i).sizes[dim];
    }
    return {std::move(type)};
  }
  std::vector<TensorType> types(const Gather&) {
    require(operands_.size() >= 2, "gather takes a tensor and an index for each of its dims, at least one");
    takes(operand(0).sizes.size() + 1);
    indices_agree(1, operand(1).sizes);
    return {tensor(operand(0).dtype, operand(1).sizes)};
  }
  std::vector<TensorType> types(const Scatter&) {
    require(operands_.size() >= 2, "scatter takes a base and a source");
    takes(operand(0).sizes.size() + 2);
    same_dtype(operand(0).dtype, operand(1).dtype);
    indices_agree(2, operand(1).sizes);
    return {tensor(operand(0).dtype, operand(0).sizes)};
  }
  void indices_agree(size_t first, const Sizes& sizes) const {
    for (size_t i = first; i < operands_.size(); ++i) {
      same_dtype(operand(i).dtype, DType::I64);
      same_sizes(operand(i).sizes, sizes);
    }
  }
  std::vector<TensorType> types(const Reduce& op) {
    takes(1);
    const TensorType& x = operand(0);
    require(std::is_sorted(op.dims.begin(), op.dims.end()), "{}: dims must ascend", to_string(op_));
    Sizes sizes;
    for (int d : op.dims) dim_in_range(d, x.rank());
    for (int d = 0; d < static_cast<int>(x.rank()); ++d) {
      const auto count = std::count(op.dims.begin(), op.dims.end(), d);
      require(count <= 1, "{}: dim {} appears twice", to_string(op_), d);
      if (count == 0) sizes.push_back(x.sizes[static_cast<size_t>(d)]);
    }
    const bool is_logical = op.op == ReduceOp::Any || op.op == ReduceOp::All;
    require(!is_logical || x.dtype == DType::Bool, "{} of {}, not bool", to_string(op_), to_string(x.dtype));
    require(op.op != ReduceOp::MeanM2 || is_floating(x.dtype), "{} is not defined on {}", to_string(op_), to_string(x.dtype));
    const bool is_index = op.op == ReduceOp::ArgMin || op.op == ReduceOp::ArgMax;
    // Sums and moments of F32 may be F64: what is made of them is then rounded once.
    const bool may_be_wide = (op.op == ReduceOp::Sum || op.op == ReduceOp::MeanM2) && x.dtype == DType::F32;
    const bool is_wide = may_be_wide && !declared_.empty() && declared_[0].dtype == DType::F64;
    const TensorType type = tensor(is_index ? DType::I64 : is_wide ? DType::F64 : x.dtype, std::move(sizes));
    return std::vector<TensorType>(op.op == ReduceOp::MeanM2 ? 2 : 1, type);
  }
  std::vector<TensorType> types(const Scan& op) {
    takes(1);
    dim_in_range(op.dim, std::max<int64_t>(operand(0).rank(), 1));  // a number is a line of one element
    require(op.op != ScanOp::LogAddExp || is_floating(operand(0).dtype), "{} is not defined on {}", to_string(op_),
            to_string(operand(0).dtype));
    std::vector<TensorType> types = {tensor(operand(0).dtype, operand(0).sizes)};
    if (op.op == ScanOp::Max || op.op == ScanOp::Min) types.push_back(tensor(DType::I64, operand(0).sizes));
    return types;
  }
  std::vector<TensorType> types(const Sort& op) {
    takes(1);
    dim_in_range(op.dim, std::max<int64_t>(operand(0).rank(), 1));
    return {tensor(operand(0).dtype, operand(0).sizes), tensor(DType::I64, operand(0).sizes)};
  }
  std::vector<TensorType> types(const Matmul& op) {
    takes(2);
    require(op == Matmul{}, "a product by the bits of 8-bit floats, which a graph has not");
    const Sizes& a = operand(0).sizes;
    const Sizes& b = operand(1).sizes;
    require(a.size() >= 2 && a.size() == b.size(), "matmul of ranks {} and {}", a.size(), b.size());
    same_dtype(operand(0).dtype, operand(1).dtype);
    const size_t rank = a.size();
    for (size_t d = 0; d + 2 < rank; ++d) same_size(a[d], b[d]);
    same_size(a[rank - 1], b[rank - 2]);
    Sizes sizes = a;
    sizes[rank - 1] = b[rank - 1];
    return {tensor(operand(0).dtype, std::move(sizes))};
  }
  std::vector<TensorType> types(const Convolution& op) {
    takes(2, 3);
    const Sizes& x = operand(0).sizes;
    const Sizes& weight = operand(1).sizes;
    require(x.size() >= 3 && x.size() == weight.size(), "convolution of ranks {} and {}", x.size(), weight.size());
    same_dtype(operand(0).dtype, operand(1).dtype);
    for (const auto* list : {&op.stride, &op.padding, &op.dilation, &op.output_padding}) {
      require(list->size() == x.size() - 2, "{}: {} entries for {} spatial dims", to_string(op_), list->size(), x.size() - 2);
    }
    same_size(op.transposed ? weight[0] : weight[1] * op.groups, x[1]);
    Sizes sizes = {x[0], op.transposed ? weight[1] * op.groups : weight[0]};
    if (operands_.size() == 3) same_sizes(operand(2).sizes, {sizes[1]});
    for (size_t d = 0; d + 2 < x.size(); ++d) {
      const sym::Expr reach = op.dilation[d] * (weight[d + 2] - 1);
      sizes.push_back(op.transposed ? (x[d + 2] - 1) * op.stride[d] - op.padding[d] * 2 + reach + op.output_padding[d] + 1
                                    : sym::floor_div(x[d + 2] + op.padding[d] * 2 - reach - 1, op.stride[d]) + 1);
    }
    return {tensor(operand(0).dtype, std::move(sizes))};
  }
  std::vector<TensorType> types(const Attention&) {
    takes(3, 4);
    const size_t rank = operand(0).sizes.size();
    require(rank >= 2, "attention of rank {}", rank);
    require(is_floating(operand(0).dtype), "attention is not defined on {}", to_string(operand(0).dtype));
    for (size_t i = 1; i < 3; ++i) {
      same_dtype(operand(0).dtype, operand(i).dtype);
      require(operand(i).sizes.size() == rank, "attention of ranks {} and {}", rank, operand(i).sizes.size());
    }
    same_size(operand(0).sizes[rank - 1], operand(1).sizes[rank - 1]);
    same_size(operand(1).sizes[rank - 2], operand(2).sizes[rank - 2]);
    if (rank > 2) {
      same_size(operand(1).sizes[rank - 3], operand(2).sizes[rank - 3]);
      const sym::Expr heads = operand(0).sizes[rank - 3], own = operand(1).sizes[rank - 3];
      require(!heads.is_const() || !own.is_const() || (own.value() > 0 ? heads.value() % own.value() == 0 : heads == own),
              "{} heads of queries, {} of keys", sym::to_string(heads), sym::to_string(own));
      if (heads != own && own.range().min > 0) may_hold(sym::eq(sym::mod(heads, own), 0), guards_);
    }
    Sizes sizes = operand(0).sizes;
    sizes[rank - 1] = operand(2).sizes[rank - 1];
    return {tensor(operand(0).dtype, std::move(sizes))};
  }

  const Op& op_;
  std::span<const TensorType* const> operands_;
  const std::vector<TensorType>& declared_;
  std::vector<sym::Expr>* guards_;
};

}  // namespace

std::vector<TensorType> result_types(const Op& op, std::span<const TensorType* const> operands, const std::vector<TensorType>& declared,
                                     std::vector<sym::Expr>* guards) {
  return Rules(op, operands, declared, guards).run();
}

bool may_hold(sym::Expr fact, std::vector<sym::Expr>* guards) {
  if (fact.is_const()) return !fact.is_const(0);
  if (guards != nullptr && std::find(guards->begin(), guards->end(), fact) == guards->end()) guards->push_back(fact);
  return true;
}

bool agree(sym::Expr a, sym::Expr b, std::vector<sym::Expr>* guards) {
  return sym::known_eq(a, b) || (!sym::known_ne(a, b) && may_hold(sym::eq(a, b), guards));
}

bool may_agree(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.sizes.size() != b.sizes.size()) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (sym::known_ne(a.sizes[d], b.sizes[d])) return false;
  }
  return true;
}

}  // namespace toroid
