// Hostile edits of a model's file, each by a number.
//
// Of an archive: every leaf and every list and object of its JSON against a list of values that its reader may not expect: edges of
// integers, other types, nothing at all, other names of the model, deep nesting, a key twice, no key. Of a program in text form: the
// same for its words. An even spread comes first: number n takes the n-th of all single edits, in an order that the seed decides. One
// edit in four is a pair.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fuzz/random.h"
#include "mutate/archive.h"

namespace toroid::mutate {

using fuzz::Random;

// A model's file that can be spoilt. A child process spoils its copy.
class Seed {
 public:
  explicit Seed(std::string name) : name_(std::move(name)) {}
  virtual ~Seed() = default;
  const std::string& name() const { return name_; }
  virtual bool is_archive() const = 0;

  // The file with one edit or two, and what they were. Called once a process.
  struct Spoilt {
    std::string bytes;
    std::string edits;
  };
  virtual Spoilt spoil(uint64_t seed, int64_t number) = 0;
  virtual std::string plain() const = 0;  // without an edit

 private:
  std::string name_;
};

std::unique_ptr<Seed> archive_seed(const std::filesystem::path& path);
std::unique_ptr<Seed> text_seed(std::string name, std::string text);

// The number-th of `count` single edits, in an order that the seed decides; nothing for a pair.
std::optional<int64_t> single_edit(uint64_t seed, int64_t number, int64_t count);

}  // namespace toroid::mutate
