#include "codegen/halide/halide_printer.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/halide/halide_index.h"
#include "codegen/halide/halide_scalar.h"
#include "graph/builder.h"
#include "schedule/axes.h"
#include "schedule/mentioned.h"
#include "support/match.h"

namespace toroid::codegen {
namespace {

using loop::ExprId;
using schedule::extent;
using schedule::Stage;

constexpr int64_t kLanes = 16;        // of sums of rows: a vector's or two
constexpr int64_t kLongestSum = 256;  // numbers that a lane adds up in their own dtype
constexpr int64_t kShortestSum = 8;   // … else lanes add up in double
constexpr int64_t kBytesOfIndices = int64_t{1} << 31;

// By the sizes' hints, of 32 bits.
int64_t estimate_of(sym::Expr size) { return std::clamp<int64_t>(sym::evaluate_hint(size), 1, kBytesOfIndices / 2); }

bool is_axis_used(sym::Expr position, sym::Expr axis) { return !position.is_const() && sym::depends_on(position, axis); }

class HalidePrinter {
 public:
  HalidePrinter(const loop::LoopProgram& program, const schedule::Kernel& kernel)
      : program_(program), exprs_(program.exprs), kernel_(kernel) {}

  PrintedHalide run(const std::string& autoscheduler) {
    if (kernel_.product) throw NotInHalide("an epilogue of a product");
    name_axes(kernel_.outer, outer_);
    name_axes(kernel_.inner, inner_);
    take_inputs();
    take_sizes();
    for (const Stage& stage : kernel_.stages) print(stage);
    if (result_.outputs.empty()) throw NotInHalide("a kernel that writes nothing");
    std::string text(kHalidePrelude);
    text += "def pipeline():\n";
    if (!axes_text_.empty()) text += axes_text_;
    text += parameters_ + lines_;
    text += fmt::format("    return [{}], [{}]\n", fmt::join(arguments_, ", "), fmt::join(functions_, ", "));
    result_.pipeline =
        with_entry({.entry = "", .source = std::move(text), .autoscheduler = autoscheduler, .file = "a kernel of the program"});
    return std::move(result_);
  }

 private:
  // ---- names

  void name_axes(const std::vector<sym::Expr>& axes, std::vector<sym::Expr>& kept) {
    for (sym::Expr axis : axes) {
      if (axis.is_const()) continue;
      const std::string name = fmt::format("a{}", names_.size());
      names_.emplace(axis, name);
      kept.push_back(axis);
      axes_text_ += fmt::format("    {0} = hl.Var(\"{0}\")\n", name);
    }
  }

  std::string name_of(sym::Expr symbol) const {
    const auto found = names_.find(symbol);
    if (found == names_.end()) throw NotInHalide("an index of something else");
    return found->second;
  }
  std::string index(sym::Expr e, bool is_wide = false) const {
    return halide_index(
        exprs_, e, [&](sym::Expr symbol) { return name_of(symbol); }, is_wide);
  }
  // What a function of these axes is called with, as the axes are called now; the innermost first.
  std::string arguments_of(const std::vector<sym::Expr>& outer, const std::vector<sym::Expr>& inner) const {
    std::vector<std::string> list;
    for (const auto* axes : {&inner, &outer}) {
      for (size_t d = axes->size(); d-- > 0;) list.push_back(name_of((*axes)[d]));
    }
    return list.empty() ? "one" : fmt::format("{}", fmt::join(list, ", "));
  }
  std::string of_row() const { return arguments_of(outer_, {}); }
  // … where it is read, in a definition that may have other axes.
  std::string read_of_row() const { return outer_.empty() ? "0" : of_row(); }

  // ---- lines

  void line(const std::string& text) { lines_ += "    " + text + "\n"; }
  std::string named(std::string_view base, const std::string& text) {
    std::string name = fmt::format("{}{}", base, ++counter_);
    line(fmt::format("{} = {}", name, text));
    return name;
  }
  void function(const std::string& name) { line(fmt::format("{0} = hl.Func(\"{0}\")", name)); }
  std::string reductions(const std::vector<sym::Expr>& extents) {  // along these, the innermost last
    std::vector<std::string> ranges;
    for (size_t d = extents.size(); d-- > 0;) ranges.push_back(fmt::format("(0, {})", index(extents[d])));
    const std::string name = fmt::format("r{}", ++counter_);
    line(fmt::format("{0} = hl.RDom([{1}], \"{0}\")", name, fmt::join(ranges, ", ")));
    return name;
  }

  // ---- what it takes

  void check_bytes(const loop::Buffer& buffer, sym::Expr elements) const {
    if (!elements.is_const()) return;
    if (elements.value() <= 0) throw NotInHalide("a tensor without elements");
    if (elements.value() >= kBytesOfIndices / size_bytes(buffer.dtype)) throw NotInHalide("a tensor of 2^31 bytes");
  }

  void take_inputs() {
    for (const loop::BufferId id : kernel_.reads) {
      const loop::Buffer& buffer = program_.buffer(id);
      if (buffer.kind == loop::BufferKind::RandomState) throw NotInHalide("random numbers");
      if (memory_.contains(id)) continue;
      if (std::ranges::find(kernel_.writes, id) != kernel_.writes.end()) throw NotInHalide("a tensor that it reads and writes");
      const sym::Expr elements = elements_of(buffer);
      check_bytes(buffer, elements);
      const std::string name = fmt::format("p{}", memory_.size());
      memory_.emplace(id, name);
      arguments_.push_back(name);
      result_.inputs.push_back({id, elements});
      parameters_ += fmt::format("    {0} = hl.ImageParam({1}, 1, \"{0}\")\n", name, halide_storage(buffer.dtype));
      if (elements.is_const()) parameters_ += fmt::format("    {}.dim(0).set_bounds(0, {})\n", name, elements.value());
      parameters_ += fmt::format("    {}.set_estimates([(0, {})])\n", name, estimate_of(elements));
    }
  }

  void take_sizes() {
    schedule::Kernel alone = kernel_;
    alone.finish.clear();
    alone.other_forms.clear();
    result_.sizes = schedule::size_symbols(program_, schedule::Step(std::move(alone)));
    for (const sym::Expr size : result_.sizes) {
      const std::string name = fmt::format("n{}", arguments_.size() - result_.inputs.size());
      names_.emplace(size, name);
      arguments_.push_back(name);
      parameters_ += fmt::format("    {0} = hl.Param(hl.Int(32), \"{0}\")\n    {0}.set_estimate({1})\n", name, estimate_of(size));
    }
  }

  // ---- stages

  void print(const Stage& stage) {
    const bool is_inner = stage.inner && !inner_.empty();
    // What is kept comes first: others may have the same value.
    std::vector<schedule::Statement> statements = stage.statements;
    std::ranges::stable_partition(statements, [](const auto& each) { return std::holds_alternative<schedule::Keep>(each); });
    for (const schedule::Statement& statement : statements) {
      match(
          statement, [&](const schedule::Store& s) { store(s, is_inner); },
          [&](const schedule::Accumulate& s) { is_inner ? reduce(s) : accumulate_one(s); },
          [&](const schedule::Keep& s) {
            const std::string name = fmt::format("stash{}", static_cast<uint32_t>(s.stash)), kept = value(s.value);
            function(name);
            line(fmt::format("{}[{}] = {}", name, arguments_of(outer_, is_inner ? inner_ : std::vector<sym::Expr>()), kept));
            is_stash_of_row_[s.stash] = !is_inner;
            if (is_inner) kept_.try_emplace(s.value, s.stash);
          });
    }
  }

  void store(const schedule::Store& s, bool is_inner) {
    const loop::Buffer& buffer = program_.buffer(s.buffer);
    for (const PrintedHalide::Output& other : result_.outputs) {
      if (other.buffer == s.buffer) throw NotInHalide("a tensor that is written in several parts");
    }
    check_bytes(buffer, elements_of(buffer));
    PrintedHalide::Output output{.buffer = s.buffer, .offset = s.position, .dims = {}};
    for (const auto* axes : {&inner_, &outer_}) {
      for (size_t d = axes->size(); d-- > 0;) {
        const sym::Expr axis = (*axes)[d];
        if (axes == &inner_ && !is_inner) {
          if (is_axis_used(s.position, axis)) throw NotInHalide("a place that depends on another axis");
          continue;
        }
        const auto linear = sym::linear_in(output.offset, axis);
        if (!linear || linear->coefficient.is_const(0) || !is_free_of_axes(linear->coefficient))
          throw NotInHalide("a tensor whose places are no sum of axes times strides");
        output.offset = linear->rest;
        output.dims.push_back({extent(axis), linear->coefficient});
      }
    }
    if (!is_free_of_axes(output.offset)) throw NotInHalide("a tensor whose places are no sum of axes times strides");
    if (output.dims.empty()) output.dims.push_back({1, 1});
    const std::string name = fmt::format("out{}", result_.outputs.size()), stored = halide_stored(buffer.dtype, value(s.value));
    function(name);
    line(fmt::format("{}[{}] = {}", name, arguments_of(outer_, is_inner ? inner_ : std::vector<sym::Expr>()), stored));
    describe(output, name);
    functions_.push_back(name);
    result_.outputs.push_back(std::move(output));
  }

  bool is_free_of_axes(sym::Expr e) const {
    if (e.is_const()) return true;
    return std::ranges::none_of(sym::free_symbols(e), [&](sym::Expr symbol) {
      return symbol.node()->symbol_kind == sym::SymbolKind::Axis || exprs_.value_symbol(symbol) != nullptr;
    });
  }

  void describe(const PrintedHalide::Output& output, const std::string& name) {
    std::vector<std::string> estimates;
    for (size_t d = 0; d < output.dims.size(); ++d) {
      const auto& [size, stride] = output.dims[d];
      const std::string dim = fmt::format("{}.output_buffer().dim({})", name, d);
      if (size.is_const()) line(fmt::format("{}.set_bounds(0, {})", dim, size.value()));
      line(stride.is_const() ? fmt::format("{}.set_stride({})", dim, index(stride)) : fmt::format("{}.set_stride(hl.Expr())", dim));
      estimates.push_back(fmt::format("(0, {})", estimate_of(size)));
    }
    line(fmt::format("{}.set_estimates([{}])", name, fmt::join(estimates, ", ")));
  }

  // ---- reductions

  struct Sum {  // an accumulator's function
    DType dtype;
    bool is_position = false;
  };
  static bool is_position(ReduceOp op) { return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax; }

  const schedule::Accumulator& accumulator_of(const schedule::Accumulate& s) const {
    return kernel_.accumulators[static_cast<size_t>(s.accumulator)];
  }
  static std::string name_of_sum(loop::AccumulatorId id) { return fmt::format("acc{}", static_cast<uint32_t>(id)); }

  void accumulate_one(const schedule::Accumulate& s) {
    const schedule::Accumulator& accumulator = accumulator_of(s);
    const std::string name = name_of_sum(s.accumulator);
    const bool at = is_position(accumulator.op);
    const std::string element = at ? index(s.position, true) : value(s.value);
    sums_[s.accumulator] = {at ? DType::I64 : exprs_.dtype(s.value), false};
    function(name);
    line(fmt::format("{}[{}] = {}", name, of_row(), element));
  }

  // What a reduction goes through: the axes are called so meanwhile, and nothing that was printed before is used again.
  class Renamed {
   public:
    explicit Renamed(HalidePrinter& printer) : printer_(printer), names_(printer.names_), values_(std::move(printer.values_)) {
      printer.values_.clear();
    }
    ~Renamed() {
      printer_.names_ = std::move(names_);
      printer_.values_ = std::move(values_);
    }
    Renamed(const Renamed&) = delete;

   private:
    HalidePrinter& printer_;
    std::unordered_map<sym::Expr, std::string> names_;
    std::unordered_map<ExprId, std::string> values_;
  };

  std::vector<sym::Expr> inner_extents(size_t count) const {
    std::vector<sym::Expr> extents;
    for (size_t d = 0; d < count; ++d) extents.push_back(extent(inner_[d]));
    return extents;
  }
  // The inner axes [0, count) are dims of the reduction `r` from `first` on, the last axis the first one.
  void name_reduced(const std::string& r, size_t first, size_t count) {
    for (size_t d = 0; d < count; ++d) names_[inner_[count - 1 - d]] = fmt::format("{}[{}]", r, first + d);
  }

  void reduce(const schedule::Accumulate& s) {
    const schedule::Accumulator& accumulator = accumulator_of(s);
    const DType own = exprs_.dtype(s.value);
    halide_identity(accumulator.op, own);
    if (is_position(accumulator.op)) return reduce_to_position(s, accumulator.op, own);
    const bool is_real_sum = is_floating(own) && (accumulator.op == ReduceOp::Sum || accumulator.op == ReduceOp::Prod);
    const DType wide = is_real_sum ? DType::F64 : own;
    sums_[s.accumulator] = {wide};
    const sym::Expr last = extent(inner_.back());
    constexpr int64_t kLeastRow = 2 * kLanes;
    if (kernel_.vector == schedule::VectorAlong::Inner && sym::evaluate_hint(last) >= kLeastRow)
      return reduce_by_lanes(s, accumulator.op, own, wide, is_real_sum);
    const std::string name = name_of_sum(s.accumulator);
    begin(name, accumulator.op, wide);
    const Renamed renamed(*this);
    const std::string r = reductions(inner_extents(inner_.size()));
    name_reduced(r, 0, inner_.size());
    const std::string element = halide_convert(own, wide, value(s.value));
    add(name, of_row(), accumulator.op, wide, each_time(r, accumulator.op, wide, element));
  }

  // Halide goes through a reduction only where its definition names it, and what is summed may be the same all along the axes.
  static std::string each_time(const std::string& r, ReduceOp op, DType dtype, const std::string& element) {
    return fmt::format("hl.select({}[0] >= 0, {}, {})", r, element, halide_identity(op, dtype));
  }

  void begin(const std::string& name, ReduceOp op, DType dtype) {
    function(name);
    line(fmt::format("{}[{}] = {}", name, of_row(), halide_identity(op, dtype)));
  }
  void add(const std::string& name, const std::string& at, ReduceOp op, DType dtype, const std::string& element) {
    line(fmt::format("{0}[{1}] = {2}", name, at, halide_combine(op, dtype, fmt::format("hl.Expr({}[{}])", name, at), element)));
  }

  void reduce_to_position(const schedule::Accumulate& s, ReduceOp op, DType own) {
    const std::string name = name_of_sum(s.accumulator), best = fmt::format("{}[{}]", name, of_row());
    sums_[s.accumulator] = {DType::I64, true};
    function(name);
    line(fmt::format("{} = ({}, hl.i64(0))", best, halide_identity(op, own)));
    const Renamed renamed(*this);
    const std::string r = reductions(inner_extents(inner_.size()));
    name_reduced(r, 0, inner_.size());
    const std::string element = named("t", value(s.value)), sign = op == ReduceOp::ArgMin ? "<" : ">";
    // The first of equal ones, and the first NaN.
    std::string better = own == DType::Bool ? fmt::format("hl.u8({}) {} hl.u8(hl.Expr({}[0]))", element, sign, best)
                                            : fmt::format("{} {} hl.Expr({}[0])", element, sign, best);
    if (is_floating(own))
      better = fmt::format("hl.logical_not(hl.is_nan(hl.Expr({1}[0]))) & (({2}) | hl.is_nan({0}))", element, best, better);
    const std::string taken = named("t", better);
    line(fmt::format("{0} = (hl.select({1}, {2}, hl.Expr({0}[0])), hl.select({1}, {3}, hl.Expr({0}[1])))", best, taken, element,
                     index(s.position, true)));
  }

  // A row in pieces of `steps` steps of kLanes neighbours. What is left, `tail` elements, is added at the end.
  struct Pieces {
    sym::Expr pieces, steps, tail;
    bool is_masked = false;
  };
  static Pieces pieces_of(sym::Expr row, bool is_real_sum) {
    if (!row.is_const()) {
      const int64_t steps = kLongestSum / 2;
      if (is_real_sum) return {sym::ceil_div(row, kLanes * steps), steps, 0, true};
      return {1, sym::ceil_div(row, kLanes), 0, true};
    }
    const int64_t all = row.value() / kLanes;
    int64_t steps = all;
    if (is_real_sum && all > kLongestSum) {
      steps = kLongestSum;
      for (int64_t each = kLongestSum; each >= kLongestSum / 4; --each) {
        if (all % each < all % steps) steps = each;
      }
    }
    const int64_t pieces = all / steps;
    return {pieces, steps, row.value() - pieces * steps * kLanes, false};
  }

  void reduce_by_lanes(const schedule::Accumulate& s, ReduceOp op, DType own, DType wide, bool is_real_sum) {
    const sym::Expr last = inner_.back(), row = extent(last);
    const Pieces pieces = pieces_of(row, is_real_sum);
    const size_t others = inner_.size() - 1;
    // Lanes have sums of few numbers each: of one piece, at one place of the other axes.
    const bool is_short = pieces.steps.is_const() && pieces.steps.value() < kShortestSum && others > 0;
    const bool keeps_others = is_real_sum && !is_short;
    const DType of_part = is_real_sum && is_short ? wide : own;
    const int number = ++counter_;
    const std::string part = fmt::format("part{}", number), lane = fmt::format("l{}", number), piece = fmt::format("c{}", number);
    line(fmt::format("{0}, {1} = hl.Var(\"{0}\"), hl.Var(\"{1}\")", lane, piece));
    function(part);
    std::vector<sym::Expr> kept(inner_.begin(), inner_.begin() + static_cast<std::ptrdiff_t>(keeps_others ? others : 0));
    const std::string at = fmt::format("{}, {}{}", lane, piece, kept.empty() && outer_.empty() ? "" : ", " + arguments_of(outer_, kept));
    line(fmt::format("{}[{}] = {}", part, at, halide_identity(op, of_part)));
    {
      const Renamed renamed(*this);
      std::vector<sym::Expr> extents = keeps_others ? std::vector<sym::Expr>() : inner_extents(others);
      extents.push_back(pieces.steps);
      const std::string r = reductions(extents);
      if (!keeps_others) name_reduced(r, 1, others);
      std::string place = named("e", fmt::format("({} * {} + {}[0]) * {} + {}", piece, index(pieces.steps), r, kLanes, lane));
      const std::string exact = place;
      if (pieces.is_masked) place = named("e", fmt::format("hl.min({}, {} - 1)", exact, index(row)));
      names_[last] = place;
      std::string element = halide_convert(own, of_part, value(s.value));
      if (pieces.is_masked) {
        element = fmt::format("hl.select({} < {}, {}, {})", exact, index(row), element, halide_identity(op, of_part));
      } else {
        element = each_time(r, op, of_part, element);
      }
      add(part, at, op, of_part, named("t", element));
    }
    const std::string name = name_of_sum(s.accumulator);
    begin(name, op, wide);
    {
      const Renamed renamed(*this);
      std::vector<sym::Expr> extents;
      for (const sym::Expr axis : kept) extents.push_back(extent(axis));
      extents.push_back(pieces.pieces);
      extents.push_back(kLanes);
      const std::string r = reductions(extents);
      for (size_t d = 0; d < kept.size(); ++d) names_[kept[kept.size() - 1 - d]] = fmt::format("{}[{}]", r, d + 2);
      const std::string from =
          fmt::format("{}[{}[0], {}[1]{}]", part, r, r, kept.empty() && outer_.empty() ? "" : ", " + arguments_of(outer_, kept));
      add(name, of_row(), op, wide, halide_convert(of_part, wide, fmt::format("hl.Expr({})", from)));
    }
    if (pieces.tail.is_const(0)) return;
    const Renamed renamed(*this);
    std::vector<sym::Expr> extents = inner_extents(others);
    extents.push_back(pieces.tail);
    const std::string r = reductions(extents);
    name_reduced(r, 1, others);
    names_[last] = named("e", fmt::format("{}[0] + {}", r, index(row - pieces.tail)));
    add(name, of_row(), op, wide, each_time(r, op, wide, halide_convert(own, wide, value(s.value))));
  }

  // ---- values

  std::string value(ExprId id) {
    if (const auto found = values_.find(id); found != values_.end()) return found->second;
    const loop::ExprNode& node = exprs_.node(id);
    const auto kept = kept_.find(id);
    const std::string text = kept == kept_.end() ? text_of(node) : stashed(kept->second);
    std::string name = named("t", text);
    values_[id] = name;
    return name;
  }

  std::string text_of(const loop::ExprNode& node) {
    return match(
        node.op, [&](const loop::Literal& e) { return literal(e.value, node.dtype); },
        [&](const loop::Index& e) { return halide_convert(DType::I64, node.dtype, index(e.value, true)); },
        [&](const loop::Load& e) { return load(e); }, [&](const loop::Compute& e) { return computed(e); },
        [&](const loop::Convert& e) { return halide_convert(exprs_.dtype(e.operand), node.dtype, value(e.operand)); },
        [&](const loop::BitcastTo& e) { return bitcast(e); },
        [&](const loop::Masked& e) {
          const std::string condition = value(e.condition);
          ++masks_;
          const std::string inside = value(e.value), outside = value(e.otherwise);
          --masks_;
          return fmt::format("hl.select({}, {}, {})", condition, inside, outside);
        },
        [&](const loop::Accumulated& e) {
          const Sum& sum = sums_.at(e.id);
          const std::string text = fmt::format("hl.Expr({}[{}]{})", name_of_sum(e.id), read_of_row(), sum.is_position ? "[1]" : "");
          return halide_convert(sum.dtype, node.dtype, text);
        },
        [&](const loop::Stashed& e) { return stashed(e.id); });
  }

  std::string stashed(loop::StashId id) const {
    const std::string at = is_stash_of_row_.at(id) ? read_of_row() : arguments_of(outer_, inner_);
    return fmt::format("hl.Expr(stash{}[{}])", static_cast<uint32_t>(id), at);
  }

  std::string literal(const Scalar& value, DType dtype) {
    const auto* size = std::get_if<sym::Expr>(&value);
    if (size == nullptr || size->is_const()) return halide_literal(value, dtype);
    return halide_convert(DType::I64, dtype, index(*size, true));
  }

  // A quotient or remainder by a positive number is no question of signs or zeros.
  std::optional<std::string> by_constant(const loop::Compute& e, DType dtype) {
    const bool is_division = e.op == ScalarOp::FloorDiv || e.op == ScalarOp::Mod || e.op == ScalarOp::TruncDiv || e.op == ScalarOp::Fmod;
    if (!is_division || is_floating(dtype) || dtype == DType::Bool) return std::nullopt;
    const auto* divisor = exprs_.literal_as<sym::Expr>(e.operands[1]);
    if (divisor == nullptr || !divisor->is_const() || divisor->value() <= 0) return std::nullopt;
    const std::string a = value(e.operands[0]), b = value(e.operands[1]);
    if (e.op == ScalarOp::FloorDiv) return fmt::format("{} // {}", a, b);
    if (e.op == ScalarOp::Mod) return fmt::format("{} % {}", a, b);
    return fmt::format("hl.{}({}, {})", e.op == ScalarOp::TruncDiv ? "div_round_to_zero" : "mod_round_to_zero", a, b);
  }

  std::string computed(const loop::Compute& e) {
    const DType dtype = exprs_.dtype(e.operands[e.op == ScalarOp::Where ? 1 : 0]);
    if (const auto text = by_constant(e, dtype)) return *text;
    std::vector<std::string> operands;
    for (const ExprId operand : e.operands) operands.push_back(value(operand));
    return halide_scalar(e.op, dtype, operands);
  }

  std::string bitcast(const loop::BitcastTo& e) {
    if (e.from == e.to && is_floating(e.to)) return halide_loaded(e.to, fmt::format("({})", halide_stored(e.to, value(e.operand))));
    if (size_bytes(e.from) != size_bytes(e.to) || is_reduced_float(e.from) || is_reduced_float(e.to) || e.from == DType::Bool ||
        e.to == DType::Bool)
      throw NotInHalide(fmt::format("the bits of {} as {}", to_string(e.from), to_string(e.to)));
    return fmt::format("hl.reinterpret({}, {})", halide_type(e.to), value(e.operand));
  }

  std::string load(const loop::Load& e) {
    const loop::Buffer& buffer = program_.buffer(e.buffer);
    const auto found = memory_.find(e.buffer);
    if (found == memory_.end()) throw NotInHalide("a tensor that it reads and writes");
    std::string at = index(e.index[0]);
    // Halide evaluates both sides of a selection, and asks for all that an index may be.
    if (masks_ > 0 || !is_affine(e.index[0])) {
      const sym::Expr elements = elements_of(buffer);
      const std::string last = elements.is_const() ? fmt::format("{}", elements.value() - 1) : found->second + ".dim(0).extent() - 1";
      at = fmt::format("hl.{}(hl.i32({}), 0, {})", masks_ > 0 ? "clamp" : "unsafe_promise_clamped", at, last);
    }
    return halide_loaded(buffer.dtype, fmt::format("{}[{}]", found->second, at));
  }

  const loop::LoopProgram& program_;
  const loop::ExprTable& exprs_;
  const schedule::Kernel& kernel_;
  PrintedHalide result_;
  std::vector<sym::Expr> outer_, inner_;              // those that are no numbers
  std::unordered_map<sym::Expr, std::string> names_;  // of axes and sizes, at this place
  std::unordered_map<loop::BufferId, std::string> memory_;
  std::vector<std::string> arguments_, functions_;
  std::string axes_text_ = "    one = hl.Var(\"one\")\n", parameters_, lines_;
  int counter_ = 0, masks_ = 0;
  std::unordered_map<ExprId, std::string> values_;  // by expression, the variable that holds it
  std::unordered_map<loop::AccumulatorId, Sum> sums_;
  std::unordered_map<loop::StashId, bool> is_stash_of_row_;  // it has one element a row
  std::unordered_map<ExprId, loop::StashId> kept_;           // what stashes of rows' elements hold
};

}  // namespace

sym::Expr elements_of(const loop::Buffer& buffer) {
  if (buffer.strides.empty() || buffer.strides == contiguous_strides(buffer.sizes)) return sym::product(buffer.sizes);
  sym::Expr last = 0;
  sym::Expr any = 1;
  for (size_t d = 0; d < buffer.sizes.size(); ++d) {
    last = last + (buffer.sizes[d] - 1) * buffer.strides[d];
    any = any * sym::min(buffer.sizes[d], 1);
  }
  return any * (last + 1);
}

std::variant<PrintedHalide, std::string> print_halide(const loop::LoopProgram& program, const schedule::Kernel& kernel,
                                                      const std::string& autoscheduler) {
  try {
    return HalidePrinter(program, kernel).run(autoscheduler);
  } catch (const NotInHalide& refusal) {
    return std::string(refusal.what());
  }
}

}  // namespace toroid::codegen
