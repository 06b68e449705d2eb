// Which way each step of a GPU's program is done (schedule/cuda/ways/ways.h); and, where Halide competes, each kernel of a processor's.
//
// A step whose sizes are numbers is a problem for the tuner, with its ways as choices. Equal steps are one problem. Each way becomes a
// program of its own, in a library, which a worker runs, compares with that of the default way and times. The problems that take the most
// time come first; when the time for all is spent the others stay as they are, and nothing about them is remembered, so that the next
// compilation goes on with them. Of a program with tensors on the host and on a GPU only the GPU's steps are problems.
#pragma once

#include <string>
#include <vector>

#include "driver/build_library.h"
#include "driver/compile_options.h"
#include "schedule/scheduled_graph.h"
#include "toolchain/toolchain.h"
#include "tune/tuner.h"

namespace toroid {

struct WaysOptions {
  const CompileModelOptions& options;
  const Toolchain* tools = nullptr;  // null: with a lock
  int threads = 1;                   // compilers at a time
};

// Throws as Tuner::choose does.
void choose_ways(std::vector<schedule::ScheduledGraph>& graphs, const Program& program, tune::Tuner& tuner, const WaysOptions& how);

// What becomes a library that does this step alone. Not from several threads.
LibrarySources sources_of_step(const Program& program, const loop::LoopProgram& loops, const schedule::Step& step,
                               const CompileModelOptions& options);

// Where what is measured holds: the GPU, its kind of code and what compiles for it.
tune::Identity identity_of_gpu(const CompileModelOptions& options);
// Workers and times for problems on GPUs: one worker for each GPU that is like the program's own.
void choose_on_gpus(tune::TunerOptions& tuning, const CompileModelOptions& options);
// Workers keep in the cache which of a library's kernels was the quickest for a call, so that the program begins with it.
void keep_products(tune::TunerOptions& tuning);

}  // namespace toroid
