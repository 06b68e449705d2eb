// Models that mean harm: strings that would be code, a command or a path if anybody took them for one, and archives that point
// outside of themselves. They compile to what they compute, or are refused; nothing is run, included or opened on their behalf.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file/loaded_library.h"
#include "driver/compile.h"
#include "frontend/pt2/pt2_for_test.h"
#include "passes/decompose/engine/decompose.h"
#include "reliability.h"
#include "tensor/host_tensor.h"
#include "traced.h"

namespace toroid::reliability {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

// Fragments that end a comment, a string, a line or a name, and what could follow.
std::string hostile_text(std::mt19937_64& random, const std::string& witness) {
  static const char* const kEnds[] = {
      "*/",    "\n",      "\\\n", "\"", "'",  "\\", "?\?/", "//",   "/*",   ")\"",    ";",      "}",    "{",
      "{}",    "{0}",     "%n",   "%s", "\t", "\r", "\r\n", "\x01", "\x7f", "\u2028", "\u202e", "R\"(", ")delimiter\"",
      "\\x22", "\\u0022", "\\0",  "#",  "$",  "`",  "..",   "/",    "<",    ">",      "|",      "&",    "=",
      ",",     " ",       "-",    "--", "L'", "@",  "!"};
  const std::string harms[] = {"#include \"" + witness + ".h\"",
                               "\n#include </etc/passwd>\n",
                               "\n#error toroid_injected\n",
                               "extern \"C\" int toroid_injected() { return 1; }",
                               "\nextern \"C\" int toroid_injected = 1;\n",
                               "__attribute__((constructor)) void toroid_injected() {}",
                               "asm(\".globl toroid_injected\\ntoroid_injected:\");",
                               "$(touch " + witness + ")",
                               "`touch " + witness + "`",
                               "; touch " + witness + " #",
                               "-fplugin=" + witness,
                               "-o " + witness,
                               "@" + witness,
                               "_Pragma(\"GCC dependency \\\"" + witness + "\\\"\")",
                               "../../../../" + witness,
                               witness,
                               "int",
                               "class",
                               "main",
                               "toroid_program",
                               "0",
                               "",
                               "x",
                               "add"};
  std::string text;
  for (size_t parts = random() % 5; parts != SIZE_MAX; --parts) {
    text += kEnds[random() % std::size(kEnds)];
    if (random() % 2 == 0) text += harms[random() % std::size(harms)];
  }
  if (random() % 40 == 0) text += std::string(1, '\0') + "after NUL";
  if (random() % 200 == 0) text += std::string(100'000, 'a');
  return text;
}

json tensor_meta(const std::vector<int64_t>& sizes) {
  json meta = {{"dtype", 7},
               {"requires_grad", false},
               {"device", {{"type", "cpu"}, {"index", nullptr}}},
               {"storage_offset", {{"as_int", 0}}},
               {"layout", 7}};
  int64_t stride = 1;
  json strides = json::array(), dims = json::array();
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) {
    strides.insert(strides.begin(), json::object({{"as_int", stride}}));
    dims.insert(dims.begin(), json::object({{"as_int", sizes[i]}}));
  }
  meta["sizes"] = dims;
  meta["strides"] = strides;
  return meta;
}

json tensor(const std::string& name) { return json::object({{"as_tensor", json::object({{"name", name}})}}); }

json argument(const char* name, json value) { return json::object({{"name", name}, {"arg", std::move(value)}, {"kind", 1}}); }

// x + w + 1 + 1 … with hostile text wherever a model has text of its own.
struct HostileModel {
  Pt2ForTest archive;
  int64_t strings = 0;
  int additions = 0;
};

HostileModel hostile_model(std::mt19937_64& random, const std::string& witness, int additions) {
  HostileModel model;
  model.additions = additions;
  auto text = [&] {
    ++model.strings;
    return hostile_text(random, witness);
  };
  std::set<std::string> names;
  auto name = [&] {
    std::string fresh = text();
    while (fresh.empty() || !names.insert(fresh).second) fresh += std::to_string(names.size());
    return fresh;
  };
  json root = json::parse(model.archive.model_json);
  json& graph = root["graph_module"]["graph"];
  const std::string w = name(), x = name(), parameter = name();
  json values = json::object({{w, tensor_meta({2})}, {x, tensor_meta({2})}});
  json nodes = json::array();
  std::string last = x;
  for (int i = 0; i <= additions; ++i) {
    const std::string next = name();
    json metadata = json::object();
    metadata["stack_trace"] = "File \"" + text() + "\", line 7, in forward\n    " + text();
    metadata["nn_module_stack"] = "L__self__,," + text() + ";" + text() + "," + text() + "," + text();
    metadata[text()] = text();
    nodes.push_back(json::object(
        {{"target", "torch.ops.aten.add.Tensor"},
         {"inputs", json::array({argument("self", tensor(last)), argument("other", i == 0 ? tensor(w) : json::object({{"as_int", 1}}))})},
         {"outputs", json::array({tensor(next)})},
         {"metadata", metadata},
         {"name", name()}}));
    values[next] = tensor_meta({2});
    last = next;
  }
  graph["inputs"] = json::array({tensor(w), tensor(x)});
  graph["outputs"] = json::array({tensor(last)});
  graph["nodes"] = nodes;
  graph["tensor_values"] = values;
  json& signature = root["graph_module"]["signature"];
  const json of_parameter = json::object({{"arg", json::object({{"name", w}})}, {"parameter_name", parameter}});
  signature["input_specs"] =
      json::array({json::object({{"parameter", of_parameter}}), json::object({{"user_input", json::object({{"arg", tensor(x)}})}})});
  signature["output_specs"] = json::array({json::object({{"user_output", json::object({{"arg", tensor(last)}})}})});
  root["torch_version"] = text();
  model.archive.model_json = root.dump();
  json weights = json::parse(model.archive.weights_json);
  json config = weights["config"]["body.w"];
  config["tensor_meta"] = tensor_meta({2});
  weights["config"] = json::object({{parameter, config}});
  model.archive.weights_json = weights.dump();
  const float one[2] = {1, 1};
  model.archive.weight.assign(reinterpret_cast<const char*>(one), sizeof one);
  return model;
}

TEST(Models, WithHostileTextComputeWhatTheySayAndNothingElse) {
  const Result result;
  const TempFolder folder;
  const std::string witness = (folder.path() / "witness").string();
  write_file_atomically(witness + ".h", std::string_view("#error toroid_injected\n"));
  std::mt19937_64 random(9);
  CompileSession session(false);
  CompileModelOptions quick;
  quick.optimization = 1;
  int64_t strings = 0, models = 0, refused = 0;
  while (strings < times(600, 12'000)) {
    const HostileModel model = hostile_model(random, witness, 40);
    strings += model.strings;
    ++models;
    try {
      Program program = model.archive.import({.is_supported = is_supported});
      const CompiledModel compiled = session.compile(std::move(program), quick);
      const LoadedLibrary library(compiled.library, "hostile");
      EXPECT_THROW(library.symbol("toroid_injected"), Error);
      Executable executable = compiled.load(1);
      const HostTensor x = HostTensor::from_doubles(DType::F32, {2}, std::vector<double>{1, 2});
      EXPECT_EQ(executable.run({&x, 1})[0].double_at(1), 3.0 + model.additions);
    } catch (const Error& error) {
      // A model may be refused for its text, but a compiler that was confused by it may not come to this.
      ++refused;
      EXPECT_TRUE(error.kind() == ErrorKind::InvalidModel || error.kind() == ErrorKind::Unsupported) << error.report();
    }
    ASSERT_FALSE(fs::exists(witness)) << "a text of the model was run as a command";
  }
  EXPECT_LT(refused, models) << "nothing was compiled";
  result.say("{} hostile strings in {} models: {} refused, the others right; 0 injections", strings, models, refused);
}

// Imports the archive in a traced child: what it opened, and whether it was refused.
TEST(Models, OpenNoFileButTheirOwn) {
  if (!can_trace()) GTEST_SKIP() << "ptrace does not work here: nothing of this was tested";
  const Result result;
  const TempFolder folder;
  const fs::path path = folder.path() / "net.pt2";
  const std::string secret = (folder.path() / "secret").string();
  write_file_atomically(secret, std::string(16, 's'));
  std::vector<std::pair<std::string, std::string>> archives;  // what is wrong, bytes
  for (const std::string& name : {std::string("../secret"), std::string("../../../../../../etc/passwd"), secret, std::string("/etc/passwd"),
                                  std::string("C:\\secret"), std::string("net/data/weights/../../../secret"), std::string("secret\0x", 8),
                                  std::string("~/secret"), "file://" + secret, std::string("net/./data/weights/weight_0")}) {
    ZipForTest zip = Pt2ForTest().zip();
    zip.add(name, std::string(16, 'x'));
    archives.emplace_back("an entry named " + name, zip.build());
    Pt2ForTest model;
    json weights = json::parse(model.weights_json);
    weights["config"]["body.w"]["path_name"] = name;
    model.weights_json = weights.dump();
    archives.emplace_back("a weight at " + name, model.zip().build());
    Pt2ForTest other;
    other.model_name = name;
    archives.emplace_back("a model named " + name, other.zip().build());
  }
  ZipForTest link = Pt2ForTest().zip();
  link.entries[0].data = secret;
  link.entries[0].unix_mode = 0120777;
  archives.emplace_back("a weight that is a symbolic link", link.build());
  Pt2ForTest pickled;
  replace(pickled.weights_json, R"("use_pickle": false)", R"("use_pickle": true)");
  // cos.system("touch WITNESS"), as pickle protocol 0 writes it.
  const std::string witness = (folder.path() / "witness").string();
  pickled.weight = "cos\nsystem\n(S'touch " + witness + "'\ntR.";
  archives.emplace_back("a pickled weight", pickled.zip().build());
  for (const auto& [what, bytes] : archives) {
    write_file_atomically(path, bytes);
    const TracedEnd end = run_traced("/", {}, [&] {
      try {
        CompileSession::import(path);
        return 0;
      } catch (const Error& error) {
        return error.kind() == ErrorKind::InvalidModel || error.kind() == ErrorKind::Unsupported ? 1 : 2;
      }
    });
    ASSERT_TRUE(WIFEXITED(end.status)) << what;
    EXPECT_LE(WEXITSTATUS(end.status), 1) << what;
    EXPECT_EQ(end.opened, std::set<std::string>{path.string()}) << what;
  }
  EXPECT_FALSE(fs::exists(witness));
  // What is no plain file is refused without waiting for it.
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(CompileSession::import(path), Error);
  result.say("{} archives that point elsewhere: 0 files opened but the archive itself", archives.size());
}

// A file of less than two kilobytes that says it holds 2.2 GB costs no memory.
TEST(Models, AllocateNothingForWhatTheyOnlyClaim) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer itself needs more memory than there may be: nothing of this was tested";
  ZipForTest zip = Pt2ForTest().zip();
  zip.entries[0].declared_size = 2'200'000'000;
  zip.entries[0].wide = true;
  const std::string bytes = zip.build();
  ASSERT_LT(bytes.size(), 8000u);
  EXPECT_EQ(status_of_child([&] {
              const rlimit limit = {400u << 20, 400u << 20};
              ::setrlimit(RLIMIT_AS, &limit);
              try {
                Pt2ForTest::import_bytes(bytes);
              } catch (const Error& error) {
                return error.kind() == ErrorKind::InvalidModel ? 0 : 1;
              }
              return 2;
            }),
            0);
}

}  // namespace
}  // namespace toroid::reliability
