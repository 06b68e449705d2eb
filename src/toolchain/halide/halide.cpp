#include "toolchain/halide/halide.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "frontend/json_reader.h"
#include "support/text/json_writer.h"
#include "toolchain/halide/script.h"
#include "toolchain/kept_sources.h"
#include "toolchain/python_process.h"

namespace toroid {
namespace {

// Prints the version alone; importing Halide would load LLVM.
constexpr const char* kHalideVersionScript = R"py(
import importlib.metadata, importlib.util
if importlib.util.find_spec("halide"):
    try:
        print(importlib.metadata.version("halide"))
    except importlib.metadata.PackageNotFoundError:
        print("unknown")
)py";

constexpr PythonCompiler kHalide = {.name = "Halide",
                                    .what = "Halide pipelines",
                                    .package = "halide",
                                    .least = "21",
                                    .variable = "TOROID_HALIDE_PYTHON",
                                    .version_script = kHalideVersionScript};

std::string halide_request(std::span<const std::string> pipelines, const std::string& target, const std::filesystem::path& folder,
                           int jobs) {
  std::string text = fmt::format("{{\"folder\": {}, \"target\": {}, \"jobs\": {}, \"pipelines\": [", json_string(folder.string()),
                                 json_string(target), std::max(1, jobs));
  for (size_t i = 0; i < pipelines.size(); ++i) text += (i == 0 ? "" : ",\n") + pipelines[i];
  return text + "]}";
}

// The script's part that a reproducer needs.
std::string_view reproducer_part() {
  constexpr std::string_view kBegin = "# ---- what a stand-alone reproducer holds too\n", kEnd = "# ---- end of that";
  const size_t begin = kHalideScript.find(kBegin) + kBegin.size(), end = kHalideScript.find(kEnd);
  return kHalideScript.substr(begin, end - begin);
}

[[noreturn]] void fail_halide(const std::string& pipeline, const JsonValue& facts, const std::string& target) {
  const JsonDocument document = parse_json(pipeline, "a Halide pipeline");
  const JsonValue& root = document.root();
  Error error(ErrorKind::ToolFailed,
              fmt::format("Halide does not compile {}, line {}", root.at("file").as_string(), facts.at("line").as_integer()));
  error.at(std::string(facts.at("error").as_string().substr(0, 4000)));
  try {
    KeptSources kept;
    const std::filesystem::path path = kept.keep(fmt::format("{}.py", root.at("entry").as_string()), halide_reproducer(pipeline, target));
    error.help(fmt::format("'{} {}' compiles it alone; --device cpu does without Halide", python_of(kHalide.variable), path.string()));
  } catch (const Error& unkept) {
    error.help(fmt::format("a reproducer could not be kept ({})", unkept.message()));
  }
  throw error;
}

}  // namespace

std::string halide_version() { return version_of(kHalide); }

std::string halide_autoscheduler(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "anderson2021")
    throw Error(ErrorKind::InvalidOption, "Halide's autoscheduler Anderson2021 schedules for GPUs alone")
        .help("for processors there are Mullapudi2016, Li2018 and Adams2019");
  if (lower == "mullapudi2016") return "Mullapudi2016";
  if (lower == "li2018") return "Li2018";
  if (lower == "adams2019") return "Adams2019";
  throw Error(ErrorKind::InvalidOption, fmt::format("Halide has no autoscheduler '{}'", name))
      .help("it has Mullapudi2016, Li2018 and Adams2019");
}

std::string default_halide_autoscheduler() {
  const char* const named = std::getenv("TOROID_HALIDE_AUTOSCHEDULER");
  if (named == nullptr || *named == '\0') return "Mullapudi2016";
  ErrorContext context("reading TOROID_HALIDE_AUTOSCHEDULER");
  return halide_autoscheduler(named);
}

std::string halide_target(const Isa& isa) {
#if !defined(__x86_64__)
  throw Error(ErrorKind::Unsupported, "toroid compiles Halide pipelines for x86-64 alone").help("compile for the device cpu");
#endif
  std::string target = "x86-64-linux";
  if (isa.level >= IsaLevel::Avx2) target += "-sse41-avx-f16c-fma-avx2";
  if (isa.level >= IsaLevel::Avx512) target += "-avx512-avx512_skylake";
  return target + "-no_runtime-no_bounds_query-strict_float-user_context";
}

std::vector<std::string> compile_halide(std::span<const std::string> pipelines, const std::string& target, int jobs) {
  const TempFolder folder("toroid_halide");
  const std::string request = halide_request(pipelines, target, folder.path(), jobs);
  const JsonDocument document = compile_in_python(kHalide, kHalideScript, request, folder.path(), pipelines.size(), "objects");
  std::vector<std::string> objects;
  for (size_t i = 0; i < pipelines.size(); ++i) {
    const JsonValue& facts = document.root().elements()[i];
    if (facts.find("error") != nullptr) fail_halide(pipelines[i], facts, target);
    objects.push_back(read_file(folder.path() / std::to_string(i)));
  }
  return objects;
}

std::string halide_reproducer(const std::string& pipeline, const std::string& target) {
  const JsonDocument document = parse_json(pipeline, "a Halide pipeline");
  const JsonValue& root = document.root();
  const std::string_view entry = root.at("entry").as_string(), autoscheduler = root.at("autoscheduler").as_string();
  return fmt::format(
      "# Compiles one Halide pipeline to {}.o: python3 THIS_FILE\nimport ctypes\nimport glob\nimport os\n\n{}\n{}\n\n"
      "build(pipeline, {}, {}, {}, {})\n",
      entry, root.at("source").as_string(), reproducer_part(), json_string(entry), json_string(target), json_string(autoscheduler),
      json_string(std::string(entry) + ".o"));
}

}  // namespace toroid
