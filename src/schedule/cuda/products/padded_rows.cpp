#include "schedule/cuda/products/padded_rows.h"

#include <algorithm>

#include "schedule/cuda/products/few_rows.h"
#include "schedule/fusion/group.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using loop::BufferId;
using loop::ExprId;

constexpr int64_t kPieceOfRow = 16, kLineOfRow = 128;
// By estimates for an H100: what a product without TMA loses beside what a pass over the matrix costs.
constexpr int64_t kLeastOther = 256, kLeastOtherOfCopies = 1024, kLeastCopied = 1 << 18;

// The stride of rows of so many elements: at most an eighth more in whole lines, or a quarter in pieces of 16 bytes. None where rows are
// aligned, or as short as that.
std::optional<int64_t> padded_row(int64_t length, DType dtype) {
  const int64_t width = static_cast<int64_t>(size_bytes(dtype)), bytes = length * width;
  if (bytes % kPieceOfRow == 0) return std::nullopt;
  const auto rounded = [&](int64_t to) { return (bytes + to - 1) / to * to; };
  if (rounded(kLineOfRow) * 8 <= bytes * 9) return rounded(kLineOfRow) / width;
  if (rounded(kPieceOfRow) * 4 <= bytes * 5) return rounded(kPieceOfRow) / width;
  return std::nullopt;
}

bool has_quotients(sym::Expr expr) {
  if (expr.is_const()) return false;
  if (expr.kind() == sym::Kind::FloorDiv || expr.kind() == sym::Kind::Mod) return true;
  return std::ranges::any_of(expr.operands(), has_quotients);
}

// The same elements where rows of `length` are `to` apart; none where a dim goes through rows and columns at once.
std::optional<loop::Operand> with_rows_apart(const loop::Operand& operand, int64_t length, int64_t to) {
  loop::Operand result = operand;
  const sym::Expr row = sym::floor_div(operand.offset, length), column = operand.offset - row * length;
  if (!column.is_const()) return std::nullopt;
  int64_t last = column.value();  // the last column
  result.offset = row * to + column;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    const sym::Expr size = operand.sizes[d], stride = operand.strides[d];
    if (sym::known_divisible(stride, length)) {
      result.strides[d] = sym::floor_div(stride, length) * to;
    } else if (size.is_const() && stride.is_const()) {
      last += (size.value() - 1) * stride.value();
    } else {
      return std::nullopt;
    }
  }
  return last < length ? std::optional(std::move(result)) : std::nullopt;
}

class RowPadding {
 public:
  RowPadding(loop::LoopProgram& program, const PaddingRule& rule) : program_(program), rule_(rule) {}

  void run() {
    strides_.resize(program_.buffers.size());
    wanted_.resize(program_.buffers.size());
    for (size_t b = 0; b < program_.buffers.size(); ++b) strides_[b] = stride_of(program_.buffers[b]);
    for (const loop::Computation& computation : program_.computations) see(computation);
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!wanted_[b]) strides_[b].reset();
    }
    for (loop::Computation& computation : program_.computations) take_strides(computation);
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (strides_[b]) lay_out(program_.buffers[b], *strides_[b]);
    }
    if (rule_.copies) copy_operands();
  }

 private:
  bool is_ours(const loop::Buffer& buffer) const { return !rule_.on_host || buffer.on_host == *rule_.on_host; }

  std::optional<int64_t> stride_of(const loop::Buffer& buffer) const {
    const bool is_free = buffer.kind == loop::BufferKind::Temporary || buffer.kind == loop::BufferKind::Prepared;
    const bool is_float = is_reduced_float(buffer.dtype) || buffer.dtype == DType::F32;
    if (!is_free || !is_float || !is_ours(buffer) || buffer.sizes.size() < 2 || !buffer.sizes.back().is_const()) return std::nullopt;
    const std::vector<sym::Expr> before(buffer.sizes.begin(), buffer.sizes.end() - 1);
    if (buffer.strides != contiguous_strides(buffer.sizes) || sym::product(before).is_const(1)) return std::nullopt;
    return padded_row(buffer.sizes.back().value(), buffer.dtype);
  }

  std::optional<int64_t>& stride(BufferId id) { return strides_[static_cast<size_t>(id)]; }
  void want(BufferId id) { wanted_[static_cast<size_t>(id)] = true; }

  // A product that tensor cores may make, of two matrices or batches of them.
  bool is_product(const loop::Computation& computation) const {
    const auto* call = std::get_if<loop::Call>(&computation.work);
    if (call == nullptr || !std::holds_alternative<Matmul>(call->op) || call->operands.size() != 2) return false;
    const loop::Buffer &left = program_.buffer(call->operands[0].buffer), &right = program_.buffer(call->operands[1].buffer);
    return is_reduced_float(left.dtype) && left.dtype == right.dtype && is_ours(left);
  }

  // Notes what of the buffers that a computation touches may not be padded, and what should be.
  void see(const loop::Computation& computation) {
    const bool is_product = this->is_product(computation);
    for (ExprId id : loop::reachable(program_.exprs, loop::roots(program_, computation))) {
      const auto* load = std::get_if<loop::Load>(&program_.exprs.node(id).op);
      if (load != nullptr && !load->index.empty() && has_quotients(load->index.back())) stride(load->buffer).reset();
    }
    match(
        computation.work, [](const loop::Map&) {}, [](const loop::Reduction&) {}, [&](const loop::ScanLoop&) { keep(computation.outputs); },
        [&](const loop::ScatterLoop& scatter) {
          keep(computation.outputs);
          stride(scatter.base).reset();
        },
        [&](const loop::Bind& bind) { stride(bind.value).reset(); },
        [&](const loop::Call& call) {
          for (const loop::Operand& each : call.operands) {
            std::optional<int64_t>& to = stride(each.buffer);
            if (to && !(is_product && with_rows_apart(each, program_.buffer(each.buffer).sizes.back().value(), *to))) to.reset();
          }
          if (!is_product) return keep(computation.outputs);
          want_of_product(call, computation.outputs[0]);
        });
  }

  void keep(const std::vector<BufferId>& outputs) {
    for (BufferId id : outputs) stride(id).reset();
  }

  void want_of_product(const loop::Call& call, BufferId out) {
    if (sym::evaluate_hint(rows_of(call)) > kMostFewRows) want(out);
    for (size_t i = 0; i < 2; ++i) {
      const BufferId id = call.operands[i].buffer;
      if (program_.buffer(id).kind == loop::BufferKind::Prepared || sym::evaluate_hint(other_of(call, i)) >= kLeastOther) want(id);
    }
  }

  static sym::Expr rows_of(const loop::Call& call) { return call.operands[0].sizes.end()[-2]; }
  // How many products each element of a side has.
  static sym::Expr other_of(const loop::Call& call, size_t side) { return side == 0 ? call.operands[1].sizes.back() : rows_of(call); }

  void take_strides(loop::Computation& computation) {
    auto* call = std::get_if<loop::Call>(&computation.work);
    if (call == nullptr) return;
    for (loop::Operand& each : call->operands) {
      if (const auto to = stride(each.buffer))
        each = std::move(*with_rows_apart(each, program_.buffer(each.buffer).sizes.back().value(), *to));
    }
  }

  static void lay_out(loop::Buffer& buffer, int64_t row) {
    std::vector<sym::Expr> sizes = buffer.sizes;
    sizes.back() = row;
    buffer.strides = contiguous_strides(sizes);
    buffer.has_padded_rows = true;
  }

  // ---- copies ---------------------------------------------------------------------------------------------------------------------

  void copy_operands() {
    std::vector<loop::Computation> result;
    for (loop::Computation& computation : program_.computations) {
      if (is_product(computation)) add_copies(std::get<loop::Call>(computation.work), computation, result);
      result.push_back(std::move(computation));
    }
    program_.computations = std::move(result);
  }

  // What TMA does not read of a product becomes a copy, if that is all that it does not read.
  void add_copies(loop::Call& call, const loop::Computation& computation, std::vector<loop::Computation>& before) {
    std::vector<size_t> copied;
    for (size_t i = 0; i < 2; ++i) {
      if (is_read_by_tma(call.operands[i])) continue;
      if (!can_copy(call, i)) return;
      copied.push_back(i);
    }
    for (size_t i : copied) call.operands[i] = copy_of(call.operands[i], computation, before);
  }

  static bool is_read_by_tma(const loop::Operand& operand) {
    constexpr int64_t kElements = kPieceOfRow / 2;
    const size_t r = operand.sizes.size() - 2;
    const sym::Expr row = operand.strides[r], column = operand.strides[r + 1];
    return sym::known_divisible(operand.offset, kElements) &&
           ((column.is_const(1) && sym::known_divisible(row, kElements)) || (row.is_const(1) && sym::known_divisible(column, kElements)));
  }

  bool can_copy(const loop::Call& call, size_t side) const {
    const loop::Operand& operand = call.operands[side];
    const loop::Buffer& buffer = program_.buffer(operand.buffer);
    const size_t r = operand.sizes.size() - 2;
    const bool is_transposed = !operand.strides[r + 1].is_const(1);
    const sym::Expr length = operand.sizes[is_transposed ? r : r + 1];
    if (is_transposed && !operand.strides[r].is_const(1)) return false;
    if (!length.is_const() || !padded_row(length.value(), buffer.dtype) || !is_dense(buffer)) return false;
    if (is_constant(buffer)) return sym::product(operand.sizes).is_const();
    return sym::evaluate_hint(sym::product(operand.sizes)) >= kLeastCopied &&
           sym::evaluate_hint(other_of(call, side)) >= kLeastOtherOfCopies;
  }

  static bool is_constant(const loop::Buffer& buffer) {
    return buffer.kind == loop::BufferKind::Prepared || (buffer.kind == loop::BufferKind::Constant && !buffer.updated_by);
  }

  // Do its elements fill its memory, in whatever order of dims?
  static bool is_dense(const loop::Buffer& buffer) {
    std::vector<std::pair<sym::Expr, sym::Expr>> dims;
    for (size_t d = 0; d < buffer.sizes.size(); ++d) {
      if (!buffer.sizes[d].is_const(1)) dims.emplace_back(buffer.strides[d], buffer.sizes[d]);
    }
    std::ranges::stable_sort(dims, {}, [](const auto& dim) { return sym::evaluate_hint(dim.first); });
    sym::Expr expected = 1;
    for (const auto& [stride, size] : dims) {
      if (!sym::known_eq(stride, expected)) return false;
      expected = expected * size;
    }
    return true;
  }

  loop::Operand copy_of(const loop::Operand& operand, const loop::Computation& computation, std::vector<loop::Computation>& before) {
    const loop::Buffer source = program_.buffer(operand.buffer);
    const size_t rank = operand.sizes.size();
    const bool is_transposed = !operand.strides[rank - 1].is_const(1);
    std::vector<sym::Expr> sizes = operand.sizes, by = operand.strides;
    if (is_transposed) {
      std::swap(sizes[rank - 2], sizes[rank - 1]);
      std::swap(by[rank - 2], by[rank - 1]);
    }
    loop::Map map;
    sym::Expr position = operand.offset;
    for (size_t d = 0; d < rank; ++d) {
      if (d + 2 < rank && by[d].is_const(0)) sizes[d] = 1;  // all batches have the same matrix
      map.axes.push_back(sizes[d].is_const(1) ? sym::Expr(0) : program_.exprs.symbols().axis(sizes[d]));
      position = position + map.axes[d] * by[d];
    }
    std::vector<sym::Expr> index;
    for (size_t d = 0; d < source.sizes.size(); ++d)
      index.push_back(source.sizes[d].is_const(1) ? sym::Expr(0) : sym::mod(sym::floor_div(position, source.strides[d]), source.sizes[d]));
    map.value = program_.exprs.load(operand.buffer, std::move(index), source.dtype);
    loop::Buffer copy{.name = source.name + "_padded", .dtype = source.dtype, .sizes = sizes, .strides = {}, .on_host = source.on_host};
    if (is_constant(source)) copy.kind = loop::BufferKind::Prepared;
    lay_out(copy, *padded_row(sizes.back().value(), source.dtype));
    loop::Operand result = {.buffer = {}, .sizes = operand.sizes, .strides = copy.strides, .offset = 0};
    for (size_t d = 0; d + 2 < rank; ++d) {
      if (sizes[d].is_const(1)) result.strides[d] = 0;
    }
    if (is_transposed) std::swap(result.strides[rank - 2], result.strides[rank - 1]);
    result.buffer = program_.add_buffer(std::move(copy));
    before.push_back({std::move(map), {result.buffer}, computation.name + "_pad", computation.provenance});
    return result;
  }

  loop::LoopProgram& program_;
  PaddingRule rule_;
  std::vector<std::optional<int64_t>> strides_;  // of rows, by buffer: where they may be padded
  std::vector<bool> wanted_;
};

}  // namespace

void pad_rows(loop::LoopProgram& program, const PaddingRule& rule) { RowPadding(program, rule).run(); }

}  // namespace toroid::schedule
