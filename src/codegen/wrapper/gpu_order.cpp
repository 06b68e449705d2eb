// Launches of the kernels that sort, select and search (codegen/cuda/prelude/sort.inc, select.inc).
#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/wrapper/function_printer.h"
#include "schedule/cuda/order_kernels.h"

namespace toroid::codegen {

void FunctionPrinter::print_order_launch(const OrderLaunch& launch, const std::vector<OrderParameter>& parameters) {
  std::vector<std::string> declared, types, passed;
  for (const OrderParameter& each : parameters) {
    declared.push_back(fmt::format("{} {}", each.type, each.name));
    types.push_back(each.type);
    passed.push_back(fmt::format("(void*)&{}_v0", each.name));
  }
  KernelSource source;
  source.name = shared_.kernels.fresh_name(fmt::format("{}_kernel{}", launch.name, shared_.suffix));
  source.text = fmt::format("KERNEL __launch_bounds__({}, {}) {}({}) {{\n  {};\n}}\n", launch.threads, launch.blocks_at_once, source.name,
                            fmt::join(declared, ", "), launch.statement);
  const std::string& name = add_kernel(source);
  shared_.kernel_preludes.try_emplace(name, launch.preludes);
  auto block = body_.block("{");
  for (const OrderParameter& each : parameters)
    body_.write(fmt::format("{0} const {1}_v0 = ({0})({2});", each.type, each.name, each.value));  // no buffer is called so
  write_gpu_launch(
      {name, types, std::move(passed), {}, launch.blocks, launch.threads, static_cast<int>(launch.shared_bytes), 0, launch.waits});
}

// Of rows along one dim.
struct FunctionPrinter::OrderCall {
  const program::LibraryCall& call;
  DType dtype;
  std::string type;  // of an element
  bool is_sort, is_topk, is_descending;
  schedule::OrderedRows rows;
  OrderParameter from, length;
  std::vector<OrderParameter> sizes;             // from, length, stride and count
  std::vector<std::string> places_of_outputs{};  // as pointers

  // The parameters, and the values and indices that come of them.
  std::vector<OrderParameter> with_results(std::vector<OrderParameter> list) const {
    list.push_back({type + "*", "values", places_of_outputs[0]});
    list.push_back({"int64_t*", "indices", places_of_outputs[1]});
    return list;
  }
};

bool FunctionPrinter::print_gpu_order(const program::LibraryCall& call, std::string_view choice) {
  const program::Operand& in = call.inputs[0];
  const DType dtype = buffer(in.buffer).dtype;
  const bool is_sort = call.kernel.starts_with("sort"), is_topk = call.kernel.starts_with("library.order.topk");
  const size_t dim = is_sort ? static_cast<size_t>(call.integers[0].value()) : in.sizes.size() - 1;
  OrderCall order{.call = call,
                  .dtype = dtype,
                  .type = std::string(storage_type(dtype)),
                  .is_sort = is_sort,
                  .is_topk = is_topk,
                  .is_descending = (is_sort || is_topk) && !call.integers[1].is_const(0),
                  .rows = schedule::rows_along(in.sizes, dim),
                  .from = {},
                  .length = {},
                  .sizes = {}};
  order.from = {order.type + "*", "from", pointer({in.buffer, in.offset})};
  order.length = {"int64_t", "length", index(order.rows.length)};
  order.sizes = {order.from,
                 order.length,
                 {"int64_t", "stride", index(order.rows.stride)},
                 {"int64_t", "count", index(is_topk ? call.integers[0] : order.rows.length)}};
  for (const program::Operand& each : call.outputs) order.places_of_outputs.push_back(pointer({each.buffer, each.offset}));
  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));
  if (choice == schedule::kBinarySearch)
    print_search(order);
  else if (choice == schedule::kCompaction)
    print_compaction(order);
  else if (choice == schedule::kRadixSelect)
    print_selection(order);
  else if (choice == schedule::kSortRows || choice == schedule::kSortRange)
    print_sort_in_blocks(order, choice == schedule::kSortRows);
  else if (choice == schedule::kRadixSort)
    print_radix_sort(order);
  else
    return false;
  return true;
}

void FunctionPrinter::print_search(const OrderCall& order) {
  const program::Operand& values = order.call.inputs[1];
  const sym::Expr all = sym::product(values.sizes);
  print_order_launch({.name = "search",
                      .statement = fmt::format("search_row<{}, {}>(from, values, places, length, searches, all)", order.type,
                                               order.call.integers[0].is_const(0) ? "false" : "true"),
                      .blocks = sym::ceil_div(all, 256),
                      .threads = 256,
                      .waits = false},
                     {order.from,
                      {order.type + "*", "values", pointer({values.buffer, values.offset})},
                      {"int64_t*", "places", order.places_of_outputs[0]},
                      order.length,
                      {"int64_t", "searches", index(values.sizes.back())},
                      {"int64_t", "all", index(all)}});
}

// Of Bools: the positions of those that are true.
void FunctionPrinter::print_compaction(const OrderCall& order) {
  const sym::Expr tiles = sym::ceil_div(order.rows.length, schedule::kTileOfBools), room = sym::product(order.call.outputs[0].sizes);
  const OrderParameter counts{"uint32_t*", "counts", order.places_of_outputs[1]}, number{"int64_t", "tiles", index(tiles)};
  print_order_launch({"count_true", "count_true(from, counts, length)", tiles, 256}, {order.from, counts, order.length});
  print_order_launch({"begin_tiles", "begin_tiles(counts, tiles)", 1, 256}, {counts, number});
  print_order_launch(
      {"write_positions", "write_positions(from, counts, to, length, tiles, room)", tiles + sym::ceil_div(room, schedule::kTileOfBools),
       256},
      {order.from, counts, {"int64_t*", "to", order.places_of_outputs[0]}, order.length, number, {"int64_t", "room", index(room)}});
}

// The first so many of each row, or its median.
void FunctionPrinter::print_selection(const OrderCall& order) {
  const program::Operand& in = order.call.inputs[0];
  const bool is_aligned = function_.graph == 0 || buffer(in.buffer).kind != loop::BufferKind::Input;
  const schedule::RowSelection how =
      schedule::row_selection(order.dtype, order.rows.length, is_aligned && sym::known_divisible(in.offset, 16));
  const std::string numbers = fmt::format("{}, {}, {}", order.type, how.threads, how.vector);
  const bool is_median = order.call.kernel.starts_with("library.order.median");
  const std::string chosen = is_median ? (order.call.integers[0].is_const(0) ? "-1" : "-2") : index(order.call.integers[0]);
  print_order_launch({.name = "select",
                      .statement = order.is_topk ? fmt::format("select_first<{}, {}, {}, {}>(from, values, indices, length, chosen)",
                                                               numbers, how.groups, how.packs_of_group, order.is_descending)
                                                 : fmt::format("select_one<{}>(from, values, indices, length, chosen)", numbers),
                      .blocks = order.rows.count,
                      .threads = how.threads,
                      .blocks_at_once = order.is_topk ? how.blocks_at_once : 1},
                     order.with_results({order.from, order.length, {"int64_t", "chosen", chosen}}));
}

// Each row by a block, in shared memory; or ranges of one row.
void FunctionPrinter::print_sort_in_blocks(const OrderCall& order, bool of_rows) {
  if (of_rows) {
    const schedule::RowSort sort = schedule::row_sort(order.dtype, order.rows.length.value());
    return print_order_launch({"sort_rows",
                               fmt::format("sort_row<{}, {}, {}, {}>(from, values, indices, SortRows{{length, stride}}, count)", order.type,
                                           sort.threads, sort.items, order.is_descending),
                               order.rows.count, sort.threads, sort.shared_bytes},
                              order.with_results(order.sizes));
  }
  const schedule::RowSort sort = schedule::range_sort(order.rows.length.value());
  print_order_launch({"sort_range", fmt::format("sort_range<{}, {}>(from, values, indices, (int)length)", order.type, sort.items),
                      schedule::kRangeBlocks, sort.threads, sort.shared_bytes},
                     order.with_results({order.from, order.length}));
}

void FunctionPrinter::print_radix_sort(const OrderCall& order) {
  // Keys and positions go from the workspace to the results' memory and back: the last digit's come from the workspace.
  const schedule::OrderedRows& rows = order.rows;
  const std::string& type = order.type;
  const int digits = static_cast<int>(size_bytes(order.dtype));
  const schedule::SortWorkspace workspace = schedule::sort_workspace(order.dtype, rows, order.is_sort);
  const sym::Expr tiles = sym::ceil_div(rows.length, schedule::kSortTile), elements = rows.count * rows.length;
  const std::string key = digits == 8 ? "uint64_t" : "uint32_t", sorts = fmt::format("{}, {}", type, order.is_descending);
  const std::string memory = "SortMemory{(uint32_t*)memory, (uint32_t*)memory + histograms, (uint32_t*)memory + histograms + 16, tiles}";
  const OrderParameter words{"int32_t*", "memory", order.places_of_outputs[2]};
  const auto with_memory = [&](std::vector<OrderParameter> list) {
    list.push_back(words);
    list.push_back({"int64_t", "histograms", index(workspace.histograms)});
    list.push_back({"int64_t", "tiles", index(tiles)});
    return list;
  };
  print_order_launch({.name = "clear_words",
                      .statement = "clear_words((uint32_t*)memory, words)",
                      .blocks = sym::ceil_div(workspace.cleared, 1024),
                      .threads = 256,
                      .waits = false},
                     {words, {"int64_t", "words", index(workspace.cleared)}});
  print_order_launch(
      {"count_digits", fmt::format("count_digits<{}>(from, SortRows{{length, stride}}, {}, {})", sorts, memory, schedule::kCountedTiles),
       rows.count * sym::ceil_div(tiles, schedule::kCountedTiles), schedule::kSortThreads},
      with_memory({order.from, order.length, order.sizes[2]}));
  print_order_launch({"begin_digits", "begin_digits((uint32_t*)memory)", rows.count * digits, 256}, {words});
  for (int digit = 0; digit < digits; ++digit) {
    const bool is_first = digit == 0, is_last = digit + 1 == digits;
    const auto pairs_at = [&](std::string_view place) {
      return fmt::format("SortPairs<{0}>{{({0}*)({1}), (uint32_t*)(({0}*)({1}) + elements)}}", key, place);
    };
    const std::string own = pairs_at("memory + keys");
    const std::string other = !order.is_sort ? pairs_at("memory + keys + pairs")
                              : digits == 8  ? std::string("SortPairs<uint64_t>{(uint64_t*)values, (uint32_t*)indices}")
                                             : pairs_at("indices");
    std::vector<OrderParameter> parameters = with_memory(order.with_results(order.sizes));
    parameters.push_back({"int64_t", "keys", index(workspace.keys)});
    parameters.push_back({"int64_t", "pairs", index(workspace.pairs)});
    parameters.push_back({"int64_t", "elements", index(elements)});
    parameters.push_back({"int32_t", "digit", std::to_string(digit)});
    print_order_launch(
        {"sort_by_digit",
         fmt::format("sort_by_digit<{}, {}, {}>(from, {}, {}, values, indices, SortRows{{length, stride}}, count, {}, digit)", sorts,
                     is_first, is_last, digit % 2 == 0 ? other : own, digit % 2 == 0 ? own : other, memory),
         rows.count * tiles, schedule::kSortThreads, schedule::shared_bytes_of_radix_sort(order.dtype), true, digits == 8 ? 1 : 2},
        parameters);
  }
}

}  // namespace toroid::codegen
