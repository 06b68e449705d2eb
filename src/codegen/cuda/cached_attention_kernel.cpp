// Attention of few queries that writes the row of its cache itself: a call of the prelude's kernel, which is handed what makes the queries
// and the row, as functions of a place.
//
//   KERNEL __launch_bounds__(256, 2) SPLIT_ATTENTION_CLUSTER(8) attention_kernel(const bf16* qkv, const int64_t* position, …) {
//     let_next_kernel_start();
//     const AttentionShape shape_v1 = {1, 32, 4, 1, 1024, …};
//     const auto query_v1 = [=](const Index batch_v1, const Index head_v1, const Index query_v2, const Index column_v1, bf16* to_v1) {
//       …
//       store(to_v1, add_v1);
//     };
//     const auto key_v1 = [=](const Index batch_v1, const Index head_v1, const Index column_v1, bf16* to_v1, const bool is_kept_v1) {
//       …
//       store(to_v1, add_v1);
//       if (is_kept_v1) store(keys + 64 * v0 + …, add_v1);
//     };
//     const auto value_v1 = …
//     attend_split<64, 8, 8, 132, kMask, 1, 8, true>(q, keys, values, mask, out, shape_v1, 0.125f, position,
//                                                    made_by_program(query_v1, key_v1, value_v1));
//   }
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/attention_text.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/buffer_lists.h"
#include "schedule/cuda/attention/cached_attention.h"

namespace toroid::codegen::cuda {
namespace {

using loop::BufferId;

class CachedAttentionPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::CallStep& step) {
    const std::optional<schedule::CachedAttention> made = schedule::as_cached_attention(program_, step);
    TOROID_CHECK(made.has_value(), "'{}' writes no row of a cache", step.name);
    const schedule::AttentionKernel kernel = schedule::cached_attention_kernel(program_, step);
    const std::vector<loop::Operand>& in = step.call.operands;
    const BufferId out = step.outputs[0];
    const std::string type(storage_type(kernel.dtype));
    const bool has_mask = in.size() > 3;
    begin_kernel(step, *made);

    const std::string shape = body_.fresh("shape"), queries = step.prologue ? declare_queries(*step.prologue, *made->queries, type) : "0";
    body_.line(fmt::format("const AttentionShape {} = {{{}}};", shape, shape_text(step)));
    std::vector<std::string> rows;
    for (size_t i = 0; i < 2; ++i) rows.push_back(declare_row(step.updates[i], made->rows[i], i == 0 ? "key" : "value", type));
    const std::string q = step.prologue ? fmt::format("(const {}*)nullptr", type) : place(in[0].buffer, in[0].offset);
    const std::string mask = has_mask ? place(in[3].buffer, in[3].offset) : fmt::format("(const {}*)nullptr", type);
    body_.line(fmt::format("attend_split<{}, {}, {}, {}, {}, {}, {}, true>(", kernel.width, kernel.split_rows, kernel.warps,
                           schedule::kSplitBlocks, has_mask ? "kMask" : "kNoMask", kernel.split_tiles, kernel.cluster));
    body_.line(fmt::format("    {}, {}, {}, {}, {}, {}, {}, {},", q, place(in[1].buffer, in[1].offset), place(in[2].buffer, in[2].offset),
                           mask, body_.memory(out), shape, literal_text(DType::F32, std::get<Attention>(step.call.op).scale),
                           place(made->late.buffer, made->late.offset)));
    body_.line(fmt::format("    made_by_program<{}>({}, {}, {}));", step.prologue.has_value(), queries, rows[0], rows[1]));
    finish(step.provenance, fmt::format("__launch_bounds__({}, {}){}", kernel.threads(), split_blocks_at_once(kernel),
                                        kernel.cluster > 1 ? fmt::format(" SPLIT_ATTENTION_CLUSTER({})", kernel.cluster) : ""));
    return {
        .source = std::move(source_), .waits = true, .preludes = {.special = body_.is_special, .attention = true, .split_attention = true}};
  }

 private:
  void begin_kernel(const schedule::CallStep& step, const schedule::CachedAttention& made) {
    std::vector<BufferId> reads, writes = {step.outputs[0]};
    Contents contents;
    if (step.prologue) {
      const auto& store = std::get<schedule::Store>(step.prologue->stages[0].statements[0]);
      contents = {{store.value}, {store.position}};
      reads = step.prologue->reads;
    } else {
      reads = {step.call.operands[0].buffer};
    }
    if (step.call.operands.size() > 3) schedule::append_new(reads, {step.call.operands[3].buffer});
    for (const schedule::ScatterKernel& update : step.updates) {
      contents.values.push_back(update.value);
      contents.positions.push_back(update.position);
      std::vector<BufferId> its = update.reads;
      std::erase(its, update.base);  // which is the result by then, but for the row
      schedule::append_new(reads, its);
      writes.push_back(update.out);
    }
    schedule::append_new(reads, {made.late.buffer});
    for (const schedule::AxesOfOperand* axes : {made.queries ? &*made.queries : nullptr, &made.rows[0], &made.rows[1]}) {
      for (size_t i = 0; axes != nullptr && i < axes->size(); ++i) contents.positions.push_back((*axes)[i].axis);
    }
    for (const loop::Operand& each : step.call.operands) {
      contents.positions.push_back(each.offset);
      contents.positions.insert(contents.positions.end(), each.sizes.begin(), each.sizes.end());
      contents.positions.insert(contents.positions.end(), each.strides.begin(), each.strides.end());
    }
    begin(contents, reads, writes);
  }

  std::string shape_text(const schedule::CallStep& step) {
    const std::vector<loop::Operand>& in = step.call.operands;
    const auto sizes = schedule::in_four_dims(in[0].sizes, 1), own = schedule::in_four_dims(in[1].sizes, 1);
    const sym::Expr group = sym::known_eq(sizes[1], own[1]) ? sym::Expr(1) : sym::floor_div(sizes[1], own[1]);
    std::vector<sym::Expr> shape = {sizes[0], sizes[1], group, sizes[2], own[2]};
    const auto add = [&](std::vector<sym::Expr> strides) {
      const auto all = schedule::in_four_dims(strides, 0);
      shape.insert(shape.end(), all.begin(), all.end());
    };
    for (size_t i = 0; i < 3; ++i) add(in[i].strides);
    std::vector<sym::Expr> of_mask;
    if (in.size() > 3) {
      for (size_t d = 0; d < in[3].sizes.size(); ++d) of_mask.push_back(in[3].sizes[d].is_const(1) ? sym::Expr(0) : in[3].strides[d]);
    }
    add(std::move(of_mask));
    add(program_.buffer(step.outputs[0]).strides);
    std::vector<std::string> texts;
    for (sym::Expr each : shape) texts.push_back(print_factor(exprs_, names_, each));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  // Opens a function of a place, in which the axes have their values, and gives what its parameters are called.
  struct Function {
    std::string name, to, is_kept;
  };
  Function open_function(std::string_view base, const schedule::AxesOfOperand& axes, const std::string& type, bool is_row) {
    Function made{body_.fresh(base), body_.fresh("to"), is_row ? body_.fresh("is_kept") : ""};
    std::array<std::string, 4> dims;
    constexpr std::array<std::string_view, 4> kNames = {"batch", "head", "query", "column"};
    std::vector<std::string> parameters;
    for (size_t d = 0; d < 4; ++d) {
      if (is_row && d == 2) continue;
      dims[d] = body_.fresh(kNames[d]);
      parameters.push_back("const Index " + dims[d]);
    }
    parameters.push_back(fmt::format("{}* {}", type, made.to));
    if (is_row) parameters.push_back("const bool " + made.is_kept);
    body_.open(fmt::format("const auto {} = [=]({}) {{", made.name, fmt::join(parameters, ", ")));
    for (const schedule::AxisOfOperand& each : axes) {
      std::vector<std::string> terms;
      for (const schedule::AxisOfOperand::Part& part : each.parts)
        terms.push_back(part.factor.is_const(1) ? dims[part.dim]
                                                : fmt::format("{} * {}", dims[part.dim], print_factor(exprs_, names_, part.factor)));
      const std::string text = terms.empty() ? "0" : fmt::format("{}", fmt::join(terms, " + "));
      body_.line(fmt::format("const Index {} = {};", body_.name_of(each.axis), text));
    }
    return made;
  }

  std::string declare_queries(const schedule::Kernel& kernel, const schedule::AxesOfOperand& axes, const std::string& type) {
    const Function function = open_function("query", axes, type, false);
    body_.unfused = {kernel.unfused.begin(), kernel.unfused.end()};
    body_.line(fmt::format("store({}, {});", function.to, body_.value(std::get<schedule::Store>(kernel.stages[0].statements[0]).value)));
    body_.unfused.clear();
    body_.close("};");
    return function.name;
  }

  std::string declare_row(const schedule::ScatterKernel& update, const schedule::AxesOfOperand& axes, std::string_view base,
                          const std::string& type) {
    const Function function = open_function(base, axes, type, true);
    const std::string at = index(update.position), place = body_.fresh("place");
    body_.line(fmt::format("const Index {} = {};", place, at));
    const std::string x = body_.value(update.value);
    body_.line(fmt::format("store({}, {});", function.to, x));
    body_.line(fmt::format("if ({}) store({} + {}, {});", function.is_kept, body_.memory(update.out), place, x));
    body_.close("};");
    return function.name;
  }
};

}  // namespace

CudaKernel print_cached_attention(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name,
                                  const schedule::Overlap& overlap) {
  return CachedAttentionPrinter(program, graph, std::move(name), overlap).run(step);
}

}  // namespace toroid::codegen::cuda
