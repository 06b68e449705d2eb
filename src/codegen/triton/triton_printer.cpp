#include "codegen/triton/triton_printer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/cpp/divisions.h"
#include "codegen/cpp/print_index.h"
#include "codegen/python/python_index.h"
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
constexpr std::string_view kNoPlace = "9223372036854775807";
// By measurements on an H200: a thread has so many elements of a whole row, of a tile without reductions, and of other tiles.
constexpr int64_t kElementsOfRowWarp = 32 * 32, kElementsOfMapWarp = 32 * 16, kElementsOfWarp = 32 * 8;
// Of a tile whose rows lie beside each other: so many elements, of rows that fill a line of memory. Programs are to fill the device.
constexpr int64_t kElementsOfColumns = 8192;
constexpr int64_t kMostColumns = 64, kFewestColumns = 32, kPrograms = 264;
constexpr int64_t kSquare = 64;  // a side of a tile that is read along one axis and written along another
constexpr int64_t kChunk = 8;    // elements whose sum is a float, before sums are added in double

// Integer expressions in Triton's language, whose divisions truncate as C's.
class TritonIndex final : public PythonIndex {
 public:
  // `type`: of the expressions. `value_of`: the name of an index that is read from a tensor.
  TritonIndex(const loop::ExprTable& exprs, SymbolNames& names, std::function<std::string(sym::Expr)> value_of)
      : exprs_(exprs), names_(names), value_of_(std::move(value_of)) {}
  void set_type(std::string type) { type_ = std::move(type); }

 private:
  std::string symbol(sym::Expr e) const override { return exprs_.value_symbol(e) != nullptr ? value_of_(e) : names_.of(e); }
  std::string quotient(sym::Expr a, sym::Expr b) const override { return divided(a, b, "//", "floor_div"); }
  std::string remainder(sym::Expr a, sym::Expr b) const override { return divided(a, b, "%", "floor_mod"); }
  std::string truth(const std::string& comparison) const override { return fmt::format("({}).to({})", comparison, type_); }
  std::string_view minimum() const override { return "tl.minimum"; }
  std::string_view maximum() const override { return "tl.maximum"; }
  [[noreturn]] void refuse_reals() const override { throw NotInTriton("an index of real numbers"); }

  std::string divided(sym::Expr a, sym::Expr b, std::string_view sign, std::string_view function) const {
    const std::string first = print(a), second = print(b);
    return least(a) < 0 || least(b) <= 0 ? fmt::format("{}({}, {})", function, first, second)
                                         : fmt::format("({} {} {})", first, sign, second);
  }

  const loop::ExprTable& exprs_;
  SymbolNames& names_;
  std::function<std::string(sym::Expr)> value_of_;
  std::string type_ = "tl.int64";
};

class TritonPrinter {
 public:
  // `step`: which `kernel` is, or stands for. `in_squares`: rows and elements are axes of a transpose.
  TritonPrinter(const loop::LoopProgram& program, const schedule::Kernel& kernel, const schedule::Step& step, bool in_squares = false)
      : program_(program),
        exprs_(program.exprs),
        kernel_(kernel),
        step_(step),
        in_squares_(in_squares),
        index_(exprs_, names_, [this](sym::Expr e) { return index_read(e); }) {}

  PrintedTriton run() {
    refuse_what_is_not_printed();
    PrintedTriton result;
    take_parameters(result);
    take_tile();
    take_index_type(result);
    open_rows();
    for (const Stage& stage : kernel_.stages) stage.inner ? row_stage(stage) : once_stage(stage);
    return finish(std::move(result));
  }

  // Of a row that is one tile, or of many rows, each of which a program goes through. `kernel_` has its axes alone.
  PrintedTriton run(const schedule::ScanKernel& scan) {
    if (scan.op != ScanOp::Sum && scan.op != ScanOp::Prod) throw NotInTriton(fmt::format("the scan {}", to_string(scan.op)));
    const DType own = exprs_.dtype(scan.value);
    if (!is_floating(own) && size_bytes(own) < 4) throw NotInTriton(fmt::format("a scan of {}", to_string(own)));
    PrintedTriton result;
    take_parameters(result);
    take_tile();
    if (is_looped_ && !(rows_.is_const() && rows_.value() >= kPrograms)) throw NotInTriton("a scan of few rows that do not fit a tile");
    const auto place_of_element = sym::linear_in(scan.positions[0], scan.along);
    if (!place_of_element || !place_of_element->coefficient.is_const(1)) throw NotInTriton("a scan across the rows of memory");
    take_index_type(result, {scan.value}, scan.positions);
    open_rows();
    // A running sum of floats is one chain of roundings: it is in double.
    const DType dtype = is_floating(own) ? DType::F64 : own;
    const bool is_sum = scan.op == ScanOp::Sum;
    const ReduceOp op = is_sum ? ReduceOp::Sum : ReduceOp::Prod;
    const std::string identity = triton_identity(op, dtype);
    std::string before;  // of a row that is gone through in pieces: what comes of those before
    if (is_looped_) {
      before = named("before", fmt::format("tl.full([{}, 1], {}, {})", row_count_, identity, triton_type(dtype)));
      scopes_.emplace_back(), read_.emplace_back();
      line(fmt::format("for first in range(0, {}, {}):", index_.print(length_), width_));
      ++depth_;
      open_elements("first");
    }
    const std::string element = named("each", element_or(value(scan.value), identity));
    std::string scanned = named("scan", fmt::format("tl.{}({}, axis=1)", is_sum ? "cumsum" : "cumprod", whole(element, dtype)));
    if (is_looped_) scanned = named("scan", triton_combine(op, dtype, before, scanned));
    const std::string narrow = named("t", triton_convert(dtype, own, scanned));
    store(scan.outputs[0], scan.positions[0], narrow, true);
    if (is_looped_) {
      line(fmt::format("{} = {}", before, triton_combine(op, dtype, before, triton_reduce(op, dtype, whole(element, dtype)))));
      --depth_;
      scopes_.pop_back(), read_.pop_back();
    }
    return finish(std::move(result));
  }

 private:
  PrintedTriton finish(PrintedTriton result) {
    result.blocks = sym::ceil_div(rows_, row_count_) * (in_squares_ ? sym::ceil_div(length_, width_) : sym::Expr(1));
    result.reports_errors = reports_errors_;
    if (reports_errors_) {
      parameters_.insert(parameters_.end(), {"failure", "step"});
      result.kernel.arguments.push_back({.name = "failure", .type = "*i64", .multiple = kTritonMultiple});
      result.kernel.arguments.push_back({.name = "step", .type = "i32"});
    }
    result.kernel.function = "kernel";
    result.kernel.file = "a kernel of the program";
    result.kernel.source = fmt::format("{}@triton.jit\ndef kernel({}):\n{}", kTritonPrelude, fmt::join(parameters_, ", "), lines_);
    const bool is_row = !kernel_.accumulators.empty() && !is_looped_ && !kernel_.gpu->columns;
    const bool is_map = kernel_.inner.empty() || in_squares_;
    const int64_t warps = row_count_ * width_ / (is_row ? kElementsOfRowWarp : is_map ? kElementsOfMapWarp : kElementsOfWarp);
    constexpr uint64_t kFewestWarps = 2, kMostWarps = 16;
    result.kernel.warps =
        static_cast<int>(std::clamp(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(warps, 1))), kFewestWarps, kMostWarps));
    if (kernel_.gpu->triton_warps > 0) result.kernel.warps = kernel_.gpu->triton_warps;
    result.kernel.stages = 2;
    result.kernel.flushes_subnormals = false;
    result.kernel.fuses_products = kernel_.unfused.empty() && !rounds_;
    return result;
  }

  void refuse_what_is_not_printed() const {
    const schedule::GpuLoops gpu = kernel_.gpu.value_or(schedule::GpuLoops{});
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
    if (in_squares_) {
      row_count_ = width_ = kSquare;
      return;
    }
    is_looped_ = !kernel_.inner.empty() && !(length_.is_const() && length_.value() <= kMostOfRow);
    if (kernel_.inner.empty()) {
      width_ = 1;
      row_count_ = kElementsOfTile;
      return;
    }
    if (kernel_.gpu->columns) {  // rows lie beside each other
      const bool are_many = rows_.is_const() && rows_.value() >= kMostColumns * kPrograms;
      row_count_ = are_many ? kMostColumns : kFewestColumns;
      const int64_t length = length_.is_const() ? std::max<int64_t>(length_.value(), 1) : kElementsOfColumns;
      width_ = std::min(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))), kElementsOfColumns / row_count_);
      is_looped_ = !(length_.is_const() && length_.value() <= width_);
      if (is_looped_ && !kernel_.stashes.empty()) throw NotInTriton("a row that is kept and does not fit a tile");
      return;
    }
    if (is_looped_ && !kernel_.stashes.empty()) throw NotInTriton("a row that is kept and does not fit a tile");
    width_ = is_looped_ ? kPiece : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(length_.value(), 1))));
    row_count_ = std::max<int64_t>(1, kElementsOfTile / width_);
  }

  // 32 bits where all that is computed of places and indices fits them. `values`, `places`: beside the stages'.
  void take_index_type(const PrintedTriton& printed, std::vector<ExprId> values = {}, std::vector<sym::Expr> places = {}) {
    for (const Stage& stage : kernel_.stages) {
      if (stage.condition) values.push_back(*stage.condition);
      for (const schedule::Statement& statement : stage.statements) {
        match(
            statement, [&](const schedule::Store& s) { values.push_back(s.value), places.push_back(s.position); },
            [&](const schedule::Accumulate& s) {
              values.push_back(s.value);
              if (is_arg(s)) places.push_back(s.position);
            },
            [&](const schedule::Keep& s) { values.push_back(s.value); });
      }
    }
    for (const ExprId id : loop::reachable(exprs_, values)) {
      const loop::ExprOp& op = exprs_.node(id).op;
      if (const auto* load = std::get_if<loop::Load>(&op)) places.push_back(load->index[0]);
      if (const auto* index = std::get_if<loop::Index>(&op)) places.push_back(index->value);
    }
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const auto is_short = [&](sym::Expr size, int64_t tile) { return size.is_const() && size.value() <= kMost - tile; };
    const bool is_narrow =
        printed.sizes.empty() && is_short(rows_, row_count_) && is_short(length_, width_) && std::ranges::all_of(places, fits_32_bits);
    index_type_ = is_narrow ? "tl.int32" : "tl.int64";
    index_.set_type(index_type_);
    const auto divides = [](sym::Expr size, int64_t by) { return size.is_const() && size.value() > 0 && size.value() % by == 0; };
    fills_rows_ = divides(rows_, row_count_);
    fills_elements_ = kernel_.inner.empty() || divides(length_, width_);
  }

  // ---- lines

  void line(const std::string& text) { lines_ += std::string(4 * depth_, ' ') + text + "\n"; }
  std::string named(std::string_view base, const std::string& text) {
    std::string name = fmt::format("{}_v{}", base, ++counter_);
    line(fmt::format("{} = {}", name, text));
    return name;
  }

  // Rows and elements that are there have masks, but where tiles are whole.
  void open_rows() {
    const std::string own = index_type_ == "tl.int32" ? "tl.program_id(0)" : "tl.program_id(0).to(tl.int64)";
    const std::string pieces = in_squares_ ? index_.print(sym::ceil_div(length_, width_)) : "";
    const std::string rows = in_squares_ ? fmt::format("({} // {})", own, pieces) : own;
    line(fmt::format("row = {1} * {0} + tl.arange(0, {0})[:, None]", row_count_, rows));
    if (!fills_rows_) line(fmt::format("is_row = row < {}", index_.print(rows_)));
    decode(kernel_.outer, "row");
    if (in_squares_) return open_elements(fmt::format("({} % {}) * {}", own, pieces, width_));
    if (!kernel_.inner.empty() && !is_looped_) open_elements("");
  }

  void open_elements(const std::string& first) {
    const std::string lanes = fmt::format("tl.arange(0, {})[None, :]", width_);
    line(fmt::format("element = ({}{}).to({})", first.empty() ? "" : first + " + ", lanes, index_type_));
    if (!fills_elements_) line(fmt::format("is_element = {}(element < {})", fills_rows_ ? "" : "is_row & ", index_.print(length_)));
    decode(kernel_.inner, "element");
  }

  // What of a tile is there; "" for all of it.
  std::string mask(bool of_elements) const {
    std::vector<std::string> parts = conditions_;
    if (of_elements && !fills_elements_) {
      parts.insert(parts.begin(), "is_element");
    } else if (!fills_rows_) {
      parts.insert(parts.begin(), "is_row");
    }
    return fmt::format("{}", fmt::join(parts, " & "));
  }
  // The element, or beyond the row what changes nothing.
  std::string element_or(const std::string& element, const std::string& otherwise) const {
    return fills_elements_ ? element : fmt::format("tl.where(is_element, {}, {})", element, otherwise);
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
          statement, [&](const schedule::Store& s) { store(s, false); },
          [&](const schedule::Accumulate& s) {  // of one element
            if (is_arg(s)) {
              accumulated_[s.accumulator] = {named("acc", fmt::format("({} + row * 0).to(tl.int64)", index_.print(s.position))),
                                             DType::I64};
            } else {
              accumulated_[s.accumulator] = {named("acc", value(s.value)), exprs_.dtype(s.value)};
            }
          },
          [&](const schedule::Keep& s) { stashed_[s.stash] = value(s.value); });
    }
  }

  void row_stage(const Stage& stage) {
    if (is_looped_) return looped_stage(stage);
    // One that may be left out changes nothing where it is not: what it computes is there already.
    const bool is_left_out = stage.condition && row_count_ == 1 && std::ranges::all_of(stage.statements, [&](const auto& each) {
                               const auto* s = std::get_if<schedule::Accumulate>(&each);
                               return s != nullptr && !is_arg(*s);
                             });
    if (is_left_out) return stage_where(stage);
    for (const schedule::Statement& statement : stage.statements) {
      match(
          statement, [&](const schedule::Store& s) { store(s, true); },
          [&](const schedule::Accumulate& s) {
            const std::string element = element_of(s);
            reduce(s, element, is_arg(s) ? place_of(s) : "");
          },
          [&](const schedule::Keep& s) { stashed_[s.stash] = value(s.value); });
    }
  }

  bool is_arg(const schedule::Accumulate& s) const {
    const ReduceOp op = kernel_.accumulators[static_cast<size_t>(s.accumulator)].op;
    return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax;
  }
  // Of an element in its row; behind all of them where there is none.
  std::string place_of(const schedule::Accumulate& s) {
    const std::string at = element_or(fmt::format("({} + element * 0).to(tl.int64)", index_.print(s.position)), std::string(kNoPlace));
    return whole(named("at", at), DType::I64);
  }

  // One row, whose sums stay what they begin with where the condition does not hold.
  void stage_where(const Stage& stage) {
    const std::string condition = named("condition", fmt::format("tl.max({}.to(tl.int32))", value(*stage.condition)));
    std::vector<std::string> names;
    for (const schedule::Statement& statement : stage.statements) {
      const auto& s = std::get<schedule::Accumulate>(statement);
      const auto& [op, dtype] = type_of(s);
      const DType of_sum = dtype_of_sum(s);
      names.push_back(named("acc", fmt::format("tl.full([1, 1], {}, {})", triton_identity(op, dtype), triton_type(of_sum))));
    }
    scopes_.emplace_back(), read_.emplace_back();
    line(fmt::format("if {} != 0:", condition));
    ++depth_;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto& s = std::get<schedule::Accumulate>(stage.statements[i]);
      line(fmt::format("{} = {}", names[i], reduced(s, element_of(s))));
    }
    --depth_;
    scopes_.pop_back(), read_.pop_back();
    for (size_t i = 0; i < names.size(); ++i) {
      const auto& s = std::get<schedule::Accumulate>(stage.statements[i]);
      accumulated_[s.accumulator] = {names[i], dtype_of_sum(s)};
    }
  }

  // What each element of the tile gives to a sum.
  std::string element_of(const schedule::Accumulate& s) {
    const auto& [op, dtype] = type_of(s);
    const std::string wide = dtype == exprs_.dtype(s.value) ? "" : fmt::format(".to({})", triton_type(dtype));
    return whole(named("each", element_or(value(s.value) + wide, triton_identity(op, dtype))), dtype);
  }

  // Lanes have sums of their own, so that each is of few numbers.
  void looped_stage(const Stage& stage) {
    if (stage.condition) throw NotInTriton("a stage that may be left out and reads its row again");
    std::vector<std::string> partial(stage.statements.size()), places(stage.statements.size());
    for (size_t i = 0; i < stage.statements.size(); ++i) {
      const auto* s = std::get_if<schedule::Accumulate>(&stage.statements[i]);
      if (s == nullptr) continue;
      const auto& [op, dtype] = type_of(*s);
      partial[i] =
          named("lanes", fmt::format("tl.full([{}, {}], {}, {})", row_count_, width_, triton_identity(op, dtype), triton_type(dtype)));
      if (is_arg(*s)) places[i] = named("places", fmt::format("tl.full([{}, {}], {}, tl.int64)", row_count_, width_, kNoPlace));
    }
    scopes_.emplace_back(), read_.emplace_back();
    line(fmt::format("for first in range(0, {}, {}):", index_.print(length_), width_));
    ++depth_;
    open_elements("first");
    for (size_t i = 0; i < stage.statements.size(); ++i) {
      match(
          stage.statements[i], [&](const schedule::Store& s) { store(s, true); },
          [&](const schedule::Accumulate& s) {
            const auto& [op, dtype] = type_of(s);
            const std::string element = element_of(s);
            if (is_arg(s)) {
              const std::string at = place_of(s);
              line(fmt::format("{0}, {1} = {2}({0}, {1}, {3}, {4})", partial[i], places[i], triton_better(op), element, at));
            } else {
              line(fmt::format("{} = {}", partial[i], triton_combine(op, dtype, partial[i], element)));
            }
          },
          [&](const schedule::Keep&) { throw NotInTriton("a row that is kept and does not fit a tile"); });
    }
    --depth_;
    scopes_.pop_back(), read_.pop_back();
    for (size_t i = 0; i < stage.statements.size(); ++i) {
      const auto* s = std::get_if<schedule::Accumulate>(&stage.statements[i]);
      if (s == nullptr) continue;
      reduce(*s, partial[i], places[i]);
    }
  }

  // `places`: of the elements, for the place of the best one.
  void reduce(const schedule::Accumulate& s, const std::string& tile, const std::string& places) {
    if (!places.empty()) {
      const std::string best =
          named("best", fmt::format("tl.reduce(({}, {}), 1, {}, keep_dims=True)", tile, places, triton_better(type_of(s).first)));
      accumulated_[s.accumulator] = {best + "[1]", DType::I64};
      return;
    }
    accumulated_[s.accumulator] = {named("acc", reduced(s, tile)), dtype_of_sum(s)};
  }
  // Where sums are to be the most exact, they are added in double.
  DType dtype_of_sum(const schedule::Accumulate& s) const {
    const DType dtype = type_of(s).second;
    const bool is_finest = kernel_.accumulators[static_cast<size_t>(s.accumulator)].care == loop::SumCare::Finest;
    return is_finest && dtype == DType::F32 ? DType::F64 : dtype;
  }
  // What lanes have, or elements, as one for each row. Doubles are slow: neighbours are added before.
  std::string reduced(const schedule::Accumulate& s, const std::string& tile) const {
    const auto& [op, dtype] = type_of(s);
    const DType of_sum = dtype_of_sum(s);
    if (of_sum == dtype) return triton_reduce(op, of_sum, tile);
    const bool in_chunks = op == ReduceOp::Sum && !kernel_.gpu->columns && width_ >= kChunk;
    return triton_reduce(
        op, of_sum,
        (in_chunks ? fmt::format("tl.sum(tl.reshape({}, [{}, {}, {}]), axis=2)", tile, row_count_, width_ / kChunk, kChunk) : tile) +
            ".to(tl.float64)");
  }

  std::string sum_of(const loop::Accumulated& e, DType dtype) {
    const auto& [name, is] = accumulated_.at(e.id);
    return triton_convert(is, dtype, name);
  }

  // What is reduced has 32 bits at least where its place is asked for.
  std::pair<ReduceOp, DType> type_of(const schedule::Accumulate& s) const {
    const auto& accumulator = kernel_.accumulators[static_cast<size_t>(s.accumulator)];
    const DType dtype = exprs_.dtype(s.value);
    return {accumulator.op, is_arg(s) && size_bytes(dtype) < 4 ? DType::I32 : dtype};
  }

  // A tile in all its elements, of one dtype.
  std::string whole(const std::string& element, DType dtype) const {
    return fmt::format("tl.broadcast_to({}, [{}, {}]).to({})", element, row_count_, width_, triton_type(dtype));
  }

  // `of_elements`: for each element of the row, else once a row.
  void store(const schedule::Store& s, bool of_elements) {
    const std::string of = value(s.value);
    store(s.buffer, s.position, of, of_elements);
  }
  // Its places are as many as what is stored.
  void store(loop::BufferId buffer, sym::Expr position, const std::string& of, bool of_elements) {
    std::string at = index_.print(position);
    if (!depends_on(position, kernel_.outer)) at = fmt::format("({} + row * 0)", at);
    if (of_elements && !depends_on(position, kernel_.inner)) at = fmt::format("({} + element * 0)", at);
    const std::string where = mask(of_elements);
    line(fmt::format("tl.store({} + {}, ({}).to({}){}{})", memory_.at(buffer), at, of, triton_type(program_.buffer(buffer).dtype),
                     where.empty() ? "" : ", ", where));
  }

  // A position for each row at least, so that there is a mask for each.
  std::string place(sym::Expr position) {
    const std::string text = index_.print(position);
    return depends_on(position, kernel_.outer) || depends_on(position, kernel_.inner) ? text : fmt::format("({} + row * 0)", text);
  }

  // Directly, or by an index that is read from a place that does.
  bool depends_on(sym::Expr position, const std::vector<sym::Expr>& axes) const {
    if (std::ranges::any_of(axes, [&](sym::Expr axis) { return !axis.is_const() && sym::depends_on(position, axis); })) return true;
    if (position.is_const()) return false;
    return std::ranges::any_of(sym::free_symbols(position), [&](sym::Expr symbol) {
      const loop::ValueSymbol* read = exprs_.value_symbol(symbol);
      if (read == nullptr) return false;
      for (const ExprId id : loop::reachable(exprs_, {read->index})) {
        const loop::ExprOp& op = exprs_.node(id).op;
        if (const auto* load = std::get_if<loop::Load>(&op); load != nullptr && depends_on(load->index[0], axes)) return true;
        if (const auto* index = std::get_if<loop::Index>(&op); index != nullptr && depends_on(index->value, axes)) return true;
      }
      return false;
    });
  }

  // ---- indices that are read, and what goes wrong

  // Of elements that are there an index out of bounds is an error, the first of which the host is told; it becomes 0.
  std::string index_read(sym::Expr symbol) {
    for (const auto& scope : read_) {
      if (const auto found = scope.find(symbol); found != scope.end()) return found->second;
    }
    const loop::ValueSymbol checked = *exprs_.value_symbol(symbol);
    const std::string from = value(checked.index), size = index_.print(checked.size);
    const std::string bad =
        named("bad", there_and(fmt::format("(({0} < 0) | ({0} >= {1}))", from, size), depends_on(symbol, kernel_.inner)));
    report(bad, 1, from,
           fmt::format("({}).to(tl.int64)", checked.size.is_const() ? fmt::format("tl.full([1, 1], {}, tl.int64)", size) : size));
    const std::string name = named("v", fmt::format("tl.where({}, 0, {}).to({})", bad, from, index_type_));
    read_.back()[symbol] = name;
    return name;
  }
  std::string there_and(const std::string& what, bool of_elements) const {
    const std::string where = mask(of_elements);
    return where.empty() ? what : fmt::format("{} & {}", where, what);
  }
  // As Failure of the other printer has it: code and step, index, size.
  void report(const std::string& bad, int code, const std::string& index, const std::string& size) {
    reports_errors_ = true;
    const std::string place = named("place", fmt::format("{}.to(tl.int32) * 0", bad));
    const std::string is_first = named("first_bad", fmt::format("{0} & (tl.load(failure + {1}, {0}, 1) == 0)", bad, place));
    line(fmt::format("tl.store(failure + 1 + {}, {} + {}, {})", place, index, place, is_first));
    line(fmt::format("tl.store(failure + 2 + {}, {} + {}, {})", place, size, place, is_first));
    line(fmt::format("tl.store(failure + {0}, {1} + (step.to(tl.int64) << 32) + {0}, {2})", place, code, is_first));
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
    scopes_.emplace_back(), read_.emplace_back();
    const std::string inside = value(op.value);
    scopes_.pop_back(), read_.pop_back();
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
          if (divides_integers(exprs_, e)) operands[1] = nonzero(e.operands[1], operands[1]);
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

  // A divisor; 0 is an error, and becomes 1.
  std::string nonzero(ExprId id, const std::string& divisor) {
    const bool of_elements = !kernel_.inner.empty() && varies_inside(id);
    const std::string bad = named("bad", there_and(fmt::format("({} == 0)", divisor), of_elements));
    report(bad, 2, "tl.full([1, 1], 0, tl.int64)", "tl.full([1, 1], 0, tl.int64)");
    return named("divisor", fmt::format("tl.where({}, 1, {})", fmt::format("{} == 0", divisor), divisor));
  }
  bool varies_inside(ExprId id) const {
    for (const ExprId each : loop::reachable(exprs_, {id})) {
      const loop::ExprOp& op = exprs_.node(each).op;
      if (std::holds_alternative<loop::Stashed>(op)) return true;
      if (const auto* load = std::get_if<loop::Load>(&op); load != nullptr && depends_on(load->index[0], kernel_.inner)) return true;
      if (const auto* index = std::get_if<loop::Index>(&op); index != nullptr && depends_on(index->value, kernel_.inner)) return true;
    }
    return false;
  }

  std::string load(const loop::Load& e) {
    const loop::Buffer& buffer = program_.buffer(e.buffer);
    const std::string at = place(e.index[0]), where = mask(depends_on(e.index[0], kernel_.inner));
    const DType dtype = loop::register_dtype(buffer.dtype);
    const std::string as = dtype == buffer.dtype && dtype != DType::Bool ? "" : fmt::format(".to({})", triton_type(dtype));
    if (where.empty()) return fmt::format("tl.load({} + {}){}", memory_.at(e.buffer), at, as);
    // A place where a condition does not hold may be none.
    const std::string guarded = conditions_.empty() ? at : fmt::format("tl.where({}, {}, 0)", where, at);
    return fmt::format("tl.load({} + {}, {}, 0){}", memory_.at(e.buffer), guarded, where, as);
  }

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  const schedule::Kernel& kernel_;
  const schedule::Step& step_;
  SymbolNames names_;
  bool in_squares_;
  TritonIndex index_;
  std::vector<std::string> parameters_;
  std::unordered_map<loop::BufferId, std::string> memory_;
  sym::Expr rows_, length_;
  int64_t row_count_ = 1, width_ = 1;
  bool is_looped_ = false, rounds_ = false, reports_errors_ = false;
  std::string index_type_ = "tl.int64";
  bool fills_rows_ = false, fills_elements_ = false;  // tiles are whole
  std::string lines_;
  size_t depth_ = 1;
  int counter_ = 0;
  std::vector<std::unordered_map<ExprId, std::string>> scopes_ = {{}};
  std::vector<std::unordered_map<sym::Expr, std::string>> read_ = {{}};  // indices, by scope
  std::vector<std::string> conditions_;
  std::unordered_map<loop::AccumulatorId, std::pair<std::string, DType>> accumulated_;  // and its dtype
  std::unordered_map<loop::StashId, std::string> stashed_;
};

// The same, whose rows end with the axis that some loads are contiguous along, and whose elements are the other one's. Triton turns a tile
// by itself where two accesses want it differently.
schedule::Kernel with_squares(schedule::Kernel kernel) {
  const sym::Expr rows = *kernel.tile;
  kernel.inner = {kernel.outer.back()};
  kernel.outer.pop_back();
  std::erase(kernel.outer, rows);
  kernel.outer.push_back(rows);
  for (Stage& stage : kernel.stages) stage.inner = true;
  kernel.tile.reset();
  kernel.tiled_loads.clear();
  return kernel;
}

}  // namespace

std::variant<PrintedTriton, std::string> print_triton(const loop::LoopProgram& program, const schedule::Step& step) {
  try {
    if (const auto* kernel = std::get_if<schedule::Kernel>(&step)) {
      const std::optional<schedule::Kernel> turned = kernel->tile ? std::optional(with_squares(*kernel)) : std::nullopt;
      return TritonPrinter(program, turned ? *turned : *kernel, step, turned.has_value()).run();
    }
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
