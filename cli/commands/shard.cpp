// toroid shard MODEL --tensor-parallel N
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "build_flags.h"
#include "command.h"
#include "describe.h"
#include "driver/compile.h"
#include "driver/package/write_compiled.h"
#include "driver/pipeline/take_part.h"
#include "flags/flags.h"
#include "graph/builder.h"
#include "passes/constant_values.h"

namespace toroid::cli {
namespace {

int64_t bytes_of(const ConstantData& constant) { return constant.type.numel().value() * size_bytes(constant.type.dtype); }

int64_t weights_bytes(const Program& program) {
  int64_t bytes = 0;
  for (ConstantId id : used_constants(program)) bytes += bytes_of(program.constant(id));
  return bytes;
}

// The plan, as a file of rules that gives the same one.
void print_plan(const Program& part, const shard::Plan& plan, int processes, int64_t whole_bytes) {
  std::set<std::string> named;
  std::set<ConstantId> whole;  // for parts of a batch
  size_t width = 0;
  const auto name_of = [&](const shard::WeightUse& use) { return part.constant(use.weights[0]).name; };
  for (const shard::WeightUse& use : plan.products) width = std::max(width, name_of(use).size());
  for (const shard::WeightUse& use : plan.products) {
    const std::string name = name_of(use);
    if (use.by_batch) {
      for (ConstantId id : use.weights) whole.insert(id);
    }
    if (name.empty() || !named.insert(name).second) continue;
    fmt::print("{:<{}}  {:<10}  # {}\n", name, width,
               use.by_rows      ? "rows"
               : use.by_columns ? "columns"
               : use.by_batch   ? "batch"
                                : "replicated",
               to_string(part.constant(use.weights[0]).type));
  }
  for (const auto& [id, sharding] : plan.buffers) {
    fmt::print("# the state '{}' is cut along dim {}\n", part.constant(id).name, sharding.dim);
  }
  if (!whole.empty()) {
    int64_t bytes = 0;
    for (ConstantId id : whole) bytes += bytes_of(part.constant(id));
    fmt::print("# batch: each process has the whole weight, and a part of the batch; that takes {:.1f} MB more than parts of weights\n",
               static_cast<double>(bytes - bytes / processes) / 1e6);
  }
  fmt::print("# {} processes, each with {:.1f} MB of {:.1f} MB of weights; reductions in a call: {}, gathers: {}, of {:.1f} MB\n",
             processes, static_cast<double>(weights_bytes(part)) / 1e6, static_cast<double>(whole_bytes) / 1e6, plan.reductions,
             plan.gathers, static_cast<double>(plan.communicated_bytes) / 1e6);
}

}  // namespace

int cmd_shard(int argc, const char* const* argv) {
  std::string path, folder, device = "cpu", cpu = "native";
  CompileModelOptions options;
  Flags flags("toroid shard",
              "Cuts a model for several processes: says how, as a file for --shard-rules, and with -o compiles each one's part.");
  flags.add_option("MODEL", path, "a .pt2 file").required();
  flags.add_option("-o,--output", folder, "a folder for the parts: rank0.so, rank1.so, …");
  flags.add_option("--device", device, "what to compile for: cpu, cuda, emulated-cuda").shows_default();
  flags.add_option("--cpu", cpu, "the processors that the parts run on, as for toroid compile");
  add_build_flags(flags, options);
  if (const auto status = flags.read(argc, argv)) return *status;
  if (options.shard.processes < 2) {
    throw Error(ErrorKind::InvalidOption, "a model is cut for two processes at least").help("add --tensor-parallel 2");
  }
  set_device(options, device);
  options.shard.rank = std::max(options.shard.rank, 0);
  CompileModelOptions whole = options;
  whole.shard = {};
  Program part = CompileSession::import(path, whole);
  const int64_t whole_bytes = weights_bytes(part);
  const shard::Plan plan = take_part(part, options);
  print_plan(part, plan, options.shard.processes, whole_bytes);
  if (folder.empty()) return 0;

  std::filesystem::create_directories(folder);
  set_levels(options, cpu);
  CompileSession session;
  for (int rank = 0; rank < options.shard.processes; ++rank) {
    options.shard.rank = rank;
    const std::string file = (std::filesystem::path(folder) / fmt::format("rank{}.so", rank)).string();
    write_compiled(session.compile_file(path, options), file, "", session);
    fmt::print(stderr, "{}\n", file);
  }
  return 0;
}

}  // namespace toroid::cli
