#include "codegen/cuda/attention_text.h"

#include <fmt/format.h>

#include "codegen/cpp/names.h"
#include "codegen/cpp/scalar_text.h"
#include "codegen/cuda/thread_printer.h"

namespace toroid::codegen::cuda {
namespace {

constexpr int kNarrowWidth = 64;

// Of few queries, whose keys blocks share.
std::string split_text(const schedule::AttentionKernel& kernel, std::string_view name, const schedule::Overlap& overlap) {
  const std::string_view type = storage_type(kernel.dtype), mask = storage_type(kernel.mask.value_or(kernel.dtype)),
                         alone = overlap.starts_early ? "" : "__restrict__ ";
  std::string begin;
  for (const std::string& line : overlap_text(overlap)) begin += fmt::format("  {}\n", line);
  const bool has_cluster = kernel.cluster > 1;
  std::string numbers = fmt::format("{}, {}, {}, {}, {}", kernel.width, kernel.split_rows, kernel.warps, schedule::kSplitBlocks,
                                    kernel.mask ? "kMask" : "kNoMask");
  const bool loads_ahead = overlap.loads_ahead;
  if (has_cluster || kernel.split_tiles > 1 || loads_ahead) numbers += fmt::format(", {}", kernel.split_tiles);
  if (has_cluster || loads_ahead) numbers += fmt::format(", {}", kernel.cluster);
  if (loads_ahead) numbers += ", true";
  const int at_once = loads_ahead ? split_blocks_at_once(kernel) : 1;
  return fmt::format(
      "KERNEL __launch_bounds__({0}, {8}){1} {2}(\n    const {3}* {4}q, const {3}* {4}k, const {3}* {4}v,\n    const {5}* {4}mask, {3}* "
      "{4}out, ATTENTION_SHAPE shape, const float scale{9}) {{\n{6}  attend_split<{7}>(q, k, v, mask, out, shape, scale{10});\n}}\n",
      kernel.threads(), has_cluster ? fmt::format(" SPLIT_ATTENTION_CLUSTER({})", kernel.cluster) : "", name, type, alone, mask, begin,
      numbers, at_once, loads_ahead ? ", const int64_t* changed" : "", loads_ahead ? ", changed" : "");
}

}  // namespace

int split_blocks_at_once(const schedule::AttentionKernel& kernel) { return kernel.width == kNarrowWidth ? 2 : 1; }

std::string dropout_text(const schedule::AttentionDropout& dropout) {
  return fmt::format("Dropout{{*key, *call, {}u, {}}}", (static_cast<uint64_t>(dropout.limit) << 16) - 1,
                     literal_text(DType::F32, dropout.factor));
}

std::string attention_text(const schedule::AttentionKernel& kernel, std::string_view name, const schedule::Overlap& overlap,
                           uint32_t lane) {
  const std::string_view type = storage_type(kernel.dtype), mask = storage_type(kernel.mask.value_or(kernel.dtype));
  const std::string operands = kernel.hopper
                                   ? "TENSOR_MAP q, TENSOR_MAP k, TENSOR_MAP v"
                                   : fmt::format("const {0}* __restrict__ q, const {0}* __restrict__ k, const {0}* __restrict__ v", type);
  const std::string numbers =
      kernel.hopper ? fmt::format("attend_on_hopper<{}, {}, {}, {}, ", kernel.taken_width(), kernel.groups, kernel.keys, kernel.stages)
                    : fmt::format("attend<{}, {}, {}, {}, {}, ", kernel.width, kernel.out_width, kernel.warps, kernel.tiles, kernel.keys);
  if (kernel.split_rows > 0) return split_text(kernel, name, overlap);
  std::string last;  // of the numbers
  if (kernel.hopper && kernel.width != kernel.taken_width())
    last = fmt::format(", {}, {}", lane, kernel.width);
  else if (kernel.hopper && lane > 0)
    last = fmt::format(", {}", lane);
  std::string begin;
  for (const std::string& line : overlap_text(overlap)) begin += fmt::format("  {}\n", line);
  if (kernel.whole) {
    return fmt::format(
        "KERNEL __launch_bounds__({0}, 1) {1}(\n    {2},\n    const {3}* __restrict__ mask, {3}* __restrict__ out, ATTENTION_SHAPE shape, "
        "const "
        "float scale) {{\n{5}  attend_whole<{4}>(q, k, v, out, shape, scale);\n}}\n",
        kernel.threads(), name, operands, type, kernel.keys, begin);
  }
  if (kernel.dropout) {
    const std::string_view masking = !kernel.mask ? "kNoMask" : kernel.hopper ? "kMaskOfPairs" : "kMask";
    const std::string tiles = kernel.hopper ? fmt::format("attend_on_hopper_with_dropout<{}, {}, {}, {}, ", kernel.taken_width(),
                                                          kernel.groups, kernel.keys, kernel.stages)
                                            : fmt::format("attend_with_dropout<{}, {}, {}, {}, {}, ", kernel.width, kernel.out_width,
                                                          kernel.warps, kernel.tiles, kernel.keys);
    return fmt::format(
        "KERNEL __launch_bounds__({}, 1) {}(\n    {},\n    const {}* __restrict__ mask, {}* __restrict__ out, const int64_t* __restrict__ "
        "key,\n    const int64_t* __restrict__ call, ATTENTION_SHAPE shape, const float scale) {{\n{}  {}{}, {}, {}{}>(q, k, v, mask, out, "
        "shape, scale, {});\n}}\n",
        kernel.threads(), name, operands, mask, type, begin, tiles, masking, kernel.causal, kernel.folds_scale, last,
        dropout_text(*kernel.dropout));
  }
  return fmt::format(
      "KERNEL __launch_bounds__({}, 1) {}(\n    {},\n    const {}* __restrict__ mask, {}* __restrict__ out, ATTENTION_SHAPE shape, const "
      "float scale) "
      "{{\n{}  {}{}, {}, {}{}>(q, k, v, mask, out, shape, scale);\n}}\n",
      kernel.threads(), name, operands, mask, type, begin, numbers,
      !kernel.mask    ? "kNoMask"
      : kernel.hopper ? "kMaskOfPairs"
                      : "kMask",
      kernel.causal, kernel.folds_scale, last);
}

}  // namespace toroid::codegen::cuda
