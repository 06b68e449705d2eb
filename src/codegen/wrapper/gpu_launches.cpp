// Launches of CUDA's kernels: each argument's address, and the number of blocks.
#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/triton/triton_printer.h"
#include "codegen/wrapper/function_printer.h"
#include "schedule/cuda/attention/written_attention.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/cudnn/cudnn_step.h"
#include "toroid/gpu_abi.h"

namespace toroid::codegen {
namespace {

std::vector<std::string> types_of_arguments(const loop::LoopProgram& loops, const cuda::CudaKernel& kernel) {
  std::vector<std::string> types(kernel.tensor_maps.size(), "TensorMap");
  for (const KernelParameter& parameter : kernel.source.parameters) {
    const loop::Buffer& buffer = loops.buffer(parameter.buffer);
    types.push_back(buffer.kind == loop::BufferKind::RandomState ? "RandomState" : fmt::format("{}*", storage_type(buffer.dtype)));
  }
  types.insert(types.end(), kernel.source.sizes.size(), "int64_t");
  if (kernel.source.reports_errors) types.insert(types.end(), {"Failure*", "int32_t"});
  return types;
}

// Of an emulated kernel: takes its arguments out of an array of pointers to them.
std::string thunk(const std::string& name, const std::vector<std::string>& types) {
  std::vector<std::string> taken;
  for (const std::string& type : types) taken.push_back(fmt::format("*({}*)passed[{}]", type, taken.size()));
  return fmt::format("static void {0}_emulated(void** passed) {{\n  (void)passed;\n  {0}({1});\n}}\n", name, joined(taken, ""));
}

}  // namespace

std::string FunctionPrinter::tensor_maps(const std::vector<schedule::TensorMap>& maps) {
  std::vector<std::string> list;
  for (const schedule::TensorMap& map : maps) {
    const auto braced = [&](const auto& numbers) {
      std::vector<std::string> texts;
      for (sym::Expr number : numbers) texts.push_back(index(number));
      return fmt::format("{{{}}}", fmt::join(texts, ", "));
    };
    const std::string pixels =
        map.steps[0].is_const(0) ? "" : fmt::format(", {}, {}, {}", braced(map.lower), braced(map.upper), braced(map.steps));
    list.push_back(fmt::format("{{{}, {}, {}, {}, {{{}}}{}}}", pointer({map.buffer, map.offset}),
                               static_cast<int>(buffer(map.buffer).dtype), braced(map.sizes), braced(map.strides), fmt::join(map.box, ", "),
                               pixels));
  }
  return joined(list, "");
}

void FunctionPrinter::print_base(const schedule::ScatterKernel& scatter, size_t graph) {
  const loop::Buffer& out = buffer(scatter.out);
  if (scatter.ordered && scatter.ordered->fill) {
    const std::string name = shared_.kernels.fresh_name(fmt::format("{}_fill{}", identifier(scatter.name), shared_.suffix));
    const int64_t of_block = int64_t{schedule::kFillThreads} * schedule::vector_of_fill(loops_, scatter);
    const sym::Expr blocks = sym::ceil_div(sym::product(out.sizes), of_block);
    return print_gpu_launch(cuda::print_fill(loops_, scatter, graph_of(graph), name), {blocks, schedule::kFillThreads}, blocks, {});
  }
  const std::string to = identifier(out.name), from = identifier(buffer(scatter.base).name);
  body_.write(fmt::format("{}copy_bytes(runtime, {}, {}, {});",
                          loop::updates(out, buffer(scatter.base)) ? fmt::format("if ({} != {}) ", to, from) : "", to, from,
                          bytes_of(sym::product(out.sizes), out.dtype)));
}

// The emulation has no Hopper: its text is the other kernel's, of as many blocks.
void FunctionPrinter::print_written_attention(const schedule::CallStep& planned, size_t graph, sym::Expr blocks) {
  const schedule::CallStep step = is_emulated(shared_.target) ? schedule::without_hopper(loops_, planned) : planned;
  const std::string name = identifier(step.name);
  if (schedule::makes_table(step)) {
    const schedule::CudaGrid grid = schedule::table_grid(loops_, step);
    const std::string table = shared_.kernels.fresh_name(fmt::format("{}_tiles{}", name, shared_.suffix));
    print_gpu_launch(cuda::print_score_table(loops_, step, graph_of(graph), table), grid, grid.blocks, {});
  }
  print_gpu_launch(
      cuda::print_kernel(loops_, step, graph_of(graph), shared_.kernels.fresh_name(fmt::format("{}_kernel{}", name, shared_.suffix))),
      schedule::cuda_grid_of(loops_, step), blocks, {});
}

void FunctionPrinter::print_gpu_launch(const schedule::Step& kernel, size_t graph, sym::Expr blocks, const schedule::Overlap& overlap) {
  const auto* call = std::get_if<schedule::CallStep>(&kernel);
  if (call != nullptr && schedule::cudnn_of(call->choice) != schedule::Cudnn::Never) return print_cudnn_step(*call, graph, blocks, overlap);
  if (call != nullptr && call->call.scores) return print_written_attention(*call, graph, blocks);
  if (schedule::is_in_triton(kernel)) return print_triton_launch(kernel);
  const std::string base = fmt::format("{}_kernel{}", identifier(schedule::name_of(kernel)), shared_.suffix);
  const schedule::CudaGrid grid = schedule::cuda_grid_of(loops_, kernel);
  for (size_t i = 0; call != nullptr && i < call->updates.size(); ++i) print_base(call->updates[i], graph);
  const auto* scatter = std::get_if<schedule::ScatterKernel>(&kernel);
  if (scatter != nullptr) print_base(*scatter, graph);
  if (const auto* group = std::get_if<schedule::ParallelKernels>(&kernel)) {
    for (const schedule::ParallelKernel& each : group->kernels) {
      if (const auto* scatter = std::get_if<schedule::ScatterKernel>(&each)) print_base(*scatter, graph);
    }
  }
  print_gpu_launch(cuda::print_kernel(loops_, kernel, graph_of(graph), shared_.kernels.fresh_name(base), overlap), grid, blocks, overlap);
  if (scatter != nullptr && scatter->ordered && scatter->ordered->parts) {
    const std::string join = fmt::format("{}_join{}", identifier(scatter->name), shared_.suffix);
    print_gpu_launch(cuda::print_join(loops_, *scatter, graph_of(graph), shared_.kernels.fresh_name(join)), grid, blocks, {});
  }
}

void FunctionPrinter::print_triton_launch(const schedule::Step& kernel) {
  auto printed = print_triton(loops_, kernel);
  if (const auto* reason = std::get_if<std::string>(&printed))
    throw Error(ErrorKind::InvalidModel,
                fmt::format("the kernel '{}' is to be in Triton, which it cannot: {}", schedule::name_of(kernel), *reason));
  auto& made = std::get<PrintedTriton>(printed);
  if (shared_.target != Target::Cuda)
    throw Error(ErrorKind::Unsupported,
                fmt::format("the kernel '{}' is in Triton, which a processor does not emulate", schedule::name_of(kernel)));
  const std::string& name = add_triton(std::move(made.kernel), identifier(schedule::name_of(kernel)));
  auto block = body_.block("{");
  std::vector<std::string> passed;
  for (const BufferId id : made.buffers) passed.push_back(fmt::format("(void*)&{}", identifier(buffer(id).name)));
  for (const sym::Expr size : made.sizes) passed.push_back(fmt::format("(void*)&{}", identifier(size.node()->name)));
  if (made.reports_errors) {
    body_.write("void* const failure = gpu(runtime)->failure;");
    body_.write(fmt::format("const int32_t step = {};", number_));
    passed.insert(passed.end(), {"(void*)&failure", "(void*)&step"});
  }
  write_grid_launch(name, passed, {made.blocks, 1, 1});
}

void FunctionPrinter::write_grid_launch(const std::string& kernel, const std::vector<std::string>& passed,
                                        const std::array<sym::Expr, 3>& grid) {
  body_.write(fmt::format("void* passed[{} + {}] = {{{}}};", passed.size(), TOROID_GPU_MORE_POINTERS, joined(passed, "nullptr")));
  body_.write(fmt::format("if (const int32_t failed = launch_grid(runtime, \"{}\", {}, {}, {}, passed, {}, {})) return failed;", kernel,
                          index(grid[0]), index(grid[1]), index(grid[2]), passed.size(), number_));
}

void FunctionPrinter::print_gpu_launch(const cuda::CudaKernel& printed, const schedule::CudaGrid& grid, sym::Expr blocks,
                                       const schedule::Overlap& overlap) {
  const std::string& name = add_kernel(printed.source);
  shared_.kernel_preludes.try_emplace(name, printed.preludes);
  const bool emulated = is_emulated(shared_.target);
  auto block = body_.block("{");
  std::vector<std::string> passed;
  for (const KernelParameter& parameter : printed.source.parameters) {
    const loop::Buffer& each = buffer(parameter.buffer);
    if (each.kind == loop::BufferKind::RandomState) {
      body_.write(fmt::format("const int64_t* const random_words = {};",
                              emulated ? identifier(each.name) : fmt::format("gpu(runtime)->random(runtime, {})", identifier(each.name))));
      if (!emulated) body_.write(fmt::format("if (!random_words) return {};", number_ + 1));
      passed.emplace_back("(void*)&random_words");
    } else {
      passed.push_back(fmt::format("(void*)&{}", identifier(each.name)));
    }
  }
  for (sym::Expr size : printed.source.sizes) passed.push_back(fmt::format("(void*)&{}", identifier(size.node()->name)));
  if (printed.source.reports_errors) {
    body_.write(fmt::format("void* const failure = {};", emulated ? "&emulated_failure" : "gpu(runtime)->failure"));
    body_.write(fmt::format("const int32_t step = {};", number_));
    passed.insert(passed.end(), {"(void*)&failure", "(void*)&step"});
  }
  write_gpu_launch({name, types_of_arguments(loops_, printed), std::move(passed), printed.tensor_maps, blocks, grid.threads,
                    grid.shared_bytes, grid.resident, printed.waits, overlap.starts_early});
}

void FunctionPrinter::write_gpu_launch(GpuLaunch launch) {
  const bool emulated = is_emulated(shared_.target);
  if (emulated) shared_.thunks.try_emplace(launch.name, thunk(launch.name, launch.types));
  std::string more;  // arguments of launch
  if (!launch.maps.empty()) {
    body_.write(fmt::format("const ToroidTensorMap maps[] = {{{}}};", tensor_maps(launch.maps)));
    more = fmt::format(", {}, {}, maps, {}", launch.shared_bytes, launch.resident, launch.maps.size());
    launch.passed.insert(launch.passed.begin(), launch.maps.size(), "nullptr");
  } else if (launch.shared_bytes > 0) {
    more = fmt::format(", {}", launch.shared_bytes);
  }
  body_.write(fmt::format("void* passed[] = {{{}}};", joined(launch.passed, "nullptr")));
  const std::string which = emulated ? fmt::format("{{{}_emulated, {}}}", launch.name, launch.waits) : fmt::format("\"{}\"", launch.name);
  body_.write(fmt::format("if (const int32_t failed = {}(runtime, {}, {}, {}, passed, {}{})) return failed;",
                          launch.starts_early ? "launch_early" : "launch", which, index(launch.blocks), launch.threads, number_, more));
}

}  // namespace toroid::codegen
