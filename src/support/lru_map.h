// A map from strings to values that holds at most so many: the least recently used go.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "support/hash.h"

namespace toroid {

// Not thread-safe.
template <class Value>
class LruMap {
 public:
  explicit LruMap(size_t most) : most_(most) {}

  // Null when there is none; else it is the most recently used from now on. The pointer holds until the next put().
  Value* find(std::string_view key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->second;
  }

  // In the place of what was there under the key. Returns how many others went.
  size_t put(std::string key, Value value) {
    if (Value* const known = find(key)) {
      *known = std::move(value);
      return 0;
    }
    Entries added;  // known to both or to neither, also when memory runs out
    added.emplace_front(std::move(key), std::move(value));
    places_.emplace(added.front().first, added.begin());
    entries_.splice(entries_.begin(), added);
    size_t removed = 0;
    for (; entries_.size() > most_; ++removed) {
      places_.erase(places_.find(entries_.back().first));
      entries_.pop_back();
    }
    return removed;
  }

  size_t size() const { return entries_.size(); }

 private:
  struct Hash {
    size_t operator()(std::string_view key) const { return hash64(key); }
  };
  using Entries = std::list<std::pair<std::string, Value>>;
  size_t most_;
  Entries entries_;                                                                // the most recently used first
  std::unordered_map<std::string_view, typename Entries::iterator, Hash> places_;  // keys are those of the entries
};

}  // namespace toroid
