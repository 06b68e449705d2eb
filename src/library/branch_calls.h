// How a program for a GPU tells the host which of its launches do not wait for each other (program/streams/branches.h): a call of a library
// kernel without operands, whose one integer is a branch. What is started from there on is on that branch; on branch 0 it waits for all of
// them, and a branch that begins waits for what was started on branch 0.
//
// And which run beside what follows (program/streams/beside.h): what is started between a call with 1 and one with 0. It waits for all
// before it. Such stretches are counted from 1; a third call waits until so many of them have ended. On a lane (program/streams/lanes.h)
// the operation is on the lane's stream; with kStays what it swaps may stay where it comes, and a fourth call writes that address to its
// one output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/bits.h"

namespace toroid {

inline constexpr std::string_view kBranchCall = "gpu.branch", kBesideCall = "gpu.beside", kAwaitCall = "gpu.await", kTakeCall = "gpu.take";
inline constexpr int64_t kStays = 2, kMarks = 3;

// Of what is swapped, the bytes of a slot in the mailbox that it comes to: what has the same takes the slots of one mailbox in turns
// (runtime/cuda/communication/peer_copies.h).
constexpr uint64_t slot_bytes(uint64_t bytes) {
  constexpr uint64_t kLeast = 1 << 16;
  return uint64_t{1} << bit_width(std::max(bytes, kLeast) - 1);
}

}  // namespace toroid
