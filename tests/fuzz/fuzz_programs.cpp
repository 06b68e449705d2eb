// fuzz_programs: makes random programs, compiles them, and compares what they compute with a reference.
//
//   fuzz_programs --seed 1 --count 500 --jobs 2          docs/testing.md says more
//   fuzz_programs --replay tests/programs/NAME.txt       one program again
//   fuzz_programs --seed 1 --print 17                    the text of program 17
//   fuzz_programs --seed 1 --count 1000 --operators      which operators they have
//
// Programs are checked in child processes, a batch in each, so a crash or a hang costs one program and is a finding.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file/file.h"
#include "flags/flags.h"
#include "fuzz/check.h"
#include "fuzz/grow.h"
#include "fuzz/shrink.h"
#include "support/process/subprocess.h"

namespace toroid::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kProgramSeconds = 60;  // a program that takes longer hangs
constexpr int64_t kBatch = 25;            // programs a child process

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasSanitizer = true;  // which reserves the address space
#else
constexpr bool kHasSanitizer = false;
#endif

// Of this process and each of its children. Making a program smaller runs the reference here, and what is left out may be what kept a
// size small.
void limit_memory() {
  constexpr rlim_t kBytes = rlim_t{8} << 30;
  const rlimit memory = {kBytes, kBytes};
  if (!kHasSanitizer) ::setrlimit(RLIMIT_AS, &memory);
}

struct Options {
  uint64_t seed = 1;
  int64_t count = 100;
  int64_t first = 0;
  double time_limit = 0;
  int jobs = 1;
  std::string save = ".";
  bool no_shrink = false;
  int64_t most_failures = 0;
  int64_t print = -1;
  bool operators = false;
  std::vector<std::string> replay;
  int64_t worker_end = -1;
  std::string self;
};

uint64_t seed_of(const Options& options, int64_t number) { return Random(options.seed * 0x10001 + static_cast<uint64_t>(number)).bits(); }

// Enough elements that a kernel is run in several pieces.
bool has_work_for_threads(const Program& program) {
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [&](const Input& input) { return numel(sizes_in(input.sizes, program.runs[0])) > 16384; });
}

// The compiler's real flags and the unoptimised form take longer: a part of the programs get them.
CheckOptions check_options(int64_t number, const Program& program) {
  return {.plain = number % 4 == 1,
          .optimization = number % 4 == 0 ? 3 : 1,
          .threads = number % 3 == 0 || has_work_for_threads(program) ? 2 : 1,
          .forms = number % 4 == 3,
          .variants = number % 4 == 2};
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// ---- child processes -------------------------------------------------------------------------------------------------------------

int work(const Options& options) {
  CompileSession session(false);
  for (int64_t number = options.first; number < options.worker_end; ++number) {
    std::printf("begin %ld\n", number);
    std::fflush(stdout);
    alarm(kProgramSeconds);
    const Program program = Grower(seed_of(options, number)).grow();
    const CheckResult result = check(session, program, check_options(number, program));
    alarm(0);
    if (result.failure) {
      std::printf("fail %ld %s\t%s\n", number, result.failure->kind.c_str(), one_line(result.failure->message).c_str());
    }
    std::printf("done %ld %ld %ld %d %zu\n", number, result.compared, result.skipped, result.kernels, program.nodes.size());
    std::fflush(stdout);
  }
  return 0;
}

int replay(const Options& options) {
  int failures = 0;
  CompileSession session(false);
  for (const std::string& path : options.replay) {
    alarm(kProgramSeconds);
    const Program program = parse_program(read_file(path));
    const CheckResult result = check(session, program, {});
    if (result.failure) {
      ++failures;
      std::printf("fail 0 %s\t%s\n", result.failure->kind.c_str(), one_line(result.failure->message).c_str());
    } else if (result.compared <= result.skipped) {
      ++failures;
      std::printf("fail 0 nothing\t%s: nothing was compared (%ld elements left out)%s\n", path.c_str(), result.skipped,
                  result.refusal.empty() ? "" : (": the reference refuses the program: " + one_line(result.refusal)).c_str());
    } else {
      std::printf("%s: the same, %ld elements compared, %ld left out\n", path.c_str(), result.compared, result.skipped);
    }
    std::fflush(stdout);
  }
  return failures > 0 ? 1 : 0;
}

void count(const std::vector<Node>& nodes, std::map<std::string, int64_t>& counts) {
  for (const Node& node : nodes) {
    ++counts[node.call.substr(0, node.call.find('('))];
    for (const Body& body : node.bodies) count(body.nodes, counts);
  }
}

int count_operators(const Options& options) {
  std::map<std::string, int64_t> counts;
  for (int64_t number = options.first; number < options.first + options.count; ++number) {
    Grower grower(seed_of(options, number));
    count(grower.grow().nodes, counts);
    ++counts[fmt::format("theme: {}", grower.theme().name)];
    for (const std::string& fault : grower.faults) std::printf("%ld: %s\n", number, fault.c_str());
  }
  for (const auto& [name, times] : counts) std::printf("%8ld %s\n", times, name.c_str());
  return 0;
}

struct Finding {
  int64_t number;
  Failure failure;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

std::optional<Finding> finding_in(const std::string& line) {
  if (!line.starts_with("fail ")) return std::nullopt;
  const size_t space = line.find(' ', 5);
  const size_t tab = line.find('\t');
  return Finding{std::stoll(line.substr(5, space - 5)), {line.substr(space + 1, tab - space - 1), line.substr(tab + 1)}};
}

std::string crash_kind(const ProcessResult& result) {
  if (result.signal == SIGALRM || result.timed_out) return "hang";
  return "crash";  // by which signal differs from run to run
}

std::string last_lines(const std::string& text) { return one_line(text.substr(text.size() < 600 ? 0 : text.size() - 600)); }

// ---- the parent ------------------------------------------------------------------------------------------------------------------

class Campaign {
 public:
  explicit Campaign(const Options& options) : options_(options), next_(options.first) {}

  int run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.jobs; ++i) threads.emplace_back([this] { run_batches(); });
    for (std::thread& thread : threads) thread.join();
    const double seconds = watch_.seconds();
    std::printf("%ld elements compared, %ld left out; %ld operators, %ld kernels\n", compared_, skipped_, operators_, kernels_);
    if (!options_.no_shrink) save_findings();
    std::printf("%ld programs, %zu failures, %.0f programs/hour\n", programs_, findings_.size(),
                static_cast<double>(programs_) * 3600 / seconds);
    return findings_.empty() ? 0 : 1;
  }

 private:
  bool is_over() {
    if (options_.time_limit > 0 && watch_.seconds() > options_.time_limit) return true;
    const std::scoped_lock lock(mutex_);
    return options_.most_failures > 0 && static_cast<int64_t>(findings_.size()) >= options_.most_failures;
  }

  void run_batches() {
    while (!is_over()) {
      const int64_t begin = next_.fetch_add(kBatch);
      const int64_t end = std::min(begin + kBatch, options_.first + options_.count);
      for (int64_t at = begin; at < end && !is_over();) at = run_batch(at, end);
      if (begin >= end) return;
    }
  }

  // Checks programs [begin, end) in one child; returns where the next child has to go on.
  int64_t run_batch(int64_t begin, int64_t end) {
    const ProcessResult result = run_process({.argv = {options_.self, "--seed", std::to_string(options_.seed), "--first",
                                                       std::to_string(begin), "--worker-end", std::to_string(end)},
                                              .timeout = std::chrono::seconds(kProgramSeconds * kBatch)});
    const std::scoped_lock lock(mutex_);
    int64_t last = begin;
    int64_t done = begin;
    for (const std::string& line : lines_of(result.output)) {
      if (line.starts_with("begin ")) last = std::stoll(line.substr(6));
      if (line.starts_with("done ")) {
        long number = 0;
        long compared = 0;
        long skipped = 0;
        int kernels = 0;
        long nodes = 0;
        std::sscanf(line.c_str(), "done %ld %ld %ld %d %ld", &number, &compared, &skipped, &kernels, &nodes);
        done = number + 1;
        ++programs_;
        compared_ += compared;
        skipped_ += skipped;
        kernels_ += kernels;
        operators_ += nodes;
      }
      if (std::optional<Finding> finding = finding_in(line)) add(std::move(*finding));
    }
    if (result.ok()) return end;
    if (done <= last) {
      ++programs_;
      add({last, {crash_kind(result), result.outcome() + ": " + last_lines(result.errors)}});
    }
    return last + 1;
  }

  void add(Finding finding) {
    std::printf("program %ld: %s: %s\n", finding.number, finding.failure.kind.c_str(), finding.failure.message.c_str());
    std::fflush(stdout);
    findings_.push_back(std::move(finding));
  }

  std::optional<Failure> replayed(const Program& program) const {
    const TempFolder folder;
    const fs::path path = folder.path() / "program.txt";
    write_file_atomically(path, std::string_view(to_text(program)));
    const ProcessResult result =
        run_process({.argv = {options_.self, "--replay", path.string()}, .timeout = std::chrono::seconds(kProgramSeconds + 10)});
    for (const std::string& line : lines_of(result.output)) {
      if (std::optional<Finding> finding = finding_in(line)) return finding->failure;
    }
    if (result.ok()) return std::nullopt;
    return Failure{crash_kind(result), result.outcome()};
  }

  // One file a kind of error; each mismatch gets its own.
  void save_findings() {
    std::map<std::string, int> saved;
    for (const Finding& finding : findings_) {
      if (saved[finding.failure.kind]++ >= (finding.failure.kind.starts_with("error") ? 1 : 8)) continue;
      Program program = Grower(seed_of(options_, finding.number)).grow();
      const auto fails = [&](const Program& candidate) {
        const std::optional<Failure> failure = replayed(candidate);
        return failure && failure->kind == finding.failure.kind;
      };
      if (fails(program)) program = shrink(std::move(program), fails);
      program.comments.push_back(fmt::format("seed {} program {}: {}: {}", options_.seed, finding.number, finding.failure.kind,
                                             finding.failure.message.substr(0, 160)));
      const fs::path path = fs::path(options_.save) / fmt::format("seed{}_program{}.txt", options_.seed, finding.number);
      fs::create_directories(options_.save);
      write_file_atomically(path, std::string_view(to_text(program)));
      std::printf("%s: %zu operators\n%s\n", path.c_str(), program.nodes.size(), to_text(program).c_str());
      std::fflush(stdout);
    }
  }

  const Options& options_;
  Stopwatch watch_;
  std::atomic<int64_t> next_;
  std::mutex mutex_;
  std::vector<Finding> findings_;
  int64_t programs_ = 0;
  int64_t compared_ = 0;
  int64_t skipped_ = 0;
  int64_t kernels_ = 0;
  int64_t operators_ = 0;
};

int run(int argc, char** argv) {
  Options options;
  options.self = fs::read_symlink("/proc/self/exe").string();
  cli::Flags flags("fuzz_programs", "Makes random programs and compares what they compute with a reference.");
  flags.add_option("--seed", options.seed, "which programs");
  flags.add_option("--count", options.count, "how many");
  flags.add_option("--first", options.first, "the number of the first one");
  flags.add_option("--time-limit", options.time_limit, "seconds; 0: none");
  flags.add_option("--jobs", options.jobs, "child processes at a time");
  flags.add_option("--save", options.save, "folder for failing programs");
  flags.add_option("--stop-at", options.most_failures, "stop after this many failures; 0: never");
  flags.add_flag("--no-shrink", options.no_shrink, "only report failures");
  flags.add_option("--print", options.print, "print the program of this number");
  flags.add_flag("--operators", options.operators, "count the operators of the programs; compile nothing");
  flags.add_option("--replay", options.replay, "check programs in files");
  flags.add_option("--worker-end", options.worker_end, "used by child processes");
  if (const auto status = flags.read(argc, argv)) return *status;
  limit_memory();
  if (options.print >= 0) {
    std::printf("%s", to_text(Grower(seed_of(options, options.print)).grow()).c_str());
    return 0;
  }
  if (options.operators) return count_operators(options);
  if (!options.replay.empty()) return replay(options);
  if (options.worker_end >= 0) return work(options);
  return Campaign(options).run();
}

}  // namespace
}  // namespace toroid::fuzz

int fuzz_programs(int argc, char** argv) { return toroid::fuzz::run(argc, argv); }
