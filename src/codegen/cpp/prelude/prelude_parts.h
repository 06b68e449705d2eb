// The parts of a prelude that a text uses.
//
// A compiler also reads what a file does not need: the whole prelude took 15 of the 60 ms of a small kernel. So a file begins with the
// declarations that it names, those that they name, and so on. Names alone decide. Of a name all overloads and specialisations are kept, in
// their order, so that lookup finds what it would find in the whole prelude.
//
//   INLINE float op_exp_normal(float x) { … }      defines op_exp_normal, uses INLINE and op_exp
//   LIBMVEC(log, logf, log)                        defines op_log_v and the functions that the macro declares
//   #if … #endif                                   one part
//
// A part that defines no name is always kept: a pragma, an #include. So is what headers read: #define _GNU_SOURCE.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace toroid::codegen {

class PreludeParts {
 public:
  explicit PreludeParts(std::string prelude);
  PreludeParts(const PreludeParts&) = delete;

  const std::string& whole() const { return prelude_; }
  std::string used_by(std::string_view text) const;
  std::vector<std::string_view> names() const;  // all that are defined, sorted

 private:
  struct Part {
    std::string_view text;
    std::vector<std::string_view> defines, uses;
  };
  class Reader;

  const std::string prelude_;
  std::deque<std::string> joined_;                                         // names that macros make
  std::vector<Part> parts_;                                                // of prelude_
  std::unordered_map<std::string_view, std::vector<size_t>> definitions_;  // of a name: in which parts
};

}  // namespace toroid::codegen
