// The command as a process: closed and full streams, limits of the system, files that change under it, machines that it was not compiled
// for. Each test runs build/toroid from a shell, as a user would.
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/file/file.h"
#include "frontend/archive/zip_for_test.h"
#include "frontend/archive/zip_reader.h"
#include "frontend/safetensors.h"
#include "support/pattern_for_test.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

const fs::path kDigitsModel = fs::path(TOROID_SOURCE_DIR) / "examples/digits";

class CliProcess : public testing::Test {
 protected:
  fs::path path(std::string_view name) const { return folder_.path() / name; }

  // `script` in the test's folder, where $TOROID is the command, $DIGITS the model and $ONE its input.
  ProcessResult shell(const std::string& script, std::vector<std::pair<std::string, std::string>> environment = {}) const {
    environment.push_back({"TOROID_CACHE_DIR", path("cache").string()});
    environment.push_back({"TOROID", TOROID_COMMAND});
    environment.push_back({"DIGITS", (kDigitsModel / "digits.pt2").string()});
    environment.push_back({"ONE", (kDigitsModel / "one.safetensors").string()});
    return run_process(
        {.argv = {"/bin/sh", "-c", script}, .folder = folder_.path(), .environment = environment, .timeout = std::chrono::minutes(2)});
  }

  // A g++ that does `body` before it compiles; questions it answers at once.
  fs::path compiler_that(const std::string& body) const {
    const fs::path file = path("g++");
    write_file_atomically(
        file,
        "#!/bin/sh\ncase \"$1\" in --version|-print-prog-name=*) exec " + gcc_ + " \"$@\";; esac\n" + body + "\nexec " + gcc_ + " \"$@\"\n",
        0777);
    return file;
  }

  // The digits model, larger than files that are read whole.
  void write_large_model(const std::string& name, char filling = 'x') const {
    const ZipReader good = ZipReader::open(kDigitsModel / "digits.pt2");
    ZipForTest zip;
    for (const ZipEntry& entry : good.entries()) zip.add(entry.name, std::string(good.read_text(entry)));
    const std::string top = good.entries()[0].name.substr(0, good.entries()[0].name.find('/') + 1);
    zip.add(top + "extra/filling", std::string(3 << 20, filling));
    write_file_atomically(path(name), zip.build());
  }

  TempFolder folder_{"toroid-cli-process-test"};
  const std::string gcc_ = find_program("g++").value_or("/usr/bin/g++").string();
};

// ---- streams --------------------------------------------------------------------------------------------------------

TEST_F(CliProcess, WhatCannotBePrintedIsAnError) {
  ASSERT_EQ(shell("$TOROID compile $DIGITS -o p.so").exit_code, 0);
  for (const char* command : {"--help", "help", "ops", "ops --missing $DIGITS --help", "run --help", "explain $DIGITS",
                              "explain $DIGITS --all", "doctor", "doctor --json", "cache stats", "cache stats --json",
                              "cache explain $DIGITS", "opt $DIGITS", "opt $DIGITS --passes=decompose,code", "bench p.so --seconds 0.01"}) {
    const ProcessResult full = shell(fmt::format("$TOROID {} >/dev/full", command));
    EXPECT_EQ(full.exit_code, 1) << command;
    EXPECT_EQ(full.errors,
              "error: cannot write to standard output: No space left on device\n"
              "  help: what the command prints is not complete: check where its output goes\n")
        << command;
    const ProcessResult closed = shell(fmt::format("$TOROID {} >&-", command));
    EXPECT_EQ(closed.exit_code, 1) << command;
    EXPECT_NE(closed.errors.find("error: cannot write to standard output: Bad file descriptor"), std::string::npos)
        << command << closed.errors;
  }
  EXPECT_EQ(shell("$TOROID compile $DIGITS -o q.so >/dev/full").exit_code, 0) << "it prints nothing there";
}

TEST_F(CliProcess, AReportThatCannotBeWrittenStopsNoWork) {
  int run = 0;
  for (const char* errors : {"2>&-", "2>/dev/full"}) {
    fs::remove(path("p.so"));
    EXPECT_EQ(shell(fmt::format("$TOROID compile $DIGITS -o p.so --explain-cache {}", errors)).exit_code, 0) << errors;
    EXPECT_EQ(shell("$TOROID run p.so --inputs $ONE --outputs out.safetensors").exit_code, 0) << errors;
    EXPECT_EQ(shell(fmt::format("$TOROID compile missing.pt2 -o p.so {}", errors)).exit_code, 1) << errors;
    EXPECT_EQ(shell(fmt::format("$TOROID frobnicate {}", errors)).exit_code, 2) << errors;
    EXPECT_EQ(shell(fmt::format("$TOROID run {}", errors)).exit_code, 2) << errors;
    EXPECT_EQ(shell(fmt::format(
                        "TOROID_CACHE_DIR=$PWD/new{0} $TOROID compile $DIGITS -o q.so --explain-cache 2>&1 >/dev/null | true; test -s q.so",
                        ++run))
                  .exit_code,
              0);
    // A warning of the library's.
    EXPECT_EQ(
        shell(fmt::format("TOROID_CACHE_DIR=/proc/toroid $TOROID run p.so --inputs $ONE --outputs out.safetensors {}", errors)).exit_code,
        0)
        << errors;
  }
}

TEST_F(CliProcess, NoFileOfOursBecomesAStandardStream) {
  for (const char* closed : {"<&-", "<&- >&-", "<&- >&- 2>&-", "2>&-"}) {
    fs::remove(path("p.so"));
    fs::remove_all(path("cache"));
    EXPECT_EQ(shell(fmt::format("$TOROID compile $DIGITS -o p.so {}", closed)).exit_code, 0) << closed;
    EXPECT_EQ(shell(fmt::format("$TOROID run p.so --inputs $ONE --outputs out.safetensors {}", closed)).exit_code, 0) << closed;
    const ProcessResult verified = shell("$TOROID cache verify");
    EXPECT_NE(verified.output.find(" 0 damaged"), std::string::npos) << closed << verified.output;
  }
}

// ---- limits of the system -------------------------------------------------------------------------------------------

TEST_F(CliProcess, ALimitOnTheSizeOfFilesIsAnErrorOrAWarning) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer itself writes a file when a process starts";
#endif
  ASSERT_EQ(shell("$TOROID compile $DIGITS -o p.so").exit_code, 0);
  for (const char* limit : {"0", "1", "8"}) {
    for (const char* command :
         {"compile $DIGITS -o q.so", "compile --no-cache $DIGITS -o q.so", "run $DIGITS --inputs $ONE --outputs out.safetensors",
          "run p.so --inputs $ONE --outputs out.safetensors"}) {
      const ProcessResult result =
          shell(fmt::format("ulimit -f {}; $TOROID {}", limit, command), {{"TOROID_CACHE_DIR", path("new cache").string()}});
      EXPECT_EQ(result.exit_code, 1) << limit << command << result.errors;
      EXPECT_TRUE(has_match(result.errors, "help: .*ulimit -f")) << limit << command << "\n" << result.errors;
      fs::remove_all(path("new cache"));
    }
  }
  // Somewhere in between it works, with or without the cache.
  for (const char* limit : {"100", "200", "400", "800"}) {
    const ProcessResult result = shell(fmt::format("ulimit -f {}; $TOROID run $DIGITS --inputs $ONE --outputs out.safetensors", limit),
                                       {{"TOROID_CACHE_DIR", path("new cache").string()}});
    EXPECT_TRUE(result.exit_code == 0 || (result.exit_code == 1 && result.errors.find("ulimit -f") != std::string::npos))
        << limit << result.outcome() << result.errors;
    fs::remove_all(path("new cache"));
  }
}

TEST_F(CliProcess, ASmallLimitOnTheCompilersMemoryIsNamed) {
  for (const char* limit : {"10", "20M"}) {
    const ProcessResult result =
        shell("$TOROID compile --no-cache $DIGITS -o p.so", {{"TOROID_COMPILE_MEMORY", limit}, {"TOROID_ISA", "baseline"}});
    EXPECT_EQ(result.exit_code, 1) << limit;
    EXPECT_NE(result.errors.find("allow more with TOROID_COMPILE_MEMORY"), std::string::npos) << limit << result.errors;
    EXPECT_EQ(result.errors.find("bug report"), std::string::npos) << limit << result.errors;
  }
}

TEST_F(CliProcess, NoProcessOfACompilerIsLeft) {
  const std::string seconds = fmt::format("1000.{}", ::getpid());  // tells our sleepers from those of others
  const fs::path compiler =
      compiler_that(fmt::format("setsid sleep {0} </dev/null >/dev/null 2>&1 &\n"
                                "setsid sleep {0} </dev/null >/dev/null 2>&1 3>&- &",
                                seconds));  // as daemons that close what they inherit
  const ProcessResult result = shell("$TOROID compile --no-cache $DIGITS -o p.so", {{"TOROID_CXX", compiler.string()}});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(shell(fmt::format("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep {}[ ]'", seconds)).output, "0\n");
}

// ---- files that change ----------------------------------------------------------------------------------------------

TEST_F(CliProcess, AModelThatIsCutShortOrOverwrittenWhileItIsCompiledIsAnError) {
  const std::string words =
      "error: model.pt2 was changed while it was in use\n"
      "  help: write the new file beside it and rename it (mv): then what runs keeps the old one\n";
  constexpr const char* kCompile = "compile model.pt2 -o p.so";
  struct Case {
    const char *change, *command;
  };
  for (const auto& [change, command] : {Case{": > model.pt2", kCompile},
                                        {"truncate -s 2000000 model.pt2", kCompile},
                                        {"truncate -s 70000 model.pt2", kCompile},
                                        {"cat other.pt2 > model.pt2", kCompile},
                                        {": > model.pt2", "compile --no-cache model.pt2 -o p.so"},
                                        {": > model.pt2", "run model.pt2 --inputs $ONE --outputs out.safetensors"}}) {
    write_large_model("model.pt2");
    write_large_model("other.pt2", 'y');
    fs::remove_all(path("cache"));
    const fs::path compiler = compiler_that(fmt::format("cd {}; {}", folder_.path().string(), change));
    const ProcessResult result = shell(fmt::format("$TOROID {}", command), {{"TOROID_CXX", compiler.string()}, {"TOROID_ISA", "baseline"}});
    EXPECT_EQ(result.exit_code, 1) << change << command;
    EXPECT_TRUE(result.errors.ends_with(words)) << change << command << result.errors;
    EXPECT_FALSE(fs::exists(path("p.so")) || fs::exists(path("out.safetensors"))) << change << command;
  }
  // Nothing of it is in the cache.
  write_large_model("model.pt2");
  const ProcessResult after = shell(
      "$TOROID run model.pt2 --inputs $ONE --outputs after.safetensors && $TOROID run --backend interp $DIGITS --inputs $ONE"
      " --outputs right.safetensors",
      {{"TOROID_ISA", "baseline"}});
  EXPECT_EQ(after.exit_code, 0) << after.errors << after.output;
  const SafeTensors computed = read_safetensors(path("after.safetensors")), right = read_safetensors(path("right.safetensors"));
  for (size_t i = 0; i < 10; ++i) {
    float a, b;
    std::memcpy(&a, computed.tensors[0].bytes.data() + 4 * i, sizeof a);
    std::memcpy(&b, right.tensors[0].bytes.data() + 4 * i, sizeof b);
    EXPECT_NEAR(a, b, 1e-4);
  }
}

// Somebody writes into the file all the while that the evaluator, which is slow, multiplies; from before it starts.
TEST_F(CliProcess, InputsThatAreOverwrittenWhileTheyAreInUseAreAnError) {
  constexpr int64_t kSide = 400;
  const std::vector<float> numbers(kSide * kSide, 1.0f);
  const std::vector<SafeTensor> tensors = {{"in0", DType::F32, {kSide, kSide}, std::as_bytes(std::span(numbers))}};
  write_safetensors(path("in.safetensors"), tensors);
  write_file_atomically(path("square.txt"),
                        fmt::format("graph(x: f32[{0}, {0}]) {{\n  y: f32[{0}, {0}] = aten::mm(x, x)\n  return y\n}}\n", kSide));
  const ProcessResult result = shell(
      "while :; do printf abcd | dd of=in.safetensors bs=1 seek=300000 conv=notrunc 2>/dev/null; : >begun; done & writer=$!\n"
      "until [ -e begun ]; do sleep 0.01; done\n"
      "$TOROID run square.txt --backend interp --inputs in.safetensors --outputs out.safetensors; status=$?\n"
      "kill $writer; exit $status");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors,
            "error: in.safetensors was changed while it was in use\n"
            "  help: write the new file beside it and rename it (mv): then what runs keeps the old one\n");
  EXPECT_FALSE(fs::exists(path("out.safetensors")));
}

TEST_F(CliProcess, AModelThatIsReplacedByRenamingIsNot) {
  write_large_model("model.pt2");
  const fs::path compiler = compiler_that(fmt::format("cd {}; echo new > new; mv new model.pt2", folder_.path().string()));
  const ProcessResult result = shell("$TOROID run model.pt2 --inputs $ONE --outputs out.safetensors",
                                     {{"TOROID_CXX", compiler.string()}, {"TOROID_ISA", "baseline"}});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

// ---- outputs --------------------------------------------------------------------------------------------------------

TEST_F(CliProcess, OutputsGoWhereLinksAndPipesLead) {
  ASSERT_EQ(shell("$TOROID run $DIGITS --inputs $ONE --outputs plain").exit_code, 0);
  const std::string plain = read_file(path("plain"));
  fs::create_symlink("made", path("link"));
  EXPECT_EQ(shell("$TOROID run $DIGITS --inputs $ONE --outputs link").exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("made")), plain);
  EXPECT_EQ(
      shell("mkfifo fifo; cat fifo > read & $TOROID run $DIGITS --inputs $ONE --outputs fifo; status=$?; wait; exit $status").exit_code, 0);
  EXPECT_EQ(read_file(path("read")), plain);
  EXPECT_EQ(shell("$TOROID run $DIGITS --inputs $ONE --outputs /dev/stdout | cat > piped").exit_code, 0);
  EXPECT_EQ(read_file(path("piped")), plain);
  const ProcessResult unread = shell("$TOROID run $DIGITS --inputs $ONE --outputs fifo");
  EXPECT_EQ(unread.exit_code, 1);
  EXPECT_NE(unread.errors.find("cannot write fifo: it is a pipe that nobody reads\n  help: start what reads it first"), std::string::npos)
      << unread.errors;
}

// ---- other machines -------------------------------------------------------------------------------------------------

TEST_F(CliProcess, AProgramForOtherInstructionsIsRefused) {
  const std::vector<std::pair<std::string, std::string>> here = {{"TOROID_MACHINE", "baseline"}};
  const std::vector<std::pair<std::string, std::string>> other = {{"TOROID_MACHINE", "baseline"}, {"TOROID_ISA", "avx512+amx"}};
  const ProcessResult compiled = shell("$TOROID compile $DIGITS -o p.so", other);
  ASSERT_EQ(compiled.exit_code, 0) << compiled.errors;
  const std::string words(
      " needs the instruction set avx512\\+amx; this machine has baseline, and lacks avx512, amx\n(  while [^\n]*\n)?"
      "  help: for this machine compile with TOROID_ISA=baseline, or without TOROID_ISA on it\n");
  for (const char* command : {"run p.so --inputs $ONE --outputs out.safetensors", "bench p.so"}) {
    const ProcessResult result = shell(fmt::format("$TOROID {}", command), here);
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_TRUE(has_match(result.errors, words)) << command << result.errors;
  }
  for (const char* backend : {"cpu", "eager"}) {  // what was compiled here for there is in the cache
    const ProcessResult result =
        shell(fmt::format("$TOROID run $DIGITS --backend {} --inputs $ONE --outputs out.safetensors", backend), other);
    EXPECT_EQ(result.exit_code, 1) << backend;
    EXPECT_TRUE(has_match(result.errors, words)) << backend << result.errors;
  }
  EXPECT_EQ(shell("$TOROID run $DIGITS --inputs $ONE --outputs out.safetensors", here).exit_code, 0) << "its entries are others";
}

}  // namespace
}  // namespace toroid
