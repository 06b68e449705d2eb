#include "codegen/cuda/cuda_kernel.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/masked_stage.h"
#include "schedule/cuda/sliding_window.h"
#include "support/match.h"

namespace toroid::codegen::cuda {
namespace {

using loop::BufferId;
using loop::ExprId;
using schedule::Accumulate;
using schedule::Keep;
using schedule::Stage;
using schedule::Statement;
using schedule::Store;

bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMin || op == ReduceOp::ArgMax; }

class CudaPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::Kernel& kernel) {
    nest(kernel);
    finish(kernel.provenance, fmt::format("__launch_bounds__({}{})", schedule::cuda_grid_of(program_, kernel).threads,
                                          gpu_.shared || gpu_.blocks > 0 ? ", 2" : ""));
    return {.source = std::move(source_), .waits = waits_, .preludes = {.special = body_.is_special}};
  }
  ThreadText run_thread(const schedule::Kernel& kernel) {
    nest(kernel);
    return take_thread(waits_);
  }

 private:
  // ---- nests

  void nest(const schedule::Kernel& kernel) {
    TOROID_CHECK(kernel.gpu.has_value(), "the kernel '{}' is not planned for a GPU", kernel.name);
    gpu_ = *kernel.gpu;
    kernel_ = &kernel;
    body_.unfused = {kernel.unfused.begin(), kernel.unfused.end()};
    const sym::Expr rows = product_of_extents(kernel.outer), row = product_of_extents(kernel.inner);
    constexpr int64_t kMostRounded = 16384;  // what the last block has beyond the last row
    Contents contents{{}, {rows + kMostRounded, row + kMostRounded}};
    // A product with an extent of 0 does not mention the others.
    for (const auto* axes : {&kernel.outer, &kernel.inner}) contents.positions.insert(contents.positions.end(), axes->begin(), axes->end());
    for (const Stage& stage : kernel.stages) {
      if (stage.condition) contents.values.push_back(*stage.condition);
      for (const Statement& statement : stage.statements) {
        match(
            statement,
            [&](const Accumulate& s) {
              contents.values.push_back(s.value);
              if (is_arg(kernel.accumulators[static_cast<size_t>(s.accumulator)].op)) contents.positions.push_back(s.position);
            },
            [&](const Store& s) {
              contents.values.push_back(s.value);
              contents.positions.push_back(s.position);
            },
            [&](const Keep& s) { contents.values.push_back(s.value); });
      }
    }
    begin(contents, kernel.reads, kernel.writes);
    if (kernel.inner.empty()) return map(kernel, rows);
    if (gpu_.pixels > 1) return slide(kernel, *schedule::sliding_window(exprs_, kernel));

    const int rows_of_block = gpu_.threads / gpu_.row_threads;
    const std::string row_thread =
        gpu_.columns ? fmt::format("threadIdx.x % {}", rows_of_block) : fmt::format("threadIdx.x / {}", gpu_.row_threads);
    body_.line(
        fmt::format("const int thread = {};  // of the row's {}",
                    gpu_.columns ? fmt::format("threadIdx.x / {}", rows_of_block) : fmt::format("threadIdx.x % {}", gpu_.row_threads),
                    gpu_.row_threads));
    // Threads without a row go along with the last one, so that all wait for each other.
    const int columns = of_thread();
    if (gpu_.blocks > 0) {
      for (size_t i = 0; i < kernel.accumulators.size(); ++i) {
        if (kernel.accumulators[i].of_columns) body_.line(fmt::format("float column{}[{}] = {{}};", i, gpu_.items * gpu_.vector));
      }
      body_.open(fmt::format("for (Index first_row = blockIdx.x * (Index){0}; first_row < {1}; first_row += {2}) {{", rows_of_block,
                             index(rows), gpu_.blocks * rows_of_block));
      body_.line(fmt::format("const Index own_row = first_row + {};", row_thread));
    } else {
      body_.line(columns > 1 ? fmt::format("const Index own_row = (blockIdx.x * (Index){} + {}) * {};", rows_of_block, row_thread, columns)
                             : fmt::format("const Index own_row = blockIdx.x * (Index){} + {};", rows_of_block, row_thread));
    }
    body_.line(fmt::format("const bool is_row = own_row < {0};", index(rows)));
    body_.line(fmt::format("const Index row = is_row ? own_row : {} - {};", print_factor(exprs_, names_, rows), columns));
    decode(kernel.outer, "row");
    if (gpu_.shared) {
      const auto& load = std::get<loop::Load>(exprs_.node(schedule::kept_values(kernel)[0]).op);
      stash_type_ = fmt::format("Pack<{}, {}>", storage_type(program_.buffer(load.buffer).dtype), gpu_.vector);
      body_.line(fmt::format("{0}* const stash0 = ({0}*)memory_of_stash() + threadIdx.x;", stash_type_));
    }
    for (size_t i = 0; i < kernel.stashes.size() && !gpu_.shared; ++i)
      body_.line(fmt::format("{} stash{}[{}];", register_type(kernel.stashes[i]), i, gpu_.items * gpu_.vector));
    for (const Stage& stage : kernel.stages) stage.inner ? row_stage(stage, row) : once_stage(stage);
    if (gpu_.blocks == 0) return;
    body_.close();
    for (size_t i = 0; i < kernel.accumulators.size(); ++i) {
      const std::optional<BufferId> to = kernel.accumulators[i].of_columns;
      if (!to) continue;
      body_.line(fmt::format("store_columns<{}, {}, {}>(column{}, {} + blockIdx.x * (Index){}, {});", gpu_.row_threads, gpu_.threads,
                             gpu_.vector, i, body_.memory(*to), row.value(), row.value()));
      waits_ = true;
    }
  }

  // A block has a tile: it reads what the tile transposes with its threads along the tile's axis, and computes with them along the last
  // axis. Both in pieces of gpu_.vector elements. A row of the tile in shared memory has an odd number of banks, so that columns lie in all
  // of them.
  void map_by_tiles(const schedule::Kernel& kernel) {
    constexpr auto kSide = static_cast<int>(schedule::kTileSide);
    const int vector = gpu_.vector, of_row = kSide / vector, each = kSide * of_row / gpu_.threads;  // pieces of a row, and of a thread
    const sym::Expr across = *kernel.tile, along = kernel.outer.back();
    for (ExprId id : kernel.tiled_loads) {
      const loop::Buffer& buffer = program_.buffer(std::get<loop::Load>(exprs_.node(id).op).buffer);
      const int64_t padding = std::max<int64_t>(1, 4 / size_bytes(buffer.dtype));
      tiles_.emplace_back(id, fmt::format("tile{}", tiles_.size()));
      body_.line(
          fmt::format("alignas(16) __shared__ {} {}[{}][{}];", storage_type(buffer.dtype), tiles_.back().second, kSide, kSide + padding));
    }
    std::string rest = "blockIdx.x";
    for (size_t d = kernel.outer.size(); d-- > 0;) {
      const sym::Expr axis = kernel.outer[d];
      const bool is_side = axis == across || axis == along;
      const std::string count = print_factor(exprs_, names_, is_side ? sym::ceil_div(extent(axis), kSide) : extent(axis));
      const std::string name = axis == across  ? "first_across"
                               : axis == along ? "first_along"
                                               : body_.name_of(axis),
                        next = body_.fresh("rest");
      body_.line(fmt::format("const Index {0} = {1} % {2}{3}, {4} = {1} / {2};", name, rest, count,
                             is_side ? fmt::format(" * {}", kSide) : "", next));
      rest = next;
    }
    const auto each_piece = [&] {
      body_.line("UNROLLED");
      body_.open(fmt::format("for (int piece = 0; piece < {}; ++piece) {{", each));
      body_.line(fmt::format("const int place = piece * {} + threadIdx.x;", gpu_.threads));
    };
    const auto axes_at = [&](std::string_view row_of_along, std::string_view row_of_across) {
      body_.line(fmt::format("const Index {} = first_along + {}, {} = first_across + {};", body_.name_of(along), row_of_along,
                             body_.name_of(across), row_of_across));
    };
    const auto inside = [&] {
      return fmt::format("{} < {} && {} < {}", body_.name_of(along), index(extent(along)), body_.name_of(across), index(extent(across)));
    };
    for (const auto& [id, tile] : tiles_) {
      const auto& load = std::get<loop::Load>(exprs_.node(id).op);
      const std::string_view type = storage_type(program_.buffer(load.buffer).dtype);
      const bool is_pack = fills_packs(load.buffer, load.index[0], across);
      body_.line(fmt::format("Pack<{}, {}> {}_pieces[{}];", type, vector, tile, each));
      each_piece();
      body_.line(fmt::format("const int tile_row = place / {0}, tile_lane = place % {0} * {1};", of_row, vector));
      axes_at("tile_row", "tile_lane");
      body_.open(fmt::format("if ({}) {{", inside()));
      if (is_pack) {
        const std::string at = index(load.index[0]);
        body_.line(fmt::format("{}_pieces[piece] = load_pack<{}>({} + {});", tile, vector, body_.memory(load.buffer), at));
      } else {
        const std::string name = body_.name_of(across);
        body_.line(fmt::format("const Index first = {};", name));
        body_.line("UNROLLED");
        body_.open(fmt::format("for (int k = 0; k < {}; ++k) {{", vector));
        body_.line(fmt::format("const Index {} = first + k;", name));
        const std::string at = index(load.index[0]);
        body_.line(fmt::format("{}_pieces[piece].v[k] = {}[{}];", tile, body_.memory(load.buffer), at));
        body_.close();
      }
      body_.close();
      body_.close();
    }
    for (const auto& [id, tile] : tiles_) {
      each_piece();
      body_.line(fmt::format("store_words(&{0}[place / {1}][place % {1} * {2}], {0}_pieces[piece]);", tile, of_row, vector));
      body_.close();
    }
    body_.line("__syncthreads();");
    waits_ = true;
    // Neighbouring threads have some pieces of a row, 64 bytes or more, and then those of the next one.
    const int beside = 32 / vector, rows = 32 / beside;
    each_piece();
    body_.line(fmt::format(
        "const int warp = place / 32, tile_lane = (warp % {0} * {1} + place % {1}) * {2}, tile_row = warp / {0} * {3} + place / {1} % {3};",
        of_row / beside, beside, vector, rows));
    axes_at("tile_lane", "tile_row");
    body_.line(fmt::format("if (!({})) continue;", inside()));
    if (vector == 1) define_tiled("tile_lane");
    for (const Stage& stage : kernel.stages) elements_of(stage, kernel.outer, "");
    body_.close();
  }
  void define_tiled(std::string_view column) {
    for (const auto& [id, tile] : tiles_) body_.define(id, fmt::format("widen({}[{}][tile_row])", tile, column));
  }

  void map(const schedule::Kernel& kernel, sym::Expr elements) {
    if (kernel.tile) return map_by_tiles(kernel);
    const std::string vector = gpu_.vector > 1 ? fmt::format(" * {}", gpu_.vector) : "";
    const std::string place = fmt::format("blockIdx.x * (Index){} + threadIdx.x", gpu_.threads);
    body_.line(fmt::format("const Index element = {};", vector.empty() ? place : "(" + place + ")" + vector));
    if (gpu_.items > 1) return repeated_map(kernel, elements);
    body_.line(fmt::format("if (element >= {}) return;", index(elements)));
    decode(kernel.outer, "element");
    for (const Stage& stage : kernel.stages) {
      declare_accumulators(stage);
      elements_of(stage, kernel.outer, "");
      combine_accumulators(stage);
    }
  }

  // A thread takes several elements along the axis before the last, at equal distances, so that threads beside each other take what lies
  // together. What does not change along it, the compiler computes once.
  void repeated_map(const schedule::Kernel& kernel, sym::Expr elements) {
    body_.line(fmt::format("if (element >= {}) return;", index(sym::floor_div(elements, gpu_.items))));
    const sym::Expr repeated = *(kernel.outer.end() - 2);
    const std::string distance = print_factor(exprs_, names_, sym::floor_div(extent(repeated), gpu_.items));
    std::string rest = "element";
    for (size_t d = kernel.outer.size(); d-- > 0;) {
      const sym::Expr axis = kernel.outer[d];
      if (axis.is_const()) continue;
      const std::string name = axis == repeated ? "first_repeated" : body_.name_of(axis), next = body_.fresh("rest");
      const std::string size = axis == repeated ? distance : print_factor(exprs_, names_, extent(axis));
      body_.line(fmt::format("const Index {0} = {1} % {2}, {3} = {1} / {2};", name, rest, size, next));
      rest = next;
    }
    body_.line("UNROLLED_BY_4");
    body_.open(fmt::format("for (int item = 0; item < {}; ++item) {{", gpu_.items));
    body_.line(fmt::format("const Index {} = first_repeated + item * (Index){};", body_.name_of(repeated), distance));
    for (const Stage& stage : kernel.stages) elements_of(stage, kernel.outer, "");
    body_.close();
  }

  // ---- sliding windows

  // A thread has some vectors along the pixels. It loads the window of all of them, then adds each element to the sums of those that see
  // it.
  void slide(const schedule::Kernel& kernel, const schedule::SlidingWindow& window) {
    const int pixels = gpu_.pixels, vector = gpu_.vector;
    const std::string first_pixel = decode_window(kernel, window), tap = body_.name_of(window.taps);
    const auto each = [&](std::string_view name, int64_t count) {
      body_.line("UNROLLED");
      body_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", name, count));
    };
    body_.line("constexpr bool is_row = true;");
    body_.line(fmt::format("float sums[{}][{}] = {{}};", pixels, vector));
    int open = 0;
    const auto ask = [&](sym::Expr condition) {
      if (condition.is_const(1)) return;
      const std::string text = index(condition);
      body_.open(fmt::format("if ({}) {{", text));
      ++open;
    };
    std::vector<sym::Expr> pending = kernel.inner;
    std::erase(pending, window.taps);
    const auto is_known = [&](sym::Expr e) {
      return std::none_of(pending.begin(), pending.end(), [&](sym::Expr axis) { return sym::depends_on(e, axis); });
    };
    sym::Expr row_condition = window.row_condition;
    while (true) {
      if (is_known(row_condition)) ask(std::exchange(row_condition, 1));
      if (pending.empty()) break;
      const std::string length = index(extent(pending.front())), name = body_.name_of(pending.front());
      body_.open(fmt::format("for (Index {0} = 0; {0} < {1}; ++{0}) {{", name, length));
      ++open;
      pending.erase(pending.begin());
    }
    const int64_t elements = window.elements(pixels);
    const auto& load = std::get<loop::Load>(exprs_.node(window.of_pixels[0]).op);
    body_.line(fmt::format("Pack<{}, {}> window[{}];", storage_type(program_.buffer(load.buffer).dtype), vector, elements));
    const bool asks = !window.condition.is_const(1);
    if (asks) body_.line(fmt::format("bool is_inside[{}];", elements));
    each(tap, elements);
    if (asks) {
      const std::string inside = index(window.condition);
      const auto [begin, end] = schedule::always_inside(window, pixels);
      body_.line(fmt::format("is_inside[{0}] = ({0} >= {1} && {0} < {2}) || {3};", tap, begin, end, inside));
      body_.line(fmt::format("window[{}] = {{}};", tap));
      body_.open(fmt::format("if (is_inside[{}]) {{", tap));
    }
    load_vector(window.of_pixels[0], fmt::format("window[{}]", tap));
    if (asks) body_.close();
    body_.close();
    const auto& factor = std::get<loop::Load>(exprs_.node(window.of_taps[0]).op);
    body_.line(fmt::format("{} factors[{}][{}];", register_type(exprs_.dtype(window.of_taps[0])), window.extent_of_taps, vector));
    each(tap, window.extent_of_taps);
    body_.line(fmt::format("Pack<{}, {}> loaded;", storage_type(program_.buffer(factor.buffer).dtype), vector));
    load_vector(window.of_taps[0], "loaded");
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int k = 0; k < {}; ++k) factors[{}][k] = loaded.get(k);", vector, tap));
    body_.close();
    each("element", elements);
    if (asks) body_.line("if (!is_inside[element]) continue;");
    each("pixel", pixels);
    body_.line(fmt::format("const int tap = element - {} * pixel;", window.step));
    body_.line(fmt::format("if (tap < 0 || tap >= {}) continue;", window.extent_of_taps));
    each("k", vector);
    body_.define(window.of_pixels[0], "window[element].get(k)");
    body_.define(window.of_taps[0], "factors[tap][k]");
    const std::string value = body_.value(window.value);
    body_.line(fmt::format("sums[pixel][k] = {};",
                           combine_text(ReduceOp::Sum, DType::F32, {"sums[pixel][k]", false, true}, {value, false, true})));
    for (int i = 0; i < 3; ++i) body_.close();
    while (open-- > 0) body_.close();

    each("pixel", pixels);
    body_.line(fmt::format("const Index {} = {} + pixel;", body_.name_of(window.pixels), first_pixel));
    body_.line(fmt::format("const auto& acc0 = sums[pixel]{};", vector == 1 ? "[0]" : ""));
    for (const Stage& stage : kernel.stages) {
      if (!stage.inner) elements_of(stage, kernel.outer, "");
    }
    body_.close();
  }

  // Declares the axes of the thread's first element, and gives the name of its first pixel: vectors of a block lie beside each other, then
  // come pixels.
  std::string decode_window(const schedule::Kernel& kernel, const schedule::SlidingWindow& window) {
    const int pixels = gpu_.pixels, vector = gpu_.vector;
    const int lanes = gpu_.lanes;
    const sym::Expr all = sym::floor_div(product_of_extents(kernel.outer), pixels * vector), last = kernel.outer.back();
    body_.line(fmt::format("const Index place = blockIdx.x * (Index){} + threadIdx.x;", gpu_.threads));
    body_.line(fmt::format("if (place >= {}) return;", index(all)));
    std::string rest = fmt::format("place / {}", lanes);
    const std::string first_pixel = body_.fresh("first_pixel");
    std::vector<sym::Expr> axes(kernel.outer.rbegin() + 1, kernel.outer.rend());
    std::erase(axes, window.pixels);
    axes.insert(axes.begin(), window.pixels);
    for (sym::Expr axis : axes) {
      if (axis.is_const()) continue;
      const bool is_pixels = axis == window.pixels;
      const std::string count = print_factor(exprs_, names_, is_pixels ? sym::floor_div(extent(axis), pixels) : extent(axis));
      const std::string next = body_.fresh("rest");
      body_.line(fmt::format("const Index {0} = {1} % {2}{3}, {4} = {1} / {2};", is_pixels ? first_pixel : body_.name_of(axis), rest, count,
                             is_pixels ? fmt::format(" * {}", pixels) : "", next));
      rest = next;
    }
    body_.line(fmt::format("const Index {} = {};", body_.name_of(window.pixels), first_pixel));
    body_.line(fmt::format("const Index {} = ({} * {} + place % {}) * {};", body_.name_of(last), rest, lanes, lanes, vector));
    return first_pixel;
  }

  // The thread's neighbours of a load, which lie beside each other or are one.
  void load_vector(ExprId id, const std::string& to) {
    const auto load = std::get<loop::Load>(exprs_.node(id).op);
    const sym::Expr last = kernel_->outer.back();
    const std::string at = index(load.index[0]), from = fmt::format("{} + {}", body_.memory(load.buffer), at);
    if (fills_packs(load.buffer, load.index[0], last)) return body_.line(fmt::format("{} = load_pack<{}>({});", to, gpu_.vector, from));
    const bool moves = sym::depends_on(load.index[0], last);
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int k = 0; k < {}; ++k) {}.v[k] = ({})[{}];", gpu_.vector, to, from, moves ? "k" : "0"));
  }

  // What one thread of a row does for all.
  void once_stage(const Stage& stage) {
    body_.open("if (is_row && thread == 0) {");
    if (of_thread() > 1) {
      elements_of(stage, kernel_->outer, "");
    } else {
      for (const Statement& statement : stage.statements) print(statement, {});
    }
    body_.close();
  }

  // Rows beside each other that a thread has.
  int of_thread() const { return gpu_.columns ? gpu_.vector : 1; }

  // One thread's row: a loop for each inner axis. What is added only under a condition is asked for in the outermost loop that knows it.
  void row_of_thread(const Stage& stage) {
    const std::optional<schedule::MaskedStage> masked = schedule::masked_stage(exprs_, *kernel_, stage);
    const bool asks_once = masked && (of_thread() == 1 || !changes(masked->condition, {kernel_->outer.back()}));
    std::vector<sym::Expr> inner(kernel_->inner.rbegin(), kernel_->inner.rend());  // those that are still to come
    int open = 0;
    bool asked = !asks_once;
    while (true) {
      if (!asked && !changes(masked->condition, inner)) {
        const std::string condition = body_.value(masked->condition);
        body_.open(fmt::format("if ({}) {{", condition));
        ++open;
        asked = true;
      }
      if (inner.empty()) break;
      const std::string length = index(extent(inner.back())), name = body_.name_of(inner.back());
      body_.open(fmt::format("for (Index {0} = 0; {0} < {1}; ++{0}) {{", name, length));
      ++open;
      inner.pop_back();
    }
    const Stage& adds = asks_once ? masked->stage : stage;
    if (of_thread() > 1) body_.hoist(values_of(adds), {kernel_->outer.back()});
    elements_of(adds, of_thread() > 1 ? kernel_->outer : kernel_->inner, "");
    while (open-- > 0) body_.close();
  }
  static std::vector<ExprId> values_of(const Stage& stage) {
    std::vector<ExprId> values;
    for (const Statement& statement : stage.statements) values.push_back(match(statement, [](const auto& s) { return s.value; }));
    return values;
  }
  bool changes(ExprId id, const std::vector<sym::Expr>& axes) const { return !schedule::varying(exprs_, {id}, axes).empty(); }

  // The scope of a stage's loop, which a thread leaves out where its condition holds in no column.
  void open_stage(const Stage& stage) {
    if (!stage.condition) return body_.open("{");
    const sym::Expr axis = kernel_->outer.empty() ? sym::Expr(0) : kernel_->outer.back();
    if (of_thread() == 1 || !changes(*stage.condition, {axis})) {
      const std::string condition = body_.value(*stage.condition);
      return body_.open(fmt::format("if ({}) {{", condition));
    }
    const std::string any = body_.fresh("any"), first = body_.fresh("first"), k = body_.fresh("k"), name = body_.name_of(axis);
    body_.line(fmt::format("bool {} = false;", any));
    body_.line(fmt::format("const Index {} = {};", first, name));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, of_thread()));
    body_.line(fmt::format("const Index {} = {} + {};", name, first, k));
    body_.column = fmt::format("[{}]", k);
    const std::string condition = body_.value(*stage.condition);
    body_.line(fmt::format("{0} = {0} || {1};", any, condition));
    body_.column.clear();
    body_.close();
    body_.open(fmt::format("if ({}) {{", any));
  }

  void row_stage(const Stage& stage, sym::Expr row) {
    declare_accumulators(stage);
    // Threads that leave out a stage need not combine what they have not added.
    const bool combines_inside = combines_inside_of(stage);
    if (combines_inside) declare_results(stage);
    open_stage(stage);
    if (gpu_.row_threads == 1 && gpu_.items == 0 && (gpu_.columns || gpu_.vector == 1)) {
      row_of_thread(stage);
      body_.close();
      return combine_accumulators(stage);
    }
    const std::vector<sym::Expr>& axes = of_thread() > 1 ? kernel_->outer : kernel_->inner;  // along the last one the thread has neighbours
    std::vector<sym::Expr> changing = kernel_->inner;
    if (of_thread() > 1) changing.push_back(axes.back());
    if (sym::known_lt(0, row)) body_.hoist(values_of(stage), changing);
    const int vector = gpu_.vector / of_thread(), step = gpu_.row_threads * vector;
    const std::string first = vector > 1 ? fmt::format("thread * {}", vector) : "thread";
    if (gpu_.items > 0) {
      body_.line("UNROLLED");
      body_.open(fmt::format("for (int item = 0; item < {}; ++item) {{", gpu_.items));
      body_.line(fmt::format("const Index place = item * (Index){} + {};", step, first));
      if (row.value() < int64_t{1} * gpu_.items * step) body_.line(fmt::format("if (place >= {}) continue;", row.value()));
    } else {
      const std::string length = index(row);
      // For some loads at once.
      if (of_thread() >= 4 || (!gpu_.columns && gpu_.vector > 1)) {
        body_.line("UNROLLED_BY_4");
      } else if (gpu_.columns && stage.statements.size() == 1) {
        body_.line("UNROLLED_BY_16");
      }
      body_.open(fmt::format("for (Index place = {}; place < {}; place += {}) {{", first, length, step));
    }
    decode(kernel_->inner, "place");
    elements_of(stage, axes, gpu_.items > 0 ? fmt::format("item * {}", gpu_.vector) : "");
    body_.close();
    if (combines_inside) combine_accumulators(stage, true);
    body_.close();
    if (!combines_inside) combine_accumulators(stage);
  }

  // ---- the elements of a thread

  struct Packs {
    std::vector<std::pair<const Store*, std::string>> stores;
  };

  // The neighbours along the last of the axes, which are declared for the first of them.
  void elements_of(const Stage& stage, const std::vector<sym::Expr>& axes, const std::string& stash_place) {
    if (gpu_.vector == 1) {
      body_.stash_index = stash_place.empty() ? "0" : stash_place.substr(0, stash_place.find(' '));
      for (const Statement& statement : stage.statements) print(statement, {});
      return;
    }
    const sym::Expr axis = axes.back();
    const std::string name = body_.name_of(axis), first = body_.fresh("first"), k = body_.fresh("k");
    schedule::Kernel alone;
    alone.stages = {stage};
    std::vector<std::pair<ExprId, std::string>> loads;
    for (ExprId id : schedule::unconditional_loads(exprs_, alone)) {
      const auto load = std::get<loop::Load>(exprs_.node(id).op);
      if (!fills_packs(load.buffer, load.index[0], axis)) continue;
      const std::string pack = body_.fresh("pack"), at = index(load.index[0]);
      body_.line(fmt::format("const auto {} = load_pack<{}>({} + {});", pack, gpu_.vector, body_.memory(load.buffer), at));
      loads.emplace_back(id, pack);
    }
    std::string kept;  // the pack that goes to shared memory, or comes from there
    if (gpu_.shared) {
      const std::string at = fmt::format("stash0[item * {}]", gpu_.threads);
      if (std::any_of(stage.statements.begin(), stage.statements.end(), [](const auto& s) { return std::holds_alternative<Keep>(s); })) {
        kept = std::find_if(loads.begin(), loads.end(), [&](const auto& each) {
                 return each.first == schedule::kept_values(*kernel_)[0];
               })->second;
        body_.line(fmt::format("{} = {};", at, kept));
      } else {
        for (ExprId id : loop::reachable(exprs_, values_of(stage))) {
          if (!std::holds_alternative<loop::Stashed>(exprs_.node(id).op)) continue;
          if (kept.empty()) {
            kept = body_.fresh("kept");
            body_.line(fmt::format("const {} {} = {};", stash_type_, kept, at));
          }
          loads.emplace_back(id, kept);
        }
      }
    }
    Packs packs;
    for (const Statement& statement : stage.statements) {
      const auto* s = std::get_if<Store>(&statement);
      if (s == nullptr || !fills_packs(s->buffer, s->position, axis)) continue;
      packs.stores.emplace_back(s, body_.fresh("result"));
      body_.line(fmt::format("Pack<{}, {}> {};", storage_type(program_.buffer(s->buffer).dtype), gpu_.vector, packs.stores.back().second));
    }
    body_.line(fmt::format("const Index {} = {};", first, name));
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, gpu_.vector));
    body_.line(fmt::format("const Index {} = {} + {};", name, first, k));
    for (const auto& [id, pack] : loads) body_.define(id, fmt::format("{}.get({})", pack, k));
    define_tiled(fmt::format("tile_lane + {}", k));
    body_.stash_index = stash_place.empty() ? k : fmt::format("{} + {}", stash_place, k);
    pack_element_ = k;
    if (of_thread() > 1) body_.column = fmt::format("[{}]", k);
    for (const Statement& statement : stage.statements) print(statement, packs);
    body_.column.clear();
    body_.close();
    for (const auto& [s, pack] : packs.stores) {
      const std::string at = index(s->position);
      body_.line(fmt::format("{}store_pack({} + {}, {});", guard(), body_.memory(s->buffer), at, pack));
    }
  }

  // Are neighbours along the axis neighbours in memory, from a place on that one access may have?
  bool fills_packs(BufferId buffer, sym::Expr position, sym::Expr axis) const {
    const auto linear = sym::linear_in(position, axis);
    return program_.buffer(buffer).kind != loop::BufferKind::RandomState && linear && linear->coefficient.is_const(1) &&
           !schedule::depends_on_through_values(exprs_, linear->rest, axis) && sym::known_divisible(linear->rest, gpu_.vector);
  }

  std::string_view guard() const { return kernel_->inner.empty() ? "" : "if (is_row) "; }

  void print(const Statement& statement, const Packs& packs) {
    match(
        statement, [&](const Accumulate& s) { accumulate(s); },
        [&](const Store& s) {
          const auto pack = std::find_if(packs.stores.begin(), packs.stores.end(), [&](const auto& each) { return each.first == &s; });
          const std::string value = body_.value(s.value);
          if (pack != packs.stores.end()) return body_.line(fmt::format("{}.set({}, {});", pack->second, pack_element_, value));
          const std::string at = index(s.position);
          body_.line(fmt::format("{}store({} + {}, {});", guard(), body_.memory(s.buffer), at, value));
        },
        [&](const Keep& s) {
          if (gpu_.shared) return;
          const std::string value = body_.value(s.value);
          body_.line(fmt::format("stash{}[{}] = {};", static_cast<uint32_t>(s.stash), body_.stash_index, value));
        });
  }

  // ---- accumulators

  // Sums that are to be exact are in double, but for the few elements that a thread has in registers.
  DType own_dtype(const schedule::Accumulator& acc) const {
    const bool is_wide = acc.op == ReduceOp::Sum && acc.dtype == DType::F32 && acc.care == loop::SumCare::Finest && gpu_.items == 0;
    return is_wide ? DType::F64 : acc.dtype;
  }

  static std::string combine_text(ReduceOp op, DType dtype, const OperandText& a, const OperandText& b) {
    const bool is_extremum = (op == ReduceOp::Min || op == ReduceOp::Max) && register_type(dtype) == "float";
    if (is_extremum) return fmt::format("{}({}, {})", op == ReduceOp::Min ? "least_of" : "most_of", a.text, b.text);
    return codegen::combine_text(op, dtype, a, b);
  }

  // What a stage adds to, but for sums of columns.
  template <class F>
  void each_accumulator(const Stage& stage, F f) const {
    for (const Statement& statement : stage.statements) {
      const auto* s = std::get_if<Accumulate>(&statement);
      if (s != nullptr && !accumulator_of(*s).of_columns) f(static_cast<size_t>(s->accumulator));
    }
  }
  const schedule::Accumulator& accumulator_of(const Accumulate& s) const {
    return kernel_->accumulators[static_cast<size_t>(s.accumulator)];
  }

  void declare_accumulators(const Stage& stage) {
    each_accumulator(stage, [this](size_t i) { declare_accumulator(i); });
  }
  void combine_accumulators(const Stage& stage, bool is_inside = false) {
    each_accumulator(stage, [&](size_t i) { combine(i, is_inside); });
  }

  // Is the stage's condition the same for all threads that meet?
  bool combines_inside_of(const Stage& stage) const {
    const bool meet = gpu_.row_threads == gpu_.threads || gpu_.row_threads == 32;
    return stage.condition && stage.inner && !gpu_.columns && gpu_.row_threads >= 32 && meet &&
           std::none_of(stage.statements.begin(), stage.statements.end(), [&](const Statement& statement) {
             const auto* s = std::get_if<Accumulate>(&statement);
             return s != nullptr && is_arg(accumulator_of(*s).op);
           });
  }
  void declare_results(const Stage& stage) {
    each_accumulator(stage, [this](size_t i) {
      const schedule::Accumulator& acc = kernel_->accumulators[i];
      const DType dtype = combined_dtype(acc);
      body_.line(fmt::format("{} acc{} = {};", register_type(dtype), i, identity_text(acc.op, dtype)));
    });
  }
  // Sums of floats that are kept in double are added so.
  static DType combined_dtype(const schedule::Accumulator& acc) {
    const bool wide = acc.op == ReduceOp::Sum && acc.dtype == DType::F32 && acc.care != loop::SumCare::Usual;
    return wide ? DType::F64 : acc.dtype;
  }
  // Of the reductions through shared memory that all threads come to, one after the other: places take turns. One alone has no turns.
  std::string place_of_next() {
    size_t all = 0;
    for (const Stage& stage : kernel_->stages) {
      if (!combines_inside_of(stage)) each_accumulator(stage, [&](size_t) { ++all; });
    }
    if (gpu_.row_threads <= 32 || all < 2) return "";
    const size_t number = combined_++;
    return fmt::format(", {}", number + 1 == all && all % 2 == 1 ? 2 : number % 2);
  }

  void declare_accumulator(size_t i) {
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const std::string_view type = register_type(own_dtype(acc));
    if (is_arg(acc.op) && of_thread() > 1) {
      body_.line(fmt::format("Best<{}> best{}[{}];", type, i, of_thread()));
      body_.line("UNROLLED");
      body_.line(fmt::format("for (int k = 0; k < {}; ++k) best{}[k] = {{0, -1}};", of_thread(), i));
    } else if (is_arg(acc.op)) {
      body_.line(fmt::format("Best<{}> best{} = {{0, -1}};", type, i));
    } else {
      const std::string identity = identity_text(acc.op, own_dtype(acc));
      if (of_thread() == 1) return body_.line(fmt::format("{} sum{} = {};", type, i, identity));
      body_.line(fmt::format("{} sum{}[{}];", type, i, of_thread()));
      body_.line("UNROLLED");
      body_.line(fmt::format("for (int k = 0; k < {}; ++k) sum{}[k] = {};", of_thread(), i, identity));
    }
  }

  void accumulate(const Accumulate& s) {
    const auto i = static_cast<size_t>(s.accumulator);
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const std::string value = body_.value(s.value);
    if (acc.of_columns) return body_.line(fmt::format("column{}[{}] += is_row ? {} : 0.0f;", i, body_.stash_index, value));
    if (is_arg(acc.op)) {
      const std::string at = index(s.position);
      return body_.line(fmt::format("best{0}{5} = better<{1}>(best{0}{5}, Best<{2}>{{{3}, {4}}});", i, acc.op == ReduceOp::ArgMin,
                                    register_type(acc.dtype), value, at, body_.column));
    }
    const DType own = own_dtype(acc);
    const std::string sum = fmt::format("sum{}{}", i, body_.column), x = own == acc.dtype ? value : fmt::format("(double){}", value);
    body_.line(fmt::format("{} = {};", sum, combine_text(acc.op, own, {sum, false, true}, {x, false, true})));
  }

  // The same of neighbouring columns. `total`: of column k; positions are combined before.
  void combine_several(size_t i, const std::string& type, const std::string& total) {
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const bool arg = is_arg(acc.op);
    const std::string both = arg ? fmt::format("better<{}>(a, b)", acc.op == ReduceOp::ArgMin)
                                 : combine_text(acc.op, type == "double" ? DType::F64 : acc.dtype, {"a", false, true}, {"b", false, true});
    const auto combine = [&](std::string_view what) {
      if (gpu_.row_threads == 1) return;
      waits_ = true;
      body_.line(fmt::format("combine_columns<{0}, {1}, {2}>({3}{4}, []({5} a, {5} b) {{ return {5}({6}); }});", gpu_.row_threads,
                             gpu_.threads / gpu_.row_threads, of_thread(), what, i, type, both));
    };
    if (arg) combine("best");
    body_.line(fmt::format("{} acc{}[{}];", arg ? "int64_t" : type, i, of_thread()));
    body_.line("UNROLLED");
    body_.line(fmt::format("for (int k = 0; k < {}; ++k) acc{}[k] = {};", of_thread(), i, total));
    if (!arg) combine("acc");
  }

  // Of the threads of the row. `is_inside`: of those that have gone through the stage, all of them or none; the result is declared.
  void combine(size_t i, bool is_inside = false) {
    const schedule::Accumulator& acc = kernel_->accumulators[i];
    const bool arg = is_arg(acc.op);
    const DType dtype = combined_dtype(acc);
    const bool wide = dtype != acc.dtype;
    const std::string type = arg ? fmt::format("Best<{}>", register_type(dtype)) : std::string(register_type(dtype));
    const bool several = of_thread() > 1;
    std::string total = fmt::format("{}{}{}", arg ? "best" : "sum", i, several ? "[k]" : "");
    if (wide) total = fmt::format("(double){}", total);
    if (several) return combine_several(i, type, arg ? fmt::format("op_max(best{}[k].position, (int64_t)0)", i) : total);
    if (gpu_.row_threads > 1) {
      const std::string how = gpu_.columns ? fmt::format("combine_column<{}, {}>", gpu_.row_threads, gpu_.threads / gpu_.row_threads)
                                           : fmt::format("combine_row<{}{}>", gpu_.row_threads, is_inside ? "" : place_of_next());
      const std::string both = arg ? fmt::format("better<{}>(a, b)", acc.op == ReduceOp::ArgMin)
                                   : combine_text(acc.op, dtype, {"a", false, true}, {"b", false, true});
      total = fmt::format("{}({}, []({} a, {} b) {{ return ({}){}; }})", how, total, type, type, type, arg ? both : "(" + both + ")");
      waits_ = true;
    }
    if (arg) total = fmt::format("op_max(({}).position, (int64_t)0)", total);
    body_.line(fmt::format("{}acc{} = {};", is_inside ? "" : "const auto ", i, total));
  }

  schedule::GpuLoops gpu_;
  const schedule::Kernel* kernel_ = nullptr;  // of a nest
  std::string pack_element_, stash_type_;
  std::vector<std::pair<ExprId, std::string>> tiles_;  // of loads, in shared memory
  size_t combined_ = 0;                                // reductions of rows through shared memory, so far
  bool waits_ = false;
};

}  // namespace

CudaKernel print_kernel(const loop::LoopProgram& program, const schedule::Step& step, const Graph& graph, std::string name,
                        const schedule::Overlap& overlap) {
  const auto* product = std::get_if<schedule::CallStep>(&step);
  if (product != nullptr && product->call.scores) return print_written_attention(program, *product, graph, std::move(name));
  if (product != nullptr) return print_product(program, *product, graph, std::move(name), overlap);
  if (const auto* scan = std::get_if<schedule::ScanKernel>(&step)) return print_scan(program, *scan, graph, std::move(name), overlap);
  if (const auto* scatter = std::get_if<schedule::ScatterKernel>(&step))
    return print_scatter(program, *scatter, graph, std::move(name), overlap);
  if (const auto* group = std::get_if<schedule::ParallelKernels>(&step))
    return print_together(program, *group, graph, std::move(name), overlap);
  const auto* kernel = std::get_if<schedule::Kernel>(&step);
  TOROID_CHECK(kernel != nullptr, "'{}' is no kernel", schedule::name_of(step));
  return CudaPrinter(program, graph, std::move(name), overlap).run(*kernel);
}

ThreadText print_nest_thread(const loop::LoopProgram& program, const schedule::Kernel& kernel, const Graph& graph) {
  return CudaPrinter(program, graph, "").run_thread(kernel);
}

}  // namespace toroid::codegen::cuda
