// Products of tiles of 16 x 16 sums, for machines with AMX: a register holds 16 rows of 64 bytes, and one instruction adds the product of
// two of them to a third.
#pragma once

#include <cstddef>
#include <cstdint>

namespace toroid {

enum class AmxType {
  BFloat16,  // sums in F32; values that are not normal count as 0, as the instruction has it
  Int8,      // both signed, sums in I32 that wrap
  Uint8,     // the left unsigned, the right signed
};
constexpr int64_t bytes_of_element(AmxType numbers) { return numbers == AmxType::BFloat16 ? 2 : 1; }  // on both sides
// Are there such instructions (base/machine/machine.h)?
bool has_amx();

constexpr int64_t kTileSide = 16;  // rows, columns, and words of depth
inline int64_t tiles_of(int64_t count) { return (count + kTileSide - 1) / kTileSide; }
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileSide * kTileRowBytes;
constexpr int64_t kStepElements = kTileRowBytes / 2;  // of 16 bits, of the depth, in a tile
inline int64_t steps_of(int64_t depth) { return (depth + kStepElements - 1) / kStepElements; }
constexpr int64_t kWordBytes = 4;  // the elements that one instruction sums at a time: two, or four

// The registers are a thread's own, and are to be set up before they are used.
class TileRegisters {
 public:
  TileRegisters();
  ~TileRegisters();
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

// Up to two tiles of rows and two of columns; the second of each may be null.
struct TileStrip {
  const std::byte* left[2];   // [step][row][word]: `steps` tiles one after the other, or as left_row and left_step say
  const std::byte* right[2];  // [step][word][column]
  int64_t steps;
  float* sums;  // or int32_t
  int64_t row;  // of sums, in elements
  bool add;     // to what is there
  // What of the right side is needed later, in lines of 64 bytes: so many are fetched into the second-level cache in each step.
  const std::byte* ahead[2];
  int64_t lines;
  const int64_t* offsets = nullptr;  // of each step's tiles on the left, in bytes, where they do not follow each other
  int64_t right_bytes = 0;           // after which the right side's tiles begin anew; 0: never
  int64_t left_row = kTileRowBytes, left_step = kTileBytes;  // in bytes, from row to row and from step to step of the left side
};
// Takes TileRegisters in scope.
void multiply_tiles(AmxType numbers, const TileStrip& strip);

// Numbers of F32 as sums of three of BF16, their high, middle and low parts: three tiles in place of each, and six products of them, all
// but those below F32's own rounding (runtime/kernels/gemm/bf16x3/split.h).
constexpr int64_t kPartsOfFloat = 3;
constexpr int64_t kPartsBytes = kPartsOfFloat * kTileBytes;
constexpr int64_t kPartsRowBytes = kPartsOfFloat * kTileRowBytes;

}  // namespace toroid
