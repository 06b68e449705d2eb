// Compiles Halide pipelines to objects, by a Python that has Halide: a subprocess for each call, which compiles all pipelines of it side by
// side. Neither toroid's process nor a compiled program holds Python, nor Halide's compiler.
//
// That Python is TOROID_HALIDE_PYTHON, else python3; Halide 21 or newer. A pipeline's source is a program in Python, which runs there with
// the rights of the user: it must come from where the user said that code may come from.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine/isa.h"

namespace toroid {

// "Halide 21.0.0"; part of a program's key. Throws Error{Environment} where there is no Python or it has no such Halide.
std::string halide_version();

// The autoscheduler of this name in any letters: "Mullapudi2016", "Li2018" or "Adams2019". Throws Error{InvalidOption} for
// another name, and for Anderson2021, which schedules for GPUs alone.
std::string halide_autoscheduler(std::string_view name);
// The one of TOROID_HALIDE_AUTOSCHEDULER, else Mullapudi2016. Throws as above.
std::string default_halide_autoscheduler();

// What Halide calls processors with these instructions, with the features that toroid's pipelines are compiled with. Throws
// Error{Unsupported} where this is no x86-64.
std::string halide_target(const Isa& isa);

// Objects for a program to link, in the pipelines' order. Of Halide's runtime they take what codegen/halide/halide_kernel.h has.
// `pipelines`: texts of codegen::HalidePipeline. jobs: compilations at a time. Throws Error{Environment} as halide_version,
// Error{ToolFailed} with Halide's own words, the line of the file, and where a stand-alone reproducer is kept.
std::vector<std::string> compile_halide(std::span<const std::string> pipelines, const std::string& target, int jobs);

// A Python program that compiles the one pipeline, with nothing of toroid.
std::string halide_reproducer(const std::string& pipeline, const std::string& target);

}  // namespace toroid
