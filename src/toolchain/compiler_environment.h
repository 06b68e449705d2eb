// What a compiler sees of our environment: what it needs to find its own parts, and nothing else, for it may be a script of anybody's and
// what is in the environment may be a secret (TOROID_REMOTE_CACHE, tokens). Variables that change what a compiler makes are withheld or
// part of every key.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "support/process/subprocess.h"

namespace toroid {

// Of those that it gets, the variables that are set and decide what it makes; part of a kernel's key.
std::map<std::string, std::string> deciding_variables();

// All variables by which it finds its programs, as one text: what was learnt of a compiler holds for them.
std::string finding_variables();

// What one run of a compiler may take: TOROID_COMPILE_TIMEOUT_S, else 3 minutes. Throws Error{InvalidOption} where that is no time.
std::chrono::milliseconds compiler_timeout();

// To run a compiler with that environment and messages in English. `folder`: for its temporary files; empty: where ours are.
ProcessOptions compiler_process(std::vector<std::string> argv, const std::filesystem::path& folder = {});

}  // namespace toroid
