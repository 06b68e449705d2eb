// For tests: a script that stands in for a Python with Triton. What launches are told is what the test says; binaries are as those of the
// driver that tests play (tests/gpu/fake_gpu.c).
//
//   const FakeTriton fake;
//   const ScopedVariable python("TOROID_TRITON_PYTHON", fake.path().string());
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "base/file/file.h"

namespace toroid {

class FakeTriton {
 public:
  // `facts`: of each kernel, in JSON, behind its name. `version`: "" for a Python without Triton. `parameters`: of each kernel, for the
  // driver: r and w are pointers that it reads and writes through, - is anything else.
  explicit FakeTriton(const std::string& facts = kFacts, const std::string& version = "3.6.0", const std::string& parameters = "")
      : path_(folder_.path() / "python3") {
    write_file_atomically(
        path_,
        fmt::format(R"sh(#!/bin/sh
case "$2" in *__version__*) [ -n '{}' ] && echo '{}'; exit 0;; esac
cat >'{}'
echo run >>'{}'
to=$(sed -n 's/^{{"folder": "\([^"]*\)".*/\1/p' '{}')
n=0
printf '['
for name in $(grep -o '"entry":"[^"]*"' '{}' | sed 's/.*:"//; s/"//'); do
  printf 'fake binary\000%s\000{}\000\000' "$name" >"$to/$n"
  [ $n -gt 0 ] && printf ', '
  printf '{{"name": "%s", %s}}' "$name" '{}'
  n=$((n + 1))
done
printf ']'
)sh",
                    version, version, request_.string(), runs_.string(), request_.string(), request_.string(), parameters, facts),
        0777);
  }
  const std::filesystem::path& path() const { return path_; }
  int runs() const {
    const std::string lines = std::filesystem::exists(runs_) ? read_file(runs_) : std::string();
    return static_cast<int>(std::count(lines.begin(), lines.end(), '\n'));
  }
  std::string request() const { return read_file(request_); }  // the last one

  static constexpr const char* kFacts =
      R"("threads": 128, "shared_bytes": 64, "scratch_bytes": 0, "scratch_alignment": 1, "profile_bytes": 0, "blocks_of_cluster": 1, )"
      R"("cooperative": 0, "tensor_maps": 0, "more_pointers": 2)";

 private:
  TempFolder folder_;
  std::filesystem::path runs_ = folder_.path() / "runs", request_ = folder_.path() / "request";
  std::filesystem::path path_;
};

}  // namespace toroid
