// Decomposes hostile calls, each within 1 s of processor time and 256 MB, and says which of them are not answered as they must be:
// by a program that passes the verifier, or by an Error that names the operator.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace toroid::hostile {

struct Options {
  uint64_t seed = 1;
  uint64_t calls = 1;     // an operator
  int jobs = 2;           // processes at once
  std::string only = {};  // operators whose name contains it; empty: all that are supported
  bool evaluate = true;   // run small programs too, on zeros and ones
};

struct Failure {
  std::string op;
  uint64_t seed;
  std::string what;     // "signal 11", "1 s of processor time", the words of an error
  std::string program;  // the call as text
};

struct Summary {
  uint64_t operators = 0, calls = 0;
  uint64_t refused = 0;  // with an Error
  uint64_t evaluated = 0;
  std::set<std::string> answered;  // operators that gave a program at least once
  std::vector<Failure> failures;
};
Summary check(const Options& options);

// Empty when the call is answered as it must be. In this process, without limits.
std::string check_call(const std::string& op, uint64_t seed, bool evaluate);

}  // namespace toroid::hostile
