// Kernels without rows: maps, maps by tiles that transpose, and sliding windows.
#include "codegen/cuda/nest_printer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen::cuda {

// A block has a tile: it reads what the tile transposes with its threads along the tile's axis, and computes with them along the last
// axis. Both in pieces of gpu_.vector elements. A row of the tile in shared memory has an odd number of banks, so that columns lie in all
// of them.
void NestPrinter::map_by_tiles(const schedule::Kernel& kernel) {
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

void NestPrinter::define_tiled(std::string_view column) {
  for (const auto& [id, tile] : tiles_) body_.define(id, fmt::format("widen({}[{}][tile_row])", tile, column));
}

void NestPrinter::map(const schedule::Kernel& kernel, sym::Expr elements) {
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
void NestPrinter::repeated_map(const schedule::Kernel& kernel, sym::Expr elements) {
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

// A thread has some vectors along the pixels. It loads the window of all of them, then adds each element to the sums of those that see
// it.
void NestPrinter::slide(const schedule::Kernel& kernel, const schedule::SlidingWindow& window) {
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
  body_.line(
      fmt::format("sums[pixel][k] = {};", combine_text(ReduceOp::Sum, DType::F32, {"sums[pixel][k]", false, true}, {value, false, true})));
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
std::string NestPrinter::decode_window(const schedule::Kernel& kernel, const schedule::SlidingWindow& window) {
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
void NestPrinter::load_vector(ExprId id, const std::string& to) {
  const auto load = std::get<loop::Load>(exprs_.node(id).op);
  const sym::Expr last = kernel_->outer.back();
  const std::string at = index(load.index[0]), from = fmt::format("{} + {}", body_.memory(load.buffer), at);
  if (fills_packs(load.buffer, load.index[0], last)) return body_.line(fmt::format("{} = load_pack<{}>({});", to, gpu_.vector, from));
  const bool moves = sym::depends_on(load.index[0], last);
  body_.line("UNROLLED");
  body_.line(fmt::format("for (int k = 0; k < {}; ++k) {}.v[k] = ({})[{}];", gpu_.vector, to, from, moves ? "k" : "0"));
}

}  // namespace toroid::codegen::cuda
