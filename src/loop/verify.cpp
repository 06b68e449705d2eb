#include "loop/verify.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "graph/control_flow.h"
#include "graph/shape_error.h"
#include "graph/type_rules.h"
#include "support/match.h"

namespace toroid::loop {
namespace {

using toroid::to_string;

// Kernels compute with these.
bool is_register_dtype(DType dtype) { return dtype <= DType::F64 && !is_reduced_float(dtype); }
// And hold these in memory; 8-bit floats are for calls alone.
bool is_storage_dtype(DType dtype) {
  const bool is_float8 = dtype == DType::F8E4M3FN || dtype == DType::F8E5M2;
  return !is_complex(dtype) && size_bytes(dtype) > 0 && (is_float8 || !(is_floating(dtype) && size_bytes(dtype) == 1));
}

void verify_axis(sym::Expr axis) {
  const bool is_axis = axis.is_symbol() && axis.node()->symbol_kind == sym::SymbolKind::Axis;
  require(is_axis, "'{}' is no axis", sym::to_string(axis));
}

// The axes of a result, one a dim of a buffer with these sizes: 0 along a size of 1.
void verify_axes(const std::vector<sym::Expr>& axes, const std::vector<sym::Expr>& sizes) {
  require(axes.size() == sizes.size(), "{} axes for {} dims", axes.size(), sizes.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d].is_const(0) && sizes[d].is_const(1)) continue;
    verify_axis(axes[d]);
    require(std::count(axes.begin(), axes.end(), axes[d]) == 1, "axis {} stands for two dims", sym::to_string(axes[d]));
    require(!sym::known_ne(*axes[d].node()->extent, sizes[d]), "axis {} goes to {}, and the dim is of {}", sym::to_string(axes[d]),
            sym::to_string(*axes[d].node()->extent), sym::to_string(sizes[d]));
  }
}

void verify_result_dtype(DType value, DType storage) {
  require(value == register_dtype(storage), "a value of {} goes to a buffer of {}", to_string(value), to_string(storage));
}

void verify_reduction(const Reduction& work, DType value, DType storage) {
  require(!work.reduce_axes.empty(), "a reduction over no axis");
  for (sym::Expr axis : work.reduce_axes) {
    verify_axis(axis);
    require(std::find(work.axes.begin(), work.axes.end(), axis) == work.axes.end(), "axis {} is kept and reduced", sym::to_string(axis));
    require(std::count(work.reduce_axes.begin(), work.reduce_axes.end(), axis) == 1, "axis {} is reduced twice", sym::to_string(axis));
  }
  verify_reduce_dtype(work.op, value, storage);
  require(work.care == SumCare::Usual || (work.op == ReduceOp::Sum && is_floating(value)), "only sums of floats are added with care");
}

TensorType type_of(const LoopProgram& program, const Operand& operand) {
  return {.dtype = program.buffer(operand.buffer).dtype, .sizes = operand.sizes};
}
TensorType type_of(const LoopProgram& program, BufferId id) {
  return {.dtype = program.buffer(id).dtype, .sizes = program.buffer(id).sizes};
}

// Four bits of weights, with a scale and a zero point for each group of rows and each column.
void verify_int4(std::span<const TensorType> operands) {
  const bool is_packed = operands[1].rank() == 4;  // in blocks of sixteen columns and groups of 128 rows
  require(is_packed || operands[1].rank() == 2, "weights of four bits are a matrix, or packed");
  for (const TensorType& each : operands.subspan(2))
    require(each.rank() == (is_packed ? 3 : 2), "scales and zeros of weights of four bits are as these");
  require(operands[1].dtype == DType::U8 && operands[2].dtype == DType::F32 && operands[3].dtype == DType::F32,
          "weights of four bits are u8, with scales and zeros in f32");
}

}  // namespace

void verify_reduce_dtype(ReduceOp op, DType value, DType storage) {
  const DType result = register_dtype(storage);
  const bool fits = [&] {
    switch (op) {
      case ReduceOp::ArgMin:
      case ReduceOp::ArgMax: return result == DType::I64;
      case ReduceOp::Any:
      case ReduceOp::All: return value == DType::Bool && result == DType::Bool;
      case ReduceOp::Min:
      case ReduceOp::Max: return value == result;
      case ReduceOp::Sum:
      case ReduceOp::Prod: return is_floating(value) == is_floating(result) && result != DType::Bool;
      case ReduceOp::MeanM2: return false;
    }
    return false;
  }();
  require(fits, "{} of {} gives no {}", to_string(op), to_string(value), to_string(storage));
}

void verify_sizes(std::span<const sym::Expr> exprs) {
  for (sym::Expr each : exprs) {
    if (each.is_const()) continue;
    for (sym::Expr symbol : sym::free_symbols(each)) {
      require(symbol.node()->has_sizes, "'{}' is no size, and stands in one", sym::to_string(symbol));
    }
  }
}

void verify(const Buffer& buffer) {
  require(is_storage_dtype(buffer.dtype), "a buffer of {}", to_string(buffer.dtype));
  require(buffer.sizes.size() == buffer.strides.size(), "{} strides for {} dims", buffer.strides.size(), buffer.sizes.size());
  verify_sizes(buffer.sizes);
  verify_sizes(buffer.strides);
  const bool is_state = buffer.dtype == DType::I64 && buffer.sizes == std::vector<sym::Expr>{2};
  require(buffer.kind != BufferKind::RandomState || is_state, "the random state is i64[2]");
  sym::product(buffer.sizes) * size_bytes(buffer.dtype);  // throws where it overflows
}

void verify(const Literal& literal, DType dtype) {
  const bool fits = match(
      literal.value, [&](bool) { return dtype == DType::Bool; },
      [&](const sym::Expr& e) { return e.is_const() && is_register_dtype(dtype) && is_integral(dtype); },
      [&](double) { return is_register_dtype(dtype); });  // 0.0 stands for a zero of any
  require(fits, "{} is no number of {}", to_string(literal.value), to_string(dtype));
}

void verify_masked(DType condition, DType value, DType otherwise) {
  require(condition == DType::Bool, "a condition of {}", to_string(condition));
  require(value == otherwise, "one of {} and {}", to_string(value), to_string(otherwise));
}

void verify_bitcast(DType operand, DType from, DType to) {
  require(operand == register_dtype(from), "the bits of {} are not those of {}", to_string(operand), to_string(from));
  require(is_storage_dtype(from) && is_storage_dtype(to) && is_register_dtype(register_dtype(to)) && size_bytes(from) == size_bytes(to),
          "bitcast from {} to {}", to_string(from), to_string(to));
}

void verify_convert(DType from, DType to) {
  require(is_register_dtype(from) && is_register_dtype(to) && from != to, "a conversion from {} to {}", to_string(from), to_string(to));
}

DType verified_dtype(ScalarOp op, const ExprTable& exprs, std::span<const ExprId> operands) {
  std::vector<TensorType> types;
  for (ExprId each : operands) types.push_back({.dtype = exprs.dtype(each)});
  std::vector<const TensorType*> pointers;
  for (const TensorType& each : types) pointers.push_back(&each);
  return result_types(Pointwise{op}, pointers, {})[0].dtype;
}

namespace {

// `of_scores`: the accumulator 0 stands for a product.
void verify_uses(const LoopProgram& program, const std::vector<ExprId>& roots, std::span<const sym::Expr> positions,
                 std::span<const sym::Expr> axes, bool in_kernel, bool of_scores) {
  std::vector<ExprId> all_roots = roots;
  const auto check = [&](sym::Expr expr, bool adds_roots) {
    if (expr.is_const()) return;
    for (sym::Expr symbol : sym::free_symbols(expr)) {
      const sym::SymbolKind kind = symbol.node()->symbol_kind;
      if (kind == sym::SymbolKind::Axis) {
        require(std::find(axes.begin(), axes.end(), symbol) != axes.end(), "axis {} is of another loop", sym::to_string(symbol));
      } else if (kind == sym::SymbolKind::Value) {
        const ValueSymbol* value = program.exprs.value_symbol(symbol);
        require(value != nullptr, "value {} is of another graph", sym::to_string(symbol));
        if (adds_roots) all_roots.push_back(value->index);
      }
    }
  };
  for (sym::Expr each : positions) check(each, true);
  for (ExprId id : reachable(program.exprs, all_roots)) {
    const ExprNode& node = program.exprs.node(id);
    if (const auto* load = std::get_if<Load>(&node.op)) {
      const Buffer& buffer = program.buffer(load->buffer);
      const size_t wanted = in_kernel ? 1 : buffer.sizes.size();
      require(load->index.size() == wanted, "{} indices for {} of {}", load->index.size(), wanted, buffer.name);
      for (sym::Expr each : load->index) check(each, false);
    }
    if (const auto* index = std::get_if<Index>(&node.op)) check(index->value, false);
    const auto* accumulated = std::get_if<Accumulated>(&node.op);
    if (of_scores && accumulated != nullptr) {
      require(accumulated->id == AccumulatorId{0} && node.dtype == DType::F32, "scores are of one product in f32");
      continue;
    }
    const bool is_of_kernel = accumulated != nullptr || std::holds_alternative<Stashed>(node.op);
    require((in_kernel && !of_scores) || !is_of_kernel, "a kernel's own result stands in a loop");
  }
}

}  // namespace

void verify_uses(const LoopProgram& program, const std::vector<ExprId>& roots, std::span<const sym::Expr> positions,
                 std::span<const sym::Expr> axes, bool in_kernel) {
  verify_uses(program, roots, positions, axes, in_kernel, false);
}

void verify_scores(const LoopProgram& program, const Call& call, bool in_kernel) {
  const bool is_written = is_library(call.op, kAttentionOfScores);
  require(call.scores.has_value() == is_written, "scores belong to attention of them");
  if (!is_written) return;
  const bool has_table = in_kernel && call.operands.size() == 4 && call.scores->visible;  // of an earlier step
  require((call.operands.size() == 3 || has_table) && call.scores->axes.size() == 4, "scores of {} operands and {} axes",
          call.operands.size(), call.scores->axes.size());
  const std::vector<sym::Expr>&q = call.operands[0].sizes, &k = call.operands[1].sizes;
  require(q.size() == 4 && k.size() == 4, "scores of {} dims", q.size());
  const std::array sizes = {q[0], q[1], q[2], k[2]};
  std::vector<sym::Expr> axes;
  for (size_t d = 0; d < 4; ++d) {
    const sym::Expr axis = call.scores->axes[d];
    if (axis.is_const(0)) {
      require(!sym::known_ne(sizes[d], 1), "a dim of scores has no axis");
      continue;
    }
    require(!axis.is_const() && axis.node()->symbol_kind == sym::SymbolKind::Axis && sym::known_eq(*axis.node()->extent, sizes[d]),
            "{} is no axis of the scores", sym::to_string(axis));
    axes.push_back(axis);
  }
  require(program.exprs.dtype(call.scores->value) == DType::F32, "scores of {}", to_string(program.exprs.dtype(call.scores->value)));
  verify_uses(program, {call.scores->value}, {}, axes, in_kernel, true);
  if (!call.scores->visible) return;
  require(program.exprs.dtype(*call.scores->visible) == DType::Bool, "a condition of {}",
          to_string(program.exprs.dtype(*call.scores->visible)));
  verify_uses(program, {*call.scores->visible}, {}, axes, in_kernel);
}

void verify_call(const LoopProgram& program, const Call& call, std::span<const BufferId> results, std::span<const Graph> subgraphs) {
  std::vector<TensorType> operands, made;
  for (const Operand& each : call.operands) {
    operands.push_back(type_of(program, each));
    verify_sizes(each.sizes);
    verify_sizes(each.strides);
    verify_sizes({&each.offset, 1});
  }
  for (BufferId id : results) made.push_back(type_of(program, id));
  std::vector<const TensorType*> pointers;
  for (const TensorType& each : operands) pointers.push_back(&each);
  std::vector<TensorType> expected;
  if (const auto* control_flow = std::get_if<HigherOrder>(&call.op)) {
    expected = control_flow_types(*control_flow, pointers, subgraphs, nullptr);
  } else if (std::holds_alternative<Matmul>(call.op)) {
    require(operands.size() >= 2 && operands.size() <= 4, "a product of {} operands", operands.size());
    require(made.size() == (operands.size() == 3 ? 2 : 1), "a product has {} results", made.size());
    const bool is_of_float8 = operands.size() <= 3 && operands[0].dtype == DType::U8 && operands[1].dtype == DType::U8;
    require(is_of_float8 || std::get<Matmul>(call.op) == Matmul{}, "a product by the bits of 8-bit floats whose operands are not bytes");
    if (operands.size() == 4) return verify_int4(operands);
    if (operands.size() == 3) {  // one left side by two right ones
      const auto with = [&](size_t right) { return Call{.op = call.op, .operands = {call.operands[0], call.operands[right]}}; };
      verify_call(program, with(1), results.first(1), subgraphs);
      return verify_call(program, with(2), results.last(1), subgraphs);
    }
    for (TensorType& each : operands) each.dtype = made[0].dtype;  // bytes on both sides, or on the right, are taken as they are
    expected = result_types(Matmul{}, pointers, made);
  } else {
    const bool is_whole = std::holds_alternative<Convolution>(call.op) || std::holds_alternative<Attention>(call.op) ||
                          std::holds_alternative<Sort>(call.op) || std::holds_alternative<Library>(call.op);
    require(is_whole, "{} is no operation that a library computes", to_string(call.op));
    expected = result_types(call.op, pointers, made);
  }
  require(expected.size() == made.size(), "{} has {} results, not {}", to_string(call.op), expected.size(), made.size());
  for (size_t i = 0; i < made.size(); ++i) {
    require(may_agree(expected[i], made[i]), "{} gives {}, not {}", to_string(call.op), to_string(expected[i]), to_string(made[i]));
  }
}

void verify(const LoopProgram& program, const Computation& computation, std::span<const Graph> subgraphs) {
  const auto output = [&]() -> const Buffer& {
    require(computation.outputs.size() == 1, "{} results, not one", computation.outputs.size());
    return program.buffer(computation.outputs[0]);
  };
  const auto used = [&](std::initializer_list<const std::vector<sym::Expr>*> lists, std::span<const sym::Expr> positions = {}) {
    std::vector<sym::Expr> axes;
    for (const auto* list : lists) {
      for (sym::Expr each : *list) {
        if (!each.is_const()) axes.push_back(each);
      }
    }
    verify_uses(program, roots(program, computation), positions, axes, false);
  };
  const auto dtype = [&](ExprId id) { return program.exprs.dtype(id); };
  match(
      computation.work,
      [&](const Map& work) {
        verify_axes(work.axes, output().sizes);
        verify_result_dtype(dtype(work.value), output().dtype);
        used({&work.axes});
      },
      [&](const Reduction& work) {
        verify_axes(work.axes, output().sizes);
        verify_reduction(work, dtype(work.value), output().dtype);
        used({&work.axes, &work.reduce_axes});
      },
      [&](const ScanLoop& work) {
        const bool has_index = work.op == ScanOp::Max || work.op == ScanOp::Min;
        require(computation.outputs.size() == (has_index ? 2 : 1), "a scan with {} results", computation.outputs.size());
        require(work.dim < work.axes.size(), "a scan along dim {} of {}", work.dim, work.axes.size());
        for (size_t i = 0; i < computation.outputs.size(); ++i) {
          const Buffer& buffer = program.buffer(computation.outputs[i]);
          const bool is_number = buffer.sizes.empty() && work.axes.size() == 1;
          verify_axes(work.axes, is_number ? std::vector<sym::Expr>{1} : buffer.sizes);
          require(i == 0 || buffer.dtype == DType::I64, "the positions of a scan are i64");
        }
        for (sym::Expr axis : work.axes) verify_axis(axis);
        used({&work.axes});
      },
      [&](const ScatterLoop& work) {
        const Buffer &out = output(), &base = program.buffer(work.base);
        require(base.dtype == out.dtype && base.sizes.size() == out.sizes.size(), "a scatter into another type");
        for (size_t d = 0; d < out.sizes.size(); ++d) require(!sym::known_ne(base.sizes[d], out.sizes[d]), "a scatter into another shape");
        require(work.index.size() == out.sizes.size(), "{} indices for {} dims", work.index.size(), out.sizes.size());
        for (sym::Expr axis : work.axes) {
          if (!axis.is_const(0)) verify_axis(axis);
        }
        verify_result_dtype(dtype(work.value), out.dtype);
        used({&work.axes}, work.index);
      },
      [&](const Call& work) {
        const bool is_dual = std::holds_alternative<Matmul>(work.op) && work.operands.size() == 3;
        require(!is_dual, "a dual product, which schedules make");
        verify_call(program, work, computation.outputs, subgraphs);
        verify_scores(program, work, false);
      },
      [&](const Bind& work) {
        require(computation.outputs.empty(), "a bind has no results");
        const Buffer& value = program.buffer(work.value);
        require(is_integral(value.dtype) && sym::product(value.sizes).is_const(1), "a size is bound to one integer");
        verify_sizes({&work.expr, 1});
      });
}

}  // namespace toroid::loop
