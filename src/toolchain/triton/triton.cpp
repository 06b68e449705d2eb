#include "toolchain/triton/triton.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "base/file/framing.h"
#include "base/file/kept_files.h"
#include "frontend/json_reader.h"
#include "support/text/json_writer.h"
#include "toolchain/amdgcn.h"
#include "toolchain/python_process.h"
#include "toolchain/triton/script.h"

namespace toroid {
namespace {

// Prints the version alone; importing Triton would take seconds.
constexpr const char* kVersionScript = R"py(
import importlib.util, re
found = importlib.util.find_spec("triton")
if found and found.origin:
    match = re.search(r"__version__ = ['\"]([^'\"]+)", open(found.origin, encoding="utf-8").read())
    print(match.group(1) if match else "unknown")
)py";

constexpr PythonCompiler kTriton = {.name = "Triton",
                                    .what = "Triton kernels",
                                    .package = "triton",
                                    .least = "3.5",
                                    .variable = "TOROID_TRITON_PYTHON",
                                    .version_script = kVersionScript};

struct Target {
  std::string backend, capability, product;  // the capability in JSON
  int warp;
};

Target target_of(std::string_view architecture) {
  if (is_amd_architecture(architecture)) return {"hip", json_string(architecture), "hsaco", wave_of(architecture)};
  constexpr int kFirstExact = 90;  // from here on Triton makes code and PTX for sm_90a and so on alone
  const bool is_ptx = architecture.starts_with("compute_");
  std::string number(architecture.substr(std::min(architecture.size(), architecture.find('_') + 1)));
  const bool is_exact = number.ends_with('a');
  if (is_exact) number.pop_back();
  if (std::atoi(number.c_str()) >= kFirstExact && !is_exact)
    throw Error(ErrorKind::Unsupported,
                fmt::format("Triton has no code for {}: from compute capability 9.0 on it is for one GPU alone", architecture))
        .help(fmt::format("compile for sm_{}a", number));
  return {"cuda", number, is_ptx ? "ptx" : "cubin", 32};
}

std::string request_of(std::span<const std::string> kernels, const Target& target, const std::filesystem::path& folder, int jobs) {
  std::string text =
      fmt::format("{{\"folder\": {}, \"target\": [{}, {}, {}], \"product\": {}, \"jobs\": {}, \"kernels\": [", json_string(folder.string()),
                  json_string(target.backend), target.capability, target.warp, json_string(target.product), std::max(1, jobs));
  for (size_t i = 0; i < kernels.size(); ++i) text += (i == 0 ? "" : ",\n") + kernels[i];
  return text + "]}";
}

// Where the kernel is from: "add of mylib.add.op:12".
std::string place_of(const std::string& kernel, std::optional<int64_t> line) {
  const JsonDocument document = parse_json(kernel, "a Triton kernel");
  const JsonValue& root = document.root();
  return fmt::format("{} of {}:{}", root.at("function").as_string(), root.at("file").as_string(),
                     line.value_or(root.at("line").as_integer()));
}

void refuse(const std::string& kernel, const JsonValue& facts) {
  const auto refuse_for = [&](const std::string& why) {
    throw Error(ErrorKind::Unsupported, fmt::format("the Triton kernel {} {}, which toroid does not start", place_of(kernel, {}), why))
        .help("choose another configuration");
  };
  if (const int64_t blocks = facts.at("blocks_of_cluster").as_integer(); blocks > 1)
    refuse_for(fmt::format("runs in clusters of {} blocks", blocks));
  if (facts.at("cooperative").as_integer() != 0) refuse_for("is started for all blocks at once");
  if (facts.at("tensor_maps").as_integer() > 0) refuse_for("takes tensor descriptors");
  if (facts.at("profile_bytes").as_integer() > 0) refuse_for("profiles itself");
  if (const int64_t more = facts.at("more_pointers").as_integer(); more < 0 || more > 8)
    refuse_for(fmt::format("takes {} arguments besides its own", more));
}

TritonBinary binary_of(const std::string& kernel, const JsonValue& facts, const std::filesystem::path& file) {
  if (const JsonValue* words = facts.find("error")) {
    const std::string place = place_of(kernel, facts.at("line").as_integer());
    if (const auto folder = kept_files_folder()) keep_file(*folder, "triton", "json", kernel);
    throw Error(ErrorKind::ToolFailed, fmt::format("Triton does not compile {}", place))
        .at(std::string(words->as_string().substr(0, 4000)));
  }
  refuse(kernel, facts);
  TritonBinary binary{.bytes = read_file(file),
                      .kernel = std::string(facts.at("name").as_string()),
                      .threads = static_cast<int>(facts.at("threads").as_integer()),
                      .shared_bytes = static_cast<int>(facts.at("shared_bytes").as_integer()),
                      .scratch_bytes = facts.at("scratch_bytes").as_integer(),
                      .scratch_alignment = static_cast<int>(facts.at("scratch_alignment").as_integer()),
                      .more_pointers = static_cast<int>(facts.at("more_pointers").as_integer())};
  if (binary.scratch_bytes > 0 && binary.more_pointers == 0)
    throw Error(ErrorKind::ToolFailed,
                fmt::format("the Triton kernel {} has scratch memory and takes no address of it", place_of(kernel, {})));
  return binary;
}

constexpr uint64_t kBytesVersion = 1;

}  // namespace

std::string triton_version() { return version_of(kTriton); }

std::vector<TritonBinary> compile_triton(std::span<const std::string> kernels, std::string_view architecture, int jobs) {
  const Target target = target_of(architecture);
  const TempFolder folder("toroid_triton");
  const std::string request = request_of(kernels, target, folder.path(), jobs);
  const JsonDocument document = compile_in_python(kTriton, kTritonScript, request, folder.path(), kernels.size(), "binaries");
  std::vector<TritonBinary> binaries;
  for (size_t i = 0; i < kernels.size(); ++i)
    binaries.push_back(binary_of(kernels[i], document.root().elements()[i], folder.path() / std::to_string(i)));
  return binaries;
}

std::string to_bytes(const TritonBinary& binary) {
  std::string bytes;
  append_number(bytes, kBytesVersion);
  append_sized(bytes, binary.kernel);
  for (const int64_t number : {int64_t{binary.threads}, int64_t{binary.shared_bytes}, binary.scratch_bytes,
                               int64_t{binary.scratch_alignment}, int64_t{binary.more_pointers}})
    append_number(bytes, static_cast<uint64_t>(number));
  append_sized(bytes, binary.bytes);
  return bytes;
}

TritonBinary triton_binary_of(std::string_view bytes) {
  const auto require = [](auto taken) {
    if (!taken) throw Error(ErrorKind::Internal, "a Triton binary of the cache is damaged");
    return *taken;
  };
  if (require(take_number(bytes)) != kBytesVersion) require(std::optional<uint64_t>());
  TritonBinary binary;
  binary.kernel = require(take_sized(bytes));
  binary.threads = static_cast<int>(require(take_number(bytes)));
  binary.shared_bytes = static_cast<int>(require(take_number(bytes)));
  binary.scratch_bytes = static_cast<int64_t>(require(take_number(bytes)));
  binary.scratch_alignment = static_cast<int>(require(take_number(bytes)));
  binary.more_pointers = static_cast<int>(require(take_number(bytes)));
  binary.bytes = require(take_sized(bytes));
  return binary;
}

}  // namespace toroid
