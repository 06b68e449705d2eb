#include "toolchain/extra_flags.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {
namespace {

// GCC's manual, "Option Summary"; clang's, "Command Line Argument Reference". Each stands for all flags that begin so.
constexpr std::string_view kRefused[] = {
    // What is made of what.
    "-o", "-c", "-S", "-E", "-M", "-x", "-v", "-#", "-shared", "-static", "-dump", "-print", "-save-temps", "-wrapper", "-Xclang", "-load",
    // Files that are read or written.
    "-i", "-I", "-B", "-L", "-l", "-T", "-specs", "--", "-Wl,", "-Wa,", "-Wp,", "-aux-info", "-gsplit-dwarf", "-fplugin", "-fprofile",
    "-fauto-profile", "-fdump", "-fsave-optimization-record", "-ftime-trace"};

bool is_refused(std::string_view flag) {
  // The machine that takes the code from a cache may be another one.
  return flag.ends_with("=native") ||
         std::any_of(std::begin(kRefused), std::end(kRefused), [&](std::string_view each) { return flag.starts_with(each); });
}

// GCC's manual, "x86 Options". Of the flags for a machine those that add no instructions.
constexpr std::string_view kHarmlessForMachines[] = {"-mtune=", "-mno-", "-mprefer-vector-width=", "-mstackrealign",
                                                     "-momit-leaf-frame-pointer"};

bool adds_instructions(std::string_view flag) {
  return flag.starts_with("-m") && std::none_of(std::begin(kHarmlessForMachines), std::end(kHarmlessForMachines),
                                                [&](std::string_view each) { return flag.starts_with(each); });
}

}  // namespace

std::vector<std::string> split_flags(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r";
  std::vector<std::string> flags;
  while (true) {
    const size_t begin = text.find_first_not_of(kSpaces);
    if (begin == std::string_view::npos) return flags;
    text.remove_prefix(begin);
    flags.emplace_back(text.substr(0, text.find_first_of(kSpaces)));
    text.remove_prefix(flags.back().size());
  }
}

void check_extra_flags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    if (flag.size() < 2 || flag[0] != '-') {
      throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is not a flag for the C++ compiler", flag))
          .help("flags begin with '-', and a value follows its flag without a space, as in -mtune=generic");
    }
    if (!is_refused(flag) && adds_instructions(flag)) {
      throw Error(
          ErrorKind::InvalidOption,
          fmt::format("the compiler flag '{}' is not allowed: it may add instructions that the program does not say it needs", flag))
          .help("TOROID_ISA chooses the instructions, as in TOROID_ISA=avx512+bf16");
    }
    if (is_refused(flag)) {
      throw Error(ErrorKind::InvalidOption,
                  fmt::format("the compiler flag '{}' is not allowed: what it does depends on more than its words", flag))
          .help("pass flags that only say how code is made, as -O2, -fno-inline or -DNAME; TOROID_ISA chooses the instructions");
    }
  }
}

}  // namespace toroid
