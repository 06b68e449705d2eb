#include "codegen/c/c_kernel.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/c/c_types.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/print_index.h"
#include "schedule/axes.h"
#include "support/match.h"

namespace toroid::codegen::c {
namespace {

using loop::ExprId;

using schedule::extent;

bool needs_reals(sym::Expr e) {
  if (e.is_const()) return false;
  if (e.kind() == sym::Kind::Scaled || e.kind() == sym::Kind::Real) return true;
  const auto operands = e.operands();
  return e.kind() != sym::Kind::Symbol && std::any_of(operands.begin(), operands.end(), needs_reals);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

void refuse_reals(sym::Expr e) {
  if (needs_reals(e)) throw Error(ErrorKind::Unsupported, fmt::format("plain C does not compute the size '{}'", sym::to_string(e)));
}

std::string in_c(std::string text) {
  replace_all(text, "floordiv<int64_t>", "floordiv64");
  replace_all(text, "floormod<int64_t>", "floormod64");
  return text;
}

class KernelText {
 public:
  explicit KernelText(const loop::LoopProgram& loops) : loops_(loops), exprs_(loops.exprs) {}

  CKernel run(const schedule::Step& step, std::string_view name, std::string_view symbols) {
    const std::vector<loop::BufferId> reads = schedule::reads_of(step), writes = schedule::writes_of(step);
    CKernel result;
    std::string parameters;
    auto add = [&](loop::BufferId id, std::string_view constness) {
      if (std::find(result.buffers.begin(), result.buffers.end(), id) != result.buffers.end()) return;
      result.buffers.push_back(id);
      const loop::Buffer& buffer = loops_.buffer(id);
      names_.reserve(identifier(buffer.name));
      parameters += fmt::format(", {}{}* {}", constness, storage_type(buffer.dtype), identifier(buffer.name));
    };
    for (loop::BufferId id : writes) add(id, "");
    for (loop::BufferId id : reads) add(id, "const ");
    line("int32_t failed = 0;");
    scopes_.emplace_back();
    match(
        step, [&](const schedule::Kernel& kernel) { nest(kernel); }, [&](const schedule::ScanKernel& kernel) { scan(kernel); },
        [&](const schedule::ScatterKernel& kernel) { scatter(kernel); },
        [&](const auto&) { TOROID_CHECK(false, "'{}' is no kernel", name); });
    line("return failed;");
    result.text = fmt::format("static int32_t {}(Memory* memory, const int64_t* symbols{}) {{\n  (void)memory, (void)symbols;\n{}{}}}\n",
                              name, parameters, symbols, text_);
    return result;
  }

 private:
  // ---- lines and scopes

  void line(std::string_view text) { text_ += std::string(2 * depth_, ' ') + std::string(text) + "\n"; }
  void open(std::string_view head) {
    line(head);
    ++depth_;
    scopes_.emplace_back();
  }
  void close(std::string_view tail = "}") {
    scopes_.pop_back();
    --depth_;
    line(tail);
  }
  void open_axis(sym::Expr axis) {
    if (axis.is_const()) return open("{");
    open(fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{", name_of(axis), index(extent(axis))));
  }

  struct Scope {
    std::unordered_map<ExprId, std::string> values;
    std::unordered_set<sym::Expr> symbols;
  };

  // ---- expressions

  // Declares what the integers in it are read from, first.
  std::string index(sym::Expr e) {
    if (!e.is_const()) {
      for (sym::Expr symbol : sym::free_symbols(e)) {
        const loop::ValueSymbol* value = exprs_.value_symbol(symbol);
        const bool is_there = std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& s) { return s.symbols.contains(symbol); });
        if (value == nullptr || is_there) continue;
        const std::string from = this->value(value->index), size = index(value->size), name = name_of(symbol);
        line(fmt::format("const int64_t {} = (int64_t){};", name, from));
        line(fmt::format("if ({0} < 0 || {0} >= {1}) return kIndexOutOfBounds;", name, size));
        scopes_.back().symbols.insert(symbol);
      }
    }
    refuse_reals(e);
    return in_c(print_index(exprs_, names_, e));
  }

  // The name of a local that holds it.
  std::string value(ExprId id) {
    for (const Scope& scope : scopes_) {
      if (const auto found = scope.values.find(id); found != scope.values.end()) return found->second;
    }
    const loop::ExprNode& node = exprs_.node(id);
    const std::string_view type = value_type(node.dtype);
    const std::string text = match(
        node.op,
        [&](const loop::Literal& e) {
          const auto* symbolic = std::get_if<sym::Expr>(&e.value);
          return literal(node.dtype, e.value, symbolic != nullptr ? index(*symbolic) : "");
        },
        [&](const loop::Index& e) { return fmt::format("({})({})", type, index(e.value)); },
        [&](const loop::Load& e) {
          const loop::Buffer& buffer = loops_.buffer(e.buffer);
          TOROID_CHECK(e.index.size() == 1, "a load from '{}' that is no position", buffer.name);
          return load(buffer.dtype, identifier(buffer.name), index(e.index[0]));
        },
        [&](const loop::Compute& e) {
          std::vector<std::string> operands;
          for (ExprId operand : e.operands) operands.push_back(value(operand));
          return apply(e.op, exprs_.dtype(e.operands.back()), operands);
        },
        [&](const loop::Convert& e) { return convert(exprs_.dtype(e.operand), node.dtype, value(e.operand)); },
        [&](const loop::BitcastTo& e) { return bitcast(e); }, [&](const loop::Masked& e) { return masked(e, type); },
        [&](const loop::Accumulated& e) { return fmt::format("({})acc{}", type, static_cast<uint32_t>(e.id)); },
        [&](const loop::Stashed& e) { return fmt::format("stash{}[{}]", static_cast<uint32_t>(e.id), inner_place()); });
    const std::string name = fresh();
    line(fmt::format("const {} {} = {};", type, name, text));
    scopes_.back().values.emplace(id, name);
    return name;
  }

  std::string masked(const loop::Masked& e, std::string_view type) {
    const std::string condition = value(e.condition), name = fresh();
    line(fmt::format("{} {};", type, name));
    open(fmt::format("if ({}) {{", condition));
    line(fmt::format("{} = {};", name, value(e.value)));
    close("} else {");
    ++depth_;
    scopes_.emplace_back();
    line(fmt::format("{} = {};", name, value(e.otherwise)));
    close();
    return name;
  }

  std::string bitcast(const loop::BitcastTo& e) {
    const std::string from = fresh(), to = fresh(), operand = value(e.operand);
    line(fmt::format("{} {}[1];", storage_type(e.from), from));
    line(store(e.from, from, "0", operand));
    line(fmt::format("{} {}[1];", storage_type(e.to), to));
    line(fmt::format("memcpy({}, {}, sizeof {});", to, from, to));
    return load(e.to, to, "0");
  }

  std::string name_of(sym::Expr symbol) { return names_.of(symbol); }
  // No name of a buffer, an axis or a symbol begins so.
  std::string fresh() { return fmt::format("_v{}", ++count_); }

  // ---- kinds of kernels

  std::string inner_place() {
    sym::Expr place = 0;
    for (sym::Expr axis : inner_) {
      if (!axis.is_const()) place = place * extent(axis) + axis;
    }
    return index(place);
  }

  void nest(const schedule::Kernel& kernel) {
    TOROID_CHECK(kernel.vector == schedule::VectorAlong::None && kernel.finish.empty() && !kernel.tile && !kernel.product,
                 "the kernel '{}' was planned for vectors", kernel.name);
    inner_ = kernel.inner;
    sym::Expr row = 1;
    for (sym::Expr axis : kernel.inner) row = axis.is_const() ? row : row * extent(axis);
    for (size_t i = 0; i < kernel.stashes.size(); ++i) {
      const std::string_view type = value_type(kernel.stashes[i]);
      line(fmt::format("{0}* stash{1} = take(memory, ({2}) * (int64_t)sizeof({0}));", type, i, index(row)));
      line(fmt::format("if (stash{} == NULL) return kNoMemory;", i));
    }
    for (sym::Expr axis : kernel.outer) open_axis(axis);
    for (size_t i = 0; i < kernel.accumulators.size(); ++i) declare_accumulator(kernel.accumulators[i], i);
    for (const schedule::Stage& stage : kernel.stages) {
      open("{");
      if (stage.inner) {
        for (sym::Expr axis : kernel.inner) open_axis(axis);
      }
      for (const schedule::Statement& statement : stage.statements) {
        match(
            statement, [&](const schedule::Accumulate& s) { accumulate(kernel, s); },
            [&](const schedule::Store& s) {
              const loop::Buffer& buffer = loops_.buffer(s.buffer);
              const std::string at = index(s.position);
              line(store(buffer.dtype, identifier(buffer.name), at, value(s.value)));
            },
            [&](const schedule::Keep& s) {
              const std::string from = value(s.value);
              line(fmt::format("stash{}[{}] = {};", static_cast<uint32_t>(s.stash), inner_place(), from));
            });
      }
      if (stage.inner) {
        for (size_t i = 0; i < kernel.inner.size(); ++i) close();
      }
      close();
    }
    for (size_t i = 0; i < kernel.outer.size(); ++i) close();
  }

  static bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax; }

  void declare_accumulator(const schedule::Accumulator& acc, size_t i) {
    const bool is_float = is_floating(acc.dtype);
    switch (acc.op) {
      case ReduceOp::Sum:
      case ReduceOp::Prod: line(fmt::format("{} acc{} = {};", is_float ? "double" : "int64_t", i, acc.op == ReduceOp::Prod ? 1 : 0)); break;
      case ReduceOp::Any:
      case ReduceOp::All: line(fmt::format("uint8_t acc{} = {};", i, acc.op == ReduceOp::All ? 1 : 0)); break;
      case ReduceOp::Min:
      case ReduceOp::Max:
        line(fmt::format("{} acc{} = 0;", value_type(acc.dtype), i));
        line(fmt::format("int started{} = 0;", i));
        break;
      case ReduceOp::ArgMin:
      case ReduceOp::ArgMax:
        line(fmt::format("int64_t acc{} = 0;", i));
        line(fmt::format("{} best{} = 0;", value_type(acc.dtype), i));
        line(fmt::format("int started{} = 0;", i));
        break;
      case ReduceOp::MeanM2: TOROID_CHECK(false, "a mean and its squares are lowered to sums");
    }
  }

  void accumulate(const schedule::Kernel& kernel, const schedule::Accumulate& s) {
    const auto i = static_cast<uint32_t>(s.accumulator);
    const schedule::Accumulator& acc = kernel.accumulators[i];
    const std::string x = value(s.value);
    const bool is_float = is_floating(acc.dtype);
    const std::string_view sign = acc.op == ReduceOp::Min || acc.op == ReduceOp::ArgMin ? "<" : ">";
    switch (acc.op) {
      case ReduceOp::Sum:
        line(is_float ? fmt::format("acc{} += {};", i, x)
                      : fmt::format("acc{0} = ({2})wrap((uint64_t)acc{0} + (uint64_t)(int64_t){1});", i, x, value_type(acc.dtype)));
        break;
      case ReduceOp::Prod:
        line(is_float ? fmt::format("acc{} *= {};", i, x)
                      : fmt::format("acc{0} = ({2})wrap((uint64_t)acc{0} * (uint64_t)(int64_t){1});", i, x, value_type(acc.dtype)));
        break;
      case ReduceOp::Any: line(fmt::format("acc{} |= {} != 0;", i, x)); break;
      case ReduceOp::All: line(fmt::format("acc{} &= {} != 0;", i, x)); break;
      case ReduceOp::Min:
      case ReduceOp::Max:
        // NaN stays.
        line(fmt::format("if (!started{0} || {1} {2} acc{0} || {1} != {1}) acc{0} = started{0} && acc{0} != acc{0} ? acc{0} : {1};", i, x,
                         sign));
        line(fmt::format("started{} = 1;", i));
        break;
      case ReduceOp::ArgMin:
      case ReduceOp::ArgMax: {
        // The first of equal ones, and the first NaN.
        const std::string at = index(s.position);
        line(fmt::format("if (!started{0} || (best{0} == best{0} && ({1} {2} best{0} || {1} != {1}))) best{0} = {1}, acc{0} = {3};", i, x,
                         sign, at));
        line(fmt::format("started{} = 1;", i));
        break;
      }
      case ReduceOp::MeanM2: break;
    }
  }

  void scan(const schedule::ScanKernel& kernel) {
    const DType own = exprs_.dtype(kernel.value);
    const bool is_extremum = kernel.op == ScanOp::Max || kernel.op == ScanOp::Min;
    const bool is_wide = is_floating(own) && !is_extremum;
    const std::string_view type = is_wide ? "double" : value_type(own);
    for (sym::Expr axis : kernel.outer) open_axis(axis);
    line(fmt::format("{} running = {};", type, kernel.op == ScanOp::Prod ? "1" : kernel.op == ScanOp::LogAddExp ? "-INFINITY" : "0"));
    line("int64_t position = 0;");
    line("(void)position;");
    open_axis(kernel.along);
    const std::string x = value(kernel.value), along = kernel.along.is_const() ? "0" : name_of(kernel.along);
    switch (kernel.op) {
      case ScanOp::Sum:
        line(is_wide ? fmt::format("running += {};", x)
                     : fmt::format("running = ({1})wrap((uint64_t)(int64_t)running + (uint64_t)(int64_t){0});", x, type));
        break;
      case ScanOp::Prod:
        line(is_wide ? fmt::format("running *= {};", x)
                     : fmt::format("running = ({1})wrap((uint64_t)(int64_t)running * (uint64_t)(int64_t){0});", x, type));
        break;
      case ScanOp::Max:
      case ScanOp::Min:
        // The latest of equal ones, and the latest NaN.
        line(fmt::format("if ({0} == 0 || {1} {2} running || {1} != {1}) running = {1}, position = {0};", along, x,
                         kernel.op == ScanOp::Max ? ">=" : "<="));
        break;
      case ScanOp::LogAddExp:
        line(fmt::format("{{ const double larger = maximum(running, {0}), smaller = minimum(running, {0});", x));
        line("  running = larger == smaller && isinf(larger) ? larger : larger + log1p(exp(smaller - larger)); }");
        break;
    }
    const loop::Buffer& out = loops_.buffer(kernel.outputs[0]);
    const std::string at = index(kernel.positions[0]);
    line(store(out.dtype, identifier(out.name), at, fmt::format("({})running", value_type(out.dtype))));
    if (kernel.outputs.size() > 1) {
      const std::string to = index(kernel.positions[1]);
      line(fmt::format("{}[{}] = position;", identifier(loops_.buffer(kernel.outputs[1]).name), to));
    }
    close();
    for (size_t i = 0; i < kernel.outer.size(); ++i) close();
  }

  void scatter(const schedule::ScatterKernel& kernel) {
    const loop::Buffer& out = loops_.buffer(kernel.out);
    const std::string to = identifier(out.name);
    line(fmt::format("memcpy({}, {}, (size_t)(({}) * {}));", to, identifier(loops_.buffer(kernel.base).name),
                     index(sym::product(out.sizes)), size_bytes(out.dtype)));
    for (sym::Expr axis : kernel.axes) open_axis(axis);
    const std::string at = index(kernel.position), x = value(kernel.value);
    const DType dtype = exprs_.dtype(kernel.value);
    if (kernel.mode == ScatterMode::Set) {
      line(store(out.dtype, to, at, x));
    } else {
      constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Add, ScalarOp::Mul, ScalarOp::Min, ScalarOp::Max};
      const std::string old = fresh(), sum = fresh();
      line(fmt::format("const {} {} = {};", value_type(dtype), old, load(out.dtype, to, at)));
      line(fmt::format("const {} {} = {};", value_type(dtype), sum,
                       apply(kOps[static_cast<size_t>(kernel.mode)], dtype, std::vector<std::string>{old, x})));
      line(store(out.dtype, to, at, sum));
    }
    for (size_t i = 0; i < kernel.axes.size(); ++i) close();
  }

  const loop::LoopProgram& loops_;
  const loop::ExprTable& exprs_;
  std::vector<sym::Expr> inner_;
  std::string text_;
  size_t depth_ = 1;
  int count_ = 0;
  std::vector<Scope> scopes_;
  SymbolNames names_;
};

}  // namespace

std::string index_text(const loop::ExprTable& exprs, sym::Expr e) {
  refuse_reals(e);
  return in_c(print_index(exprs, e));
}

CKernel print_kernel(const loop::LoopProgram& loops, const schedule::Step& kernel, std::string_view name, std::string_view symbols) {
  return KernelText(loops).run(kernel, name, symbols);
}

}  // namespace toroid::codegen::c
