#include "codegen/triton/triton_printer.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/cpp/print_index.h"
#include "codegen/triton/triton_scalar.h"
#include "loop/loop.h"
#include "schedule/axes.h"
#include "schedule/mentioned.h"
#include "support/match.h"

namespace toroid::codegen {
namespace {

using loop::ExprId;
using schedule::extent;
using schedule::Stage;

constexpr int64_t kMostOfRow = 16384;  // elements of a tile that is a whole row
constexpr int64_t kPiece = 2048;       // … and of a piece of a longer one
constexpr int64_t kElementsOfTile = 1024;
constexpr int64_t kElementsOfWarp = 32 * 8;
constexpr int64_t kColumnRows = 64;  // of a tile whose rows lie beside each other

// Integer expressions in Triton's language, whose divisions truncate as C's.
class TritonIndex {
 public:
  TritonIndex(const loop::ExprTable& exprs, SymbolNames& names) : exprs_(exprs), names_(names) {}

  std::string print(sym::Expr e) const {
    if (e.is_const()) return e.value() < 0 ? fmt::format("({})", e.value()) : fmt::format("{}", e.value());
    const auto operands = e.operands();
    switch (e.kind()) {
      case sym::Kind::Symbol:
        if (exprs_.value_symbol(e) != nullptr) throw NotInTriton("an index that is read from a tensor");
        return names_.of(e);
      case sym::Kind::Add: return joined(operands, " + ");
      case sym::Kind::Mul: return joined(operands, " * ");
      case sym::Kind::FloorDiv: return divided(operands, "//");
      case sym::Kind::Mod: return divided(operands, "%");
      case sym::Kind::Min: return nested(operands, "tl.minimum");
      case sym::Kind::Max: return nested(operands, "tl.maximum");
      case sym::Kind::Eq: return compared(operands, "==");
      case sym::Kind::Ne: return compared(operands, "!=");
      case sym::Kind::Lt: return compared(operands, "<");
      case sym::Kind::Le: return compared(operands, "<=");
      case sym::Kind::And: return joined(operands, " & ");
      case sym::Kind::Or: return joined(operands, " | ");
      case sym::Kind::Not: return fmt::format("(1 - {})", print(operands[0]));
      default: throw NotInTriton("an index of real numbers");
    }
  }

 private:
  std::string joined(std::span<const sym::Expr> operands, std::string_view sign) const {
    std::string text;
    for (sym::Expr each : operands) text += (text.empty() ? "" : std::string(sign)) + print(each);
    return "(" + text + ")";
  }
  std::string nested(std::span<const sym::Expr> operands, std::string_view function) const {
    std::string text = print(operands[0]);
    for (const sym::Expr each : operands.subspan(1)) text = fmt::format("{}({}, {})", function, text, print(each));
    return text;
  }
  std::string divided(std::span<const sym::Expr> operands, std::string_view sign) const {
    const auto least = [](sym::Expr e) { return e.is_const() ? e.value() : e.range().min; };
    if (least(operands[0]) < 0 || least(operands[1]) <= 0) throw NotInTriton("an index that divides a negative number");
    return fmt::format("({} {} {})", print(operands[0]), sign, print(operands[1]));
  }
  std::string compared(std::span<const sym::Expr> operands, std::string_view sign) const {
    return fmt::format("({} {} {}).to(tl.int64)", print(operands[0]), sign, print(operands[1]));
  }

  const loop::ExprTable& exprs_;
  SymbolNames& names_;
};

class TritonPrinter {
 public:
  // `step`: which `kernel` is, or stands for.
  TritonPrinter(const loop::LoopProgram& program, const schedule::Kernel& kernel, const schedule::Step& step)
      : program_(program), exprs_(program.exprs), kernel_(kernel), step_(step), index_(exprs_, names_) {}

  PrintedTriton run() {
    refuse_what_is_not_printed();
    PrintedTriton result;
    take_parameters(result);
    take_tile();
    open_rows();
    for (const Stage& stage : kernel_.stages) stage.inner ? row_stage(stage) : once_stage(stage);
    return finish(std::move(result));
  }

  // Of a row that is one tile. `kernel_` has its axes alone.
  PrintedTriton run(const schedule::ScanKernel& scan) {
    if (scan.op != ScanOp::Sum && scan.op != ScanOp::Prod) throw NotInTriton(fmt::format("the scan {}", to_string(scan.op)));
    const DType own = exprs_.dtype(scan.value);
    if (!is_floating(own) && size_bytes(own) < 4) throw NotInTriton(fmt::format("a scan of {}", to_string(own)));
    PrintedTriton result;
    take_parameters(result);
    take_tile();
    if (is_looped_) throw NotInTriton("a scan of a row that does not fit a tile");
    const auto place_of_element = sym::linear_in(scan.positions[0], scan.along);
    if (!place_of_element || !place_of_element->coefficient.is_const(1)) throw NotInTriton("a scan across the rows of memory");
    open_rows();
    // A running sum of floats is one chain of roundings: it is in double.
    const DType dtype = is_floating(own) ? DType::F64 : own;
    const bool is_sum = scan.op == ScanOp::Sum;
    const std::string identity = triton_identity(is_sum ? ReduceOp::Sum : ReduceOp::Prod, dtype);
    const std::string element = named("each", fmt::format("tl.where(is_element, {}, {})", value(scan.value), identity));
    const std::string scanned = named("scan", fmt::format("tl.{}({}, axis=1)", is_sum ? "cumsum" : "cumprod", whole(element, dtype)));
    const std::string narrow = named("t", triton_convert(dtype, own, scanned));
    store(scan.outputs[0], scan.positions[0], narrow, "is_element");
    return finish(std::move(result));
  }

 private:
  PrintedTriton finish(PrintedTriton result) {
    result.blocks = sym::ceil_div(rows_, row_count_);
    result.kernel.function = "kernel";
    result.kernel.file = "a kernel of the program";
    result.kernel.source = fmt::format("{}@triton.jit\ndef kernel({}):\n{}", kTritonPrelude, fmt::join(parameters_, ", "), lines_);
    const int64_t warps = row_count_ * width_ / kElementsOfWarp;
    constexpr uint64_t kMostWarps = 16;
    result.kernel.warps =
        static_cast<int>(std::clamp(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(warps, 1))), uint64_t{1}, kMostWarps));
    result.kernel.stages = 2;
    result.kernel.flushes_subnormals = false;
    result.kernel.fuses_products = kernel_.unfused.empty() && !rounds_;
    return result;
  }

  void refuse_what_is_not_printed() const {
    const schedule::GpuLoops gpu = kernel_.gpu.value_or(schedule::GpuLoops{});
    if (kernel_.tile) throw NotInTriton("a transpose in tiles");
    if (kernel_.product) throw NotInTriton("an epilogue of a product");
    if (gpu.pixels > 1) throw NotInTriton("a sliding window");
    if (gpu.blocks > 0) throw NotInTriton("sums of columns");
    if (!kernel_.finish.empty()) throw NotInTriton("kernels that the last thread runs");
    for (const schedule::Accumulator& each : kernel_.accumulators) {
      if (each.of_columns) throw NotInTriton("sums of columns");
      triton_identity(each.op, each.dtype);
    }
  }

  void take_parameters(PrintedTriton& result) {
    for (const auto* list : {&kernel_.reads, &kernel_.writes}) {
      for (const loop::BufferId id : *list) {
        if (std::ranges::find(result.buffers, id) != result.buffers.end()) continue;
        const loop::Buffer& buffer = program_.buffer(id);
        if (buffer.kind == loop::BufferKind::RandomState) throw NotInTriton("random numbers");
        const std::optional<std::string> type = triton_pointer(buffer.dtype);
        if (!type) throw NotInTriton(fmt::format("a tensor of {}", to_string(buffer.dtype)));
        result.buffers.push_back(id);
        // Not by the buffer's name: kernels of equal layers are equal.
        parameters_.push_back(fmt::format("p{}", parameters_.size()));
        memory_.emplace(id, parameters_.back());
        result.kernel.arguments.push_back({.name = parameters_.back(), .type = *type, .multiple = kTritonMultiple});
      }
    }
    result.sizes = schedule::size_symbols(program_, step_);
    for (const sym::Expr size : result.sizes) {
      parameters_.push_back(names_.of(size));
      const bool is_multiple = sym::known_divisible(size, kTritonMultiple);
      result.kernel.arguments.push_back({.name = parameters_.back(), .type = "i64", .multiple = is_multiple ? kTritonMultiple : 1});
    }
  }

  // Rows and elements of a program's tile.
  void take_tile() {
    rows_ = schedule::product_of_extents(kernel_.outer);
    length_ = schedule::product_of_extents(kernel_.inner);
    is_looped_ = !kernel_.inner.empty() && !(length_.is_const() && length_.value() <= kMostOfRow);
    if (kernel_.inner.empty()) {
      width_ = 1;
      row_count_ = kElementsOfTile;
      return;
    }
    if (kernel_.gpu->columns) {  // rows lie beside each other
      row_count_ = kColumnRows;
      width_ = kElementsOfTile / row_count_;
      is_looped_ = !(length_.is_const() && length_.value() <= width_);
      if (is_looped_ && !kernel_.stashes.empty()) throw NotInTriton("a row that is kept and does not fit a tile");
      return;
    }
    if (is_looped_ && !kernel_.stashes.empty()) throw NotInTriton("a row that is kept and does not fit a tile");
    width_ = is_looped_ ? kPiece : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(length_.value(), 1))));
    row_count_ = std::max<int64_t>(1, kElementsOfTile / width_);
  }

  // ---- lines

  void line(const std::string& text) { lines_ += std::string(4 * depth_, ' ') + text + "\n"; }
  std::string named(std::string_view base, const std::string& text) {
    std::string name = fmt::format("{}_v{}", base, ++counter_);
    line(fmt::format("{} = {}", name, text));
    return name;
  }

  void open_rows() {
    line(fmt::format("row = tl.program_id(0).to(tl.int64) * {0} + tl.arange(0, {0})[:, None]", row_count_));
    line(fmt::format("is_row = row < {}", index_.print(rows_)));
    decode(kernel_.outer, "row");
    if (!kernel_.inner.empty() && !is_looped_) open_elements("0");
  }

  void open_elements(const std::string& first) {
    line(fmt::format("element = ({} + tl.arange(0, {})[None, :]).to(tl.int64)", first, width_));
    line(fmt::format("is_element = is_row & (element < {})", index_.print(length_)));
    decode(kernel_.inner, "element");
  }

  void decode(const std::vector<sym::Expr>& axes, const std::string& place) {
    std::string rest = place;
    for (size_t d = axes.size(); d-- > 0;) {
      if (axes[d].is_const()) continue;
      const std::string& name = names_.of(axes[d]);
      if (d == 0) {
        line(fmt::format("{} = {}", name, rest));
        break;
      }
      const std::string size = index_.print(extent(axes[d]));
      line(fmt::format("{} = {} % {}", name, rest, size));
      rest = named("rest", fmt::format("{} // {}", rest, size));
    }
  }

  // ---- stages

  void once_stage(const Stage& stage) {
    for (const schedule::Statement& statement : stage.statements) {
      match(
          statement, [&](const schedule::Store& s) { store(s, "is_row"); },
          [&](const schedule::Accumulate& s) {  // of one element
            const auto& accumulator = kernel_.accumulators[static_cast<size_t>(s.accumulator)];
            accumulated_[s.accumulator] = {named("acc", value(s.value)), exprs_.dtype(s.value)};
            if (accumulator.op == ReduceOp::ArgMin || accumulator.op == ReduceOp::ArgMax) throw NotInTriton("an arg-reduction");
          },
          [&](const schedule::Keep& s) { stashed_[s.stash] = value(s.value); });
    }
  }

  void row_stage(const Stage& stage) {
    if (is_looped_) return looped_stage(stage);
    // One that may be left out changes nothing where it is not: what it computes is there already.
    for (const schedule::Statement& statement : stage.statements) {
      match(
          statement, [&](const schedule::Store& s) { store(s, "is_element"); },
          [&](const schedule::Accumulate& s) {
            const auto& [op, dtype] = type_of(s);
            const std::string element =
                named("each", fmt::format("tl.where(is_element, {}, {})", value(s.value), triton_identity(op, dtype)));
            reduce(s, whole(element, dtype));
          },
          [&](const schedule::Keep& s) { stashed_[s.stash] = value(s.value); });
    }
  }

  // Lanes have sums of their own, so that each is of few numbers.
  void looped_stage(const Stage& stage) {
    if (stage.condition) throw NotInTriton("a stage that may be left out and reads its row again");
    std::vector<std::string> partial(stage.statements.size());
    for (size_t i = 0; i < stage.statements.size(); ++i) {
      const auto* s = std::get_if<schedule::Accumulate>(&stage.statements[i]);
      if (s == nullptr) continue;
      const auto& [op, dtype] = type_of(*s);
      partial[i] =
          named("lanes", fmt::format("tl.full([{}, {}], {}, {})", row_count_, width_, triton_identity(op, dtype), triton_type(dtype)));
    }
    scopes_.emplace_back();
    line(fmt::format("for first in range(0, {}, {}):", index_.print(length_), width_));
    ++depth_;
    open_elements("first");
    for (size_t i = 0; i < stage.statements.size(); ++i) {
      match(
          stage.statements[i], [&](const schedule::Store& s) { store(s, "is_element"); },
          [&](const schedule::Accumulate& s) {
            const auto& [op, dtype] = type_of(s);
            const std::string element =
                named("each", fmt::format("tl.where(is_element, {}, {})", value(s.value), triton_identity(op, dtype)));
            line(fmt::format("{} = {}", partial[i], triton_combine(op, dtype, partial[i], whole(element, dtype))));
          },
          [&](const schedule::Keep&) { throw NotInTriton("a row that is kept and does not fit a tile"); });
    }
    --depth_;
    scopes_.pop_back();
    for (size_t i = 0; i < stage.statements.size(); ++i) {
      const auto* s = std::get_if<schedule::Accumulate>(&stage.statements[i]);
      if (s == nullptr) continue;
      reduce(*s, partial[i]);
    }
  }

  // What lanes have, or elements; where sums are to be the most exact, they are added in double.
  void reduce(const schedule::Accumulate& s, const std::string& tile) {
    const auto& [op, dtype] = type_of(s);
    const bool in_double = kernel_.accumulators[static_cast<size_t>(s.accumulator)].care == loop::SumCare::Finest && dtype == DType::F32;
    const DType of_sum = in_double ? DType::F64 : dtype;
    accumulated_[s.accumulator] = {named("acc", triton_reduce(op, of_sum, in_double ? tile + ".to(tl.float64)" : tile)), of_sum};
  }

  std::string sum_of(const loop::Accumulated& e, DType dtype) {
    const auto& [name, is] = accumulated_.at(e.id);
    return triton_convert(is, dtype, name);
  }

  std::pair<ReduceOp, DType> type_of(const schedule::Accumulate& s) const {
    const auto& accumulator = kernel_.accumulators[static_cast<size_t>(s.accumulator)];
    return {accumulator.op, exprs_.dtype(s.value)};
  }

  // A tile in all its elements, of one dtype.
  std::string whole(const std::string& element, DType dtype) const {
    return fmt::format("tl.broadcast_to({}, [{}, {}]).to({})", element, row_count_, width_, triton_type(dtype));
  }

  void store(const schedule::Store& s, std::string_view mask) {
    const std::string of = value(s.value);
    store(s.buffer, s.position, of, mask);
  }
  // Its places are as many as what the mask says.
  void store(loop::BufferId buffer, sym::Expr position, const std::string& of, std::string_view mask) {
    std::string at = index_.print(position);
    if (!depends_on(position, kernel_.outer)) at = fmt::format("({} + row * 0)", at);
    if (mask == "is_element" && !depends_on(position, kernel_.inner)) at = fmt::format("({} + element * 0)", at);
    line(fmt::format("tl.store({} + {}, ({}).to({}), {})", memory_.at(buffer), at, of, triton_type(program_.buffer(buffer).dtype), mask));
  }

  // A position for each row at least, so that there is a mask for each.
  std::string place(sym::Expr position) {
    const std::string text = index_.print(position);
    return depends_on(position, kernel_.outer) || depends_on(position, kernel_.inner) ? text : fmt::format("({} + row * 0)", text);
  }

  static bool depends_on(sym::Expr position, const std::vector<sym::Expr>& axes) {
    return std::ranges::any_of(axes, [&](sym::Expr axis) { return !axis.is_const() && sym::depends_on(position, axis); });
  }

  // ---- values

  std::string value(ExprId id) {
    for (const auto& scope : scopes_) {
      if (const auto found = scope.find(id); found != scope.end()) return found->second;
    }
    const loop::ExprNode& node = exprs_.node(id);
    if (const auto* accumulated = std::get_if<loop::Accumulated>(&node.op)) return sum_of(*accumulated, node.dtype);
    if (const auto* stashed = std::get_if<loop::Stashed>(&node.op)) return stashed_.at(stashed->id);
    std::string name;
    if (const auto* masked = std::get_if<loop::Masked>(&node.op)) {
      name = value_where(*masked);
    } else {
      const std::string text = text_of(node);
      name = named(base_of(node), text);
    }
    scopes_.back()[id] = name;
    return name;
  }

  std::string base_of(const loop::ExprNode& node) const {
    if (const auto* compute = std::get_if<loop::Compute>(&node.op)) return std::string(to_string(compute->op));
    return std::holds_alternative<loop::Load>(node.op) ? "loaded" : "t";
  }

  // Loads of the value happen where the condition holds.
  std::string value_where(const loop::Masked& op) {
    const std::string condition = value(op.condition);
    conditions_.push_back(condition);
    scopes_.emplace_back();
    const std::string inside = value(op.value);
    scopes_.pop_back();
    conditions_.pop_back();
    const std::string otherwise = value(op.otherwise);
    return named("chosen", fmt::format("tl.where({}, {}, {})", condition, inside, otherwise));
  }

  std::string text_of(const loop::ExprNode& node) {
    return match(
        node.op, [&](const loop::Literal& e) { return triton_literal(e.value, node.dtype); },
        [&](const loop::Index& e) {
          if (e.value.is_const()) return triton_literal(Scalar(e.value), node.dtype);
          return fmt::format("({} + row * 0).to({})", index_.print(e.value), triton_type(node.dtype));
        },
        [&](const loop::Load& e) { return load(e); },
        [&](const loop::Compute& e) {
          std::vector<std::string> operands;
          for (const ExprId operand : e.operands) operands.push_back(value(operand));
          return triton_scalar(e.op, exprs_.dtype(e.operands[e.op == ScalarOp::Where ? 1 : 0]), operands);
        },
        [&](const loop::Convert& e) { return triton_convert(exprs_.dtype(e.operand), node.dtype, value(e.operand)); },
        [&](const loop::BitcastTo& e) {
          if (e.from != e.to || !is_floating(e.to)) throw NotInTriton("bits of a number as another one");
          rounds_ = true;
          return is_reduced_float(e.to) ? fmt::format("{}.to({}).to(tl.float32)", value(e.operand), triton_type(e.to)) : value(e.operand);
        },
        [&](const auto&) -> std::string { TOROID_CHECK(false, "an expression that is printed elsewhere"); });
  }

  std::string load(const loop::Load& e) {
    const loop::Buffer& buffer = program_.buffer(e.buffer);
    std::string mask = depends_on(e.index[0], kernel_.inner) ? "is_element" : "is_row", at = place(e.index[0]);
    if (!conditions_.empty()) {
      mask += " & " + fmt::format("{}", fmt::join(conditions_, " & "));
      at = fmt::format("tl.where({}, {}, 0)", mask, at);  // a place elsewhere may be none
    }
    const DType dtype = loop::register_dtype(buffer.dtype);
    return fmt::format("tl.load({} + {}, {}, 0){}", memory_.at(e.buffer), at, mask,
                       dtype == buffer.dtype && dtype != DType::Bool ? "" : fmt::format(".to({})", triton_type(dtype)));
  }

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  const schedule::Kernel& kernel_;
  const schedule::Step& step_;
  SymbolNames names_;
  TritonIndex index_;
  std::vector<std::string> parameters_;
  std::unordered_map<loop::BufferId, std::string> memory_;
  sym::Expr rows_, length_;
  int64_t row_count_ = 1, width_ = 1;
  bool is_looped_ = false, rounds_ = false;
  std::string lines_;
  size_t depth_ = 1;
  int counter_ = 0;
  std::vector<std::unordered_map<ExprId, std::string>> scopes_ = {{}};
  std::vector<std::string> conditions_;
  std::unordered_map<loop::AccumulatorId, std::pair<std::string, DType>> accumulated_;  // and its dtype
  std::unordered_map<loop::StashId, std::string> stashed_;
};

}  // namespace

std::variant<PrintedTriton, std::string> print_triton(const loop::LoopProgram& program, const schedule::Step& step) {
  try {
    if (const auto* kernel = std::get_if<schedule::Kernel>(&step)) return TritonPrinter(program, *kernel, step).run();
    const auto* scan = std::get_if<schedule::ScanKernel>(&step);
    if (scan == nullptr) throw NotInTriton("neither a map nor a reduction nor a scan");
    schedule::Kernel axes;
    axes.outer = scan->outer;
    axes.inner = {scan->along};
    axes.reads = scan->reads;
    axes.writes = scan->outputs;
    axes.gpu.emplace();
    return TritonPrinter(program, axes, step).run(*scan);
  } catch (const NotInTriton& refusal) {
    return std::string(refusal.what());
  }
}

}  // namespace toroid::codegen
