// The one row of its keys and values that an attention has to wait for.
//
// A step of decoding writes a row of a cache in place and asks all rows:
//
//   scatter keys = keys_before set ...     at row position[0], an input of the program
//   call attention on q, keys, values
//
// All other rows are there before the call, so a kernel that starts while the one before it ends can have them on their way (overlaps.h).
#pragma once

#include <optional>

#include "program/module.h"
#include "schedule/cuda/attention/late_row.h"

namespace toroid::program {

using schedule::LateRow;

// Of a call of attention in the main graph. None where keys or values are written elsewhere, too, or where it is not known what is.
std::optional<LateRow> late_row(const schedule::ScheduledGraph& graph, const LibraryCall& call);

}  // namespace toroid::program
