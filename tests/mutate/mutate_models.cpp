// mutate_models: spoils models and takes each through import, verification, the evaluator and the compiled program.
//
//   mutate_models --count 20000 --jobs 2 MODEL.pt2 PROGRAM.txt FOLDER …      docs/testing.md says more
//   mutate_models --seed 1 --first 17 --count 1 --verbose MODEL.pt2 …         one mutant again
//   mutate_models --replay saved.pt2                                          a saved one again
//
// Each mutant runs in a child that is forked from a process in which all is loaded, with 60 s and 8 GB. A finding is a signal, an error
// that is toroid's fault or has no type, a compiler that refuses its code, more time or memory than that, and a difference between
// evaluator and compiled program.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "flags/flags.h"
#include "fuzz/grow.h"
#include "mutate/run_mutant.h"

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHasSanitizer = true;  // its shadow needs more room than any limit
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=8192:hard_rss_limit_mb=8192:detect_leaks=0";
}
#elif defined(__SANITIZE_THREAD__)
constexpr bool kHasSanitizer = true;
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=8192"; }
#else
constexpr bool kHasSanitizer = false;
#endif

namespace toroid::mutate {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kSeconds = 60;
constexpr rlim_t kBytes = rlim_t{8} << 30;
constexpr double kSlowSeconds = 20;

struct Options {
  uint64_t seed = 1;
  int64_t count = 1000;
  int64_t first = 0;
  int jobs = 1;
  int64_t grown = 0;
  int64_t compile_every = 4;
  std::string save;
  bool verbose = false;
  std::vector<std::string> replay;
  std::vector<std::string> files;
};

std::vector<std::unique_ptr<Seed>> read_seeds(const Options& options) {
  std::vector<fs::path> paths;
  for (const std::string& each : options.files) {
    if (!fs::is_directory(each)) {
      paths.emplace_back(each);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(each)) {
      if (entry.path().extension() == ".pt2" || entry.path().extension() == ".txt") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::unique_ptr<Seed>> seeds;
  for (const fs::path& path : paths) {
    seeds.push_back(path.extension() == ".pt2" ? archive_seed(path) : text_seed(path.string(), read_file(path)));
  }
  for (int64_t i = 0; i < options.grown; ++i) {
    const uint64_t seed = Random(options.seed * 0x10001 + static_cast<uint64_t>(i)).bits();
    seeds.push_back(text_seed(fmt::format("grown {}", i), fuzz::to_text(fuzz::Grower(seed).grow())));
  }
  if (seeds.empty())
    throw Error(ErrorKind::InvalidOption, "no model to spoil").help("name .pt2 or .txt files, or folders of them, or --grown N");
  return seeds;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void set_limits() {
  if (!kHasSanitizer) {
    const rlimit memory = {kBytes, kBytes};
    setrlimit(RLIMIT_AS, &memory);
  }
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  alarm(kSeconds);
}

std::string line_of(const Outcome& outcome) {
  return fmt::format("{}\t{}\n", kEndings[static_cast<size_t>(outcome.ending)], one_line(outcome.text));
}

// Mutants first, first + step, … below the end, each in a child. Sends a line a mutant: number, ending, seconds, text.
class Worker {
 public:
  Worker(const Options& options, std::vector<std::unique_ptr<Seed>>& seeds, CompileSession& session, SeenPrograms& seen, int output)
      : options_(options), seeds_(seeds), session_(session), seen_(seen), output_(output) {}

  void run(int64_t first) {
    for (int64_t number = first; number < options_.first + options_.count; number += options_.jobs) {
      const Stopwatch watch;
      const std::string line = run_one(number);
      write_all(output_, fmt::format("{}\t{:.2f}\t{}", number, watch.seconds(), line));
    }
  }

 private:
  std::string run_one(int64_t number) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return line_of({Ending::Finding, "no pipe"});
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setpgid(0, 0);
      set_limits();
      write_all(ends[1], work(number));
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(ends[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(got));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(pid, &status, 0);
    ::kill(-pid, SIGKILL);  // a compiler that it left
    std::string outcome = text.substr(0, text.find('\n') + 1);
    if (WIFSIGNALED(status)) {
      outcome = line_of({Ending::Finding, WTERMSIG(status) == SIGALRM ? fmt::format("more than {} s", kSeconds)
                                                                      : fmt::format("signal {}", WTERMSIG(status))});
    } else if (outcome.empty()) {
      outcome = line_of({Ending::Finding, fmt::format("exit status {}", WEXITSTATUS(status))});
    }
    return outcome;
  }

  std::string work(int64_t number) {
    Seed& seed = *seeds_[static_cast<size_t>(number) % seeds_.size()];
    const Seed::Spoilt spoilt = seed.spoil(options_.seed, number / static_cast<int64_t>(seeds_.size()));
    const bool compile = options_.compile_every > 0 && Random(static_cast<uint64_t>(number)).below(options_.compile_every) == 0;
    if (options_.verbose) std::fprintf(stderr, "%ld: %s: %s\n", number, seed.name().c_str(), spoilt.edits.c_str());
    if (!options_.save.empty()) {  // before it can end the process; the parent keeps those of findings
      write_file_atomically(fs::path(options_.save) / fmt::format("{}_{}.{}", options_.seed, number, seed.is_archive() ? "pt2" : "txt"),
                            std::string_view(spoilt.bytes));
    }
    return line_of(run_mutant(spoilt.bytes, seed.is_archive(), session_, seen_, {.compile = compile}));
  }

  const Options& options_;
  std::vector<std::unique_ptr<Seed>>& seeds_;
  CompileSession& session_;
  SeenPrograms& seen_;
  int output_;
};

// The text without the numbers and names that differ from mutant to mutant.
std::string cause_of(std::string_view text) {
  std::string cause;
  for (char c : text.substr(0, 160)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) cause += c;
  }
  return cause;
}

int campaign(const Options& options) {
  if (!options.save.empty()) fs::create_directories(options.save);
  CompileSession session(false);
  session.toolchain();  // probed once
  SeenPrograms seen;
  std::vector<std::unique_ptr<Seed>> seeds = read_seeds(options);
  for (const auto& seed : seeds) {  // the unspoilt ones must pass, and are known then
    if (options.verbose) std::fprintf(stderr, "seed %s\n", seed->name().c_str());
  }
  int ends[2];
  if (::pipe(ends) != 0) throw Error(ErrorKind::Environment, "no pipe");
  const Stopwatch watch;
  for (int job = 0; job < options.jobs; ++job) {
    if (::fork() != 0) continue;
    ::close(ends[0]);
    Worker(options, seeds, session, seen, ends[1]).run(options.first + job);
    ::_exit(0);
  }
  ::close(ends[1]);

  std::map<std::string, int64_t> endings;
  std::map<std::string, std::vector<int64_t>> causes;
  int64_t done = 0, slow = 0;
  double slowest = 0;
  FILE* lines = ::fdopen(ends[0], "r");
  char* line = nullptr;
  size_t capacity = 0;
  while (::getline(&line, &capacity, lines) > 0) {
    const std::string text(line, std::strcspn(line, "\n"));
    const size_t first_tab = text.find('\t'), second_tab = text.find('\t', first_tab + 1), third_tab = text.find('\t', second_tab + 1);
    if (third_tab == text.npos) continue;
    const int64_t number = std::stoll(text.substr(0, first_tab));
    const double seconds = std::stod(text.substr(first_tab + 1, second_tab - first_tab - 1));
    const std::string ending = text.substr(second_tab + 1, third_tab - second_tab - 1), message = text.substr(third_tab + 1);
    ++endings[ending];
    ++done;
    slowest = std::max(slowest, seconds);
    slow += seconds > kSlowSeconds;
    Seed& seed = *seeds[static_cast<size_t>(number) % seeds.size()];
    const bool is_finding = ending == kEndings[static_cast<size_t>(Ending::Finding)];
    if (is_finding) causes[cause_of(message)].push_back(number);
    if (is_finding || options.verbose || (ending == kEndings[static_cast<size_t>(Ending::OneSided)] && options.count <= 1000)) {
      std::printf("%s %ld (%s, %.1f s): %s\n", ending.c_str(), number, seed.name().c_str(), seconds, message.c_str());
      std::fflush(stdout);
    }
    if (!options.save.empty() && !is_finding) {
      std::error_code ignored;
      fs::remove(fs::path(options.save) / fmt::format("{}_{}.{}", options.seed, number, seed.is_archive() ? "pt2" : "txt"), ignored);
    }
    if (done % 5000 == 0) std::fprintf(stderr, "%ld of %ld, %.0f s\n", done, options.count, watch.seconds());
  }
  std::free(line);
  std::fclose(lines);
  while (::wait(nullptr) > 0) {
  }
  for (const auto& [cause, numbers] : causes) {
    std::printf("%zu times, first %ld: %s\n", numbers.size(), numbers[0], cause.c_str());
  }
  for (const auto& [ending, times] : endings) std::printf("%ld %s, ", times, ending.c_str());
  std::printf("%ld over %.0f s, slowest %.1f s\n", slow, kSlowSeconds, slowest);
  const int64_t findings = endings[kEndings[static_cast<size_t>(Ending::Finding)]];
  std::printf("%ld mutants, %ld findings, %.0f s\n", done, findings, watch.seconds());
  return findings > 0 || done < options.count ? 1 : 0;
}

int replay(const Options& options) {
  CompileSession session(false);
  SeenPrograms seen;
  int findings = 0;
  for (const std::string& path : options.replay) {
    set_limits();
    const Outcome outcome = run_mutant(read_file(path), path.ends_with(".pt2"), session, seen, {});
    findings += outcome.ending == Ending::Finding;
    std::printf("%s: %s", path.c_str(), line_of(outcome).c_str());
  }
  return findings > 0 ? 1 : 0;
}

int run_command(int argc, char** argv) {
  Options options;
  cli::Flags flags("mutate_models", "Spoils models and looks for crashes and differences.");
  flags.add_option("files", options.files, "models (.pt2), programs in text form (.txt), folders of them");
  flags.add_option("--seed", options.seed, "which mutants");
  flags.add_option("--count", options.count, "how many");
  flags.add_option("--first", options.first, "the number of the first one");
  flags.add_option("--jobs", options.jobs, "at a time");
  flags.add_option("--grown", options.grown, "so many random programs in text form as well");
  flags.add_option("--compile-every", options.compile_every, "compile one in so many of those that are accepted; 0: none");
  flags.add_option("--save", options.save, "folder for the findings");
  flags.add_flag("--verbose", options.verbose, "say every mutant and its end");
  flags.add_option("--replay", options.replay, "run saved mutants");
  if (const auto status = flags.read(argc, argv)) return *status;
  return options.replay.empty() ? campaign(options) : replay(options);
}

}  // namespace
}  // namespace toroid::mutate

int mutate_models(int argc, char** argv) { return toroid::mutate::run_command(argc, argv); }
