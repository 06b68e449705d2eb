#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/nest/nest_printer.h"
#include "support/match.h"

namespace toroid::codegen {

using loop::ExprId;
using schedule::Accumulate;
using schedule::is_float_sum;
using schedule::Keep;
using schedule::Stage;
using schedule::Statement;
using schedule::Store;

std::string NestPrinter::stash_type(DType dtype) const {
  return dtype == DType::Bool ? (lanes_vary_ ? "int32_t" : "bool") : std::string(register_type(dtype));
}

OperandText NestPrinter::stash_value(loop::StashId id) {
  const std::string at = fmt::format("stash{}.data + {}", static_cast<uint32_t>(id), stash_position());
  if (!lanes_vary_) return {fmt::format("load1({})", at), false};
  return {fmt::format("load_raw(Full<W>{{}}, {})", at), true};
}

void NestPrinter::print_stash(size_t i) {
  const std::string type = stash_type(kernel_.stashes[i]);
  if (!assertions_) return text_.write(fmt::format("Row<{}> stash{}({});", type, i, stash_size()));
  text_.write(
      fmt::format("const CheckedRow<{}> stash{}({}, {}, checks, error);", type, i, stash_size(), source_.access_names->buffers.size()));
  source_.access_names->buffers.push_back(fmt::format("stash{}", i));
}

std::string NestPrinter::stash_position() {
  sym::Expr position = 0;
  std::vector<sym::Expr> axes = kernel_.inner;
  const std::string vector = lanes_vary_ ? vector_name() : "";
  if (!along_outer() && lanes_vary_) axes.pop_back();
  for (sym::Expr axis : axes) position = position * extent(axis) + axis;
  if (!lanes_vary_) return fmt::format("({})", index(position));
  if (along_outer()) return fmt::format("({}) * {} + ({} - first)", index(position), row_of_block_, vector);
  if (position.is_const(0)) return vector;
  return fmt::format("({}) * {} + {}", index(position), padded_row(), vector);
}

std::string NestPrinter::stash_size() {
  sym::Expr count = 1;
  std::vector<sym::Expr> axes = kernel_.inner;
  if (!along_outer() && lanes_vary_) axes.pop_back();
  for (sym::Expr axis : axes) count = count * extent(axis);
  if (!lanes_vary_) return index(count);
  if (along_outer()) return fmt::format("({}) * {}", index(count), row_of_block_);
  if (count.is_const(1)) return padded_row();
  return fmt::format("({}) * {}", index(count), padded_row());
}

// The text around what the levels of body_ collected.
struct NestPrinter::StageLoops {
  const Stage& stage;
  std::vector<sym::Expr> axes;
  const AroundLoops& around;
  bool has_vector;
  size_t innermost;  // level
  std::vector<std::string>& out;
  std::string indent = stage.condition ? "  " : "";

  size_t plain() const { return innermost - (has_vector ? 1 : 0) - (stage.rows > 1 ? 1 : 0); }
  bool has_blocks_of_rows() const { return stage.blocks.steps > 0 && stage.blocks.of_rows; }
  bool has_blocks_of_vectors() const { return stage.blocks.steps > 0 && !stage.blocks.of_rows; }

  void add(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) out.push_back(indent + line);
  }
  void open(std::string line) {
    out.push_back(indent + std::move(line));
    indent += "  ";
  }
  void close(std::string_view line) {
    indent.resize(indent.size() - 2);
    out.push_back(indent + std::string(line));
  }
  // Opens the loop over blocks of `begin` to `end`, which become those of one block.
  void open_blocks(std::string& begin, std::string& end) {
    open(fmt::format("for (int64_t from = 0; from < {}; from += {}) {{", end, stage.blocks.steps));
    add(around.before_block);
    begin = "from";
    end = fmt::format("min64(from + {}, {})", stage.blocks.steps, end);
  }
  void close_blocks() {
    add(around.after_block);
    close("}");
  }
};

void NestPrinter::print_stage(const Stage& stage, std::vector<std::string>& out) {
  std::vector<sym::Expr> axes;
  if (stage.inner) axes = kernel_.inner;
  if (along_outer()) axes.push_back(kernel_.outer.back());
  std::vector<std::string> condition_values, condition;
  if (stage.condition) print_condition(*stage.condition, condition_values, condition);
  body_.begin_nest(axes, along_outer());
  const bool has_vector = lanes_vary_ && (along_outer() || stage.inner);
  const size_t innermost = body_.innermost();
  const AroundLoops around = print_statements(stage, has_vector);

  const std::vector<std::string> level0 = body_.take_level(0);
  if (goes_down_columns()) {
    TOROID_CHECK(!stage.condition, "'{}' stores whatever it computes", kernel_.name);
    out.insert(out.end(), around.before.begin(), around.before.end());
    StageLoops loops = {stage, std::move(axes), around, has_vector, innermost, out};
    return print_columns(level0, loops);
  }
  // Accumulators first: without any loop, level 0 is the body itself.
  for (const auto* lines : std::initializer_list<const std::vector<std::string>*>{&around.before, &condition_values, &level0, &condition})
    out.insert(out.end(), lines->begin(), lines->end());
  StageLoops loops = {stage, std::move(axes), around, has_vector, innermost, out};
  print_loops(loops);
  if (stage.condition && !along_outer()) loops.add(around.after);
  if (stage.condition) loops.close("}");
  if (!stage.condition || along_outer()) out.insert(out.end(), around.after.begin(), around.after.end());
}

NestPrinter::AroundLoops NestPrinter::print_statements(const Stage& stage, bool has_vector) {
  if (!assertions_) {
    for (const schedule::Fetch& each : stage.fetches) {
      std::string function(to_string(each.to));
      std::replace(function.begin(), function.end(), ' ', '_');
      body_.line(body_.innermost(), fmt::format("{}({} + {}{});", function, identifier(program_.buffer(each.buffer).name),
                                                index(each.position), kernel_.tile ? to_next_tile(each.position) : ""));
    }
  }
  AroundLoops around;
  for (const Statement& statement : stage.statements) {
    body_.set_origin(origin_of(statement));
    if (const std::string* comment = body_.origins.comment(origin_of(statement))) {
      for (auto* lines : {&around.before, &around.after, &around.before_block, &around.after_block}) lines->push_back(*comment);
    }
    match(
        statement, [&](const Accumulate& s) { print_accumulate(s, has_vector, stage, around); }, [&](const Store& s) { print_store(s); },
        [&](const Keep& s) { print_keep(s); });
  }
  return around;
}

bool NestPrinter::goes_through_windows(const Stage& stage) const {
  constexpr int64_t kMostSteps = 64;
  if (!along_outer() || stage.condition || !stage.inner || stage.rows > 1 || kernel_.tile || kernel_.product) return false;
  int64_t steps = 1;
  for (sym::Expr axis : kernel_.inner) {
    const sym::Expr count = extent(axis);
    if (!count.is_const() || count.value() > kMostSteps) return false;
    steps *= count.value();
  }
  return steps <= kMostSteps && std::all_of(stage.statements.begin(), stage.statements.end(), [&](const Statement& statement) {
           const auto* s = std::get_if<Accumulate>(&statement);
           if (s == nullptr) return false;
           const auto i = static_cast<size_t>(s->accumulator);
           return !is_arg(kernel_.accumulators[i].op) && !is_float_sum(kernel_.accumulators[i]) && accumulator_dtype(i) != DType::Bool;
         });
}

void NestPrinter::print_loops(StageLoops& loops) {
  if (goes_through_windows(loops.stage)) return print_windows(loops);
  const size_t plain = loops.plain();
  const auto is_last_of_blocks = [&](size_t d) { return loops.has_blocks_of_rows() && loops.stage.rows == 1 && d + 1 == plain; };
  for (size_t d = 0; d < plain; ++d) {
    const std::string name = name_of(loops.axes[d]);
    std::string begin = "0", end = index(extent(loops.axes[d]));
    if (is_last_of_blocks(d)) loops.open_blocks(begin, end);
    loops.open(fmt::format("for (int64_t {} = {}; {} < {}; ++{}) {{", name, begin, name, end, name));
    loops.add(body_.take_level(d + 1));
  }
  if (loops.has_vector && loops.stage.rows > 1) print_rows(loops);
  if (loops.has_vector && loops.stage.rows == 1) print_lanes(loops);
  for (size_t d = plain; d-- > 0;) {
    loops.close("}");
    if (is_last_of_blocks(d)) loops.close_blocks();
  }
}

void NestPrinter::print_windows(StageLoops& loops) {
  loops.open(fmt::format("for_lanes<W>(first, last, [&](auto lanes, int64_t {}) INLINE_BODY {{", vector_name()));
  loops.add(loops.around.before_vector);
  for (size_t d = 0; d < loops.plain(); ++d) {
    const std::string name = name_of(loops.axes[d]);
    loops.open(fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{", name, index(extent(loops.axes[d]))));
    loops.add(body_.take_level(d + 1));
  }
  loops.add(body_.take_level(loops.innermost));
  for (size_t d = 0; d < loops.plain(); ++d) loops.close("}");
  loops.add(loops.around.after_vector);
  loops.close("});");
}

void NestPrinter::print_rows(StageLoops& loops) {
  const Stage& stage = loops.stage;
  const size_t plain = loops.plain();
  const sym::Expr row = loops.axes[plain];
  const std::string v = vector_name();
  const std::string begin = along_outer() ? "first" : "0";
  const std::string end = along_outer() ? "last" : index(extent(*vector_axis()));
  std::string first_row = "0", last_row = index(extent(row));
  if (loops.has_blocks_of_rows()) loops.open_blocks(first_row, last_row);
  const bool in_parts = !loops.around.after_rows.empty();
  const int turns = turns_of_rows(stage);
  const std::string parts = in_parts ? fmt::format(", {}, {}", parts_of_rows(stage), turns) : "";
  // The loop outside goes on with the next accumulator.
  const std::string turn = turns > 1 && plain > 0 ? fmt::format("{} % {}", name_of(loops.axes[plain - 1]), turns) : "0";
  loops.open(fmt::format("for_rows<W, {}{}>({}{}, {}, {}, {}, [&](auto lanes, int64_t {}, int64_t {}{}) INLINE_BODY {{", stage.rows, parts,
                         in_parts ? turn + ", " : "", first_row, last_row, begin, end, name_of(row), v, in_parts ? ", int part" : ""));
  loops.add(body_.take_level(plain + 1));
  loops.add(body_.take_level(loops.innermost));
  if (in_parts) {
    loops.close(fmt::format("}}, [&](int64_t {}, int64_t turn) INLINE_BODY {{", v));
    loops.indent += "  ";
    loops.add(loops.around.after_rows);
  }
  loops.close("});");
  if (loops.has_blocks_of_rows()) loops.close_blocks();
}

// The values that are the same for all columns come before them, for each row.
void NestPrinter::print_columns(const std::vector<std::string>& of_rows, StageLoops& loops) {
  loops.open(fmt::format("for_lanes_of_rows<W>(first, last, first_row, last_row, [&](auto lanes, int64_t {}, int64_t row) INLINE_BODY {{",
                         vector_name()));
  loops.add(place_of_row());
  loops.add(of_rows);
  loops.add(body_.take_level(loops.innermost));
  loops.close("});");
}

void NestPrinter::print_lanes(StageLoops& loops) {
  const Stage& stage = loops.stage;
  const std::string v = vector_name();
  std::string begin = along_outer() ? "first" : "0";
  std::string end = along_outer() ? "last" : index(extent(*vector_axis()));
  if (loops.has_blocks_of_vectors()) {
    loops.open(fmt::format("for_blocks<W, {}>({}, {}, [&](int64_t from, int64_t to) INLINE_BODY {{", stage.blocks.steps, begin, end));
    loops.add(loops.around.before_block);
    begin = "from", end = "to";
  }
  const bool in_turn = stage.turns > 1 && !along_outer();
  if (stage.turns > 1 && along_outer()) {
    loops.add({fmt::format("const int64_t turn = {} % {};", name_of(loops.axes[loops.plain() - 1]), stage.turns)});
  }
  const std::string turns = in_turn ? fmt::format("_in_turn<W, {}>", stage.turns) : "<W>";
  loops.open(
      fmt::format("for_lanes{}({}, {}, [&](auto lanes, int64_t {}{}) INLINE_BODY {{", turns, begin, end, v, in_turn ? ", int turn" : ""));
  loops.add(body_.take_level(loops.innermost));
  loops.close("});");
  if (!loops.has_blocks_of_vectors()) return;
  loops.add(loops.around.after_block);
  loops.close("});");
}

bool NestPrinter::has_turns_of_parts(const Stage& stage) const {
  return stage.turns > 1 && kernel_.inner.size() == 1 && extent(kernel_.inner.back()).is_const(stage.rows);
}

void NestPrinter::print_condition(ExprId condition, std::vector<std::string>& values, std::vector<std::string>& out) {
  if (!along_outer()) {
    body_.begin_nest({});
    const std::string holds = body_.value(condition).text;
    values = body_.take_level(0);
    out.push_back(fmt::format("if ({}) {{", holds));
    return;
  }
  const std::string needed = fmt::format("body_needed{}", ++loaded_);
  body_.begin_nest({kernel_.outer.back()}, true);
  const std::string holds = in_lanes(body_.value(condition), DType::Bool).text;
  values = body_.take_level(0);
  out.push_back(fmt::format("bool {} = false;", needed));
  out.push_back(fmt::format("for_lanes<W>(first, last, [&](auto lanes, int64_t {}) INLINE_BODY {{", vector_name()));
  for (const std::string& line : body_.take_level(1)) out.push_back("  " + line);
  out.push_back(fmt::format("  {} |= any_lane(active(lanes) & {});", needed, holds));
  out.push_back("});");
  out.push_back(fmt::format("if ({}) {{", needed));
}

ProvenanceId NestPrinter::origin_of(const Statement& statement) const {
  return match(
      statement, [&](const Accumulate& s) { return kernel_.accumulators[static_cast<size_t>(s.accumulator)].origin; },
      [&](const auto& s) { return exprs_.node(s.value).origin; });
}

OperandText NestPrinter::in_lanes(const OperandText& value, DType dtype) {
  if (value.lanes) return value;
  return {dtype == DType::Bool ? fmt::format("splat_mask<W>({})", value.text)
                               : fmt::format("splat<{}, W>({})", register_type(dtype), value.text),
          true, true};
}

loop::ExprId NestPrinter::before_rounding(loop::ExprId value, DType dtype) const {
  const auto* bits = std::get_if<loop::BitcastTo>(&exprs_.node(value).op);
  return bits != nullptr && bits->from == dtype && bits->to == dtype ? bits->operand : value;
}

void NestPrinter::print_store(const Store& s) {
  const loop::Buffer& buffer = program_.buffer(s.buffer);
  const OperandText value = body_.value(before_rounding(s.value, buffer.dtype));
  body_.prepare_index(s.position);
  const size_t innermost = body_.innermost();
  const bool lanes = body_.varies(s.position);
  if (!lanes) {
    // An axis of at most one element may leave its mark on the value only: the first lane is the only one.
    const std::string first =
        !value.lanes ? value.text : fmt::format("({})[0]{}", value.text, exprs_.dtype(s.value) == DType::Bool ? " != 0" : "");
    body_.line(innermost, fmt::format("store1({}, {});", body_.pointer(s.buffer, s.position), first));
    return;
  }
  const std::string text = in_lanes(value, compute_dtype(buffer.dtype)).text;
  const auto linear = sym::linear_in(s.position, *vector_axis());
  if (linear && linear->coefficient.is_const(1)) {
    body_.line(innermost, fmt::format("store({}, {}, {});", is_written_around(s.buffer) ? "around(lanes)" : "lanes",
                                      body_.pointer(s.buffer, s.position), text));
  } else {
    body_.line(innermost, fmt::format("scatter(lanes, [&](int l) {{ return {} + {}; }}, {});", body_.memory(s.buffer),
                                      body_.lane_index(s.position), text));
  }
}

bool NestPrinter::is_written_around(loop::BufferId buffer) const {
  const std::vector<loop::BufferId>& list = kernel_.streaming_stores;
  return !assertions_ && std::find(list.begin(), list.end(), buffer) != list.end();
}

void NestPrinter::print_keep(const Keep& s) {
  const OperandText value = body_.value(s.value);
  const std::string at = fmt::format("stash{}.data + {}", static_cast<uint32_t>(s.stash), stash_position());
  if (!lanes_vary_) {
    body_.line(body_.innermost(), fmt::format("store1({}, {});", at, value.text));
  } else {
    const DType dtype = exprs_.dtype(s.value);
    body_.line(body_.innermost(), fmt::format("store_raw(Full<W>{{}}, {}, {});", at, in_lanes(value, dtype).text));
  }
}

}  // namespace toroid::codegen
