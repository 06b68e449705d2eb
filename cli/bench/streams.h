// A program called by several callers at once, as servers do: each has a context with threads of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/program/executable.h"
#include "runtime/program/loaded_program.h"

namespace toroid::cli {

// So many callers, each of which calls again as soon as it has its results.
struct StreamsTiming {
  int streams, threads;       // of each
  double calls_per_s;         // of all together
  double median_ms, slow_ms;  // of a call; 99 of 100 take no longer than the latter
};

// How `threads` threads are divided that --streams asks for: "auto", 1, 2, 4 ... callers up to one a thread, or the number of them. Throws
// Error{InvalidOption} for other texts, and for more callers than threads.
std::vector<int> streams_asked(std::string_view text, int threads);

// Calls for about so many seconds, after a few calls of each. The callers share the program's weights. is_pinned: each thread stays on one
// of the processors that the process may use, the next caller's on the next ones. Throws Error{InvalidOption} where there are fewer.
StreamsTiming time_streams(const std::shared_ptr<LoadedProgram>& program, const std::vector<HostTensor>& inputs, int streams, int threads,
                           double seconds, bool is_pinned);

// A table, and below it, where there are several rows, what to take.
void print_streams(const std::vector<StreamsTiming>& rows);
// The same for scripts: "streams", a list.
void add_streams(nlohmann::ordered_json& json, const std::vector<StreamsTiming>& rows);

}  // namespace toroid::cli
