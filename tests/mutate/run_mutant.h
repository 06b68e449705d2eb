// Takes a hostile model through all of toroid: import, verification, evaluator, compiled program.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "driver/compile.h"
#include "mutate/edits.h"

namespace toroid::mutate {

// How a mutant ended.
enum class Ending : uint8_t {
  Refused,    // a typed error before anything ran
  Known,      // the same program as an earlier one
  Large,      // compiled at most: it computes too much to be run here
  Evaluated,  // the evaluator ran it, or refused its inputs with a typed error; this mutant was not in the sample that is compiled
  Equal,      // evaluator and compiled program agree
  OneSided,   // one of them refuses, with a typed error, what the other computes
  Finding,    // anything that must not be
};
constexpr const char* kEndings[] = {"refused", "known", "large", "evaluated", "equal", "one-sided", "finding"};

struct Outcome {
  Ending ending = Ending::Refused;
  std::string text = {};  // an error's first line, or what a finding is
};

// Programs that were seen already, by their hash; shared by all processes. When it is full nothing more is remembered.
class SeenPrograms {
 public:
  SeenPrograms();              // in memory that child processes share
  bool insert(uint64_t hash);  // whether it is new

 private:
  static constexpr size_t kSlots = size_t{1} << 20;
  std::atomic<uint64_t>* slots_;
};

struct RunOptions {
  bool compile = true;   // else only the evaluator runs
  int optimization = 0;  // the C++ compiler's -O level
};

Outcome run_mutant(const std::string& bytes, bool is_archive, CompileSession& session, SeenPrograms& seen, const RunOptions& options);

}  // namespace toroid::mutate
