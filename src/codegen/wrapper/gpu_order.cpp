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

bool FunctionPrinter::print_gpu_order(const program::LibraryCall& call, std::string_view choice) {
  const program::Operand &in = call.inputs[0], &out = call.outputs[0];
  const auto place = [&](const program::Operand& operand) { return pointer({operand.buffer, operand.offset}); };
  const DType dtype = buffer(in.buffer).dtype;
  const std::string type(storage_type(dtype)), pointer_type = type + "*";
  const bool is_sort = call.kernel.starts_with("sort"), is_topk = call.kernel.starts_with("library.order.topk");
  const size_t dim = is_sort ? static_cast<size_t>(call.integers[0].value()) : in.sizes.size() - 1;
  const schedule::OrderedRows rows = schedule::rows_along(in.sizes, dim);
  const bool is_descending = (is_sort || is_topk) && !call.integers[1].is_const(0);
  const OrderParameter from{pointer_type, "from", place(in)}, length{"int64_t", "length", index(rows.length)};
  const auto results = [&](std::vector<OrderParameter> list) {
    list.push_back({pointer_type, "values", place(out)});
    list.push_back({"int64_t*", "indices", place(call.outputs[1])});
    return list;
  };
  auto block = body_.block(fmt::format("{{  // {}", comment_text(call.label)));

  if (choice == schedule::kBinarySearch) {
    const program::Operand& values = call.inputs[1];
    const sym::Expr all = sym::product(values.sizes);
    print_order_launch({.name = "search",
                        .statement = fmt::format("search_row<{}, {}>(from, values, places, length, searches, all)", type,
                                                 call.integers[0].is_const(0) ? "false" : "true"),
                        .blocks = sym::ceil_div(all, 256),
                        .threads = 256,
                        .waits = false},
                       {from,
                        {pointer_type, "values", place(values)},
                        {"int64_t*", "places", place(out)},
                        length,
                        {"int64_t", "searches", index(values.sizes.back())},
                        {"int64_t", "all", index(all)}});
    return true;
  }
  if (choice == schedule::kCompaction) {
    const sym::Expr tiles = sym::ceil_div(rows.length, schedule::kTileOfBools), room = sym::product(out.sizes);
    const OrderParameter counts{"uint32_t*", "counts", place(call.outputs[1])}, number{"int64_t", "tiles", index(tiles)};
    print_order_launch({"count_true", "count_true(from, counts, length)", tiles, 256}, {from, counts, length});
    print_order_launch({"begin_tiles", "begin_tiles(counts, tiles)", 1, 256}, {counts, number});
    print_order_launch({"write_positions", "write_positions(from, counts, to, length, tiles, room)",
                        tiles + sym::ceil_div(room, schedule::kTileOfBools), 256},
                       {from, counts, {"int64_t*", "to", place(out)}, length, number, {"int64_t", "room", index(room)}});
    return true;
  }
  if (choice == schedule::kRadixSelect) {
    const bool is_aligned = function_.graph == 0 || buffer(in.buffer).kind != loop::BufferKind::Input;
    const schedule::RowSelection how = schedule::row_selection(dtype, rows.length, is_aligned && sym::known_divisible(in.offset, 16));
    const std::string numbers = fmt::format("{}, {}, {}", type, how.threads, how.vector);
    const bool is_median = call.kernel.starts_with("library.order.median");
    const std::string chosen = is_median ? (call.integers[0].is_const(0) ? "-1" : "-2") : index(call.integers[0]);
    print_order_launch({.name = "select",
                        .statement = is_topk ? fmt::format("select_first<{}, {}, {}, {}>(from, values, indices, length, chosen)", numbers,
                                                           how.groups, how.packs_of_group, is_descending)
                                             : fmt::format("select_one<{}>(from, values, indices, length, chosen)", numbers),
                        .blocks = rows.count,
                        .threads = how.threads,
                        .blocks_at_once = is_topk ? how.blocks_at_once : 1},
                       results({from, length, {"int64_t", "chosen", chosen}}));
    return true;
  }
  const std::vector<OrderParameter> sizes = {
      from, length, {"int64_t", "stride", index(rows.stride)}, {"int64_t", "count", index(is_topk ? call.integers[0] : rows.length)}};
  if (choice == schedule::kSortRows) {
    const schedule::RowSort sort = schedule::row_sort(dtype, rows.length.value());
    print_order_launch({"sort_rows",
                        fmt::format("sort_row<{}, {}, {}, {}>(from, values, indices, SortRows{{length, stride}}, count)", type,
                                    sort.threads, sort.items, is_descending),
                        rows.count, sort.threads, sort.shared_bytes},
                       results(sizes));
    return true;
  }
  if (choice == schedule::kSortRange) {
    const schedule::RowSort sort = schedule::range_sort(rows.length.value());
    print_order_launch({"sort_range", fmt::format("sort_range<{}, {}>(from, values, indices, (int)length)", type, sort.items),
                        schedule::kRangeBlocks, sort.threads, sort.shared_bytes},
                       results({from, length}));
    return true;
  }
  if (choice != schedule::kRadixSort) return false;

  // Keys and positions go from the workspace to the results' memory and back: the last digit's come from the workspace.
  const int digits = static_cast<int>(size_bytes(dtype));
  const schedule::SortWorkspace workspace = schedule::sort_workspace(dtype, rows, is_sort);
  const sym::Expr tiles = sym::ceil_div(rows.length, schedule::kSortTile), elements = rows.count * rows.length;
  const std::string key = digits == 8 ? "uint64_t" : "uint32_t", sorts = fmt::format("{}, {}", type, is_descending);
  const std::string memory = "SortMemory{(uint32_t*)memory, (uint32_t*)memory + histograms, (uint32_t*)memory + histograms + 16, tiles}";
  const OrderParameter words{"int32_t*", "memory", place(call.outputs[2])};
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
      with_memory({from, length, sizes[2]}));
  print_order_launch({"begin_digits", "begin_digits((uint32_t*)memory)", rows.count * digits, 256}, {words});
  for (int digit = 0; digit < digits; ++digit) {
    const bool is_first = digit == 0, is_last = digit + 1 == digits;
    const auto pairs_at = [&](std::string_view place) {
      return fmt::format("SortPairs<{0}>{{({0}*)({1}), (uint32_t*)(({0}*)({1}) + elements)}}", key, place);
    };
    const std::string own = pairs_at("memory + keys");
    const std::string other = !is_sort      ? pairs_at("memory + keys + pairs")
                              : digits == 8 ? std::string("SortPairs<uint64_t>{(uint64_t*)values, (uint32_t*)indices}")
                                            : pairs_at("indices");
    std::vector<OrderParameter> parameters = with_memory(results(sizes));
    parameters.push_back({"int64_t", "keys", index(workspace.keys)});
    parameters.push_back({"int64_t", "pairs", index(workspace.pairs)});
    parameters.push_back({"int64_t", "elements", index(elements)});
    parameters.push_back({"int32_t", "digit", std::to_string(digit)});
    print_order_launch(
        {"sort_by_digit",
         fmt::format("sort_by_digit<{}, {}, {}>(from, {}, {}, values, indices, SortRows{{length, stride}}, count, {}, digit)", sorts,
                     is_first, is_last, digit % 2 == 0 ? other : own, digit % 2 == 0 ? own : other, memory),
         rows.count * tiles, schedule::kSortThreads, schedule::shared_bytes_of_radix_sort(dtype), true, digits == 8 ? 1 : 2},
        parameters);
  }
  return true;
}

}  // namespace toroid::codegen
