// The products of decode_loops.h in AMX tiles (isa/amx.h), for bfloat16: a tile of 16 keys is loaded from where they lie; pairs of values
// are interleaved.
#pragma once

#include "runtime/kernels/attention/decode_loops.h"
#include "runtime/kernels/gemm/half/gemm_amx.h"

namespace toroid {

constexpr int64_t kMostQueriesInTiles = 2 * kTileSide;

// Of so many queries, with rows of so many elements: multiples of kStepElements. Takes TileRegisters in scope.
class FewQueriesInTiles {
 public:
  FewQueriesInTiles(int64_t queries, int64_t width, int64_t out_width) : queries_(queries), width_(width), out_width_(out_width) {}

  int64_t query_bytes() const { return packed_tiles_bytes(AmxType::BFloat16, width_, queries_); }
  int64_t rows() const { return tiles_of(queries_) * kTileSide; }
  void pack_queries(const TileMatrix& queries, std::byte* to) const;

  // As FewQueryLoops. Scores and sums have rows() rows, those of sums with out_width elements.
  void scores(const std::byte* queries, const KeyBlock<BFloat16>& keys, float* scores, int64_t scores_row) const;
  void add(const float* weights, int64_t weights_row, const KeyBlock<BFloat16>& values, float* sums) const;

 private:
  int64_t queries_, width_, out_width_;
};

}  // namespace toroid
