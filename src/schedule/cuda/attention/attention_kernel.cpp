#include "schedule/cuda/attention/attention_kernel.h"

#include <algorithm>
#include <cmath>

#include "passes/attention/merge_gradient.h"
#include "schedule/cuda/attention/attention_gradient_kernel.h"

namespace toroid::schedule {
namespace {

constexpr int64_t kMostWidth = 256, kLeastHopperWidth = 64, kElementsOfPiece = 8;
// Keys of a tile beside whose scores a thread's registers hold a row's results, and whose values shared memory holds beside keys.
constexpr int kKeysOf192 = 96, kKeysOf256 = 80;
constexpr int kBoxColumns = 64;
constexpr int64_t kSplitRows = 16, kMostSplitRows = 128;  // of a tile; of all that share keys
constexpr int64_t kManyQueries = 2048;                    // from here on more groups of 64 are quicker than two, where their rows are short
// So many queries are one block's, so that keys and values are read once: quicker where there are heads enough for each multiprocessor to
// go on from one to the next.
constexpr int kMostQueryGroups = 4;
constexpr int64_t kFewQueries = 64 * kMostQueryGroups, kManyHeads = 4 * kMultiprocessors;

constexpr int64_t kFewKeys = 256;  // whose scores with 64 queries fit a group's registers

int padded(int width) { return (width + 15) / 16 * 16; }
int row_bytes(int width) { return (padded(width) + 8) * 2; }  // kRowBytes of the kernel

bool is_taken(DType dtype, size_t rank, sym::Expr width, sym::Expr out_width) {
  const auto fits = [](sym::Expr e) { return e.is_const() && e.value() > 0 && e.value() <= kMostWidth; };
  return is_reduced_float(dtype) && rank <= 4 && fits(width) && fits(out_width);
}

// Can TMA read it, and pieces of 16 bytes be written to it?
bool is_in_pieces(const loop::LoopProgram& program, BufferId buffer, std::span<const sym::Expr> sizes, std::span<const sym::Expr> strides,
                  sym::Expr offset, bool inputs_are_aligned) {
  const bool is_input = program.buffer(buffer).kind == loop::BufferKind::Input;
  if ((is_input && !inputs_are_aligned) || !strides.back().is_const(1) || !sym::known_divisible(offset, kElementsOfPiece)) return false;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) {
    const bool is_one = sizes[d].is_const(1);
    if (!is_one && (strides[d].is_const(0) || !sym::known_divisible(strides[d], kElementsOfPiece))) return false;
  }
  return true;
}

// Do two neighbours of its columns lie beside each other in every row, where one access takes them?
bool is_in_pairs(const loop::LoopProgram& program, const loop::Operand& mask, bool inputs_are_aligned) {
  const bool is_input = program.buffer(mask.buffer).kind == loop::BufferKind::Input;
  if ((is_input && !inputs_are_aligned) || !mask.strides.back().is_const(1) || !sym::known_divisible(mask.offset, 2)) return false;
  if (mask.sizes.back().is_const(1) || !sym::known_divisible(mask.sizes.back(), 2)) return false;
  for (size_t d = 0; d + 1 < mask.sizes.size(); ++d) {
    if (!mask.sizes[d].is_const(1) && !sym::known_divisible(mask.strides[d], 2)) return false;
  }
  return true;
}

bool has_whole_boxes(sym::Expr width) { return width.is_const(64) || width.is_const(128); }
bool is_hopper_width(sym::Expr width) {
  return width.is_const() && width.value() >= kLeastHopperWidth && width.value() <= kMostWidth && width.value() % kElementsOfPiece == 0;
}

// Rows of such a width in pieces of 16 bytes.
bool has_rows_of_pieces(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned,
                        bool (*is_width)(sym::Expr) = has_whole_boxes) {
  const std::vector<loop::Operand>& in = step.call.operands;
  const sym::Expr width = in[0].sizes.back();
  if (width != in[2].sizes.back() || !is_width(width)) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (!is_in_pieces(program, in[i].buffer, in[i].sizes, in[i].strides, in[i].offset, inputs_are_aligned)) return false;
  }
  const loop::Buffer& out = program.buffer(step.outputs[0]);
  return is_in_pieces(program, step.outputs[0], out.sizes, out.strides, 0, inputs_are_aligned);
}

bool is_for_hopper(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned) {
  const std::vector<loop::Operand>& in = step.call.operands;
  const std::vector<sym::Expr>& k = in[1].sizes;
  return has_rows_of_pieces(program, step, inputs_are_aligned, is_hopper_width) && sym::known_lt(0, k[k.size() - 2]) &&
         (!has_mask(in.size(), kDroppedOperands) || is_in_pairs(program, in[kDroppedOperands], inputs_are_aligned));
}

// Has the gradient a mask that differs between queries?
bool reads_mask(const CallStep& step) {
  const std::vector<loop::Operand>& in = step.call.operands;
  if (!has_mask(in.size(), kGradientOperands)) return false;
  const loop::Operand& mask = in[kGradientOperands];
  return !mask.sizes[2].is_const(1) && !mask.strides[2].is_const(0);
}
// Can TMA bring it, 64 keys of 64 queries at once? Batches or heads may have the same.
bool has_tiled_mask(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned) {
  if (!reads_mask(step) || !can_have_tiled_mask(step.call.operands[0].sizes.back())) return false;
  const loop::Operand& mask = step.call.operands[kGradientOperands];
  std::vector<sym::Expr> sizes = mask.sizes;
  for (size_t d = 0; d < 2; ++d) {
    if (mask.strides[d].is_const(0)) sizes[d] = 1;
  }
  return is_reduced_float(program.buffer(mask.buffer).dtype) && sym::known_divisible(sizes[3], kElementsOfPiece) &&
         is_in_pieces(program, mask.buffer, sizes, mask.strides, mask.offset, inputs_are_aligned);
}

bool is_gradient_for_hopper(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned) {
  const std::vector<loop::Operand>& in = step.call.operands;
  const sym::Expr width = in[0].sizes.back();
  // Of narrow rows registers have a mask that all queries have, and no other.
  const bool has_mask_elsewhere = reads_mask(step) && width.is_const(64) && !has_tiled_mask(program, step, inputs_are_aligned);
  const bool has_rows = is_hopper_gradient_width(width) && !has_mask_elsewhere && sym::known_lt(0, in[0].sizes[2]) &&
                        sym::known_lt(0, in[1].sizes[2]) &&
                        std::all_of(in.begin(), in.begin() + kGradientOperands, [&](const loop::Operand& each) {
                          return is_in_pieces(program, each.buffer, each.sizes, each.strides, each.offset, inputs_are_aligned);
                        });
  return has_rows && std::all_of(step.outputs.begin(), step.outputs.end() - 1, [&](BufferId id) {  // but for the statistics
           const loop::Buffer& buffer = program.buffer(id);
           return is_in_pieces(program, id, buffer.sizes, buffer.strides, 0, inputs_are_aligned);
         });
}

// Queries of the heads that share keys.
sym::Expr rows_of_keys(std::span<const sym::Expr> q, std::span<const sym::Expr> k) {
  const auto sizes = in_four_dims(q, 1), own = in_four_dims(k, 1);
  return sym::known_eq(sizes[1], own[1]) ? sizes[2] : sizes[2] * sym::floor_div(sizes[1], own[1]);
}

// Where keys are shared by all blocks, the first tile of queries reads them from memory and others from the L2 cache; else a block goes
// through all keys of its head, at the speed of a multiprocessor's tensor cores. Of an H100, by the kernels' times (docs/gpu.md).
bool is_quicker_split(std::span<const sym::Expr> q, std::span<const sym::Expr> k, bool hopper) {
  constexpr double kBytesOfSecond = 2.6e12, kOfFurtherTile = 0.6, kPartsSeconds = 4e-6;
  const double flops_of_second = (hopper ? 500e12 : 250e12) / kMultiprocessors, rows_of_block = hopper ? 128 : 64;
  const auto hint = [](sym::Expr e) { return static_cast<double>(sym::evaluate_hint(e)); };
  const auto of_q = in_four_dims(q, 1), of_k = in_four_dims(k, 1);
  const double keys = hint(of_k[2]), width = hint(of_q[3]), tiles = std::ceil(hint(rows_of_keys(q, k)) / kSplitRows);
  const double bytes = hint(of_k[0] * of_k[1]) * keys * width * 2 * 2;
  const double split = bytes / kBytesOfSecond * (1 + kOfFurtherTile * (tiles - 1)) + kPartsSeconds;
  const double blocks = hint(of_q[0] * of_q[1]) * std::ceil(hint(of_q[2]) / rows_of_block);
  const double whole = std::ceil(blocks / kMultiprocessors) * 4 * rows_of_block * keys * width / flops_of_second;
  return split < std::max(whole, bytes / kBytesOfSecond);
}

bool is_split(const loop::LoopProgram& program, const CallStep& step, bool hopper, bool inputs_are_aligned) {
  const std::vector<loop::Operand>& in = step.call.operands;
  const sym::Expr rows = rows_of_keys(in[0].sizes, in[1].sizes);
  const bool is_few = rows.is_const() && rows.value() > 0 && rows.value() <= kMostSplitRows;
  return is_few && !std::get<Attention>(step.call.op).causal && has_rows_of_pieces(program, step, inputs_are_aligned) &&
         (rows.value() <= kSplitRows || is_quicker_split(in[0].sizes, in[1].sizes, hopper));
}

}  // namespace

int64_t AttentionKernel::shared_bytes() const {
  if (split_rows > 0) {
    constexpr int kPadding = 8, kOfRow = 2;  // its maximum and its sum
    const int64_t floats = int64_t{warps} * split_rows * (width + kPadding + kOfRow) + (cluster > 1 ? split_rows * (width + kPadding) : 0);
    return floats * 4 + (makes_rows ? int64_t{split_rows + 2} * (width + kPadding) * 2 : 0);
  }
  if (hopper) {
    constexpr int kAlignment = 1024, kBarriers = 256;
    if (whole) return kAlignment + int64_t{2} * (rows() + 2 * keys) * width * 2 + kBarriers;
    const int blocks = taken_width() > 128 ? 1 : 2;  // of queries
    return kAlignment + (int64_t{blocks} * rows() + int64_t{2} * stages * keys) * taken_width() * 2 + kBarriers;
  }
  return int64_t{rows()} * row_bytes(std::max(width, out_width)) + int64_t{2} * keys * (row_bytes(width) + row_bytes(out_width));
}

bool suits_hopper_attention(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned) {
  const std::vector<sym::Expr>& k = step.call.operands[1].sizes;
  return has_rows_of_pieces(program, step, inputs_are_aligned) && sym::known_lt(0, k[k.size() - 2]);
}

bool has_attention_kernel(const TensorType& q, const TensorType& v) {
  return is_taken(q.dtype, q.sizes.size(), q.sizes.back(), v.sizes.back());
}

bool has_attention_kernel(const Graph& graph, const Node& node) {
  return std::holds_alternative<Attention>(node.op) && has_attention_kernel(graph.type(node.inputs[0]), graph.type(node.inputs[2]));
}

std::string_view attention_choice(const loop::LoopProgram& program, const CallStep& step, bool hopper, bool inputs_are_aligned) {
  if (is_library(step.call.op, kAttentionGradient)) {
    if (!hopper || !is_gradient_for_hopper(program, step, inputs_are_aligned)) return kFlashAttention;
    return has_tiled_mask(program, step, inputs_are_aligned) ? kTiledMaskAttention : kHopperAttention;
  }
  if (is_library(step.call.op, kDroppedAttention))
    return hopper && is_for_hopper(program, step, inputs_are_aligned) ? kHopperAttention : kFlashAttention;
  if (!std::holds_alternative<Attention>(step.call.op)) return "";
  const loop::Operand &q = step.call.operands[0], &v = step.call.operands[2];
  if (!is_taken(program.buffer(q.buffer).dtype, q.sizes.size(), q.sizes.back(), v.sizes.back())) return "";
  if (is_split(program, step, hopper, inputs_are_aligned)) return kSplitAttention;
  return hopper && is_for_hopper(program, step, inputs_are_aligned) ? kHopperAttention : kFlashAttention;
}

// Tiles for the registers that a thread may have, of which scores and results take most, and for shared memory that every GPU with such
// tensor cores has.
AttentionKernel attention_kernel(const Attention& op, DType dtype, std::optional<DType> mask, std::span<const sym::Expr> q,
                                 std::span<const sym::Expr> v, bool hopper, const std::optional<AttentionDropout>& dropout) {
  AttentionKernel kernel{.dtype = dtype,
                         .mask = mask,
                         .width = static_cast<int>(q.back().value()),
                         .out_width = static_cast<int>(v.back().value()),
                         .causal = op.causal,
                         .folds_scale = !mask && op.scale > 0,
                         .dropout = dropout,
                         .hopper = hopper};
  if (hopper) {
    kernel.keys = kernel.width <= 128 ? kHopperKeys : kernel.width <= 192 ? kKeysOf192 : kKeysOf256;
    const auto sizes = in_four_dims(q, 1);
    const int64_t queries = sym::evaluate_hint(sizes[2]), heads = sym::evaluate_hint(sizes[0] * sizes[1]);
    if (kernel.width != 64 || mask || dropout) return kernel;
    const auto take_four_groups = [&] {
      kernel.groups = kMostQueryGroups;
      kernel.keys = 64;
      kernel.stages = 4;
    };
    const bool has_few_queries = !op.causal && queries > kFewQueries / 2 && queries <= kFewQueries && heads >= kManyHeads;
    const sym::Expr all_keys = in_four_dims(v, 1)[2];
    if (has_few_queries) {
      take_four_groups();
    } else if (!op.causal && kernel.folds_scale && all_keys.is_const() && all_keys.value() > kHopperKeys && all_keys.value() <= kFewKeys) {
      kernel.whole = true;
      kernel.keys = all_keys.value() <= 192 ? 192 : all_keys.value() <= 208 ? 208 : 256;
    } else if (queries >= kManyQueries && kernel.folds_scale) {
      take_four_groups();  // whose weights seldom need maxima
    } else if (queries >= kManyQueries) {
      kernel.groups = 3;
    }
    return kernel;
  }
  const int wider = std::max(padded(kernel.width), padded(kernel.out_width));
  if (mask || wider > 64) kernel.keys = 32;
  if (wider > 64 && wider <= 128) kernel.warps = 8;
  return kernel;
}

namespace {

sym::Expr tiles_of_keys(const AttentionKernel& kernel, std::span<const sym::Expr> k) {
  const auto sizes = in_four_dims(k, 1);
  return kernel.split_tiles * sizes[0] * sizes[1];
}
sym::Expr chunks_of_tile(std::span<const sym::Expr> k) { return sym::max(sym::ceil_div(in_four_dims(k, 1)[2], kSplitKeys), 1); }

// A warp has sixteen keys at a time. Blocks whose warps have none would only add parts.
sym::Expr blocks_without_clusters(const AttentionKernel& kernel, std::span<const sym::Expr> k) {
  const sym::Expr chunks = tiles_of_keys(kernel, k) * chunks_of_tile(k);
  if (!chunks.is_const()) return kSplitBlocks;
  return std::clamp<int64_t>((chunks.value() + kernel.warps - 1) / kernel.warps, 1, kSplitBlocks);
}

// Where a warp has one chunk, the time is not that of reading keys but of putting parts together. No more blocks than a cluster may have on
// all GPUs, and few clusters, which find room on any parts of a GPU.
int cluster_of(const AttentionKernel& kernel, std::span<const sym::Expr> k) {
  constexpr int64_t kMostOfCluster = 8, kMostBlocks = kMultiprocessors / 2;
  const sym::Expr tiles = tiles_of_keys(kernel, k), chunks = chunks_of_tile(k);
  if (!tiles.is_const() || !chunks.is_const()) return 1;
  int64_t blocks = 1;
  while (blocks < kMostOfCluster && blocks * kernel.warps < chunks.value()) blocks *= 2;
  const bool have_one_each = blocks * kernel.warps >= chunks.value(), are_equal = chunks.value() % blocks == 0;
  return have_one_each && are_equal && tiles.value() * blocks <= kMostBlocks ? static_cast<int>(blocks) : 1;
}

}  // namespace

AttentionKernel split_attention_kernel(const Attention& op, DType dtype, std::optional<DType> mask, std::span<const sym::Expr> q,
                                       std::span<const sym::Expr> k) {
  AttentionKernel kernel = attention_kernel(op, dtype, mask, q, q, false);
  const int64_t rows = rows_of_keys(q, k).value();
  kernel.split_rows = rows <= 8 ? 8 : kSplitRows;
  kernel.split_tiles = static_cast<int>((rows + kernel.split_rows - 1) / kernel.split_rows);
  kernel.warps = 8;
  kernel.cluster = cluster_of(kernel, k);
  return kernel;
}

sym::Expr split_attention_blocks(const AttentionKernel& kernel, std::span<const sym::Expr> k) {
  return kernel.cluster > 1 ? tiles_of_keys(kernel, k) * kernel.cluster : blocks_without_clusters(kernel, k);
}

std::array<sym::Expr, 4> in_four_dims(std::span<const sym::Expr> list, int64_t otherwise) {
  std::array<sym::Expr, 4> result;
  result.fill(otherwise);
  std::copy(list.begin(), list.end(), result.end() - static_cast<std::ptrdiff_t>(list.size()));
  return result;
}

TensorMap attention_map(BufferId buffer, sym::Expr offset, std::span<const sym::Expr> sizes, std::span<const sym::Expr> strides, int rows) {
  const auto size = in_four_dims(sizes, 1), stride = in_four_dims(strides, 0);
  TensorMap map{.buffer = buffer, .offset = offset, .sizes = {size[3]}, .strides = {1}, .box = {kBoxColumns, rows, 1, 1}};
  for (size_t d = 1; d < 4; ++d) {
    map.sizes[d] = size[3 - d];
    map.strides[d] = size[3 - d].is_const(1) ? size[3] : stride[3 - d];  // of one element any will do
  }
  return map;
}

}  // namespace toroid::schedule
