// Damages a package again and again and opens each in a child process, as a user's program does by libtoroid: all are to be refused.
//
// usage: mutate_packages PACKAGE.so TIMES [SEED]      prints what became of them; exit status 1 where one crashed, hung or was opened
//
// A mutant is the file with some of: bits turned, a run of bytes overwritten by zeros, noise or other bytes of the file, two runs exchanged,
// bytes taken out or put in, the end cut off, a number at its end (sizes, checksums) replaced by one near it or by an extreme one. A mutant
// that is the file itself is not counted. (A package that is loaded by
// dlopen is seen by the system's loader before any check.)
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "base/file/file.h"
#include "toroid/toroid.h"

namespace {

using Random = std::mt19937_64;
constexpr unsigned kSecondsOfAChild = 20;
// Exit statuses of a child.
enum { kRefused = 10, kOpened = 11, kRefusedWithoutWords = 12 };

size_t below(Random& random, size_t count) { return count == 0 ? 0 : static_cast<size_t>(random() % count); }

// A run of bytes of text, often short.
std::pair<size_t, size_t> run_of(Random& random, const std::string& text) {
  const size_t at = below(random, text.size());
  const size_t most = std::min(text.size() - at, size_t{1} << below(random, 17));
  return {at, 1 + below(random, most)};
}

void turn_bits(Random& random, std::string& text) {
  for (size_t i = 0, count = 1 + below(random, 4); i < count; ++i)
    text[below(random, text.size())] ^= static_cast<char>(1u << below(random, 8));
}
void overwrite(Random& random, std::string& text) {
  const auto [at, length] = run_of(random, text);
  const size_t way = below(random, 3), from = below(random, text.size() - length + 1);
  for (size_t i = 0; i < length; ++i) text[at + i] = way == 0 ? '\0' : way == 1 ? static_cast<char>(random()) : text[from + i];
}
void exchange(Random& random, std::string& text) {
  const auto [at, length] = run_of(random, text);
  const size_t other = below(random, text.size() - length + 1);
  for (size_t i = 0; i < length; ++i) std::swap(text[at + i], text[other + i]);
}
void take_out(Random& random, std::string& text) {
  const auto [at, length] = run_of(random, text);
  text.erase(at, length);
}
void put_in(Random& random, std::string& text) {
  const auto [at, length] = run_of(random, text);
  text.insert(below(random, text.size() + 1), text.substr(at, length));
}
void cut_off(Random& random, std::string& text) { text.resize(below(random, text.size())); }
void change_number(Random& random, std::string& text) {
  const size_t words = std::min<size_t>(64, text.size() / 8);
  if (words == 0) return;
  char* const at = text.data() + text.size() - 8 * (1 + below(random, words));
  uint64_t number = 0;
  std::memcpy(&number, at, sizeof number);
  const uint64_t others[] = {number + 1, number - 1, 0, UINT64_MAX, uint64_t{1} << 63, number << 32, text.size(), ~number};
  number = others[below(random, std::size(others))];
  std::memcpy(at, &number, sizeof number);
}
constexpr std::array kEdits = {turn_bits, overwrite, exchange, take_out, put_in, cut_off, change_number};

// Opens the file. Never returns.
[[noreturn]] void run_child(const std::string& path) {
  ::alarm(kSecondsOfAChild);
  const ToroidApi* const toroid = toroid_api(TOROID_API_VERSION);
  char message[2048] = "";
  ToroidModel* model = nullptr;
  if (toroid->model_open(path.c_str(), nullptr, &model, message, sizeof message) != TOROID_OK)
    ::_exit(*message == '\0' ? kRefusedWithoutWords : kRefused);
  ::_exit(kOpened);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: mutate_packages PACKAGE.so TIMES [SEED]\n");
    return 2;
  }
  const std::string whole = toroid::read_file(argv[1]);
  const int times = std::atoi(argv[2]);
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const toroid::TempFolder folder("mutants");
  const std::string path = folder.path() / "m.so";
  int refused = 0, same = 0, bad = 0;
  for (int i = 0; i < times; ++i) {
    Random random(seed * 1'000'003 + static_cast<uint64_t>(i));
    std::string mutant = whole;
    for (size_t edits = 1 + below(random, 3); edits > 0 && mutant.size() > 64; --edits)
      kEdits[below(random, kEdits.size())](random, mutant);
    if (mutant == whole) {
      ++same;
      continue;
    }
    toroid::write_file_atomically(path, std::string_view(mutant), 0700);
    const pid_t child = ::fork();
    if (child == 0) run_child(path);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) {
      ++refused;
      continue;
    }
    ++bad;
    std::printf("mutant %d of seed %llu: %s %d\n", i, static_cast<unsigned long long>(seed), WIFSIGNALED(status) ? "signal" : "exit status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    const std::string kept = std::string(argv[1]) + ".mutant" + std::to_string(i);
    toroid::write_file_atomically(kept, std::string_view(mutant), 0700);
  }
  std::printf("%d refused, %d crashed, hung or opened, %d were the file itself\n", refused, bad, same);
  return bad == 0 ? 0 : 1;
}
