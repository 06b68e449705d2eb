// For tests: a script that stands in for a Python with Halide. Objects are its words, or it says that the first pipeline is wrong.
//
//   const FakeHalide fake;
//   const ScopedVariable python("TOROID_HALIDE_PYTHON", fake.path().string());
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "base/file/file.h"

namespace toroid {

class FakeHalide {
 public:
  // `version`: "" for a Python without Halide. `answer`: what is said of each pipeline.
  explicit FakeHalide(const std::string& version = "21.0.0", const std::string& answer = R"({"seconds": 0.1})")
      : path_(folder_.path() / "python3") {
    write_file_atomically(path_,
                          fmt::format(R"sh(#!/bin/sh
case "$2" in *importlib.metadata*) [ -n '{}' ] && echo '{}'; exit 0;; esac
cat >'{}'
echo run >>'{}'
to=$(sed -n 's/^{{"folder": "\([^"]*\)".*/\1/p' '{}')
n=0
printf '['
for name in $(grep -o '"entry": "[^"]*"' '{}' | sed 's/.*: "//; s/"//'); do
  printf 'object of %s' "$name" >"$to/$n"
  [ $n -gt 0 ] && printf ', '
  printf '%s' '{}'
  n=$((n + 1))
done
printf ']'
)sh",
                                      version, version, request_.string(), runs_.string(), request_.string(), request_.string(), answer),
                          0777);
  }
  const std::filesystem::path& path() const { return path_; }
  int runs() const {
    const std::string lines = std::filesystem::exists(runs_) ? read_file(runs_) : std::string();
    return static_cast<int>(std::count(lines.begin(), lines.end(), '\n'));
  }
  std::string request() const { return read_file(request_); }  // the last one

 private:
  TempFolder folder_;
  std::filesystem::path runs_ = folder_.path() / "runs", request_ = folder_.path() / "request";
  std::filesystem::path path_;
};

}  // namespace toroid
