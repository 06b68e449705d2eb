// Where the sources stay that compilers refused, for a user to look at: in one folder for all that share this object, such as a program's
// units, which fail together.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

namespace toroid {

class KeptSources {
 public:
  KeptSources() = default;
  // In this folder, whose owner removes it.
  explicit KeptSources(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The file that holds the source now. Safe to call from several threads. Throws Error{Environment} where it cannot be written.
  std::filesystem::path keep(const std::string& name, std::string_view source);

 private:
  std::mutex mutex_;
  std::filesystem::path folder_;  // the first source makes it
};

}  // namespace toroid
