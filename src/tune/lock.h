// A file of choices: compiling with it takes these, measures nothing and gives the same program on every machine.
//
//   toroid choices 1
//   matmul.f32(f32[1, 2048], f32[2048, 1000]) -> f32[1, 1000] = few-rows-by-rows 3f0a91c24be01d77
//
// A line a problem: its text (of a step of a GPU's program it begins with "gpu."), the choice's name and its hash, by which a kernel is
// recognised that has changed since. Lines that are empty or begin with '#' mean nothing.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace toroid::tune {

struct LockedChoice {
  std::string choice;
  std::string hash;
  bool operator==(const LockedChoice&) const = default;
};

class ChoiceLock {
 public:
  // Throws Error{InvalidInput} that names the line, and what read_file throws.
  static ChoiceLock read(const std::filesystem::path& file);
  static ChoiceLock parse(std::string_view text, std::string name);

  void set(const std::string& problem, LockedChoice choice) { choices_[problem] = std::move(choice); }
  // Throws Error{InvalidInput} that names the problem when the lock does not have it.
  const LockedChoice& at(const std::string& problem) const;
  size_t size() const { return choices_.size(); }
  const std::string& name() const { return name_; }
  // Sorted by problem, so that two locks can be compared line by line.
  std::string text() const;

 private:
  std::string name_ = "lock";  // its file's, for messages
  std::map<std::string, LockedChoice> choices_;
};

}  // namespace toroid::tune
