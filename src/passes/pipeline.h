// The passes from import level to what is lowered: one list in their order, and the runner that compile, explain, opt and the tests share.
//
// The runner times each pass, gives the program to whoever wants to see what a pass changed, and in checked runs finds the pass that is at
// fault:
//
//   error: the pass 'fold-constants' broke the program: 'y' is used before it is defined …
//     help: please report this together with the model; --without-pass fold-constants compiles it without this pass
//
// Checked runs are those of debug builds, of all test binaries, and of processes with TOROID_VERIFY=1.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "passes/costs.h"

namespace toroid {

struct Pass {
  std::string_view name;                                  // "dead-code": of `toroid opt --passes` and of --without-pass
  std::string_view summary;                               // what it does
  bool optimises;                                         // only makes programs quicker, and may be left out
  bool (*run)(Program& program, const PassCosts& costs);  // true if the program is another one than before
};
std::span<const Pass> passes();
std::string pass_names();           // "decompose, fold-constants, dead-code"
std::string optional_pass_names();  // those that may be left out

// Does the environment, or the kind of build, ask for checked runs?
bool passes_are_checked();

struct PassOptions {
  bool optimise = true;                   // false: only the passes that every program needs
  std::vector<std::string> without = {};  // names of passes to leave out
  // Checked: after each pass the program is verified, and what the pass says of having changed it is compared with its text.
  bool check = passes_are_checked();
  PassCosts costs = {};  // without them, passes that weigh costs change nothing
  // Called after each pass that changed the program.
  std::function<void(const Pass& pass, const Program& program)> changed = {};
  // Called after each pass, with the time that it took.
  std::function<void(const Pass& pass, double seconds)> timed = {};
};

// Runs the passes of the list in order. Needs a program at import or core level; gives core level.
// Throws Error{InvalidOption} for a name in `without` that is no pass, or one that every program needs; in checked runs Error{Internal}
// that names the pass, where it broke the graph's rules, denies a change or claims one; and what passes throw.
void run_passes(Program& program, const PassOptions& options = {}, std::span<const Pass> list = passes());

// One pass of the list, as run_passes does: `toroid opt`.
void run_pass(const Pass& pass, Program& program, const PassOptions& options = {});

// Throws as run_passes does for `without`.
void check_left_out(std::span<const std::string> without);

}  // namespace toroid
