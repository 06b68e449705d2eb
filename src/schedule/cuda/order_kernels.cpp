#include "schedule/cuda/order_kernels.h"

#include <algorithm>

#include "graph/graph.h"
#include "schedule/cuda/attention/written_attention.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kMostSelected = 1024;  // SharedSelection::kRoom
constexpr int kSelectThreads = 256;
constexpr int64_t kMostGroups = 16;                                 // whose extremes a thread keeps in registers
constexpr int64_t kAllRegisters = 65536, kMostResidentBlocks = 16;  // of a multiprocessor
constexpr int64_t kLongestRow = int64_t{1} << 29;                   // counts have 30 bits

int64_t key_bytes(DType dtype) { return std::max<int64_t>(size_bytes(dtype), 4); }

bool has_order(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8:
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
    case DType::U16:
    case DType::U32:
    case DType::U64:
    case DType::F16:
    case DType::BF16:
    case DType::F32:
    case DType::F64: return true;
    default: return false;
  }
}

std::optional<sym::Expr> number(const Library& library, size_t i) {
  const auto* found = std::get_if<sym::Expr>(&library.attributes[i]);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

OrderedRows rows_of(const loop::Call& call) {
  const std::vector<sym::Expr>& sizes = call.operands[0].sizes;
  const auto* sort = std::get_if<Sort>(&call.op);
  return rows_along(sizes, sort == nullptr ? sizes.size() - 1 : static_cast<size_t>(sort->dim));
}

// Is it a row of 16-bit keys of this program's, from a multiple of 16 bytes on?
bool is_range(const loop::LoopProgram& program, const loop::Call& call, const OrderedRows& rows) {
  constexpr int64_t kShortRange = 1024, kAligned = 8;
  const loop::Operand& from = call.operands[0];
  const loop::Buffer& keys = program.buffer(from.buffer);
  return keys.dtype == DType::I16 && keys.kind == loop::BufferKind::Temporary && sym::known_divisible(from.offset, kAligned) &&
         !std::get<Sort>(call.op).descending && rows.count.is_const(1) && rows.length.is_const() && rows.length.value() > kShortRange &&
         rows.length.value() <= kLongestRange;
}

std::string_view sort_choice(DType dtype, const OrderedRows& rows, int64_t most_shared) {
  constexpr int64_t kFewRows = 16, kShortRow = 4096;  // few rows leave most multiprocessors idle
  const int64_t longest = sym::evaluate_hint(rows.count) <= kFewRows ? kShortRow : key_bytes(dtype) == 8 ? 8192 : 16384;
  if (rows.length.is_const() && rows.length.value() <= longest && row_sort(dtype, rows.length.value()).shared_bytes <= most_shared)
    return kSortRows;
  return shared_bytes_of_radix_sort(dtype) <= most_shared ? kRadixSort : "";
}

int power_of_two(int64_t least, int64_t from, int64_t to) {
  int64_t result = from;
  while (result < least && result < to) result *= 2;
  return static_cast<int>(result);
}

}  // namespace

OrderedRows rows_along(std::span<const sym::Expr> sizes, size_t dim) {
  OrderedRows rows{sizes[dim], 1, 1};
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d != dim) rows.count = rows.count * sizes[d];
    if (d > dim) rows.stride = rows.stride * sizes[d];
  }
  return rows;
}

std::string_view order_choice(const loop::LoopProgram& program, const CallStep& step, int64_t most_shared) {
  const auto* library = std::get_if<Library>(&step.call.op);
  if (library == nullptr && !std::holds_alternative<Sort>(step.call.op)) return "";
  if (library != nullptr && !library->name.starts_with("order.")) return "";
  const loop::Operand& from = step.call.operands[0];
  const DType dtype = program.buffer(from.buffer).dtype;
  if (from.sizes.empty() || !has_order(dtype)) return "";
  const OrderedRows rows = rows_of(step.call);
  if (!sym::known_le(rows.length, kLongestRow)) return "";
  if (library == nullptr)
    return is_range(program, step.call, rows) && range_sort(kLongestRange).shared_bytes <= most_shared
               ? kSortRange
               : sort_choice(dtype, rows, most_shared);
  if (library->name == "order.search") return kBinarySearch;
  if (library->name == "order.positions") return kCompaction;
  if (!sym::known_lt(0, rows.length)) return "";
  if (library->name == "order.median") return kRadixSelect;
  const std::optional<sym::Expr> place = library->attributes.empty() ? std::nullopt : number(*library, 0);
  if (!place || !sym::known_le(0, *place)) return "";
  // Beyond the row the runtime has its words for it.
  if (library->name == "order.kth") return sym::known_lt(*place, rows.length) ? kRadixSelect : "";
  if (library->name != "order.topk" || !sym::known_le(*place, rows.length)) return "";
  return sym::known_le(*place, kMostSelected) ? kRadixSelect : sort_choice(dtype, rows, most_shared);
}

RowSort row_sort(DType dtype, int64_t length) {
  const int64_t bytes = key_bytes(dtype);
  RowSort result{power_of_two((length + 7) / 8, 32, 1024), 8, 0};
  if (result.threads == 32 || length > int64_t{8} * result.threads)
    result.items = power_of_two((length + result.threads - 1) / result.threads, 1, 16);
  const int64_t elements = int64_t{result.threads} * result.items, warps = result.threads / 32;
  constexpr int64_t kBesides = 4 * kDigitValues + 32 + 32 * 8 + 64;
  result.shared_bytes = elements * (bytes + 4) + warps * kDigitValues * 2 + kBesides;
  return result;
}

RowSort range_sort(int64_t length) {
  constexpr int kThreads = 1024, kWarps = kThreads / 32, kLeastItems = 8, kMostItems = 32;
  const int items = power_of_two((length + kThreads - 1) / kThreads, kLeastItems, kMostItems);
  constexpr int64_t kBesides = 4 * kDigitValues + 32 + kWarps * 4 + 64;
  return {kThreads, items, int64_t{4} * kThreads * items + int64_t{kWarps} * kDigitValues * 2 + kBesides};
}

int64_t shared_bytes_of_radix_sort(DType dtype) {
  constexpr int64_t kBesides = kSortThreads / 32 * kDigitValues * 2 + 2 * 4 * kDigitValues + 64;
  return kSortTile * key_bytes(dtype) + kBesides;
}

SortWorkspace sort_workspace(DType dtype, const OrderedRows& rows, bool whole) {
  constexpr int64_t kTickets = 16, kAligned = 64;
  const int64_t digits = size_bytes(dtype);
  SortWorkspace result;
  result.histograms = rows.count * (digits * kDigitValues);
  result.cleared = result.histograms + kTickets + rows.count * sym::ceil_div(rows.length, kSortTile) * (digits * kDigitValues);
  result.keys = sym::ceil_div(result.cleared, kAligned) * kAligned;
  result.pairs = digits == 1 ? sym::Expr(0) : sym::ceil_div(rows.count * rows.length * (key_bytes(dtype) / 4 + 1), kAligned) * kAligned;
  result.all = result.keys + result.pairs * (whole ? 1 : 2);
  return result;
}

RowSelection row_selection(DType dtype, sym::Expr length, bool aligned) {
  const int most = static_cast<int>(std::min<int64_t>(8, 16 / size_bytes(dtype)));
  const int threads = length.is_const() ? power_of_two((length.value() + 15) / 16, 32, kSelectThreads) : kSelectThreads;
  const int vector = aligned && sym::known_divisible(length, most) ? most : 1;
  const int64_t of_thread = std::max<int64_t>(1, (sym::evaluate_hint(length) + threads * vector - 1) / (threads * vector));
  const int64_t packs_of_group = (of_thread + kMostGroups - 1) / kMostGroups;
  const int64_t registers = size_bytes(dtype) <= 4 ? 64 : 80;  // of a thread: none are spilled, and eight loads are under way
  return {threads, vector, static_cast<int>((of_thread + packs_of_group - 1) / packs_of_group), static_cast<int>(packs_of_group),
          static_cast<int>(std::min(kAllRegisters / (registers * threads), kMostResidentBlocks))};
}

void add_workspace(loop::LoopProgram& program, CallStep& step) {
  const auto add = [&](std::string_view name, DType dtype, std::vector<sym::Expr> sizes) {
    loop::Buffer workspace{.name = step.name + std::string(name), .dtype = dtype, .sizes = sizes, .strides = contiguous_strides(sizes)};
    workspace.kind =
        program.buffer(step.outputs[0]).kind == loop::BufferKind::Prepared ? loop::BufferKind::Prepared : loop::BufferKind::Temporary;
    step.outputs.push_back(program.add_buffer(std::move(workspace)));
  };
  if (makes_table(step)) {
    const auto sizes = table_sizes(program, step);
    return add("_table", DType::U8, {sizes.begin(), sizes.end()});
  }
  if (step.choice != kRadixSort && step.choice != kCompaction) return;  // other calls' operands may have no dims
  const DType dtype = program.buffer(step.call.operands[0].buffer).dtype;
  const OrderedRows rows = rows_of(step.call);
  sym::Expr words = 0;
  if (step.choice == kRadixSort) words = sort_workspace(dtype, rows, std::holds_alternative<Sort>(step.call.op)).all;
  if (step.choice == kCompaction) words = sym::ceil_div(rows.length, kTileOfBools) + 1;
  if (words.is_const() && words.value() == 0) return;
  add("_workspace", DType::I32, {words});
}

std::span<const BufferId> results_of(const CallStep& step) {
  const bool has_workspace = step.choice == kRadixSort || step.choice == kCompaction || (makes_table(step) && step.outputs.size() > 1);
  return std::span(step.outputs).first(step.outputs.size() - (has_workspace ? 1 : 0));
}

}  // namespace toroid::schedule
