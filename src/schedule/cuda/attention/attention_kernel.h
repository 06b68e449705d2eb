// The kernels of attention on a GPU: which calls they take, and how their work is divided.
//
// One is for all tensor cores from compute capability 8.0 on (codegen/cuda/prelude/attention/attention.inc). One is for Hopper's
// (hopper_attention.inc): it reads queries, keys and values by TMA, rows of 64 to 256 elements, from multiples of 16 bytes on. One is for
// few queries (split_attention.inc): blocks share the keys, of rows of 64 or 128 such elements. Up to 16 queries of the same keys always
// are its own, up to 128 where an estimate says that other kernels leave multiprocessors idle.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "graph/graph.h"
#include "schedule/cuda/cuda_grid.h"
#include "schedule/cuda/products/product_tiles.h"
#include "schedule/schedule.h"

namespace toroid::schedule {

// Keys of a tile of Hopper's kernel, of rows of up to 128 elements, but where queries are few.
inline constexpr int kHopperKeys = 128;

// CallStep::choice of an attention that these kernels compute; without a choice the runtime does.
// The last: of a gradient, whose mask TMA brings.
inline constexpr std::string_view kFlashAttention = "flash", kHopperAttention = "flash-hopper", kSplitAttention = "flash-split",
                                  kTiledMaskAttention = "flash-hopper-mask";

// Of passes/attention/merge_gradient.h: which weights stay, and times what.
struct AttentionDropout {
  double factor;
  int64_t limit;  // 1 to 2^16
};

// A block of threads has rows of queries of one head, and goes through the keys in tiles. Only the widths must be known.
struct AttentionKernel {
  DType dtype;
  std::optional<DType> mask;
  int width, out_width;  // elements of a row of q and k, and of v
  bool causal;
  bool folds_scale;  // into the exponent, where nothing is added to scores
  std::optional<AttentionDropout> dropout = {};
  bool hopper = false;
  int split_rows = 0;       // more than 0: of few queries, whose keys blocks share; rows of queries, 8 or 16
  int split_tiles = 1;      // then: of so many rows with the same keys
  bool makes_rows = false;  // then: of queries, and one of keys and values (cached_attention.h)
  int cluster = 1;          // then: more than 1 where so many blocks have equal parts of each tile's keys
  int keys = 64;            // of a tile
  int warps = 4;            // of a block
  int tiles = 1;            // of 16 queries, a warp
  int groups = 2;           // Hopper: of 4 warps with 64 queries, besides the one that loads
  int stages = 2;           // Hopper: of the rings of keys and of values
  bool whole = false;       // Hopper: a head's keys are one tile (codegen/cuda/prelude/attention/short_attention.inc)

  // Hopper: what rows are taken as, with zeros behind their elements.
  int taken_width() const { return (width + 63) / 64 * 64; }
  int threads() const { return whole ? 256 : hopper ? 128 * (groups + 1) : 32 * warps; }
  int rows() const { return whole ? 256 : hopper ? 64 * groups : 16 * tiles * warps; }
  int64_t shared_bytes() const;
};

// Of float16 or bfloat16, with at most four dims and rows of 1 to 256 elements: others become products and a softmax
// (passes/attention/expand_attention.h).
bool has_attention_kernel(const TensorType& q, const TensorType& v);
bool has_attention_kernel(const Graph& graph, const Node& node);

// Can TMA read queries, keys and values, and are rows of 64 or 128 elements?
bool suits_hopper_attention(const loop::LoopProgram& program, const CallStep& step, bool inputs_are_aligned);

// Which kernel computes the call; empty: none. `hopper`: is that what the program is for? `inputs_are_aligned`: to 16 bytes; what the
// program itself allocates is.
std::string_view attention_choice(const loop::LoopProgram& program, const CallStep& step, bool hopper, bool inputs_are_aligned);

// The choice "flash-split": of heads that share keys, all queries, in tiles of at most 16.
AttentionKernel split_attention_kernel(const Attention& op, DType dtype, std::optional<DType> mask, std::span<const sym::Expr> q,
                                       std::span<const sym::Expr> k);
sym::Expr split_attention_blocks(const AttentionKernel& kernel, std::span<const sym::Expr> k);
inline constexpr int kSplitBlocks = kMultiprocessors;  // at most
inline constexpr int kSplitKeys = 16;                  // that a warp has at a time

// The tiles for q and v, [.., rows, columns], and the mask's dtype.
AttentionKernel attention_kernel(const Attention& op, DType dtype, std::optional<DType> mask, std::span<const sym::Expr> q,
                                 std::span<const sym::Expr> v, bool hopper, const std::optional<AttentionDropout>& dropout = {});

// Sizes and strides in four dims, [batch, head, row, column]: dims that are lacking have one element.
std::array<sym::Expr, 4> in_four_dims(std::span<const sym::Expr> list, int64_t otherwise);
// How Hopper's kernel reads queries, or keys and values: `rows` at once.
TensorMap attention_map(BufferId buffer, sym::Expr offset, std::span<const sym::Expr> sizes, std::span<const sym::Expr> strides, int rows);

}  // namespace toroid::schedule
