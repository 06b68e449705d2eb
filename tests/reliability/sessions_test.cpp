// Whole compilations: every input of a key that changes is a miss; folders that forbid execution; compilers that misbehave; and many
// compilations in one process, after which it holds no more than before.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/fd.h"
#include "driver/compile.h"
#include "graph/text/text.h"
#include "reliability.h"
#include "support/pattern_for_test.h"
#include "support/process/subprocess.h"
#include "tensor/host_tensor.h"

namespace toroid::reliability {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Sets variables and gives them back.
class Environment {
 public:
  void set(const std::string& name, const std::string& value) {
    if (!before_.contains(name))
      before_[name] = std::getenv(name.c_str()) ? std::optional<std::string>(std::getenv(name.c_str())) : std::nullopt;
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

std::string program_adding(int number) {
  return fmt::format("graph(x: f32[64]) {{\n  y: f32[64] = aten::add.Scalar(x, {}.0)\n  return y\n}}", number);
}

bool adds(const CompiledModel& model, int number) {
  Executable program = model.load(1);
  const HostTensor x = HostTensor::from_doubles(DType::F32, {64}, std::vector<double>(64, 2));
  return program.run({&x, 1})[0].double_at(63) == number + 2;
}

class Sessions : public testing::Test {
 protected:
  Sessions() { environment_.set("TOROID_CACHE_DIR", (folder_.path() / "cache").string()); }
  std::string cache_use(int number = 1) { return CompileSession().compile(parse_text(program_adding(number))).cache_use; }
  fs::path script(const std::string& name, const std::string& body) {
    write_file_atomically(folder_.path() / name, "#!/bin/sh\n" + body + "\n", 0777);
    return folder_.path() / name;
  }

  TempFolder folder_ = quick_folder();
  Environment environment_;
};

using Keys = Sessions;

TEST_F(Keys, OtherBytesOfTheCompilerAreAMiss) {
  const fs::path compiler = script("g++", "exec " + find_compiler().path.string() + " \"$@\"");
  environment_.set("TOROID_CXX", compiler.string());
  EXPECT_EQ(cache_use(), "miss");
  EXPECT_EQ(cache_use(), "hit: graph");
  script("g++", "exec " + find_compiler("g++").path.string() + " \"$@\" # patched");  // answers --version as before
  EXPECT_EQ(cache_use(), "miss");
}

// The same command but for a byte of the name that its linker gave it.
TEST_F(Keys, AnotherBuildOfToroidIsAMiss) {
  const fs::path original = TOROID_COMMAND, other = folder_.path() / "toroid";
  const std::string digits = (fs::path(TOROID_SOURCE_DIR) / "examples/digits/digits.pt2").string();
  auto said_by = [&](const fs::path& command) {
    const ProcessResult result = run_process({.argv = {command.string(), "compile", digits, "-o", (folder_.path() / "out.so").string()}});
    EXPECT_TRUE(result.ok()) << result.errors;
    return result.errors;
  };
  said_by(original);
  EXPECT_NE(said_by(original).find("hit: model file"), std::string::npos);
  std::string bytes = read_file(original);
  const size_t note = bytes.find(std::string("\x14\0\0\0\x03\0\0\0GNU\0", 12));  // 20 bytes of NT_GNU_BUILD_ID
  ASSERT_NE(note, bytes.npos) << "toroid is linked with a build id";
  bytes[note + 12] = static_cast<char>(bytes[note + 12] ^ 1);
  write_file_atomically(other, bytes, 0777);
  fs::create_directory_symlink(original.parent_path() / "run_side", folder_.path() / "run_side");
  EXPECT_EQ(said_by(other).find("hit: model file"), std::string::npos);
  EXPECT_NE(said_by(other).find("hit: model file"), std::string::npos) << "its own entry";
}

TEST_F(Sessions, WorkWhereFoldersForbidExecution) {
  // Only root may mount, and only in a name space of its own.
  const fs::path here = folder_.path() / "mounted";
  fs::create_directory(here);
  const int status = status_of_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", here.c_str(), "tmpfs", MS_NOEXEC, "size=64m,mode=700") != 0) {
      return 7;
    }
    ::setenv("TOROID_CACHE_DIR", (here / "cache").c_str(), 1);
    ::setenv("TMPDIR", here.c_str(), 1);
    for (const char* expected : {"miss", "hit: graph"}) {
      const CompiledModel model = CompileSession().compile(parse_text(program_adding(3)));
      if (model.cache_use != expected) return 1;
      if (!adds(model, 3)) return 2;
    }
    return 0;
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 7) GTEST_SKIP() << "mounting needs root: nothing of this was tested";
  EXPECT_EQ(status, 0);
}

// ---- compilers ------------------------------------------------------------------------------------------------------------

struct BadCompiler {
  const char* what;
  const char* body;   // after the answers to --version and -print-prog-name
  const char* words;  // of the error
};
TEST_F(Sessions, EndWithTheCommandWhenTheCompilerMisbehaves) {
  const Result result;
  const BadCompiler compilers[] = {
      {"hangs", "sleep 1000", "did not end within its time"},
      {"hangs and will not be asked", "trap '' TERM; while :; do sleep 1000; done", "did not end within its time"},
      {"leaves others behind that hang", "sleep 1000 & sleep 1000 & echo $! > \"$out.id\"; exit 0", "succeeded but wrote no library"},
      {"crashes", "kill -SEGV $$", "killed by signal 11"},
      {"is killed for memory", "kill -KILL $$", "killed by signal 9"},
      {"writes nothing", "exit 0", "succeeded but wrote no library"},
      {"writes junk", "echo junk > \"$out\"", "succeeded but wrote no library"},
      {"writes half a library", "printf '\\177ELF\\002\\001\\001' > \"$out\"", ""},
      {"has very much to say",
       is_full() ? "head -c 1000000000 /dev/zero | tr '\\0' 'e' >&2; exit 1" : "head -c 30000000 /dev/zero | tr '\\0' 'e' >&2; exit 1",
       "exited with status 1"},
      {"has much to say and never ends", "yes 'error: again' >&2", "did not end within its time"},
      {"closes its streams and hangs", "exec >&- 2>&-; sleep 1000", "did not end within its time"},
  };
  const std::string seconds = fmt::format("1000.{}", ::getpid());  // tells our sleepers from those of others
  environment_.set("TOROID_ISA", "baseline");
  environment_.set("TMPDIR", folder_.path().string());  // sources of failures are kept there
  for (const BadCompiler& each : compilers) {
    const double limit = !std::string_view(each.words).starts_with("did not end") ? 60 : is_full() ? 5 : 0.2;
    environment_.set("TOROID_COMPILE_TIMEOUT_S", fmt::format("{}", limit));
    environment_.set("TOROID_CXX", script("g++",
                                          "case \"$1\" in --version) echo 'g++ (Fake) 1.0'; exit;; -print-prog-name=*) exit;; esac\n"
                                          "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n" +
                                              replaced_matches(each.body, "sleep 1000", "sleep " + seconds))
                                       .string());
    const Stopwatch watch;
    try {
      const CompiledModel model = CompileSession().compile(parse_text(program_adding(5)));
      model.load(1);
      ADD_FAILURE() << each.what << ": no error";
    } catch (const Error& error) {
      const std::string report = error.report();
      EXPECT_TRUE(error.kind() == ErrorKind::ToolFailed || error.kind() == ErrorKind::Environment) << each.what << report;
      EXPECT_NE(report.find(each.words), std::string::npos) << each.what << ": " << report;
      EXPECT_TRUE(report.find("command: ") != std::string::npos || *each.words == '\0') << each.what << ": " << report;
      EXPECT_LT(report.size(), 8000u) << each.what;
    }
    EXPECT_LT(watch.seconds(), 1000) << each.what;
  }
  // Nobody is left who was started from the folder or by those who were.
  auto orphans = [&] {
    int64_t count = 0;
    for (const auto& process : fs::directory_iterator("/proc")) {
      std::string command;
      try {
        command = read_file(process.path() / "cmdline");
      } catch (const Error&) {
        continue;
      }
      count += command.find(folder_.path().string()) != command.npos || command.find(seconds) != command.npos;
    }
    return count;
  };
  for (const Stopwatch watch; orphans() != 0 && watch.seconds() < 5;) ::usleep(10'000);  // the kernel may take a moment to end them
  EXPECT_EQ(orphans(), 0);
  environment_.set("TOROID_CXX", "g++");
  environment_.set("TOROID_COMPILE_TIMEOUT_S", "60");
  EXPECT_EQ(cache_use(5), "miss") << "what failed left nothing in the cache";
  result.say("{} compilers that misbehave: an error with the command within the limit and 5 s, 0 processes left", std::size(compilers));
}

// ---- long use ---------------------------------------------------------------------------------------------------------------

struct Holdings {
  int64_t memory_bytes = 0, files = 0, threads = 0, mappings = 0, temporaries = 0;
};

Holdings holdings_of(const fs::path& temporary) {
  Holdings now;
  const std::string status = read_file("/proc/self/status");
  auto number_after = [&](const char* label) {
    return std::strtoll(status.c_str() + status.find(label) + std::strlen(label), nullptr, 10);
  };
  now.memory_bytes = (number_after("RssAnon:") + number_after("RssShmem:")) * 1024;
  now.threads = number_after("Threads:");
  now.files = std::distance(fs::directory_iterator("/proc/self/fd"), {});
  const std::string maps = read_file("/proc/self/maps");
  now.mappings = std::count(maps.begin(), maps.end(), '\n');
  now.temporaries = std::distance(fs::directory_iterator(temporary), {});
  return now;
}

TEST_F(Sessions, HoldNoMoreAfterLongUse) {
  const Result result;
  const fs::path temporary = folder_.path() / "temporary";
  fs::create_directory(temporary);
  environment_.set("TMPDIR", temporary.string());
  environment_.set("TOROID_CACHE_SIZE", "200K");  // evicts
  environment_.set("TOROID_ISA", "baseline");
  const std::string good = find_compiler().path.string();
  const fs::path failing = script("g++", "case \"$1\" in --version) echo 'g++ (Fake) 1.0'; exit;; -print-prog-name=*) exit;; esac\nexit 1");
  const int64_t warm_up = times(4, 150), rounds = times(8, 600);
  CompileModelOptions quick;
  quick.optimization = 0;
  Holdings first, last;
  int64_t errors = 0, hits = 0;
  for (int64_t round = 0; round < warm_up + rounds; ++round) {
    if (round == warm_up) first = holdings_of(temporary);
    const int number = static_cast<int>(round % 4 == 3 ? round - 1 : round);  // every fourth is in the cache
    const bool is_bad = round % 5 == 4;
    environment_.set("TOROID_CXX", is_bad ? failing.string() : good);
    try {
      const CompiledModel model = CompileSession().compile(parse_text(program_adding(number)), quick);
      ASSERT_TRUE(adds(model, number)) << round;
      hits += model.cache_use.starts_with("hit");
    } catch (const Error& error) {
      ASSERT_TRUE(is_bad) << error.report();
      ++errors;
      for (const auto& kept : fs::directory_iterator(temporary)) fs::remove_all(kept);  // sources of failures, for a user to look at
    }
    if (round % 10 == 9) {  // an entry that a disk spoilt
      std::string bytes = read_file(folder_.path() / "cache/store-v2.db");
      const size_t library = bytes.find(
          "\x7f"
          "ELF");
      if (library != bytes.npos) {
        const Fd fd(::open((folder_.path() / "cache/store-v2.db").c_str(), O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::pwrite(fd.get(), "?", 1, static_cast<off_t>(library)), 1);
      }
    }
  }
  last = holdings_of(temporary);
  EXPECT_GT(errors, 0);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(last.files, first.files);
  EXPECT_EQ(last.threads, first.threads);
  EXPECT_EQ(last.temporaries, 0);
  EXPECT_LE(last.mappings, first.mappings + 4);
  if (!kIsSanitized) {
    EXPECT_LE(last.memory_bytes - first.memory_bytes, times(4 << 20, 3 << 20));
  }
  result.say(
      "{} compilations after {} to warm up, {} failed, {} hits, evictions and spoilt entries: {:+} KiB, {:+} files, {:+} threads, {:+} "
      "mappings",
      rounds, warm_up, errors, hits, (last.memory_bytes - first.memory_bytes) / 1024, last.files - first.files,
      last.threads - first.threads, last.mappings - first.mappings);
}

}  // namespace
}  // namespace toroid::reliability
