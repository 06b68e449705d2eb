// Products on a GPU's tensor cores: a call of the prelude's multiply, which hands eight neighbouring sums of a row at a time to the text of
// the epilogue's expressions.
//
//   KERNEL __launch_bounds__(384, 1) matmul_gelu_kernel(TENSOR_MAP a_v1, TENSOR_MAP b_v1, const bf16* … bias, bf16* … out) {
//     const ProductSizes sizes_v1 = {8192, 4096, 4096, 1, 1, 0, 0, 0, 0};
//     multiply<ProductTiles<bf16, 128, 192, 4, 1, true, false, true>>(a_v1, b_v1, sizes_v1, [=](int column_v1) {
//       const auto pack_v1 = load_pack<8>(bias + …);
//       return [=](int batch_v1, int row_v1, const float (&sums_v1)[8]) {
//         …
//         store_pack(out + …, result_v1);
//       };
//     });
//   }
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cuda/filter_gradient_kernel.h"
#include "codegen/cuda/thread_printer.h"
#include "schedule/buffer_lists.h"
#include "schedule/cpu/form_estimate.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/convolutions/group_tiles.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/products/epilogue_work.h"
#include "schedule/cuda/products/few_rows.h"
#include "schedule/cuda/products/few_rows_ring.h"
#include "schedule/cuda/products/few_rows_tiled.h"

namespace toroid::codegen::cuda {
namespace {

using loop::BufferId;
using loop::ExprId;
using schedule::Store;

constexpr int kSums = 8;         // neighbours that an epilogue gets at once
constexpr int kUnitsOfWarp = 4;  // of eight columns, in tiles of many (few_rows_tiled.inc)

class ProductPrinter : public ThreadPrinter {
 public:
  using ThreadPrinter::ThreadPrinter;

  CudaKernel run(const schedule::CallStep& step) {
    const schedule::ProductAttempt attempt = schedule::as_product_of_tiles(program_, step.call, step.outputs);
    TOROID_CHECK(attempt.shape.has_value(), "'{}': {}", step.name, attempt.reason);
    shape_ = *attempt.shape;
    const schedule::GpuTiles& tiles = *step.gpu;
    if (tiles.depth_warps > 0) return run_few_rows(step);
    const std::string left = body_.fresh("a"), right = body_.fresh("b"), sizes = body_.fresh("sizes");
    tensor_maps_ = {left, right};
    if (shape_.second) tensor_maps_.push_back(body_.fresh("second"));
    take(step, {}, {shape_.rows, shape_.columns, shape_.depth, shape_.inner_batches, shape_.batches});
    print_sizes(sizes);
    const bool is_float8 = shape_.factors == schedule::Factors::Floats8;
    constexpr std::string_view kFloat8s[2][2] = {{"e4m3", "e4m3_by_e5m2"}, {"e5m2_by_e4m3", "e5m2"}};
    const std::string_view element =
        is_float8 ? kFloat8s[shape_.left_e5m2][shape_.right_e5m2] : storage_type(program_.buffer(shape_.a.buffer).dtype);
    const auto work = step.epilogue ? std::optional(schedule::work_of_epilogue(program_, *step.epilogue, step.outputs)) : std::nullopt;
    const bool permuted = schedule::has_permuted_columns(shape_, tiles, work);
    const std::string_view further = shape_.second ? (permuted ? ", true, true" : ", false, true") : permuted ? ", true" : "";
    const std::string type = fmt::format("ProductTiles<{}, {}, {}, {}, {}, {}, {}, {}{}>", element, tiles.rows, tiles.columns, tiles.stages,
                                         tiles.cluster, tiles.ping_pong, shape_.a.transposed, shape_.b.transposed,
                                         permuted || shape_.second || tiles.shares > 0 ? fmt::format(", {}{}", tiles.shares, further) : "");
    sums_to(shape_.second ? fmt::format("multiply_dual<{}>({}, {}, {}, {}", type, left, right, tensor_maps_[2], sizes)
                          : fmt::format("multiply<{}>({}, {}, {}", type, left, right, sizes),
            step);
    const std::string attributes = fmt::format("__launch_bounds__({}, 1){}", schedule::kProductThreads,
                                               tiles.cluster > 1 ? fmt::format(" CLUSTER_OF({})", tiles.cluster) : "");
    finish(step.provenance, attributes);
    return {.source = std::move(source_),
            .preludes = {.special = body_.is_special, .products = true},
            .tensor_maps = schedule::tensor_maps(shape_, tiles, permuted)};
  }

  CudaKernel run_few_rows(const schedule::CallStep& step) {
    const schedule::GpuTiles& tiles = *step.gpu;
    const schedule::ProductShape::Side &a = shape_.a, &b = shape_.b;
    const std::vector<sym::Expr> counts = {shape_.rows, shape_.columns, shape_.depth, shape_.inner_batches, shape_.batches};
    const std::vector<sym::Expr> strides = {a.stride,       b.stride,       a.inner_stride, a.outer_stride,
                                            b.inner_stride, b.outer_stride, a.offset,       b.offset};
    std::vector<sym::Expr> all = counts;
    all.insert(all.end(), strides.begin(), strides.end());
    std::vector<BufferId> reads = {b.buffer};
    if (!step.prologue) {
      if (a.buffer != b.buffer) reads.insert(reads.begin(), a.buffer);
    } else {
      for (BufferId id : step.prologue->reads) {
        if (std::find(reads.begin(), reads.end(), id) == reads.end()) reads.push_back(id);
      }
    }
    const bool has_scales = shape_.numbers == schedule::RightNumbers::Int4;
    if (has_scales) reads.push_back(shape_.scales);
    if (shape_.second) {
      all.push_back(shape_.second->offset);
      schedule::append_new(reads, {shape_.second->buffer});
    }
    take(step, reads, all);
    const std::string sizes = body_.fresh("sizes");
    std::string list;
    for (sym::Expr size : counts) list += (list.empty() ? "" : ", ") + count_text(size);
    for (size_t i = 0; i < 6; ++i) list += ", " + print_factor(exprs_, names_, strides[i]);
    if (has_scales) list += fmt::format(", {}, {}", body_.memory(shape_.scales), shape_.group);
    if (shape_.second) list += fmt::format(", nullptr, 0, {}", place(shape_.second->buffer, shape_.second->offset));
    body_.line(fmt::format("const FewRowsSizes {} = {{{}}};", sizes, list));
    const schedule::CudaGrid grid = schedule::few_rows_grid(shape_, tiles);
    const int units = tiles.columns / kSums;
    const std::string right = fmt::format("{}, {}", place(b.buffer, b.offset), sizes);
    const auto sides = [&] { return fmt::format("{}, {}", place(a.buffer, a.offset), right); };
    if (shape_.factors == schedule::Factors::Floats32) {
      const std::string type =
          fmt::format("FloatRowsTiles<{}, {}, {}, {}, {}>", tiles.rows, units, tiles.depth_warps, tiles.stages, grid.blocks.value());
      sums_to(fmt::format("multiply_few_floats<{}>({}", type, sides()), step);
    } else if (schedule::are_few_rows_tiled(tiles)) {
      const std::string type = fmt::format("TiledRowsTiles<{}, {}, {}, {}, {}>", storage_type(program_.buffer(a.buffer).dtype), tiles.rows,
                                           tiles.stages, grid.blocks.value(), chunk_of_columns(kUnitsOfWarp));
      sums_to(fmt::format("multiply_few_tiled<{}, {}>({}", type, overlap_.loads_ahead, sides()), step);
    } else {
      const bool is_by_ring = schedule::is_few_rows_by_ring(shape_, tiles), is_stationary = schedule::is_few_rows_stationary(tiles);
      std::string further = shape_.second ? ", true" : "";
      if (is_by_ring || is_stationary) {
        const schedule::RingLines lines = schedule::ring_lines(shape_, tiles);
        further = fmt::format(", {}, {}", shape_.second.has_value(), lines.chunks);
        if (is_stationary) further += fmt::format(", {}, {}, {}", lines.lines, tiles.shares, lines.tiles_of_group);
      }
      const std::string type =
          fmt::format("FewRowsTiles<{}, {}, {}, {}, {}, {}, {}{}>", storage_type(program_.buffer(a.buffer).dtype), tiles.rows, units,
                      tiles.depth_warps, tiles.stages, grid.blocks.value(), chunk_of_columns(units), further);
      const std::string_view ahead = overlap_.loads_ahead ? ", true" : "";
      if (is_by_ring) {
        const std::string left =
            step.prologue ? made_left(*step.prologue)
                          : fmt::format("LeftRows<{}>{{{}}}", storage_type(program_.buffer(a.buffer).dtype), place(a.buffer, a.offset));
        sums_to(fmt::format("multiply_few_by_ring<{}, {}>({}, {}", type, overlap_.loads_ahead, left, right), step);
      } else if (is_stationary) {
        sums_to(fmt::format("multiply_few_stationary<{}, {}>({}", type, overlap_.loads_ahead, sides()), step);
      } else if (schedule::are_few_rows_copied(shape_, tiles)) {
        sums_to(fmt::format("multiply_few_copied<{}, {}>({}", type, overlap_.loads_ahead, sides()), step);
      } else {
        sums_to(fmt::format("multiply_few<{}{}>({}", type, ahead, sides()), step);
      }
    }
    finish(step.provenance, fmt::format("__launch_bounds__({}, {})", grid.threads, schedule::few_rows_blocks_at_once(shape_, tiles)));
    return {.source = std::move(source_), .waits = true, .preludes = {.special = body_.is_special, .few_rows = true}};
  }

  CudaKernel run_convolution(const schedule::CallStep& step) {
    const schedule::ConvolutionAttempt attempt = schedule::as_convolution_of_tiles(program_, step.call, step.outputs);
    TOROID_CHECK(attempt.shape.has_value(), "'{}': {}", step.name, attempt.reason);
    const schedule::ConvolutionShape& it = *attempt.shape;
    const schedule::GpuTiles& tiles = *step.gpu;
    const bool pixels_across = schedule::has_pixels_across(program_, step);
    if (pixels_across)
      shape_ = {.rows = it.k, .columns = it.p * it.q, .depth = it.depth(), .batches = it.n};
    else
      shape_ = {.rows = it.rows(), .columns = it.k * it.groups, .depth = it.depth()};
    std::vector<sym::Expr> numbers = numbers_of(it);
    numbers.push_back(it.image_offset);
    const std::string image = body_.fresh("image"), filters = body_.fresh("filters");
    if (tiles.ping_pong) tensor_maps_ = {image, filters};
    take(step, tiles.ping_pong ? std::vector<BufferId>{} : std::vector<BufferId>{it.image, it.filters}, numbers);
    const std::string sizes = declare_sizes(it);
    const std::string_view type = storage_type(program_.buffer(it.image).dtype);
    if (tiles.ping_pong) {
      sums_to(fmt::format("convolve_by_tma<ProductTiles<{}, {}, {}, {}, 1, true, false, true>, {}>({}, {}, {}", type, tiles.rows,
                          tiles.columns, tiles.stages, pixels_across, image, filters, sizes),
              step);
      finish(step.provenance, fmt::format("__launch_bounds__({}, 1)", schedule::kProductThreads));
      const auto maps = schedule::tensor_maps(it, tiles, pixels_across);
      return {.source = std::move(source_),
              .preludes = {.special = body_.is_special, .products = true, .convolutions = true},
              .tensor_maps = {maps.begin(), maps.end()}};
    }
    if (tiles.groups > 0) {
      sums_to(fmt::format("convolve_groups<{}>({}, {}, {}", group_tiles(it, tiles), place(it.image, it.image_offset),
                          body_.memory(it.filters), sizes),
              step);
      finish(step.provenance, fmt::format("__launch_bounds__({}, {})", schedule::kGroupThreads, schedule::group_blocks_at_once(it)));
      return {.source = std::move(source_),
              .waits = true,
              .preludes = {.special = body_.is_special, .products = true, .convolutions = true, .group_convolutions = true}};
    }
    sums_to(fmt::format("convolve<{}, {}, {}, {}>({}, {}, {}", type, tiles.rows, tiles.columns, tiles.stages,
                        place(it.image, it.image_offset), body_.memory(it.filters), sizes),
            step);
    finish(step.provenance,
           fmt::format("__launch_bounds__({}, {})", schedule::threads_of_convolution(tiles), schedule::blocks_at_once(it.dtype, tiles)));
    return {.source = std::move(source_), .waits = true, .preludes = {.special = body_.is_special, .products = true, .convolutions = true}};
  }

 private:
  // Declares what makes the left side, and gives it.
  std::string made_left(const schedule::Kernel& prologue) {
    const ThreadText thread = print_nest_thread(program_, prologue, graph_);
    body_.is_special = body_.is_special || thread.is_special;
    body_.reports_errors = body_.reports_errors || thread.source.reports_errors;
    const std::string part = body_.fresh("part"), left = body_.fresh("left"), made = body_.fresh("made"), &text = thread.source.text;
    const size_t head = text.find('\n') + 1;
    body_.line(fmt::format("const auto {} = []{}  // {}", part, text.substr(0, head - 1), comment_text(prologue.name)));
    body_.lines(text.substr(head, text.size() - head - 2));
    body_.line("};");
    std::string arguments;
    for (const KernelParameter& parameter : thread.source.parameters)
      arguments += ", " + (parameter.is_output ? made : identifier(program_.buffer(parameter.buffer).name));
    if (thread.source.reports_errors) arguments += ", failure, step";
    body_.line(fmt::format("const auto {} = left_made([=]({}* {}) {{ {}({{0}}{}); }});", left,
                           storage_type(program_.buffer(prologue.writes[0]).dtype), made, part, arguments));
    return left;
  }

  static std::string group_tiles(const schedule::ConvolutionShape& it, const schedule::GpuTiles& tiles) {
    return fmt::format("GroupTiles<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", storage_type(it.dtype), it.c.value(), it.k.value(),
                       tiles.groups, tiles.rows, tiles.columns, it.r.value(), it.s.value(), it.stride_h.value(), it.stride_w.value(),
                       it.dilation_h.value(), it.dilation_w.value(), schedule::padding_of_lines(it, tiles));
  }

  std::string chunk_of_columns(int units) const {
    const std::string_view type = storage_type(program_.buffer(shape_.a.buffer).dtype);
    switch (shape_.numbers) {
      case schedule::RightNumbers::Int8: return fmt::format("ByteColumns<{}, {}, Int8>", type, units);
      case schedule::RightNumbers::E4M3: return fmt::format("ByteColumns<{}, {}, E4M3>", type, units);
      case schedule::RightNumbers::E5M2: return fmt::format("ByteColumns<{}, {}, E5M2>", type, units);
      case schedule::RightNumbers::Int4:
        return fmt::format("Int4Columns<{}, {}, {}{}>", type, units, schedule::few_rows_chunk(shape_), shape_.is_packed ? ", true" : "");
      case schedule::RightNumbers::OfLeft: break;
    }
    return fmt::format("ColumnChunk<{}, {}, {}>", type, units, shape_.b.transposed);
  }

  // The call, of which the last argument is what becomes of eight sums.
  void sums_to(const std::string& call, const schedule::CallStep& step) {
    body_.open(fmt::format("{}, [=](int {}) {{", call, column_));
    if (step.epilogue) load_of_columns(*step.epilogue);
    const std::string_view sum = program_.buffer(step.outputs[0]).dtype == DType::I32 ? "int32_t" : "float";
    const std::string second = shape_.second ? fmt::format(", const {} (&{})[{}]", sum, second_sums_, kSums) : "";
    body_.open(fmt::format("return [=](int {}, int {}, const {} (&{})[{}]{}) {{", batch_, row_, sum, sums_, kSums, second));
    step.epilogue ? epilogue(*step.epilogue) : store_sums(step.outputs[0]);
    body_.close("};");
    body_.close("});");
  }

  void take(const schedule::CallStep& step, std::vector<BufferId> reads, const std::vector<sym::Expr>& sizes) {
    Contents contents{{}, sizes};
    contents.positions.push_back(shape_.rows * row_of(step.outputs[0]) * shape_.batches);
    if (!step.epilogue) return begin(contents, reads, step.outputs);
    for (const schedule::Statement& statement : step.epilogue->stages[0].statements) {
      const auto& store = std::get<Store>(statement);
      contents.values.push_back(store.value);
      contents.positions.push_back(store.position);
    }
    for (BufferId id : step.epilogue->reads) {
      const bool is_there = !schedule::contains(step.outputs, id);  // which are nowhere in memory
      if (is_there && std::find(reads.begin(), reads.end(), id) == reads.end()) reads.push_back(id);
    }
    begin(contents, reads, step.epilogue->writes);
  }

  void print_sizes(const std::string& name) {
    const auto moves = [](sym::Expr stride) { return stride.is_const(0) ? 0 : 1; };
    std::string list;
    for (sym::Expr size : {shape_.rows, shape_.columns, shape_.depth, shape_.inner_batches, shape_.batches})
      list += count_text(size) + ", ";
    body_.line(fmt::format("const ProductSizes {} = {{{}{}, {}, {}, {}}};", name, list, moves(shape_.a.inner_stride),
                           moves(shape_.a.outer_stride), moves(shape_.b.inner_stride), moves(shape_.b.outer_stride)));
  }

  // The row among those of all batches.
  std::string place_of_row() {
    return shape_.batches.is_const(1) ? row_
                                      : fmt::format("({} * (Index){} + {})", batch_, print_factor(exprs_, names_, shape_.rows), row_);
  }

  // From row to row of the product in memory.
  sym::Expr row_of(BufferId out) const {
    return program_.buffer(out).has_padded_rows ? program_.buffer(out).strides.end()[-2] : shape_.columns;
  }

  void store_sums(BufferId out) {
    const std::string columns = print_factor(exprs_, names_, shape_.columns),
                      place = fmt::format("{} * (Index){} + {}", place_of_row(), print_factor(exprs_, names_, row_of(out)), column_);
    body_.line(fmt::format("store_sums<{}>({} + {}, {}, {} - {});", sym::known_divisible(row_of(out), kSums), body_.memory(out), place,
                           sums_, columns, column_));
  }

  static bool is_product(const schedule::Kernel& kernel, ExprId load) { return load == *kernel.product || load == kernel.second_product; }

  // What the epilogue reads of columns alone, as a bias, is read once for all their rows.
  void load_of_columns(const schedule::Kernel& kernel) {
    column_axis_ = kernel.outer.back();
    begins_aligned_ = kernel.gpu->vector == kSums;
    declare_column(column_);
    load_packs(kernel, false);
  }

  // Loads of eight neighbours: those that depend on the rows, or the others.
  void load_packs(const schedule::Kernel& kernel, bool of_rows) {
    for (ExprId id : schedule::unconditional_loads(exprs_, kernel)) {
      const auto load = std::get<loop::Load>(exprs_.node(id).op);
      const bool is_pack = fills_packs(load.buffer, load.index[0]);
      if (is_product(kernel, id) || !(is_pack || (!of_rows && begins_pack(load.buffer, load.index[0])))) continue;
      const bool has_rows = std::any_of(kernel.outer.begin(), kernel.outer.end() - 1,
                                        [&](sym::Expr axis) { return schedule::depends_on_through_values(exprs_, load.index[0], axis); });
      if (has_rows != of_rows) continue;
      const std::string at = index(load.index[0]);
      loads_.emplace_back(id, body_.fresh("pack"));
      const std::string &pack = loads_.back().second, memory = body_.memory(load.buffer);
      if (is_pack) {
        body_.line(fmt::format("const auto {} = load_pack<{}>({} + {});", pack, kSums, memory, at));
        continue;
      }
      body_.line(fmt::format("const auto {} = load_until({} + {}, {});", pack, memory, at, left_of_row()));
    }
  }

  void epilogue(const schedule::Kernel& kernel) {
    body_.unfused = {kernel.unfused.begin(), kernel.unfused.end()};
    body_.is_rounded_to_16_bits =
        std::all_of(kernel.writes.begin(), kernel.writes.end(), [&](BufferId id) { return is_reduced_float(program_.buffer(id).dtype); });
    decode({kernel.outer.begin(), kernel.outer.end() - 1}, place_of_row());
    load_packs(kernel, true);
    const std::vector<schedule::Statement>& statements = kernel.stages[0].statements;
    std::vector<std::string> packs;  // of each store; empty where its elements go one by one
    for (const schedule::Statement& statement : statements) {
      const auto& s = std::get<Store>(statement);
      packs.push_back(are_neighbours(s.buffer, s.position) ? body_.fresh("result") : "");
      if (packs.back().empty()) continue;
      body_.line(fmt::format("Pack<{}, {}> {};", storage_type(program_.buffer(s.buffer).dtype), kSums, packs.back()));
    }
    const bool has_packs_alone = std::none_of(packs.begin(), packs.end(), [](const std::string& pack) { return pack.empty(); });
    const std::string k = open_element(kernel, !has_packs_alone || loads_elements(kernel));
    for (const auto& [id, pack] : loads_) body_.define(id, fmt::format("{}.get({})", pack, k));
    for (size_t i = 0; i < packs.size(); ++i) {
      const auto& s = std::get<Store>(statements[i]);
      if (packs[i].empty()) {
        store(s);
        continue;
      }
      const std::string value = body_.value(s.value);
      body_.line(fmt::format("{}.set({}, {});", packs[i], k, value));
    }
    body_.close();
    for (size_t i = 0; i < packs.size(); ++i) {
      if (packs[i].empty()) continue;
      const auto& s = std::get<Store>(statements[i]);
      const std::string at = index(s.position), to = fmt::format("{} + {}", body_.memory(s.buffer), at);
      body_.line(fills_packs(s.buffer, s.position) ? fmt::format("store_pack({}, {});", to, packs[i])
                                                   : fmt::format("store_anywhere({}, {}, {});", to, packs[i], left_of_row()));
    }
  }

  std::string left_of_row() { return fmt::format("{} - {}", print_factor(exprs_, names_, shape_.columns), column_); }

  void declare_column(const std::string& text) {
    if (!column_axis_.is_const()) body_.line(fmt::format("const Index {} = {};", body_.name_of(column_axis_), text));
  }

  // Does the epilogue load, beside packs, what lies along the columns?
  bool loads_elements(const schedule::Kernel& kernel) const {
    std::vector<ExprId> values;
    for (const schedule::Statement& statement : kernel.stages[0].statements) values.push_back(std::get<Store>(statement).value);
    for (ExprId id : loop::reachable(exprs_, values)) {
      const auto* load = std::get_if<loop::Load>(&exprs_.node(id).op);
      const bool is_pack = std::any_of(loads_.begin(), loads_.end(), [&](const auto& each) { return each.first == id; });
      if (load == nullptr || is_pack || is_product(kernel, id)) continue;
      if (schedule::depends_on_through_values(exprs_, load->index[0], column_axis_)) return true;
    }
    return false;
  }

  // The loop over the eight columns. Gives its counter's name. `ends`: with the columns; else packs have room for eight.
  std::string open_element(const schedule::Kernel& kernel, bool ends) {
    const std::string k = body_.fresh("k");
    body_.line("UNROLLED");
    body_.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, kSums));
    if (ends && !sym::known_divisible(shape_.columns, kSums))
      body_.line(fmt::format("if ({} + {} >= {}) continue;", column_, k, print_factor(exprs_, names_, shape_.columns)));
    declare_column(fmt::format("{} + {}", column_, k));
    body_.define(*kernel.product, fmt::format("{}[{}]", sums_, k));
    if (kernel.second_product) body_.define(*kernel.second_product, fmt::format("{}[{}]", second_sums_, k));
    return k;
  }

  void store(const Store& s) {
    const std::string value = body_.value(s.value), at = index(s.position);
    body_.line(fmt::format("store({} + {}, {});", body_.memory(s.buffer), at, value));
  }

  // Are neighbours along the columns neighbours in memory?
  bool are_neighbours(BufferId buffer, sym::Expr position) const {
    const auto linear = sym::linear_in(position, column_axis_);
    return program_.buffer(buffer).kind != loop::BufferKind::RandomState && linear && linear->coefficient.is_const(1) &&
           !schedule::depends_on_through_values(exprs_, linear->rest, column_axis_);
  }
  // From a place on that one access may have?
  bool begins_pack(BufferId buffer, sym::Expr position) const {
    return (begins_aligned_ || program_.buffer(buffer).has_padded_rows) && are_neighbours(buffer, position) &&
           sym::known_divisible(sym::linear_in(position, column_axis_)->rest, kSums);
  }
  // And are there eight of them? Beyond the columns there is what pads a row.
  bool fills_packs(BufferId buffer, sym::Expr position) const {
    return begins_pack(buffer, position) && (sym::known_divisible(shape_.columns, kSums) || program_.buffer(buffer).has_padded_rows);
  }

  schedule::ProductShape shape_;
  sym::Expr column_axis_ = 0;
  bool begins_aligned_ = false;                        // the epilogue's tensors, to 16 bytes
  std::vector<std::pair<ExprId, std::string>> loads_;  // and the eight neighbours that one access loads
  const std::string batch_ = body_.fresh("batch"), row_ = body_.fresh("row"), column_ = body_.fresh("column"), sums_ = body_.fresh("sums"),
                    second_sums_ = body_.fresh("others");
};

}  // namespace

CudaKernel print_product(const loop::LoopProgram& program, const schedule::CallStep& step, const Graph& graph, std::string name,
                         const schedule::Overlap& overlap) {
  if (std::holds_alternative<Library>(step.call.op)) return print_filter_gradient(program, step, graph, std::move(name));
  ProductPrinter printer(program, graph, std::move(name), overlap);
  return std::holds_alternative<Convolution>(step.call.op) ? printer.run_convolution(step) : printer.run(step);
}

}  // namespace toroid::codegen::cuda
