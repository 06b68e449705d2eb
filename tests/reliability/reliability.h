// What the reliability tests share: how much to do, entries that can be told right from wrong, children, and a look at a store
// after something happened to it.
//
// The tests run twice: in `./run test` in a form of a few seconds, and with `./run reliability` in full, as docs/reliability.md
// has it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file/file.h"
#include "cache/cache.h"

namespace toroid::reliability {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // memory is not what it is otherwise
#else
constexpr bool kIsSanitized = false;
#endif

// Whether the program was started with --full.
bool is_full();
inline int64_t times(int64_t quick, int64_t full) { return is_full() ? full : quick; }

// In full, prints "RESULT test: text, so many seconds": the rows of docs/reliability.md.
class Result {
 public:
  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    print(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void print(const std::string& text) const;
  Stopwatch watch_;
};

// An entry whose bytes follow from its number, so that every process can tell right ones from wrong ones. `bytes` long.
CacheKey key_of(int64_t number);
std::string entry_of(int64_t number, size_t bytes);
bool is_entry_of(int64_t number, std::string_view bytes);

// Folders in memory where there is room: most of these tests write much and care for no disk.
TempFolder quick_folder();

// Runs `body` in a child process; returns what waitpid says. A body that throws or takes longer than two minutes ends badly.
int status_of_child(const std::function<int()>& body);
// Ends the process with what the body returns, 99 when it throws: the whole of a child.
[[noreturn]] void run_as_child(const std::function<int()>& body);

// What a process that uses the store next has to complain of; empty when all is well: entries 0 to `entries` are right or absent,
// checksums and the database are sound, what is put is found, and nothing is warned of but `most_warnings` times.
std::string complaint_of_next_user(const std::filesystem::path& folder, int64_t entries, size_t most_warnings = 0);

}  // namespace toroid::reliability
