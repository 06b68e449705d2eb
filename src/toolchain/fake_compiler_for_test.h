// For tests: a script that stands in for the C++ compiler, to see what happens when one fails, hangs or is changed, and that none is
// started where none should be.
//
//   const FakeCompiler fake("echo 'out of memory' >&2; exit 1");
//   fake.toolchain().compile_shared("…");                       // throws Error{ToolFailed}
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

#include "base/file/file.h"
#include "toolchain/toolchain.h"

namespace toroid {

// Answers --version, then does `body`, in which $out is the argument of -o. Each run but for --version leaves a line in a file.
class FakeCompiler {
 public:
  explicit FakeCompiler(const std::string& body) : path_(folder_.path() / "g++") {
    write_file_atomically(path_,
                          "#!/bin/sh\n"
                          "case \"$1\" in --version) echo 'g++ (Fake) 1.0'; exit;; -print-prog-name=*) exit;; esac\n"
                          "echo run >>'" +
                              runs_.string() +
                              "'\n"
                              "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n" +
                              body + "\n",
                          0777);
  }
  Toolchain toolchain(std::chrono::milliseconds timeout = std::chrono::seconds(20)) const {
    return Toolchain({.compiler = path_.string(), .isa = "baseline", .timeout = timeout});
  }
  // For TOROID_CXX.
  const std::filesystem::path& path() const { return path_; }
  // How often it was asked to compile or link.
  int runs() const {
    const std::string lines = std::filesystem::exists(runs_) ? read_file(runs_) : std::string();
    return static_cast<int>(std::count(lines.begin(), lines.end(), '\n'));
  }

 private:
  TempFolder folder_;
  std::filesystem::path runs_ = folder_.path() / "runs";
  std::filesystem::path path_;
};

}  // namespace toroid
