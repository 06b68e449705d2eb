// Text of loop programs.
#include <fmt/format.h>

#include "graph/builder.h"
#include "loop/loop.h"
#include "support/match.h"

namespace toroid::loop {
namespace {

std::string join(const std::vector<sym::Expr>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + sym::to_string(items[i]);
  return text;
}

std::string domain(const std::vector<sym::Expr>& axes) {
  std::string text;
  for (sym::Expr axis : axes) {
    if (!axis.is_const()) text += fmt::format(" {} in {}", sym::to_string(axis), sym::to_string(*axis.node()->extent));
  }
  return text;
}

std::string_view care_text(SumCare care) {
  constexpr std::string_view kTexts[] = {"", "fine ", "finest "};
  return kTexts[static_cast<size_t>(care)];
}

// Expressions beyond this many nodes are shown by their outermost operation only.
constexpr size_t kMaxNodesShown = 40;

}  // namespace

std::string to_string(const LoopProgram& program, ExprId id) {
  const ExprNode& n = program.exprs.node(id);
  auto sub = [&](ExprId operand) {
    if (reachable(program.exprs, {operand}).size() > kMaxNodesShown) return fmt::format("e{}", static_cast<uint32_t>(operand));
    return to_string(program, operand);
  };
  return match(
      n.op, [&](const Literal& o) { return toroid::to_string(o.value); }, [&](const Index& o) { return sym::to_string(o.value); },
      [&](const Load& o) { return fmt::format("{}[{}]", program.buffer(o.buffer).name, join(o.index)); },
      [&](const Compute& o) {
        std::string text = fmt::format("{}(", toroid::to_string(o.op));
        for (size_t i = 0; i < o.operands.size(); ++i) text += (i > 0 ? ", " : "") + sub(o.operands[i]);
        return text + ")";
      },
      [&](const Convert& o) { return fmt::format("{}({})", toroid::to_string(n.dtype), sub(o.operand)); },
      [&](const BitcastTo& o) { return fmt::format("bitcast.{}({})", toroid::to_string(n.dtype), sub(o.operand)); },
      [&](const Masked& o) { return fmt::format("masked({}, {}, {})", sub(o.condition), sub(o.value), sub(o.otherwise)); },
      [&](const Accumulated& o) { return fmt::format("acc{}", static_cast<uint32_t>(o.id)); },
      [&](const Stashed& o) { return fmt::format("stash{}", static_cast<uint32_t>(o.id)); });
}

std::string to_string(const LoopProgram& program) {
  std::string text;
  for (const Computation& c : program.computations) {
    std::string outs;
    for (BufferId out : c.outputs) outs += (outs.empty() ? "" : ", ") + program.buffer(out).name;
    text += match(
        c.work,
        [&](const Map& w) { return fmt::format("{}[{}] = {}  for{}", outs, join(w.axes), to_string(program, w.value), domain(w.axes)); },
        [&](const Reduction& w) {
          return fmt::format("{}[{}] = {}{} over{} of {}  for{}", outs, join(w.axes), care_text(w.care), toroid::to_string(w.op),
                             domain(w.reduce_axes), to_string(program, w.value), domain(w.axes));
        },
        [&](const ScanLoop& w) {
          return fmt::format("{}[{}] = scan {} along {} of {}  for{}", outs, join(w.axes), toroid::to_string(w.op),
                             sym::to_string(w.axes[w.dim]), to_string(program, w.value), domain(w.axes));
        },
        [&](const ScatterLoop& w) {
          return fmt::format("{} = {}; [{}] {}= {}  for{}", outs, program.buffer(w.base).name, join(w.index), toroid::to_string(w.mode),
                             to_string(program, w.value), domain(w.axes));
        },
        [&](const Call& w) {
          std::string line = fmt::format("{} = {}(", outs, toroid::to_string(w.op));
          for (size_t i = 0; i < w.operands.size(); ++i) {
            line += (i > 0 ? ", " : "") + program.buffer(w.operands[i].buffer).name;
          }
          return line + ")";
        },
        [&](const Bind& w) { return fmt::format("{} := {}", sym::to_string(w.expr), program.buffer(w.value).name); });
    text += "\n";
  }
  return text;
}

}  // namespace toroid::loop
