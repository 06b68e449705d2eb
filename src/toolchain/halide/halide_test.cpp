#include "toolchain/halide/halide.h"

#include <gtest/gtest.h>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "codegen/halide/halide_pipeline.h"
#include "support/process/subprocess.h"
#include "toolchain/halide/fake_halide_for_test.h"
#include "toolchain/python_process.h"

namespace toroid {
namespace {

std::string pipeline_text(const std::string& statement, const std::string& autoscheduler = "Mullapudi2016") {
  return to_text(codegen::with_entry(
      {.entry = "",
       .source =
           "import halide as hl\n\n\ndef pipeline():\n    x, f = hl.Var(\"x\"), hl.Func(\"f\")\n    p = hl.ImageParam(hl.Float(32), 1)\n"
           "    p.set_estimates([(0, 64)])\n    " +
           statement + "\n    f.set_estimates([(0, 64)])\n    return [p], [f]\n",
       .autoscheduler = autoscheduler,
       .file = "mylib.twice.op",
       .line = 10}));
}

const std::string kTarget = halide_target(Isa{});

std::string report_of_halide(const FakeHalide& fake) {
  const ScopedVariable python("TOROID_HALIDE_PYTHON", fake.path().string());
  return error_of([&] { compile_halide(std::vector{pipeline_text("f[x] = p[x]")}, kTarget, 1); }).report();
}

TEST(HalideTest, OneProcessCompilesAllPipelines) {
  const FakeHalide fake;
  const ScopedVariable python("TOROID_HALIDE_PYTHON", fake.path().string());
  EXPECT_EQ(halide_version(), "Halide 21.0.0");
  const std::vector<std::string> objects =
      compile_halide(std::vector{pipeline_text("f[x] = p[x]"), pipeline_text("f[x] = p[x] * 2")}, kTarget, 2);
  EXPECT_EQ(fake.runs(), 1);
  EXPECT_TRUE(fake.request().find("\"target\": \"x86-64-linux-no_runtime-no_bounds_query-strict_float-user_context\", \"jobs\": 2") !=
              std::string::npos)
      << fake.request();
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_TRUE(objects[1].starts_with("object of toroid_halide_")) << objects[1];
}

TEST(HalideTest, SaysWhatIsMissing) {
  EXPECT_TRUE(report_of_halide(FakeHalide("")).find("python3' has no Halide\n") != std::string::npos);
  const std::string old = report_of_halide(FakeHalide("19.0.0"));
  EXPECT_TRUE(old.find("python3' has Halide 19.0.0, and 21 or newer is needed\n  help: '") != std::string::npos) << old;
  EXPECT_TRUE(old.find("-m pip install halide' installs it; TOROID_HALIDE_PYTHON names another Python") != std::string::npos) << old;
  const ScopedVariable python("TOROID_HALIDE_PYTHON", "/nowhere/python3");
  EXPECT_EQ(error_of([] { halide_version(); }).report(),
            "error: Halide pipelines are compiled by a Python that has Halide, and there is no '/nowhere/python3'\n  help: install Python "
            "and 'pip "
            "install halide', or name a Python that has it in TOROID_HALIDE_PYTHON");
}

TEST(HalideTest, AutoschedulersAreHalides) {
  EXPECT_EQ(halide_autoscheduler("adams2019"), "Adams2019");
  EXPECT_EQ(error_of([] { halide_autoscheduler("Anderson2021"); }).report(),
            "error: Halide's autoscheduler Anderson2021 schedules for GPUs alone\n  help: for processors there are Mullapudi2016, Li2018 "
            "and Adams2019");
  EXPECT_EQ(error_of([] { halide_autoscheduler("../x"); }).report(),
            "error: Halide has no autoscheduler '../x'\n  help: it has Mullapudi2016, Li2018 and Adams2019");
  const ScopedVariable named("TOROID_HALIDE_AUTOSCHEDULER", "li2018");
  EXPECT_EQ(default_halide_autoscheduler(), "Li2018");
}

TEST(HalideTest, AFailureSaysWhereAndLeavesAReproducer) {
  const std::string report = report_of_halide(FakeHalide("21.0.0", R"({"error": "Error: Undefined variable", "line": 17})"));
  EXPECT_TRUE(report.starts_with("error: Halide does not compile mylib.twice.op, line 17\n  Error: Undefined variable\n  help: '"))
      << report;
  const size_t begin = report.find(' ', report.find("help: '") + 7) + 1;
  const std::filesystem::path path = report.substr(begin, report.find('\'', begin) - begin);
  const std::string reproducer = read_file(path);
  EXPECT_TRUE(reproducer.find("\n    f[x] = p[x]\n") != std::string::npos && reproducer.find("\nbuild(pipeline, ") != std::string::npos);
  std::filesystem::remove_all(path.parent_path());
}

// With Halide itself, where it is.
TEST(HalideTest, CompilesAndReproduces) {
  try {
    halide_version();
  } catch (const Error& error) {
    GTEST_SKIP() << error.report();
  }
  const std::vector<std::string> objects =
      compile_halide(std::vector{pipeline_text("f[x] = p[x] * 2"), pipeline_text("f[x] = p[x] * 3", "Li2018")}, kTarget, 2);
  ASSERT_EQ(objects.size(), 2u);
  for (const std::string& object : objects) EXPECT_TRUE(object.starts_with("\177ELF"));
  const std::string wrong = pipeline_text("f[x] = p[y]");
  const Error error = error_of([&] { compile_halide(std::vector{wrong}, kTarget, 1); });
  EXPECT_TRUE(error.report().find("mylib.twice.op, line 17\n  NameError: name 'y' is not defined") != std::string::npos) << error.report();
  const TempFolder folder;
  for (const std::string& pipeline : {pipeline_text("f[x] = p[x] * 2"), wrong}) {
    write_file_atomically(folder.path() / "alone.py", halide_reproducer(pipeline, kTarget));
    ProcessOptions process = python_process({python_of("TOROID_HALIDE_PYTHON"), (folder.path() / "alone.py").string()}, folder.path());
    process.folder = folder.path();
    const ProcessResult result = run_process(process);
    EXPECT_EQ(result.ok(), pipeline != wrong) << result.errors;
    EXPECT_EQ(result.errors.find("name 'y' is not defined") != std::string::npos, pipeline == wrong) << result.errors;
  }
}

}  // namespace
}  // namespace toroid
