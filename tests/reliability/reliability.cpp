#include "reliability.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "cache/sqlite.h"

namespace toroid::reliability {
namespace {
bool full = false;
}

bool is_full() { return full; }

void Result::print(const std::string& text) const {
  if (!full) return;
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::printf("RESULT %s.%s: %s, %.1f s\n", test.test_suite_name(), test.name(), text.c_str(), watch_.seconds());
  std::fflush(stdout);
}

CacheKey key_of(int64_t number) { return KeyBuilder("library", 1).add("number", number).finish(); }

// The number, then bytes that depend on number and place.
std::string entry_of(int64_t number, size_t bytes) {
  std::string text = fmt::format("entry {} of {} bytes:", number, bytes);
  text.resize(std::max(bytes, text.size()));
  uint64_t state = static_cast<uint64_t>(number) * 2862933555777941757u + 3037000493u;
  for (size_t i = text.find(':') + 1; i < text.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text[i] = static_cast<char>(state >> 56);
  }
  return text;
}

bool is_entry_of(int64_t number, std::string_view bytes) {
  const std::string start = fmt::format("entry {} of ", number);
  if (!bytes.starts_with(start)) return false;
  return bytes == entry_of(number, std::strtoull(std::string(bytes.substr(start.size(), 12)).c_str(), nullptr, 10));
}

TempFolder quick_folder() {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  TempFolder folder("toroid-reliability");
  if (before != nullptr) {
    ::setenv("TMPDIR", kept.c_str(), 1);
  } else {
    ::unsetenv("TMPDIR");
  }
  return folder;
}

void run_as_child(const std::function<int()>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(120);
  int code = 99;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a child ends with: %s\n", error.what());
  }
  ::_exit(code);
}

int status_of_child(const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) run_as_child(body);
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

std::string complaint_of_next_user(const std::filesystem::path& folder, int64_t entries, size_t most_warnings) {
  std::vector<std::string> warnings;
  std::filesystem::path file;
  try {
    Store store({.folder = folder, .warn = [&](const std::string& text) { warnings.push_back(text); }});
    if (!store.is_open()) return "the store does not open: " + (warnings.empty() ? "" : warnings[0]);
    file = store.file();
    if (const uint64_t bad = store.verify(); bad != 0) return fmt::format("{} checksums do not match", bad);
    for (int64_t i = 0; i < entries; ++i) {
      const std::optional<std::string> found = store.get(key_of(i));
      if (found && !is_entry_of(i, *found)) return fmt::format("entry {} is another", i);
    }
    constexpr int64_t kNew = int64_t{1} << 40;
    store.put(key_of(kNew), entry_of(kNew, 3000));
    if (store.get(key_of(kNew)) != entry_of(kNew, 3000)) return "what is put is not found: " + (warnings.empty() ? "" : warnings[0]);
  } catch (const Error& error) {
    return error.report();
  }
  if (warnings.size() > most_warnings) return fmt::format("{} warnings, the last: {}", warnings.size(), warnings.back());
  try {
    const Database database(file);
    Statement check(database, "PRAGMA integrity_check");
    if (!check.step()) return "no answer from integrity_check";
    if (check.bytes(0) != "ok") return "integrity_check: " + std::string(check.bytes(0));
  } catch (const SqliteError& error) {
    return error.what();
  }
  return "";
}

}  // namespace toroid::reliability

// GoogleTest's own arguments, and --full.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) toroid::reliability::full |= std::strcmp(argv[i], "--full") == 0;
  return RUN_ALL_TESTS();
}
