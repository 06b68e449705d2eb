// What two processes swap beside kernels (beside.h, lanes.h), read where it comes: in a slot of the mailbox into which the other process
// copies it (runtime/cuda/communication/peer_copies.h). So it is not copied out, and its temporary is the mailbox's.
#pragma once

#include <vector>

#include "program/module.h"

namespace toroid::program {

// The operations, as positions of the main function's steps, what they swap being read by kernels of their lane, or of none, before its
// next operation of the same mailbox alone: its slot is free by then. None where it is unknown which swaps of the program share one.
std::vector<size_t> received_in_place(const std::vector<schedule::ScheduledGraph>& graphs, const Module& module);

}  // namespace toroid::program
