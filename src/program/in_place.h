// Which outputs may be written over the constant that they are the new value of (OutputKind::BufferMutation): where every read of the old
// value is done by then.
//
//   scatter keys = keys_before set ...         the base: what is not written stays
//   store m[i] = add(m_before[i], g[i])        each element is read before it is written, by who writes it
//   store m[i] = add(m_before[i + 1], g[i])    not so: another thread may have written it
//
// All steps before the first one that writes the output may read the old value as they like, later ones not at all. A kernel that is timed
// in several forms runs more than once, and a library call may write while it reads: these do not both read the old value and write the new
// one. Whether a call has both in one place is the host's to say (ToroidOutputInfo::in_place); the code serves either.
#pragma once

#include <vector>

#include "schedule/scheduled_graph.h"

namespace toroid::program {

// `graphs`: the main graph, whose output this is, then each subgraph.
bool may_be_in_place(const toroid::Program& program, const std::vector<schedule::ScheduledGraph>& graphs, size_t output);

}  // namespace toroid::program
