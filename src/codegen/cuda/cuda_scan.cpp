// Scans as text: threads of a block share a row, or have one each.
//
// A thread scans some neighbours in registers, then the threads' totals are scanned, then the block goes on to the next tile of the row
// with what came before. Tiles of rows pass through shared memory, so that threads that read together read what lies together.
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/cuda_grid.h"

namespace toroid::codegen::cuda {
namespace {

class CudaScanPrinter : public ThreadPrinter {
 public:
  CudaScanPrinter(const loop::LoopProgram& program, const schedule::ScanKernel& kernel, const Graph& graph, std::string name,
                  const schedule::Overlap& overlap)
      : ThreadPrinter(program, graph, std::move(name), overlap),
        kernel_(kernel),
        plan_(schedule::scan_threads(kernel)),
        own_(exprs_.dtype(kernel.value)),
        // A running sum of floats is one chain of roundings, as long as the row: it is kept in double, as PyTorch keeps it.
        dtype_(is_floating(own_) && kernel.op != ScanOp::Max && kernel.op != ScanOp::Min ? DType::F64 : own_),
        has_position_(kernel.outputs.size() > 1) {}

  CudaKernel run() {
    Contents contents{{kernel_.value}, kernel_.positions};
    contents.positions.push_back(product_of_extents(kernel_.outer) + schedule::kScanColumns);
    contents.positions.push_back(extent(kernel_.along) + plan_.tile());
    begin(contents, kernel_.reads, kernel_.outputs);
    type_ = has_position_ ? fmt::format("Placed<{}, Index>", register_type(dtype_)) : std::string(register_type(dtype_));
    along_ = kernel_.along.is_const() ? body_.fresh("along") : body_.name_of(kernel_.along);
    length_ = index(extent(kernel_.along));
    const std::string rows = index(product_of_extents(kernel_.outer));
    body_.line(fmt::format("const auto combine = []({0} a, {0} b) -> {0} {{ return {1}; }};", type_, combined()));
    body_.line(fmt::format("const {} identity = {};", type_, identity()));
    switch (plan_.of_row) {
      case schedule::ScanThreads::One:
        body_.line(fmt::format("const Index row = blockIdx.x * (Index){} + threadIdx.x;", plan_.threads));
        body_.line(fmt::format("if (row >= {}) return;", rows));
        break;
      case schedule::ScanThreads::Neighbours:
        plan_.tiles > 0 ? take_tile(product_of_extents(kernel_.outer).value()) : body_.line("const Index row = blockIdx.x;");
        break;
      case schedule::ScanThreads::Column:
        body_.line(fmt::format("const Index own_row = blockIdx.x * (Index){0} + threadIdx.x % {0};", schedule::kScanColumns));
        body_.line(fmt::format("const bool is_row = own_row < {0};", rows));
        body_.line(
            fmt::format("const Index row = is_row ? own_row : {} - 1;", print_factor(exprs_, names_, product_of_extents(plan_.outer))));
        break;
    }
    decode(plan_.outer, "row");
    body_.line(fmt::format("{} running = identity;", type_));
    plan_.of_row == schedule::ScanThreads::One ? alone() : together();
    const std::string at_once = plan_.blocks_at_once > 1 ? fmt::format(", {}", plan_.blocks_at_once) : "";
    finish(kernel_.provenance, fmt::format("__launch_bounds__({}{})", plan_.threads, at_once));
    return {.source = std::move(source_),
            .waits = plan_.of_row != schedule::ScanThreads::One,
            .preludes = {.special = body_.is_special, .scans = true}};
  }

 private:
  std::string combined() const {
    const OperandText a{"a", false, true}, b{"b", false, true};
    switch (kernel_.op) {
      case ScanOp::Sum: return scalar_text(ScalarOp::Add, dtype_, {a, b});
      case ScanOp::Prod: return scalar_text(ScalarOp::Mul, dtype_, {a, b});
      case ScanOp::LogAddExp: return "log_add_exp(a, b)";
      // The latest of equal extrema, and the latest NaN.
      case ScanOp::Max: return "b.value >= a.value || b.value != b.value ? b : a";
      case ScanOp::Min: return "b.value <= a.value || b.value != b.value ? b : a";
    }
    return {};
  }
  std::string identity() const {
    switch (kernel_.op) {
      case ScanOp::Sum: return literal_text(dtype_, int64_t{0});
      case ScanOp::Prod: return literal_text(dtype_, int64_t{1});
      case ScanOp::LogAddExp: return literal_text(dtype_, -HUGE_VAL);
      case ScanOp::Max: return fmt::format("{{{}, 0}}", identity_text(ReduceOp::Max, dtype_));
      case ScanOp::Min: return fmt::format("{{{}, 0}}", identity_text(ReduceOp::Min, dtype_));
    }
    return {};
  }
  // Rows take turns, so that none waits for the tiles of another.
  void take_tile(int64_t rows) {
    body_.line(fmt::format("OF_ALL_CALLS ScanProgress<{}, {}, {}> progress;", type_, rows, plan_.tiles));
    body_.line("const ScannedTile own = take_tile(progress);");
    body_.line(fmt::format("const Index row = own.taken % {0}, own_tile = own.taken / {0};", rows));
  }

  // The element at `along_`, as what is combined.
  std::string element() {
    const std::string value = body_.value(kernel_.value);
    return has_position_ ? fmt::format("{}{{{}, {}}}", type_, value, along_) : fmt::format("({}){}", type_, value);
  }
  void store(const std::string& value, const std::string& position) {
    const std::string at = index(kernel_.positions[0]);
    body_.line(fmt::format("store({} + {}, ({}){});", body_.memory(kernel_.outputs[0]), at, register_type(own_), value));
    if (!has_position_) return;
    const std::string to = index(kernel_.positions[1]);
    body_.line(fmt::format("store({} + {}, (int64_t){});", body_.memory(kernel_.outputs[1]), to, position));
  }

  void alone() {
    body_.open(fmt::format("for (Index {0} = 0; {0} < {1}; ++{0}) {{", along_, length_));
    body_.line(fmt::format("running = combine(running, {});", element()));
    store(has_position_ ? "running.value" : "running", "running.position");
    body_.close();
  }

  bool has_packs() const { return kernel_.vector > 1 && plan_.of_row == schedule::ScanThreads::Neighbours; }

  // A round of a thread's elements, which lie beside each other, `vector` of them at a time. `place` is that of the first in the row.
  void each_pack() {
    const int items = schedule::kScanItems;
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int round = 0; round < {}; ++round) {{", plan_.rounds));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int item = 0; item < {}; item += {}) {{", items, kernel_.vector));
    body_.line(fmt::format("const Index place = first_of_thread + round * (kWave * {}) + item;", items));
  }
  void declare_first_of_thread() {
    const std::string of_warps =
        plan_.rounds == 1 ? "threadIdx.x" : fmt::format("(threadIdx.x / kWave * (kWave * {}) + threadIdx.x % kWave)", plan_.rounds);
    body_.line(fmt::format("const Index first_of_thread = first + {} * {};", of_warps, schedule::kScanItems));
  }
  // Of whole tiles, all places are in the row. What is behind the end of another is any of its elements: nothing follows.
  void load_packs(bool is_whole) {
    const int vector = kernel_.vector;
    schedule::Kernel alone;
    alone.stages = {schedule::Stage{}};
    alone.stages[0].statements = {schedule::Store{kernel_.outputs[0], kernel_.positions[0], kernel_.value}};
    each_pack();
    body_.line(is_whole ? std::string("const Index first_of_pack = place;")
                        : fmt::format("const Index first_of_pack = place < {0} ? place : {0} - {1};", length_, vector));
    body_.line(fmt::format("const Index {} = first_of_pack;", along_));
    std::vector<std::pair<loop::ExprId, std::string>> packs;
    for (loop::ExprId id : schedule::unconditional_loads(exprs_, alone)) {
      const auto load = std::get<loop::Load>(exprs_.node(id).op);
      const auto linear = sym::linear_in(load.index[0], kernel_.along);
      if (program_.buffer(load.buffer).kind == loop::BufferKind::RandomState || !linear || !linear->coefficient.is_const(1) ||
          schedule::depends_on_through_values(exprs_, linear->rest, kernel_.along) || !sym::known_divisible(linear->rest, vector))
        continue;
      const std::string pack = body_.fresh("pack"), at = index(load.index[0]);
      body_.line(fmt::format("const auto {} = load_pack<{}>({} + {});", pack, vector, body_.memory(load.buffer), at));
      packs.emplace_back(id, pack);
    }
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", vector));
    body_.line(fmt::format("const Index {} = first_of_pack + k;", along_));
    for (const auto& [id, pack] : packs) body_.define(id, fmt::format("{}.get(k)", pack));
    const std::string value = element();
    body_.line(fmt::format("scanned[round][item + k] = {};", value));
    body_.close();
    body_.close();
    body_.close();
  }
  // What the thread has of each round up to an element, and what is before it in the tile.
  void scan_packs() {
    const int items = schedule::kScanItems;
    body_.line(fmt::format("{} of_round[{}], total;", type_, plan_.rounds));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int round = 0; round < {}; ++round) {{", plan_.rounds));
    body_.line("UNROLLED");
    body_.line(fmt::format(
        "for (int item = 1; item < {}; ++item) scanned[round][item] = combine(scanned[round][item - 1], scanned[round][item]);", items));
    body_.line(fmt::format("of_round[round] = scanned[round][{}];", items - 1));
    body_.close();
    body_.line(fmt::format("scan_rounds<{}, {}>(of_round, identity, total, combine);", plan_.threads, plan_.rounds));
    look_back();
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int round = 0; round < {}; ++round) of_round[round] = combine(running, of_round[round]);", plan_.rounds));
    if (plan_.tiles == 0) body_.line("running = combine(running, total);");
  }
  void store_packs(bool is_whole) {
    const int vector = kernel_.vector;
    each_pack();
    for (size_t i = 0; i < kernel_.outputs.size(); ++i)
      body_.line(fmt::format("Pack<{}, {}> results{};", storage_type(program_.buffer(kernel_.outputs[i]).dtype), vector, i));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", vector));
    body_.line(fmt::format("const {} result = combine(of_round[round], scanned[round][item + k]);", type_));
    body_.line(fmt::format("results0.set(k, ({})result{});", register_type(own_), has_position_ ? ".value" : ""));
    if (has_position_) body_.line("results1.set(k, (int64_t)result.position);");
    body_.close();
    body_.open(is_whole ? "{" : fmt::format("if (place < {}) {{", length_));
    body_.line(fmt::format("const Index {} = place;", along_));
    for (size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const std::string at = index(kernel_.positions[i]);
      body_.line(fmt::format("store_pack({} + {}, results{});", body_.memory(kernel_.outputs[i]), at, i));
    }
    body_.close();
    body_.close();
    body_.close();
  }
  // What the row has before the tile.
  void look_back() {
    if (plan_.tiles > 0) body_.line("running = before_tile(progress, own.call, row, own_tile, total, identity, combine);");
  }
  // Whole tiles ask nothing of each pack.
  template <class Print>
  void of_tile(Print print) {
    if (sym::known_divisible(extent(kernel_.along), plan_.tile())) return print(true);
    if (plan_.tiles == 0) return print(false);
    body_.open(fmt::format("if (first + {} <= {}) {{", plan_.tile(), length_));
    print(true);
    body_.close();
    body_.open("else {");
    print(false);
    body_.close();
  }
  void together_in_packs() {
    declare_first_of_thread();
    body_.line(fmt::format("{} scanned[{}][{}];", type_, plan_.rounds, schedule::kScanItems));
    of_tile([&](bool is_whole) { load_packs(is_whole); });
    scan_packs();
    of_tile([&](bool is_whole) { store_packs(is_whole); });
    if (plan_.tiles == 0) body_.line("__syncthreads();");
    body_.close();
  }

  void each_item() {
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int item = 0; item < {}; ++item) {{", schedule::kScanItems));
  }
  void load_items(bool is_column, const std::string& place_of_item) {
    const int items = schedule::kScanItems, threads = plan_.threads;
    each_item();
    body_.line(fmt::format("const Index place = {};", place_of_item));
    body_.line(fmt::format("const Index {0} = place < {1} ? place : {1} - 1;", along_, length_));  // all read, so that loads come together
    if (is_column) {
      const std::string value = element();
      body_.line(fmt::format("scanned[item] = place < {} ? {} : identity;", length_, value));
    } else {
      const std::string value = body_.value(kernel_.value);
      body_.line(fmt::format("const int in_tile = item * {} + threadIdx.x;", threads));
      body_.line(fmt::format("tile[in_tile + in_tile / {}] = {};", items, value));
    }
    body_.close();
    if (!is_column) {
      body_.line("__syncthreads();");
      each_item();
      body_.line(fmt::format("const Index place = first + threadIdx.x * {} + item;", items));
      const std::string value = fmt::format("tile[threadIdx.x * {} + item]", items + 1);
      body_.line(fmt::format("scanned[item] = place < {} ? {} : identity;", length_,
                             has_position_ ? fmt::format("{}{{{}, place}}", type_, value) : fmt::format("({}){}", type_, value)));
      body_.close();
    }
  }

  void together() {
    const int items = schedule::kScanItems, threads = plan_.threads;
    const bool is_column = plan_.of_row == schedule::ScanThreads::Column;
    const std::string place_of_item = is_column ? fmt::format("first + threadIdx.x / {} * {} + item", schedule::kScanColumns, items)
                                                : fmt::format("first + item * {} + threadIdx.x", threads);
    const bool packs = has_packs(), through_tile = !is_column && !packs;
    if (through_tile) {
      const int64_t padded = threads * items + threads;  // what a thread has begins in another bank than what its neighbour has
      body_.line(fmt::format("__shared__ {} tile[{}];", register_type(own_), padded));
      if (has_position_) body_.line(fmt::format("__shared__ Index positions[{}];", padded));
    }
    if (plan_.tiles > 0) {
      body_.line(fmt::format("const Index first = own_tile * {};", plan_.tile()));
      body_.open("{");
    } else {
      body_.open(fmt::format("for (Index first = 0; first < {}; first += {}) {{", length_, plan_.tile()));
    }
    if (packs) return together_in_packs();
    body_.line(fmt::format("{} scanned[{}];", type_, items));
    load_items(is_column, place_of_item);
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int item = 1; item < {}; ++item) scanned[item] = combine(scanned[item - 1], scanned[item]);", items));
    body_.line(fmt::format("{} total;", type_));
    body_.line(fmt::format("const {} in_tile_before = {}<{}>(scanned[{}], identity, total, combine);", type_,
                           is_column ? "scan_column" : "scan_row", is_column ? threads / schedule::kScanColumns : threads, items - 1));
    look_back();
    body_.line(fmt::format("const {} before = combine(running, in_tile_before);", type_));
    if (plan_.tiles == 0) body_.line("running = combine(running, total);");
    const std::string result = has_position_ ? "result.value" : "result";
    each_item();
    body_.line(fmt::format("const {} result = combine(before, scanned[item]);", type_));
    if (is_column) {
      body_.line(fmt::format("const Index {} = {};", along_, place_of_item));
      body_.open(fmt::format("if (is_row && {} < {}) {{", along_, length_));
      store(result, "result.position");
      body_.close();
    } else {
      body_.line(fmt::format("tile[threadIdx.x * {} + item] = ({}){};", items + 1, register_type(own_), result));
      if (has_position_) body_.line(fmt::format("positions[threadIdx.x * {} + item] = result.position;", items + 1));
    }
    body_.close();
    body_.line("__syncthreads();");
    if (!is_column) {
      each_item();
      body_.line(fmt::format("const int in_tile = item * {} + threadIdx.x, at_tile = in_tile + in_tile / {};", threads, items));
      body_.line(fmt::format("const Index {} = first + in_tile;", along_));
      body_.open(fmt::format("if ({} < {}) {{", along_, length_));
      store("tile[at_tile]", "positions[at_tile]");
      body_.close();
      body_.close();
      body_.line("__syncthreads();");
    }
    body_.close();
  }

  const schedule::ScanKernel& kernel_;
  const schedule::ScanThreads plan_;
  const DType own_, dtype_;
  const bool has_position_;
  std::string type_, along_, length_;
};

}  // namespace

CudaKernel print_scan(const loop::LoopProgram& program, const schedule::ScanKernel& kernel, const Graph& graph, std::string name,
                      const schedule::Overlap& overlap) {
  return CudaScanPrinter(program, kernel, graph, std::move(name), overlap).run();
}

}  // namespace toroid::codegen::cuda
