// A compiled program as a folder that times itself: its sources, its weights, a main and the command that builds them.
//
//   build.sh                 sh build.sh && ./benchmark
//   main.cpp, program.h      the timing main; the inputs and steps of this program
//   program/*.cpp            kernels to be read (NAME_kernel.cpp), and what is compiled (wrapper_unitN.cpp)
//   toroid.h                 the interface of libtoroid.so, which is linked: the threads and the library kernels
//   weights.bin
#pragma once

#include <filesystem>

#include "driver/compile.h"

namespace toroid::cli {

// The folder in which `options.save_source` must be for emit_benchmark.
std::filesystem::path program_folder(const std::filesystem::path& folder);
// `model`: compiled with these options, `profile` among them, so that its steps are timed.
void emit_benchmark(const std::filesystem::path& folder, const CompiledModel& model, const CompileModelOptions& options,
                    const Toolchain& tools);

}  // namespace toroid::cli
