#include "toolchain/toolchain.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <map>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "base/file/loaded_library.h"
#include "base/machine/processors.h"
#include "support/pattern_for_test.h"
#include "support/process/subprocess.h"
#include "toolchain/extra_flags.h"
#include "toolchain/fake_compiler_for_test.h"

namespace toroid {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::string_view kDouble = R"(
extern "C" void twice(const float* x, float* out, long n) {
  for (long i = 0; i < n; ++i) out[i] = 2.0f * x[i];
}
)";

// One toolchain for all tests: the probe takes a tenth of a second.
const Toolchain& tools() {
  static const Toolchain instance;
  return instance;
}

// Compiles with a compiler that fails and gives the report, the paths of this run replaced by words.
std::string failure_of(const FakeCompiler& fake, std::chrono::milliseconds timeout = 20s) {
  const Error error = error_of([&] { fake.toolchain(timeout).compile_shared("int source;", {.name = "relu add"}); });
  EXPECT_EQ(error.kind(), ErrorKind::ToolFailed);
  std::string report = error.report();
  if (const auto kept = matches_in(report, "kept in (\\S+)"); !kept.empty()) {
    EXPECT_EQ(read_file(kept[0][1]), "int source;");
    fs::remove_all(fs::path(kept[0][1]).parent_path());
  }
  report = replaced_matches(report, fake.path().string().replace(fake.path().string().size() - 3, 3, "g\\+\\+"), "FAKE");
  report = replaced_matches(report, "FAKE .* -o \\S+", "FAKE …");
  report = replaced_matches(report, "/\\S*/toroid-failed-[^/]*/", "KEPT/");
  return replaced_matches(report, "after [0-9.]+ s", "after T s");
}

TEST(Toolchain, CompilesLinksLoadsAndRuns) {
  const std::string library = tools().compile_shared(kDouble, {.name = "twice"});
  const LoadedLibrary loaded(library, "twice");
  const float x[3] = {1, 2, 3};
  float out[3];
  loaded.function<void(const float*, float*, long)>("twice")(x, out, 3);
  EXPECT_EQ(out[2], 6.0f);
}

TEST(Toolchain, LinksSeveralObjectsIntoOneLibrary) {
  const std::vector<std::string> objects = {
      tools().compile_object("extern \"C\" int one() { return 1; }"),
      tools().compile_object("extern \"C\" int one(); extern \"C\" int two() { return one() + one(); }")};
  const LoadedLibrary loaded(tools().link_shared(objects), "two");
  EXPECT_EQ(loaded.function<int()>("two")(), 2);
}

TEST(Toolchain, MathFunctionsNeedNoHeader) {
  // Neither the vector nor the scalar exp is known to the loading process: the library brings its own dependency.
  const LoadedLibrary loaded(tools().compile_shared(R"(
#if defined(__x86_64__)
typedef float vec __attribute__((vector_size(16)));
extern "C" vec _ZGVbN4v_expf(vec);
extern "C" float f(float x) { return _ZGVbN4v_expf(vec{x, x, x, x})[3]; }
#else
extern "C" float expf(float);
extern "C" float f(float x) { return expf(x); }
#endif
)"),
                             "exp");
  EXPECT_NEAR(loaded.function<float(float)>("f")(1.0f), 2.718282f, 1e-6f);
}

TEST(Toolchain, FailuresNameWhatTheLineWasMadeFor) {
  const FakeCompiler fake(
      "echo '<stdin>: In function:' >&2; echo '<stdin>:12:3: warning: odd' >&2; echo '<stdin>:34:5: error: bad' >&2; exit 1");
  CompileOptions options{.name = "relu add", .origin_of_line = [](size_t line) { return fmt::format("line {}", line); }};
  const Error error = error_of([&] { fake.toolchain().compile_object("int source;", options); });
  EXPECT_NE(error.report().find("generated for line 34"), std::string::npos) << error.report();
  const FakeCompiler vague("echo 'cc1plus: error: something is wrong' >&2; exit 1");
  EXPECT_EQ(error_of([&] { vague.toolchain().compile_object("int source;", options); }).report().find("generated for"), std::string::npos);
}

// A compiler that writes its arguments into its product.
const FakeCompiler& echo() {
  static const FakeCompiler fake("printf '\\177ELF' > \"$out\"; cat /proc/$$/cmdline | tr '\\0' ' ' >> \"$out\"");
  return fake;
}

TEST(Toolchain, TheUsersFlagsComeLast) {
  const ScopedVariable variable("TOROID_CXXFLAGS", "  -O2\t-DONE=1 ");
  const Toolchain tools = echo().toolchain();
  const CompileOptions options{.extra_flags = {"-fno-inline"}};
  const std::string command = tools.compile_object("int x;", options);
  EXPECT_LT(command.find("-O3"), command.find("-O2 -DONE=1 -fno-inline")) << command;
  EXPECT_NE(command.find("-O2 -DONE=1 -fno-inline"), std::string::npos) << command;
  EXPECT_NE(tools.link_shared({}, options).find("-O2 -DONE=1 -fno-inline"), std::string::npos);
  const std::vector<std::string> flags = tools.flags(options);
  for (const char* flag : {"-O2", "-DONE=1", "-fno-inline"}) EXPECT_EQ(std::count(flags.begin(), flags.end(), flag), 1) << flag;
}

TEST(Toolchain, FlagsThatSayLessThanTheyDoAreRefused) {
  for (const char* flag : {"-include/etc/passwd", "-o", "-march=native", "-mtune=native", "@file", "-fplugin=x.so", "-fprofile-use=x",
                           "-Wl,-Tx", "x.cpp", "-", "-specs=x", "--sysroot=/", "-I/usr", "-c", "-save-temps"}) {
    const Error error = error_of([&] { check_extra_flags({flag}); });
    EXPECT_EQ(error.kind(), ErrorKind::InvalidOption) << flag;
    EXPECT_NE(error.message().find(flag), std::string::npos) << error.report();
  }
  const ScopedVariable variable("TOROID_CXXFLAGS", "-O2 -march=native");
  const Error error = error_of([] { Toolchain tools; });
  EXPECT_NE(error.report().find("while reading TOROID_CXXFLAGS"), std::string::npos) << error.report();
}

TEST(Toolchain, FlagsThatAddInstructionsAreRefused) {
  for (const char* flag : {"-mavx512f", "-march=sapphirerapids", "-mamx-tile", "-mcpu=native2"}) {
    EXPECT_EQ(error_of([&] { check_extra_flags({flag}); }).report(),
              fmt::format("error: the compiler flag '{}' is not allowed: it may add instructions that the program does not say it needs\n"
                          "  help: TOROID_ISA chooses the instructions, as in TOROID_ISA=avx512+bf16",
                          flag));
  }
  EXPECT_NO_THROW(check_extra_flags({"-mtune=generic", "-mno-avx512f", "-mprefer-vector-width=256"}));
}

TEST(Toolchain, CompilersSeeOfTheEnvironmentOnlyWhatTheyNeed) {
  const FakeCompiler fake("printf '\\177ELF' > \"$out\"; env >> \"$out\"");
  const ScopedVariable secret("TOROID_REMOTE_CACHE", "redis://:password@host"), token("SOME_TOKEN", "secret"),
      key("AWS_SECRET_ACCESS_KEY", "secret"), password("TOROID_REDIS_PASSWORD", "secret"), include("CPATH", "/tmp/evil"),
      launcher("CCACHE_DIR", "/tmp/ccache"), prefix("COMPILER_PATH", "/opt/parts");
  const Toolchain tools = fake.toolchain();
  const std::string seen = tools.compile_object("int x;");
  for (const char* withheld : {"TOROID_", "SOME_TOKEN", "AWS_", "CPATH=", "secret", "password"})
    EXPECT_EQ(seen.find(withheld), std::string::npos) << withheld << seen;
  // Nothing that is not listed here; the last four are the shell's own.
  const std::string known(
      "PATH|HOME|TMPDIR|LC_ALL|COMPILER_PATH|GCC_EXEC_PREFIX|LD_LIBRARY_PATH|LD_PRELOAD|NIX_.*|XDG_(CACHE|CONFIG)_HOME|"
      "XDG_RUNTIME_DIR|(CCACHE|SCCACHE|DISTCC)_.*|ICECC.*|PWD|OLDPWD|SHLVL|_");
  std::istringstream lines(seen.substr(std::string_view("\177ELF").size()));
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(matches(line.substr(0, line.find('=')), known)) << line;
  for (const char* passed : {"\nPATH=", "CCACHE_DIR=/tmp/ccache", "COMPILER_PATH=/opt/parts", "LC_ALL=C.UTF-8", "TMPDIR="}) {
    EXPECT_NE(seen.find(passed), std::string::npos) << passed << seen;
  }
  EXPECT_EQ(Toolchain::environment().at("COMPILER_PATH"), "/opt/parts") << "what decides the result is in the key";
  EXPECT_EQ(Toolchain::environment().count("CCACHE_DIR"), 0u);
}

TEST(Toolchain, WorksWithoutAPath) {
  const std::string compiler = find_compiler().path.string();
  std::optional<ScopedVariable> path(std::in_place, "PATH", std::nullopt);
  const std::string library = Toolchain({.compiler = compiler, .isa = "baseline"}).compile_shared(kDouble);
  EXPECT_NO_THROW(LoadedLibrary(library, "twice").symbol("twice"));
  path.emplace("PATH", "/nowhere");
  const Error error = error_of([&] { Toolchain({.compiler = compiler, .isa = "baseline"}).compile_shared(kDouble); });
  EXPECT_NE(error.help_text().find("set PATH so that the compiler finds as and ld; "), std::string::npos) << error.report();
}

TEST(Toolchain, TheCompilersWordsStayWhereTheSourceCannotBeKept) {
  const TempFolder folder;
  // Takes its temporary folder away, in which there was room for it alone.
  const FakeCompiler fake("rm -rf " + (folder.path() / "full").string() + "; echo '<stdin>:1:5: error: no room' >&2; exit 1");
  std::filesystem::create_directory(folder.path() / "full");
  const Toolchain tools = fake.toolchain();
  const ScopedVariable variable("TMPDIR", (folder.path() / "full").string());
  const std::string report = error_of([&] { tools.compile_shared("int source;", {.name = "relu add"}); }).report();
  for (const char* words : {"exited with status 1 while it made the library 'relu add'\n    <stdin>:1:5: error: no room", "\n  command: ",
                            " < relu_add.cpp", "help: the source could not be kept (cannot create a temporary folder in "}) {
    EXPECT_NE(report.find(words), std::string::npos) << words << "\n" << report;
  }
}

TEST(Toolchain, WhatACompilerSaysOnStandardOutputIsNotLost) {
  const FakeCompiler fake("echo 'no licence for this compiler'; exit 1");
  const Error error = error_of([&] { fake.toolchain().compile_shared("int source;", {.name = "relu"}); });
  EXPECT_NE(error.message().find("exited with status 1 while it made the library 'relu'\n    no licence for this compiler"),
            std::string::npos)
      << error.message();
}

TEST(Toolchain, ADebugBuildIsOfASourceThatStays) {
  EXPECT_EQ(error_of([] { echo().toolchain().compile_shared("int x;", {.debug = true}); }).help_text(),
            "name one with TOROID_KEEP_FILES=DIR");
  const TempFolder folder;
  const ScopedVariable variable("TOROID_KEEP_FILES", folder.path().string());
  const CompileOptions options{.name = "unit 0", .debug = true};
  const std::string command = echo().toolchain().compile_object("int x;", options);
  const auto found = matches_in(command, folder.path().string() + "/unit_0-\\w+\\.cpp");
  ASSERT_EQ(found.size(), 1u) << command;
  const std::string source = found[0][0];
  EXPECT_EQ(read_file(source), "int x;");
  EXPECT_NE(command.find(" -O1 "), std::string::npos) << command;
  EXPECT_NE(command.find(" -g "), std::string::npos) << command;
  EXPECT_EQ(command.find(" - "), std::string::npos) << command;
  // And the command beside it makes the same again.
  EXPECT_TRUE(run_process({.argv = {"sh", replaced_matches(source, "cpp$", "sh")}}).ok());
  // A complaint is traced to the operator also when it names the file.
  const FakeCompiler broken("for name; do :; done; echo \"$(ls " + folder.path().string() + "/unit_0-*.cpp):7:1: error: bad\" >&2; exit 1");
  CompileOptions traced = options;
  traced.origin_of_line = [](size_t line) { return fmt::format("line {}", line); };
  EXPECT_NE(error_of([&] { broken.toolchain().compile_object("int x;", traced); }).report().find("generated for line 7"),
            std::string::npos);
}

TEST(Toolchain, NoMoreCompilersThanCoresRunAtOnce) {
  const TempFolder folder;
  const FakeCompiler fake(
      fmt::format("cd {}; mkdir run.$$; ls -d run.* | wc -l >> counts; sleep 0.05; rmdir run.$$; printf '\\177ELF' > \"$out\"",
                  folder.path().string()));
  const Toolchain tools = fake.toolchain();
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) threads.emplace_back([&] { tools.compile_object("int source;"); });
  for (std::thread& thread : threads) thread.join();
  std::istringstream counts(read_file(folder.path() / "counts"));
  int runs = 0;
  for (unsigned count = 0; counts >> count; ++runs) EXPECT_LE(count, static_cast<unsigned>(usable_processors()));
  EXPECT_EQ(runs, 12);
}

// Not with g++, which, short of memory, may collect garbage for minutes and get by.
TEST(Toolchain, ACompilerMayUseOnlySoMuchMemory) {
  const FakeCompiler fake("head -c 400000000 /dev/zero | tail -c 400000000 >/dev/null || exit 1; printf '\\177ELF' >\"$out\"");
  const Toolchain tools({.compiler = fake.path().string(), .isa = "baseline", .memory_limit_bytes = uint64_t{150} << 20});
  const Error error = error_of([&] { tools.compile_object("int vast;", {.name = "vast", .optimization = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::ToolFailed) << error.report();
  EXPECT_NE(error.report().find("the compiler may use 157 MB: allow more with TOROID_COMPILE_MEMORY"), std::string::npos) << error.report();
  const Toolchain roomy({.compiler = fake.path().string(), .isa = "baseline", .memory_limit_bytes = uint64_t{1} << 30});
  EXPECT_NO_THROW(roomy.compile_object("int vast;", {.name = "vast", .optimization = 1}));
}

TEST(Toolchain, ACompilerThatCrashesForWantOfMemorySaysSo) {
  const Toolchain starved({.isa = "baseline", .memory_limit_bytes = uint64_t{20} << 20});
  const Error error = error_of([&] { starved.compile_object("int x;", {.name = "x"}); });
  EXPECT_EQ(error.kind(), ErrorKind::ToolFailed);
  EXPECT_NE(error.message().find(", with 21.0 MB of memory, while it made the object 'x'"), std::string::npos) << error.report();
  EXPECT_NE(error.help_text().find("the compiler may use 21.0 MB: allow more with TOROID_COMPILE_MEMORY"), std::string::npos)
      << error.report();
  EXPECT_EQ(error.report().find("submit a full bug report"), std::string::npos) << error.report();
}

TEST(Toolchain, SameSourceGivesTheSameBytes) {
  EXPECT_EQ(tools().compile_shared(kDouble), tools().compile_shared(kDouble));
  EXPECT_EQ(tools().compile_object(kDouble), tools().compile_object(kDouble));
}

TEST(Toolchain, KeepsFloatSemantics) {
  const LoadedLibrary loaded(tools().compile_shared(R"(
extern "C" float cancel(float big, float small) { return (big + small) - big; }
extern "C" int is_nan(float x) { return x != x; }
extern "C" float minus_zero(float x) { return x + 0.0f; }
extern "C" double sum(const double* x, long n) { double s = 0; for (long i = 0; i < n; ++i) s += x[i]; return s; }
)"),
                             "floats");
  EXPECT_EQ(loaded.function<float(float, float)>("cancel")(1e10f, 1.0f), 0.0f);
  EXPECT_EQ(loaded.function<int(float)>("is_nan")(__builtin_nanf("")), 1);
  EXPECT_FALSE(std::signbit(loaded.function<float(float)>("minus_zero")(-0.0f)));
  std::vector<double> values(64, 1.0);
  values[0] = 1e16;
  EXPECT_EQ(loaded.function<double(const double*, long)>("sum")(values.data(), 64), 1e16) << "sums keep their order";
}

TEST(Toolchain, ContractionCanBeSwitchedOff) {
  const auto options = [](bool contract) { return CompileOptions{.contract = contract}; };
  if (tools().isa().level == IsaLevel::Baseline) GTEST_SKIP() << "no fused multiply-add here";
  const char* source = "extern \"C\" float f(float a, float b, float c) { return a * b + c; }";
  const float a = 1.0f + 0x1p-12f, rounded = a * a;
  const LoadedLibrary fused(tools().compile_shared(source, options(true)), "fused");
  const LoadedLibrary split(tools().compile_shared(source, options(false)), "split");
  EXPECT_NE(fused.function<float(float, float, float)>("f")(a, a, -rounded), 0.0f);
  EXPECT_EQ(split.function<float(float, float, float)>("f")(a, a, -rounded), 0.0f);
}

TEST(Toolchain, FlagsNeverAllowReassociation) {
  for (const std::string& flag : tools().flags()) {
    EXPECT_NE(flag, "-ffast-math");
    EXPECT_NE(flag, "-Ofast");
    EXPECT_NE(flag, "-fassociative-math");
    EXPECT_NE(flag, "-funsafe-math-optimizations");
  }
}

TEST(Toolchain, WorksWithEveryCompilerOfThisMachine) {
  for (const char* name : {"g++-12", "g++-13", "clang++"}) {
    if (!find_program(name)) continue;
    const Toolchain other({.compiler = name});
    EXPECT_EQ(other.isa(), tools().isa()) << name;
    const LoadedLibrary loaded(other.compile_shared(kDouble), name);
    EXPECT_NE(loaded.symbol("twice"), nullptr);
  }
}

TEST(Toolchain, CompilesFromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<std::string> libraries(4);
  for (std::string& library : libraries) threads.emplace_back([&] { library = tools().compile_shared(kDouble); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& library : libraries) EXPECT_EQ(library, libraries[0]);
}

TEST(Toolchain, MissingCompilerIsNamed) {
  EXPECT_EQ(error_of([] { Toolchain({.compiler = "no-such-g++"}); }).report(),
            "error: no C++ compiler found: the compiler asked for is 'no-such-g++', which is not a program\n"
            "  help: install g++ or set TOROID_CXX to the path of a g++ or clang++");
  std::optional<ScopedVariable> path(std::in_place, "PATH", "/nowhere");
  EXPECT_EQ(error_of([] { Toolchain(); }).report(),
            "error: no C++ compiler found: tried g++ and clang++ in PATH\n"
            "  help: install g++ or set TOROID_CXX to the path of a g++ or clang++");
  path.reset();
  const ScopedVariable compiler("TOROID_CXX", "/opt/g++");
  EXPECT_EQ(error_of([] { Toolchain(); }).message(), "no C++ compiler found: TOROID_CXX is '/opt/g++', which is not a program");
}

// A launcher as distcc or ccache: notes what it is given, and runs it.
class FakeLauncher {
 public:
  FakeLauncher() { write_file_atomically(path_, "#!/bin/sh\necho \"$*\" >>'" + calls_.string() + "'\nexec \"$@\"\n", 0777); }
  std::string command() const { return path_.string() + " g++"; }
  std::vector<std::string> calls() const {
    std::vector<std::string> lines;
    std::istringstream text(fs::exists(calls_) ? read_file(calls_) : std::string());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

 private:
  TempFolder folder_;
  fs::path path_ = folder_.path() / "launch", calls_ = folder_.path() / "calls";
};

TEST(Toolchain, SourcesAreCompiledThroughALauncherAndLinkedWithoutIt) {
  const FakeLauncher launcher;
  const Toolchain launched({.compiler = launcher.command()}), plain({.compiler = "g++"});
  EXPECT_TRUE(launcher.calls().empty()) << "the compiler itself is asked what it is";
  EXPECT_EQ(launched.compiler().fingerprint, plain.compiler().fingerprint);
  EXPECT_EQ(launched.compiler().version, plain.compiler().version);
  EXPECT_EQ(launched.flags(), plain.flags()) << "so keys are the same";

  const LoadedLibrary library(launched.compile_shared("extern \"C\" int answer() { return 42; }", {.name = "deep thought"}), "answer");
  EXPECT_EQ(library.function<int()>("answer")(), 42);
  ASSERT_EQ(launcher.calls().size(), 1u);
  const std::string call = launcher.calls()[0];
  EXPECT_TRUE(call.starts_with(find_program("g++")->string() + " ")) << call;
  EXPECT_NE(call.find(" -c deep_thought.cpp -o "), std::string::npos) << call;
  EXPECT_EQ(call.find("=native"), std::string::npos) << call;
  EXPECT_EQ(call.find(" -x "), std::string::npos) << call;

  const Error error = error_of([&] { launched.compile_object("this is no C++", {.name = "bad"}); });
  EXPECT_NE(error.message().find("bad.cpp:1:1: error: "), std::string::npos) << error.message();
  EXPECT_NE(error.help_text().find("started through launch: leave that out of TOROID_CXX"), std::string::npos) << error.help_text();
  EXPECT_TRUE(has_match(error.report(), "command: [^ ]*/launch [^\n]* -c [^ ]*/bad\\.cpp -o [^ <]*/out\n")) << error.report();
}

TEST(Toolchain, WordsOfTheCompilersCommandArePrograms) {
  const ScopedVariable compiler("TOROID_CXX", "no-such-launcher g++");
  EXPECT_EQ(error_of([] { Toolchain(); }).message(),
            "no C++ compiler found: TOROID_CXX is 'no-such-launcher g++', in which 'no-such-launcher' is not a program");
  EXPECT_EQ(error_of([] { Toolchain({.compiler = "g++ -m32"}); }).report(),
            "error: the compiler asked for is 'g++ -m32', which has the flag '-m32'\n"
            "  help: name programs alone, as in 'distcc g++'; flags for the compiler are given with TOROID_CXXFLAGS");
  const TempFolder folder;
  fs::create_directory(folder.path() / "with space");
  fs::create_symlink(*find_program("g++"), folder.path() / "with space/g++");
  EXPECT_TRUE(find_compiler((folder.path() / "with space/g++").string()).launcher.empty());
}

TEST(Toolchain, ARefusedSourceShowsTheCompilersWordsAndIsKept) {
  EXPECT_EQ(failure_of(FakeCompiler("echo '<stdin>:1:5: error: no' >&2; exit 1")),
            "error: g++ exited with status 1 while it made the library 'relu add'\n"
            "    <stdin>:1:5: error: no\n"
            "  command: FAKE … < KEPT/relu_add.cpp\n"
            "  help: the source is kept in KEPT/relu_add.cpp");
  const TempFolder folder;
  const ScopedVariable variable("TMPDIR", folder.path().string());
  const Error real = error_of([] { tools().compile_object("this is not C++"); });
  EXPECT_NE(real.message().find("error: "), std::string::npos) << real.message();
}

TEST(Toolchain, ACompilerThatHangsIsKilled) {
  const Stopwatch watch;
  EXPECT_EQ(failure_of(FakeCompiler("sleep 100"), 200ms),
            "error: g++ did not end within its time and was killed after T s while it made the library 'relu add'\n"
            "  command: FAKE … < KEPT/relu_add.cpp\n"
            "  help: check the compiler and the machine's load, or allow more with TOROID_COMPILE_TIMEOUT_S; the "
            "source is kept in KEPT/relu_add.cpp");
  EXPECT_LT(watch.seconds(), 100);
}

TEST(Toolchain, SuccessWithoutOutputIsAFailure) {
  const std::string expected =
      "error: g++ succeeded but wrote no library while it made the library 'relu add'\n"
      "  command: FAKE … < KEPT/relu_add.cpp\n"
      "  help: set TOROID_CXX to a working g++ or clang++; the source is kept in KEPT/relu_add.cpp";
  EXPECT_EQ(failure_of(FakeCompiler("exit 0")), expected);
  EXPECT_EQ(failure_of(FakeCompiler(": > \"$out\"")), expected);
  EXPECT_EQ(failure_of(FakeCompiler("echo junk > \"$out\"")), expected);
}

TEST(Toolchain, ACompilerThatCrashesOrRunsOutOfMemorySaysSo) {
  EXPECT_TRUE(failure_of(FakeCompiler("kill -SEGV $$")).starts_with("error: g++ was killed by signal 11"));
  const std::string report = failure_of(FakeCompiler("echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1"));
  EXPECT_NE(report.find("help: the compiler may have run out of memory"), std::string::npos) << report;
}

TEST(Toolchain, AFloodOfErrorsIsCutShort) {
  const std::string report = failure_of(FakeCompiler("yes 'error: again' | head -c 100000000 >&2; exit 1"));
  EXPECT_LT(report.size(), 2000u);
  EXPECT_NE(report.find("…"), std::string::npos);
}

TEST(Toolchain, LeavesNoTemporaryFiles) {
  const TempFolder folder;
  const ScopedVariable variable("TMPDIR", folder.path().string());
  tools().compile_shared(kDouble);
  tools().link_shared(std::vector{tools().compile_object(kDouble)});
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Toolchain, IsaComesFromTheEnvironment) {
  const ScopedVariable variable("TOROID_ISA", "baseline");
  EXPECT_EQ(Toolchain().isa(), Isa{});
  variable.set("sse9");
  EXPECT_EQ(error_of([] { Toolchain(); }).kind(), ErrorKind::InvalidOption);
}

TEST(Toolchain, ProbesOnceAndAgainWhenTheCompilerChanges) {
  std::map<std::string, std::string> store;
  int hits = 0;
  const ProbeCache cache = {.get = [&](const std::string& key) -> std::optional<std::string> {
                              if (!store.contains(key)) return std::nullopt;
                              ++hits;
                              return store[key];
                            },
                            .put = [&](const std::string& key, const std::string& value) { store[key] = value; }};
  const Toolchain first({.probe_cache = cache});
  EXPECT_EQ(hits, 0);
  EXPECT_EQ(store.size(), 2u);
  const Toolchain second({.probe_cache = cache});
  EXPECT_EQ(hits, 2);
  EXPECT_EQ(first.isa(), second.isa());
  EXPECT_EQ(first.compiler().fingerprint, second.compiler().fingerprint);
  EXPECT_EQ(first.compiler().version, second.compiler().version);

  const FakeCompiler fake("exit 1");
  const std::string before = identify_compiler(fake.path(), cache).fingerprint;
  write_file_atomically(fake.path(), read_file(fake.path()) + "# patched\n", 0777);
  EXPECT_NE(identify_compiler(fake.path(), cache).fingerprint, before) << "same version text, other bytes";
}

TEST(Toolchain, DamagedProbeResultsAreProbedAgain) {
  const ProbeCache junk = {.get = [](const std::string&) { return std::optional<std::string>("junk"); }, .put = {}};
  EXPECT_EQ(Toolchain({.probe_cache = junk}).isa(), tools().isa());
}

TEST(KeptFiles, SourcesCommandsAndLibrariesLieInTheFolder) {
  const TempFolder folder;
  const std::filesystem::path kept = folder.path() / "kept";
  std::optional<ScopedVariable> variable(std::in_place, "TOROID_KEEP_FILES", kept.string());
  const std::string bytes = Toolchain().compile_shared("extern \"C\" int answer() { return 42; }", {.name = "my kernel"});
  const LoadedLibrary library(bytes, "my program");
  variable.reset();
  EXPECT_EQ(library.function<int()>("answer")(), 42);
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kept)) {
    const std::string name = entry.path().filename().string();
    files[name.substr(0, name.find('-')) + entry.path().extension().string()] = entry.path().string();
  }
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(read_file(files.at("my_kernel.cpp")), "extern \"C\" int answer() { return 42; }");
  EXPECT_EQ(read_file(files.at("my_program.so")), bytes);
  EXPECT_TRUE(run_process({.argv = {"sh", files.at("my_kernel.sh")}}).ok());
  EXPECT_EQ(read_file(files.at("my_kernel.sh").substr(0, files.at("my_kernel.sh").size() - 2) + "o"), bytes);
  EXPECT_NE(read_file("/proc/self/maps").find(files.at("my_program.so")), std::string::npos);
}

}  // namespace
}  // namespace toroid
