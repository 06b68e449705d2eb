// Attention whose scores a program computes: a call of the prelude's kernel, which is handed the scores' expression and the condition under
// which they count as functions of a place.
//
//   KERNEL __launch_bounds__(384, 1) attention_kernel(TENSOR_MAP q_v1, …, const int64_t* … document, const uint8_t* … tiles, bf16* … out) {
//     const AttentionShape shape_v1 = {8, 16, 1, 4096, 4096, …};
//     const auto score_v1 = [=](const Index i1, const Index i2, const Index i3, const Index i4, …, const float product_v1) {
//       const float tanh_v1 = …;
//       return tanh_v1;
//     };
//     const auto seen_v1 = …;
//     attend_to_written_on_hopper<128, 128, 2, true, false>(q_v1, k_v1, v_v1, out, shape_v1, {tiles, …}, 20.0f, score_v1, seen_v1);
//   }
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/buffer_lists.h"
#include "schedule/cuda/attention/written_attention.h"

namespace toroid::codegen::cuda {
namespace {

using loop::BufferId;
using loop::ExprId;

class WrittenAttentionPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::CallStep& step) {
    const schedule::AttentionKernel kernel = schedule::written_attention_kernel(program_, step);
    const std::vector<loop::Operand>& in = step.call.operands;
    const loop::Scores& scores = *step.call.scores;
    const BufferId out = step.outputs[0];
    std::vector<sym::Expr> shape = {in[0].sizes[0], in[0].sizes[1], sym::floor_div(in[0].sizes[1], in[1].sizes[1]), in[0].sizes[2],
                                    in[1].sizes[2]};
    for (const std::vector<sym::Expr>& strides :
         {in[0].strides, in[1].strides, in[2].strides, std::vector<sym::Expr>(4, 0), program_.buffer(out).strides})
      shape.insert(shape.end(), strides.begin(), strides.end());
    std::vector<BufferId> reads;
    if (!kernel.hopper) schedule::append_new(reads, {in[0].buffer, in[1].buffer, in[2].buffer});
    schedule::append_new(reads, scores.reads);
    if (has_table(step)) schedule::append_new(reads, {table_of(step)});
    Contents contents{loop::roots(scores), shape};
    contents.positions.insert(contents.positions.end(), scores.axes.begin(), scores.axes.end());
    for (const loop::Operand& each : in) contents.positions.push_back(each.offset);
    const std::string q = body_.fresh("q"), k = body_.fresh("k"), v = body_.fresh("v");
    if (kernel.hopper) tensor_maps_ = {q, k, v};
    begin(contents, reads, {out});
    const std::string numbers = body_.fresh("shape");
    std::string list;
    for (sym::Expr each : shape) list += (list.empty() ? "" : ", ") + print_factor(exprs_, names_, each);
    body_.line(fmt::format("const AttentionShape {} = {{{}}};", numbers, list));
    body_.is_of_scores = true;
    auto [factor, inner] = scaled(exprs_, scores.value);
    if (!(factor > 0)) factor = 1, inner = scores.value;  // the softmax multiplies by it anyway
    const std::string score = declare(scores.axes, inner, "score", true);
    const std::string seen = scores.visible ? declare(scores.axes, *scores.visible, "seen", false) : "0";
    const std::string table = table_text(step);
    const bool is_nan = std::get<bool>(std::get<Library>(step.call.op).attributes[0]);
    const std::string rest =
        fmt::format("{}, {}, {}, {}, {}, {}", body_.memory(out), numbers, table, literal_text(DType::F32, factor), score, seen);
    if (kernel.hopper) {
      body_.line(fmt::format("attend_to_written_on_hopper<{}, {}, {}, {}, {}>({}, {}, {}, {});", kernel.width, kernel.keys, kernel.stages,
                             has_table(step), is_nan, q, k, v, rest));
    } else {
      body_.line(fmt::format("attend_to_written<{}, {}, {}, {}, {}, {}>({}, {}, {}, {});", kernel.width, kernel.out_width, kernel.warps,
                             kernel.keys, has_table(step), is_nan, place(in[0].buffer, in[0].offset), place(in[1].buffer, in[1].offset),
                             place(in[2].buffer, in[2].offset), rest));
    }
    finish(step.provenance, fmt::format("__launch_bounds__({}, 1)", kernel.threads()));
    std::vector<schedule::TensorMap> maps;
    if (kernel.hopper) {
      constexpr int kQueryRows = 64;
      const auto map = [](const loop::Operand& of, int rows) {
        return schedule::attention_map(of.buffer, of.offset, of.sizes, of.strides, rows);
      };
      maps = {map(in[0], kQueryRows), map(in[1], kernel.keys), map(in[2], kernel.keys)};
    }
    return {.source = std::move(source_),
            .waits = true,
            .preludes = {.special = body_.is_special, .attention = true, .hopper_attention = kernel.hopper, .written_scores = true},
            .tensor_maps = std::move(maps)};
  }

  CudaKernel run_table(const schedule::CallStep& step) {
    const loop::Scores& scores = *step.call.scores;
    const auto table = schedule::table_sizes(program_, step);
    const BufferId out = step.outputs[1];
    const std::vector<sym::Expr> sizes = {table[1], table[2], table[3], step.call.operands[0].sizes[2], step.call.operands[1].sizes[2]};
    Contents contents{{*scores.visible}, sizes};
    contents.positions.insert(contents.positions.end(), scores.axes.begin(), scores.axes.end());
    begin(contents, loop::Scores::of(exprs_, scores.axes, *scores.visible, {}).reads, {out});
    const std::string seen = declare(scores.axes, *scores.visible, "seen", false);
    std::string list;
    for (sym::Expr each : sizes) list += (list.empty() ? "" : ", ") + count_text(each);
    body_.line(fmt::format("find_seen_tiles({}, {{{}}}, {});", body_.memory(out), list, seen));
    finish(step.provenance, fmt::format("__launch_bounds__({})", schedule::kTableThreads));
    return {
        .source = std::move(source_), .waits = true, .preludes = {.special = body_.is_special, .attention = true, .written_scores = true}};
  }

 private:
  static BufferId table_of(const schedule::CallStep& step) { return makes_table(step) ? step.outputs[1] : step.call.operands[3].buffer; }

  // Declares what the expression is at a place, as a function, and gives its name. `of_product`: the accumulator 0 stands for a parameter.
  std::string declare(const std::vector<sym::Expr>& axes, ExprId value, std::string_view base, bool of_product) {
    const std::string name = body_.fresh(base);
    std::vector<std::string> parameters;
    for (sym::Expr axis : axes) parameters.push_back(axis.is_const() ? "const Index" : "const Index " + body_.name_of(axis));
    body_.reals.clear();
    if (of_product) {
      for (const size_t d : {2, 3}) {
        const std::string real = body_.fresh("real");
        parameters.push_back("const float " + real);
        if (!axes[d].is_const()) body_.reals.emplace_back(axes[d], real);
      }
      const std::string product = body_.fresh("product");
      parameters.push_back("const float " + product);
      body_.open(fmt::format("const auto {} = [=]({}) {{", name, fmt::join(parameters, ", ")));
      for (ExprId id : loop::reachable(exprs_, {value})) {
        if (std::holds_alternative<loop::Accumulated>(exprs_.node(id).op)) body_.define(id, product);
      }
    } else {
      body_.open(fmt::format("const auto {} = [=]({}) {{", name, fmt::join(parameters, ", ")));
    }
    const std::string result = body_.value(value);
    body_.line(fmt::format("return {};", result));
    body_.close("};");
    return name;
  }

  std::string table_text(const schedule::CallStep& step) {
    if (!has_table(step)) return "{}";
    const auto sizes = schedule::table_sizes(program_, step);
    const sym::Expr of_head = sizes[2] * sizes[3], of_batch = sizes[1] * of_head;
    const auto stride = [&](sym::Expr size, sym::Expr of) {
      return size.is_const(1) ? std::string("0") : print_factor(exprs_, names_, of);
    };
    return fmt::format("{{{}, {}, {}, {}}}", body_.memory(table_of(step)), stride(sizes[0], of_batch), stride(sizes[1], of_head),
                       print_factor(exprs_, names_, sizes[3]));
  }
};

}  // namespace

CudaKernel print_written_attention(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name) {
  return WrittenAttentionPrinter(program, graph, std::move(name)).run(step);
}

CudaKernel print_score_table(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name) {
  return WrittenAttentionPrinter(program, graph, std::move(name)).run_table(step);
}

}  // namespace toroid::codegen::cuda
