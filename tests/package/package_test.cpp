// Packages as a user has them: one file that needs the C library alone, old ones too, and runs its program by itself.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/file/file.h"
#include "base/machine/machine.h"
#include "cli/cli_for_test.h"
#include "support/hash.h"
#include "support/pattern_for_test.h"
#include "support/signing.h"
#include "toroid/toroid.h"

namespace toroid {
namespace {

// Two layers: the first test programs that users compile.
std::string mlp() {
  std::string weights, bias;
  for (int i = 0; i < 64; ++i) weights += fmt::format("{}{}", i == 0 ? "" : ", ", 0.125 * (i % 7) - 0.25);
  for (int i = 0; i < 8; ++i) bias += fmt::format("{}{}", i == 0 ? "" : ", ", 0.5 * i - 1);
  return fmt::format(
      "program \"mlp\"\nconstant 0 \"w\": f32[8, 8] = [{}]\nconstant 1 \"b\": f32[8] = [{}]\n"
      "graph(x: f32[4, 8]) {{\n  w: f32[8, 8] = constant(0)\n  b: f32[8] = constant(1)\n  y: f32[4, 8] = aten::mm(x, w)\n"
      "  z: f32[4, 8] = aten::add.Tensor(y, b)\n  t: f32[4, 8] = aten::tanh(z)\n  return t\n}}\n",
      weights, bias);
}

class Packages : public Cli {
 protected:
  void compile(const std::string& text, const std::string& output, std::vector<std::string> more = {},
               std::vector<std::pair<std::string, std::string>> environment = {}) {
    write_file_atomically(path("model.txt"), std::string_view(text));
    std::vector<std::string> command = {"compile", path("model.txt"), "-o", path(output)};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = toroid(command, std::move(environment));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  }
  std::string output_of(std::vector<std::string> argv, std::vector<std::pair<std::string, std::string>> environment = {}) const {
    const ProcessResult result = run_process({.argv = std::move(argv), .folder = path(""), .environment = std::move(environment)});
    EXPECT_TRUE(result.ok()) << result.outcome() << result.errors;
    return result.output;
  }
  std::string first_steps(const std::string& package, std::vector<std::pair<std::string, std::string>> environment = {}) const {
    return output_of({FIRST_STEPS, path(package)}, std::move(environment));
  }
  // What model_open says; "" for success.
  std::string opening(const std::string& file, ToroidModelOptions options, const std::string& weights = "") const {
    options.size = sizeof options;
    const std::string weights_path = path(weights);
    if (!weights.empty()) options.weights = weights_path.c_str();
    char message[2048] = "";
    ToroidModel* model = nullptr;
    const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
    const ToroidStatus status = api->model_open(path(file).c_str(), &options, &model, message, sizeof message);
    EXPECT_EQ(status, model != nullptr ? TOROID_OK : TOROID_ERROR_PACKAGE);
    api->model_close(model);
    return message;
  }
  // What readelf prints, one match a line.
  std::set<std::string> found_in(const std::string& text, const std::string& pattern) const {
    std::set<std::string> found;
    for (const std::vector<std::string>& match : matches_in(text, pattern)) found.insert(match[1]);
    return found;
  }
};

TEST_F(Packages, NeedTheCLibraryAlone) {
  compile(mlp(), "mlp.so");
  const std::string dynamic = output_of({"readelf", "-dW", path("mlp.so")});
  for (const std::string& name : found_in(dynamic, R"(\(NEEDED\).*\[(.*)\])")) {
    EXPECT_TRUE(name == "libc.so.6" || name == "libm.so.6" || name.starts_with("ld-linux")) << name;
  }
}

// Of glibc 2.28 dlopen is in another library.
TEST_F(Packages, NeedLibdlWhereTheyOpenLibraries) {
  compile("graph(x: f32[4]) {\n  a: f32[4] = _c10d_functional::all_reduce(x, \"sum\", \"0\")\n  return a\n}\n", "collective.so");
  const std::set<std::string> needed = found_in(output_of({"readelf", "-dW", path("collective.so")}), R"(\(NEEDED\).*\[(lib.*)\])");
  EXPECT_EQ(needed, (std::set<std::string>{"libc.so.6", "libdl.so.2", "libm.so.6"}));
  const std::set<std::string> versions = found_in(output_of({"readelf", "-VW", path("collective.so")}), R"(Name: GLIBC_2\.([0-9]+))");
  for (const std::string& version : versions) EXPECT_LE(std::stoi(version), 28) << version;
}

TEST_F(Packages, NeedNoNewerGlibcThan2_28) {
  compile(mlp(), "mlp.so");
  const std::set<std::string> versions = found_in(output_of({"readelf", "-VW", path("mlp.so")}), R"(Name: GLIBC_2\.([0-9]+))");
  EXPECT_FALSE(versions.empty());
  for (const std::string& version : versions) EXPECT_LE(std::stoi(version), 28) << version;
}

// What calls the driver has its stand-in in package/without_gpu.cpp, without which the sources of a package do not link.
TEST_F(Packages, HoldNoDriverOfGpus) {
  compile(mlp(), "mlp.so");
  const std::string bytes = read_file(path("mlp.so"));
  for (const char* word : {"NVIDIA", "libcuda", "libamdhip"}) EXPECT_EQ(bytes.find(word), bytes.npos) << word;
}

TEST_F(Packages, ShowTheirInterfaceAlone) {
  compile(mlp(), "mlp.so");
  EXPECT_EQ(found_in(output_of({"nm", "-D", "--defined-only", "--format=posix", path("mlp.so")}), R"((?:^|\n)([^ @\n]+))"),
            (std::set<std::string>{"toroid_api", "toroid_levels", "toroid_provenance"}));
}

TEST_F(Packages, RunInAProgramInC) {
  compile(mlp(), "mlp.so");
  write_file_atomically(path("x.txt"), std::string_view("x"));
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 2);
  const SafeTensor input = {"x", DType::F32, {4, 8}, std::as_bytes(std::span(x))};
  write_safetensors(path("in.safetensors"), {&input, 1});
  ASSERT_EQ(toroid({"run", path("model.txt"), "--inputs", path("in.safetensors"), "--outputs", path("out.safetensors")}).exit_code, 0);
  const SafeTensors results = read_safetensors(path("out.safetensors"));
  double sum = 0;
  for (size_t i = 0; i < 32; ++i) sum += reinterpret_cast<const float*>(results.tensors[0].bytes.data())[i];
  EXPECT_EQ(first_steps("mlp.so"), fmt::format("{} {:.6f}\n", machine().isa.name(), sum));
}

// The loader keeps the path as it was given.
TEST_F(Packages, FindTheirFileByARelativePath) {
  compile(mlp(), "mlp.so");
  const std::string by_path = first_steps("mlp.so");
  EXPECT_EQ(output_of({FIRST_STEPS, "./mlp.so"}), by_path);
}

TEST_F(Packages, GiveTheSameResultsByTheirOwnRunSide) {
  compile(mlp(), "mlp.so");
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.01f * static_cast<float>(i);
  const SafeTensor input = {"x", DType::F32, {4, 8}, std::as_bytes(std::span(x))};
  write_safetensors(path("in.safetensors"), {&input, 1});
  output_of({RUN_PACKAGE, path("mlp.so"), path("in.safetensors"), path("own.safetensors")});
  for (const char* model : {"model.txt", "mlp.so"}) {
    ASSERT_EQ(toroid({"run", path(model), "--inputs", path("in.safetensors"), "--outputs", path("out.safetensors")}).exit_code, 0);
    EXPECT_EQ(read_file(path("own.safetensors")), read_file(path("out.safetensors"))) << model;
  }
}

TEST_F(Packages, MayHaveTheirWeightsBesideThem) {
  compile(mlp(), "whole.so");
  compile(mlp(), "mlp.so", {"--weights", path("mlp.weights")});
  EXPECT_LT(fs::file_size(path("mlp.so")), fs::file_size(path("whole.so")));
  EXPECT_EQ(first_steps("mlp.so"), first_steps("whole.so"));
  fs::rename(path("mlp.weights"), path("elsewhere"));
  const ProcessResult result = run_process({.argv = {FIRST_STEPS, path("mlp.so")}});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.errors.find("the weight 'w' is missing"), std::string::npos) << result.errors;
}

TEST_F(Packages, MayHaveTheirWeightsByName) {
  compile(mlp(), "whole.so");
  compile(mlp(), "mlp.so", {"--weights", path("mlp.safetensors")});
  EXPECT_LT(fs::file_size(path("mlp.so")), fs::file_size(path("whole.so")));
  EXPECT_EQ(first_steps("mlp.so"), first_steps("whole.so"));
  std::set<std::string> names;
  const SafeTensors written = read_safetensors(path("mlp.safetensors"));
  for (const SafeTensor& tensor : written.tensors) names.insert(tensor.name);
  EXPECT_EQ(names, (std::set<std::string>{"b", "w"}));
  write_file_atomically(path("mlp.weights"), std::string_view("of an earlier compilation"));
  const ProcessResult two = run_process({.argv = {FIRST_STEPS, path("mlp.so")}});
  EXPECT_NE(two.exit_code, 0);
  EXPECT_NE(two.errors.find("there are two files: "), std::string::npos) << two.errors;
  fs::remove(path("mlp.weights"));
  std::string bytes = read_file(path("mlp.safetensors"));
  bytes[8] = '[';
  write_file_atomically(path("mlp.safetensors"), std::string_view(bytes));
  const ProcessResult result = run_process({.argv = {FIRST_STEPS, path("mlp.so")}});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.errors.find("at byte 8"), std::string::npos) << result.errors;
}

// What a program links with libc and libm alone; two in one, of which each knows its own weights.
TEST_F(Packages, MayBeArchives) {
  compile(mlp(), "whole.so");
  std::string other = mlp();
  other.replace(other.find("= [-1, "), 7, "= [3, ");
  compile(other, "other.so", {"--weights", path("other.weights")});
  const std::string whole = first_steps("whole.so"), changed = first_steps("other.so");
  ASSERT_NE(whole, changed);
  compile(mlp(), "one.a");
  compile(other, "two.a");
  const auto sum_of = [](const std::string& printed) { return printed.substr(printed.find(' ') + 1); };
  for (const char* language : {"c", "c++"}) {
    output_of({language == std::string("c") ? "cc" : "c++", "-x", language, TOROID_SOURCE_DIR "/tests/package/two_archives.c", "-x", "none",
               "-I.", "-Wall", "-Werror", "-Wno-missing-field-initializers", path("one.a"), path("two.a"), "-lm", "-o", path("both")});
    EXPECT_EQ(output_of({path("both")}), sum_of(whole) + sum_of(changed));
    EXPECT_EQ(output_of({path("both"), path("whole.so")}), sum_of(whole) + sum_of(whole)) << "with the other one's weights";
  }
  const std::set<std::string> shown =
      found_in(output_of({"nm", "-g", "--defined-only", "--format=posix", path("one.a")}), R"((?:^|\n)([^ \n]+) [A-Z] )");
  EXPECT_EQ(shown, (std::set<std::string>{"one_toroid_api", "one_toroid_weights", "one_toroid_weights_end"}));
}

TEST_F(Packages, AreVerifiedByTheCommand) {
  compile(mlp(), "mlp.so", {"--cpu", "baseline"});
  const Outcome whole = toroid({"verify", "mlp.so"});
  EXPECT_EQ(whole.exit_code, 0);
  EXPECT_TRUE(whole.output.starts_with("mlp.so: whole; for baseline; ")) << whole.output;
  std::string bytes = read_file(path("mlp.so"));
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(path("bad.so"), std::string_view(bytes));
  const Outcome damaged = toroid({"verify", "mlp.so", "bad.so"});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_TRUE(damaged.errors.starts_with("error: bad.so is damaged: its library")) << damaged.errors;
}

TEST_F(Packages, SayWhereTheyComeFrom) {
  compile(mlp(), "mlp.so", {"--cpu", "baseline"});
  const std::string lines = toroid({"verify", "mlp.so"}).output;
  EXPECT_TRUE(has_match(lines, "\n  compiler (g|clang)\\+\\+ [0-9]+\\.[0-9.]+[^\n]*\n  toroid [0-9.]+\n  model model.txt\n")) << lines;
  EXPECT_NE(lines.find("\n  sha256 " + sha256(mlp()).hex() + "\n"), lines.npos) << lines;
  EXPECT_EQ(read_file(path("mlp.so")).find(std::filesystem::path(path("")).parent_path().string()), std::string::npos) << "a folder's name";
  // By libtoroid.so's run side and by its own.
  void* const library = dlopen(path("mlp.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto get = reinterpret_cast<const ToroidApi* (*)(uint32_t)>(dlsym(library, "toroid_api"));
  std::vector<std::string> said;
  for (const ToroidApi* api : {toroid_api(TOROID_API_VERSION), get(TOROID_API_VERSION)}) {
    char message[2048] = "";
    ToroidModel* model = nullptr;
    ASSERT_EQ(api->model_open(said.empty() ? path("mlp.so").c_str() : nullptr, nullptr, &model, message, sizeof message), TOROID_OK)
        << message;
    ToroidModelInfo info{};
    info.size = sizeof info;
    EXPECT_EQ(api->model_info(model, &info), TOROID_OK);
    said.emplace_back(info.provenance);
    api->model_close(model);
  }
  EXPECT_EQ(said[0], said[1]);
  EXPECT_NE(said[0].find("\nmodel model.txt\nsha256 " + sha256(mlp()).hex() + "\n"), std::string::npos) << said[0];

  // The same program of another file, from the cache.
  write_file_atomically(path("other.txt"), mlp());
  ASSERT_EQ(toroid({"compile", path("other.txt"), "-o", path("other.so"), "--cpu", "baseline"}).exit_code, 0);
  const std::string other = toroid({"verify", "other.so"}).output;
  EXPECT_NE(other.find("\n  model other.txt\n"), other.npos) << other;
}

// Keys of RFC 8032's first two tests.
struct KeyPair {
  const char *secret, *open;
};
constexpr KeyPair kOurs = {"MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g",
                           "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="};
constexpr KeyPair kTheirs = {"MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7",
                             "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="};

class SignedPackages : public Packages {
 protected:
  void SetUp() override {
    Packages::SetUp();
    write("ours.pem", "PRIVATE", kOurs.secret);
    write("theirs.pem", "PRIVATE", kTheirs.secret);
    write("trusted.pem", "PUBLIC", kOurs.open);
  }
  void write(const std::string& file, std::string_view kind, std::string_view key) const {
    write_file_atomically(path(file), fmt::format("-----BEGIN {0} KEY-----\n{1}\n-----END {0} KEY-----\n", kind, key));
  }
  // What model_open says where our key is trusted; "" for success.
  std::string opening(const std::string& file, const std::string& weights = "") const {
    const std::vector<PublicKey> keys = read_public_keys(path("trusted.pem"));
    ToroidModelOptions options{};
    options.trusted_keys = reinterpret_cast<const uint8_t*>(keys.data());
    options.num_trusted_keys = static_cast<int32_t>(keys.size());
    return Packages::opening(file, options, weights);
  }
};

TEST_F(SignedPackages, AreOpenedWhereTheirKeyIsTrusted) {
  compile(mlp(), "mlp.so", {"--sign", path("ours.pem")});
  EXPECT_EQ(opening("mlp.so"), "");
  const Outcome verified = toroid({"verify", "--trusted", path("trusted.pem"), "mlp.so"});
  EXPECT_EQ(verified.exit_code, 0) << verified.errors;
  EXPECT_TRUE(verified.output.starts_with("mlp.so: whole and signed; for ")) << verified.output;
  compile(mlp(), "unsigned.so");
  EXPECT_EQ(first_steps("mlp.so"), first_steps("unsigned.so")) << "who asks for no signature does not see it";
}

TEST_F(SignedPackages, AreRefusedOtherwise) {
  compile(mlp(), "none.so");
  EXPECT_NE(opening("none.so").find("is not signed by a key that is trusted: it has no signature"), std::string::npos)
      << opening("none.so");
  compile(mlp(), "theirs.so", {"--sign", path("theirs.pem")});
  EXPECT_NE(opening("theirs.so").find("its signature is of another key"), std::string::npos) << opening("theirs.so");
  const Outcome refused = toroid({"verify", "--trusted", path("trusted.pem"), "theirs.so"});
  EXPECT_EQ(refused.exit_code, 1);

  // Another package with our signature.
  compile(mlp(), "ours.so", {"--sign", path("ours.pem")});
  constexpr size_t kBlock = 120;
  const std::string ours = read_file(path("ours.so"));
  std::string other = mlp();
  other.replace(other.find("= [-1, "), 7, "= [3, ");
  compile(other, "other.so");
  write_file_atomically(path("forged.so"), read_file(path("other.so")) + ours.substr(ours.size() - kBlock));
  EXPECT_NE(opening("forged.so").find("its signature is of other bytes"), std::string::npos) << opening("forged.so");
  std::string damaged = ours;
  damaged[ours.size() - kBlock + 40] ^= 1;
  write_file_atomically(path("damaged.so"), std::string_view(damaged));
  EXPECT_NE(opening("damaged.so").find("its signature is not as it was written"), std::string::npos) << opening("damaged.so");
}

TEST_F(SignedPackages, HaveWeightsThatGoWithNoOtherLibrary) {
  std::string other = mlp();
  other.replace(other.find("tanh"), 4, "relu");
  compile(mlp(), "one.so", {"--sign", path("ours.pem"), "--weights", path("one.weights")});
  compile(other, "two.so", {"--sign", path("ours.pem"), "--weights", path("two.weights")});
  EXPECT_EQ(opening("one.so"), "");
  EXPECT_EQ(opening("one.so", "one.weights"), "");
  EXPECT_NE(opening("one.so", "two.weights").find("its signature is of other bytes"), std::string::npos)
      << opening("one.so", "two.weights");
  EXPECT_EQ(toroid({"verify", "--trusted", path("trusted.pem"), "one.so", "one.weights", "two.so", "two.weights"}).exit_code, 0);
  EXPECT_EQ(toroid({"verify", "--trusted", path("trusted.pem"), "one.so", "two.weights"}).exit_code, 1);
  compile(mlp(), "named.so", {"--weights", path("named.safetensors")});
  EXPECT_NE(opening("one.so", "named.safetensors").find("has no signature"), std::string::npos);
}

TEST_F(SignedPackages, DoNotVouchForThemselves) {
  compile(mlp(), "mlp.so", {"--sign", path("ours.pem")});
  void* const library = dlopen(path("mlp.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto get = reinterpret_cast<const ToroidApi* (*)(uint32_t)>(dlsym(library, "toroid_api"));
  const std::vector<PublicKey> keys = read_public_keys(path("trusted.pem"));
  ToroidModelOptions options{};
  options.size = sizeof options;
  options.trusted_keys = reinterpret_cast<const uint8_t*>(keys.data());
  options.num_trusted_keys = 1;
  char message[2048] = "";
  ToroidModel* model = nullptr;
  EXPECT_EQ(get(TOROID_API_VERSION)->model_open(nullptr, &options, &model, message, sizeof message), TOROID_ERROR_UNSUPPORTED) << message;
  EXPECT_NE(std::string(message).find("does not verify its own signature"), std::string::npos) << message;
}

TEST_F(SignedPackages, NeedAKey) {
  write_file_atomically(path("model.txt"), mlp());
  const Outcome outcome = toroid({"compile", path("model.txt"), "-o", path("m.so"), "--sign", path("trusted.pem")});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.errors.find("holds no private key of Ed25519"), std::string::npos) << outcome.errors;
}

TEST_F(Packages, AreTheSameBytesEachTime) {
  compile(mlp(), "one.so", {"--no-cache"});
  fs::create_directories(path("elsewhere"));
  compile(mlp(), "elsewhere/two.so", {"--no-cache"}, {{"TMPDIR", path("elsewhere")}});
  EXPECT_TRUE(read_file(path("one.so")) == read_file(path("elsewhere/two.so")));
}

TEST_F(Packages, RunTheLevelThatTheMachineHas) {
  compile(mlp(), "mlp.so", {"--cpu", "avx2,baseline"});
  for (const char* level : {"baseline", "avx2"}) {
    if (!has_instructions(parse_isa(level), machine().isa)) continue;  // all have the baseline
    const std::string printed = first_steps("mlp.so", {{"TOROID_MACHINE", level}});
    EXPECT_EQ(printed.substr(0, printed.find(' ')), level);
  }
}

class UnwoundFrames : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(library_, nullptr) << ::dlerror(); }
  void TearDown() override {
    if (library_ != nullptr) ::dlclose(library_);
  }
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

 private:
  void* library_ = ::dlopen(UNWINDS, RTLD_NOW | RTLD_LOCAL);
};

TEST_F(UnwoundFrames, GiveBackWhatTheirCallersKept) {
  const auto unwinds = function<int(int)>("unwinds");
  ASSERT_NE(unwinds, nullptr);
  EXPECT_EQ(unwinds(machine().isa.level == IsaLevel::Avx512 ? 1 : 0), 0);
}

// By the host's libgcc_s.so.1, which goes through the same frames.
TEST_F(UnwoundFrames, EndWithAThreadThatIsCancelled) {
  const auto wait_in_frames = function<void(void (*)())>("wait_in_frames");
  const auto alive = function<int()>("alive_in_frames");
  ASSERT_TRUE(wait_in_frames != nullptr && alive != nullptr);
  const auto work = [](void* wait_in) -> void* {
    reinterpret_cast<void (*)(void (*)())>(wait_in)([] {
      for (;;) ::pause();
    });
    return nullptr;
  };
  pthread_t thread = {};
  ASSERT_EQ(::pthread_create(&thread, nullptr, work, reinterpret_cast<void*>(wait_in_frames)), 0);
  while (alive() != 4) ::usleep(1000);
  ASSERT_EQ(::pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(::pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_EQ(alive(), 0);
}

// What products take of the run side is decided by their sizes: here each kind of panel, with each number of rows.
TEST_F(Packages, HaveTheKernelsOfAllTheirCalls) {
  write_file_atomically(path("x.txt"), std::string_view("x"));
  for (const int columns : {3, 5, 10, 24, 64, 80}) {
    std::string weights;
    for (int i = 0; i < 9 * columns; ++i) weights += fmt::format("{}{}", i == 0 ? "" : ", ", 0.125 * (i % 11) - 0.5);
    const bool is_transposed = columns % 5 == 0 || columns < 5;
    compile(fmt::format("program \"product\"\nsym s0 in [1, 64]\nconstant 0 \"w\": f32[{2}] = [{1}]\n"
                        "graph(x: f32[s0, 9]) {{\n  w: f32[{2}] = constant(0)\n  y: f32[s0, {0}] = aten::{3}(x, w)\n  return y\n}}\n",
                        columns, weights, is_transposed ? fmt::format("{}, 9", columns) : fmt::format("9, {}", columns),
                        is_transposed ? "linear" : "mm"),
            "product.so");
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 14, 15, 29, 64}) {
      std::vector<float> x(static_cast<size_t>(rows) * 9);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) * 0.25F - 1;
      const SafeTensor input{"x", DType::F32, {rows, 9}, std::as_bytes(std::span(x))};
      write_safetensors(path("in.safetensors"), {&input, 1});
      output_of({RUN_PACKAGE, path("product.so"), path("in.safetensors"), path("own.safetensors")});
      ASSERT_EQ(toroid({"run", path("model.txt"), "--inputs", path("in.safetensors"), "--outputs", path("out.safetensors")}).exit_code, 0);
      EXPECT_EQ(read_file(path("own.safetensors")), read_file(path("out.safetensors"))) << columns << " columns, " << rows << " rows";
    }
  }
}

// Its functions lie in other files than those that call them.
TEST_F(Packages, HaveTilesOfMachinesThatEmulateThem) {
  std::string weights;
  for (int i = 0; i < 128 * 64; ++i) weights += fmt::format("{}{}", i == 0 ? "" : ", ", 0.125 * (i % 11) - 0.5);
  const std::string model = fmt::format(
      "program \"product\"\nconstant 0 \"w\": f32[128, 64] = [{}]\ngraph(x: f32[256, 128]) {{\n  w: f32[128, 64] = constant(0)\n"
      "  y: f32[256, 64] = aten::mm(x, w)\n  return y\n}}\n",
      weights);
  std::vector<float> x(256 * 128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1003) * 0.0123F - 1;
  const SafeTensor input{"x", DType::F32, {256, 128}, std::as_bytes(std::span(x))};
  write_safetensors(path("in.safetensors"), {&input, 1});
  const std::vector<std::pair<std::string, std::string>> emulated = {{"TOROID_MACHINE", "baseline+emulated-amx"}};
  compile(model, "product.so", {}, emulated);
  output_of({RUN_PACKAGE, path("product.so"), path("in.safetensors"), path("own.safetensors")}, emulated);
  const std::vector<std::string> run = {"run", path("model.txt"), "--inputs", path("in.safetensors"), "--outputs"};
  const auto run_to = [&](const std::string& file, std::vector<std::pair<std::string, std::string>> environment) {
    std::vector<std::string> command = run;
    command.push_back(path(file));
    ASSERT_EQ(toroid(command, std::move(environment)).exit_code, 0);
  };
  run_to("tiles.safetensors", emulated);
  run_to("vectors.safetensors", {{"TOROID_MACHINE", "baseline"}});
  EXPECT_EQ(read_file(path("own.safetensors")), read_file(path("tiles.safetensors")));
  EXPECT_NE(read_file(path("vectors.safetensors")), read_file(path("tiles.safetensors"))) << "the test computes in no tiles";
}

// docs/packages.md has the sizes; these leave a tenth for other compilers.
TEST_F(Packages, AreSmall) {
  // On any machine. Portable ones have kernels for tiles.
  const std::pair<const char*, uintmax_t> most[] = {
      {"avx512+vnni+bf16", 370'000}, {"baseline", 370'000}, {"avx512+vnni+bf16,avx2,baseline", 420'000}, {"portable", 480'000}};
  for (const auto& [levels, bytes] : most) {
    compile(mlp(), "mlp.so", {"--cpu", levels});
    EXPECT_LT(fs::file_size(path("mlp.so")), bytes) << levels;
  }
}

// The recorded mlp, of any size of batch. What it takes cannot grow unseen.
TEST_F(Packages, AreSmallWithAllLevels) {
  const std::string model = std::string(TOROID_CONFORMANCE_DIR) + "/models/mlp.pt2";
  ASSERT_EQ(toroid({"compile", model, "-o", path("mlp.so"), "--weights", path("mlp.weights"), "--cpu", "portable"}).exit_code, 0);
  const std::set<std::string> text = found_in(output_of({"size", "-A", "-d", path("mlp.so")}), R"(\n\.text +([0-9]+))");
  ASSERT_EQ(text.size(), 1U);
#if __GNUC__ == 12 && !defined(__clang__)
  constexpr size_t kMostCode = 300'000, kMost = 435'000;
#else
  constexpr size_t kMostCode = 330'000, kMost = 480'000;
#endif
  // mold has one function in the place of several that are the same.
  const double more = find_program("mold") ? 1 : 1.1;
  EXPECT_LT(static_cast<double>(std::stoul(*text.begin())), more * kMostCode);
  EXPECT_LT(static_cast<double>(fs::file_size(path("mlp.so"))), more * kMost);
}

// docs/packages.md has the command for 10,000.
TEST_F(Packages, AreRefusedHoweverTheyAreDamaged) {
  compile(mlp(), "mlp.so");
  const std::string printed = output_of({MUTATE_PACKAGES, path("mlp.so"), "60", "7"});
  EXPECT_NE(printed.find(" refused, 0 crashed, hung or opened, "), std::string::npos) << printed;
}

// tests/c_api/soak.sh has the long form. Three kinds of library code and one older version; a Fourier transform has tables that all share,
// and results of 1 MiB come back to their context.
TEST_F(Packages, RunInManyContextsOfOneProcess) {
  compile(mlp(), "mlp.so");
  compile("graph(x: f32[8, 60]) {\n  y: c64[8, 31] = aten::_fft_r2c(x, [1], 0, true)\n  z: f32[8, 31] = aten::abs(y)\n  return z\n}\n",
          "fft.so");
  compile("graph(x: f32[512, 512]) {\n  y: f32[512, 512] = aten::relu(x)\n  return y\n}\n", "relu.so");
  const std::string printed =
      output_of({HAMMER_CONTEXTS, "--threads", "1,2,9", "--seconds", "0.2", "--swaps", "300", "--opens", "10", path("mlp.so"),
                 path("fft.so"), path("relu.so"), "--older", TOROID_SOURCE_DIR "/tests/package/kept/mlp_0.1.0.so"});
  EXPECT_TRUE(printed.ends_with("\npassed\n")) << printed;
}

// tests/package/kept/README.md
TEST_F(Packages, OfOlderVersionsRun) {
  for (const auto& [name, printed] : {std::pair("mlp_0.1.0.so", "baseline 17.409982\n")}) {
    const std::string kept = std::string(TOROID_SOURCE_DIR "/tests/package/kept/") + name;
    EXPECT_EQ(output_of({FIRST_STEPS, kept}), printed) << name;
    EXPECT_EQ(toroid({"verify", kept}).exit_code, 0) << name;
  }
}

TEST_F(Packages, AreRefusedWhereTheirCodeIsDamaged) {
  compile(mlp(), "mlp.so");
  std::string bytes = read_file(path("mlp.so"));
  const size_t text = bytes.find("no program of its own");  // words that nothing reads unless it is printed
  ASSERT_NE(text, bytes.npos);
  bytes[text] = 'N';
  write_file_atomically(path("mlp.so"), std::string_view(bytes));
  const ProcessResult result = run_process({.argv = {FIRST_STEPS, path("mlp.so")}});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.errors.find("its library"), std::string::npos) << result.errors;
}

class OpenedPackages : public Packages {
 protected:
  // Another byte at a place of the file.
  void damage(const std::string& file, size_t at) const {
    std::string bytes = read_file(path(file));
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file_atomically(path(file), std::string_view(bytes));
  }
};

TEST_F(OpenedPackages, AreCheckedWhereTheirWeightsAreNamed) {
  compile(mlp(), "mlp.so", {"--weights", path("mlp.weights")});
  EXPECT_EQ(opening("mlp.so", {}, "mlp.weights"), "");
  const std::string whole = read_file(path("mlp.so"));
  damage("mlp.so", whole.find("no program of its own"));
  EXPECT_NE(opening("mlp.so", {}, "mlp.weights").find("its library"), std::string::npos) << opening("mlp.so", {}, "mlp.weights");
  write_file_atomically(path("mlp.so"), std::string_view(whole).substr(0, whole.size() - 8));
  EXPECT_NE(opening("mlp.so", {}, "mlp.weights").find("is incomplete"), std::string::npos) << opening("mlp.so", {}, "mlp.weights");
}

TEST_F(OpenedPackages, LeaveWeightsUncheckedWhereTheyAreTold) {
  compile(mlp(), "mlp.so");
  const std::string bytes = read_file(path("mlp.so"));
  const float first = -0.25F, second = -0.125F;  // of the weights
  std::string words(reinterpret_cast<const char*>(&first), sizeof first);
  words.append(reinterpret_cast<const char*>(&second), sizeof second);
  const size_t weights = bytes.rfind(words);
  ASSERT_NE(weights, bytes.npos);
  damage("mlp.so", weights);
  ToroidModelOptions unchecked{};
  unchecked.unchecked_weights = 1;
  EXPECT_NE(opening("mlp.so", {}).find("its weights, between the bytes"), std::string::npos) << opening("mlp.so", {});
  EXPECT_EQ(opening("mlp.so", unchecked), "");
  damage("mlp.so", bytes.find("no program of its own"));
  EXPECT_NE(opening("mlp.so", unchecked).find("its library"), std::string::npos) << opening("mlp.so", unchecked);
}

TEST_F(OpenedPackages, LeaveWeightsInAFileOfTheirOwnUnchecked) {
  compile(mlp(), "mlp.so", {"--weights", path("mlp.weights")});
  const std::string whole = read_file(path("mlp.weights"));
  ToroidModelOptions unchecked{};
  unchecked.unchecked_weights = 1;
  damage("mlp.weights", 0);
  for (const char* weights : {"", "mlp.weights"}) {  // found beside the package, and named
    EXPECT_NE(opening("mlp.so", {}, weights).find("its weights, between the bytes"), std::string::npos) << opening("mlp.so", {}, weights);
    EXPECT_EQ(opening("mlp.so", unchecked, weights), "");
  }
  // What says where they are is checked all the same, and so is the library.
  write_file_atomically(path("mlp.weights"), std::string_view(whole));
  damage("mlp.weights", whole.size() - 40);
  EXPECT_NE(opening("mlp.so", unchecked).find("its description"), std::string::npos) << opening("mlp.so", unchecked);
  write_file_atomically(path("mlp.weights"), std::string_view(whole));
  damage("mlp.so", read_file(path("mlp.so")).find("no program of its own"));
  EXPECT_NE(opening("mlp.so", unchecked, "mlp.weights").find("its library"), std::string::npos);
}

// A signature is of all bytes: where keys are trusted, unchecked weights are read and verified nevertheless.
TEST_F(SignedPackages, AreVerifiedWholeWhereWeightsNeedNoChecksums) {
  compile(mlp(), "in.so", {"--sign", path("ours.pem")});
  compile(mlp(), "beside.so", {"--sign", path("ours.pem"), "--weights", path("beside.weights")});
  const std::vector<PublicKey> keys = read_public_keys(path("trusted.pem"));
  ToroidModelOptions options{};
  options.trusted_keys = reinterpret_cast<const uint8_t*>(keys.data());
  options.num_trusted_keys = 1;
  options.unchecked_weights = 1;
  EXPECT_EQ(Packages::opening("in.so", options), "");
  EXPECT_EQ(Packages::opening("beside.so", options), "");
  EXPECT_EQ(Packages::opening("beside.so", options, "beside.weights"), "");

  const float first = -0.25F, second = -0.125F;  // of the weights
  std::string words(reinterpret_cast<const char*>(&first), sizeof first);
  words.append(reinterpret_cast<const char*>(&second), sizeof second);
  for (const char* file : {"in.so", "beside.weights"}) {
    std::string bytes = read_file(path(file));
    const size_t at = bytes.rfind(words);
    ASSERT_NE(at, bytes.npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file_atomically(path(file), std::string_view(bytes));
  }
  for (const auto& [file, weights] : {std::pair("in.so", ""), std::pair("beside.so", ""), std::pair("beside.so", "beside.weights")}) {
    EXPECT_NE(Packages::opening(file, options, weights).find("its signature is of other bytes"), std::string::npos)
        << file << ": " << Packages::opening(file, options, weights);
  }
  // Without the keys nothing looks at them.
  ToroidModelOptions unchecked{};
  unchecked.unchecked_weights = 1;
  EXPECT_EQ(Packages::opening("in.so", unchecked), "");
}

// tests/package/conform_sources.sh builds whole ones.
TEST_F(Packages, AsSourcesAreATreeWhoseUnitsCompile) {
  write_file_atomically(path("model.txt"), std::string_view(mlp()));
  const std::vector<std::string> command = {"compile", path("model.txt"), "--emit-source", path("tree"), "--cpu", "avx2,baseline"};
  Outcome outcome = toroid(command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (const char* file : {"README.md", "CMakeLists.txt", "seal.cpp", "example.c", "mlp.weights", "program/program.cmake",
                           "program/prelude.h", "run_side/include/toroid/toroid.h", "run_side/src/api/api.cpp"}) {
    EXPECT_TRUE(std::filesystem::exists(path("tree") / file)) << file;
  }
  EXPECT_FALSE(std::filesystem::exists(path("tree/run_side/src/api/api_test.cpp")));
  const std::string built = read_file(path("tree/program/program.cmake"));
  for (const char* line :
       {"set(MODEL mlp)\n", "set(LEVELS level0 level1)\n", "set(LEVEL_NAMES avx2 baseline)\n", "set(LINEAR_ALGEBRA OFF)\n"})
    EXPECT_NE(built.find(line), built.npos) << built;
  output_of({"g++", "-std=gnu++17", "-w", "-O1", "-DTOROID_NAMESPACE=level1", "-c", "-o", "unit.o", "tree/program/unit.cpp"});
  output_of({"g++", "-std=gnu++17", "-w", "-c", "-o", "entry.o", "tree/program/entry.cpp"});
  EXPECT_NE(output_of({"nm", "-C", "unit.o"}).find(" level1::toroid_program\n"), std::string::npos);
  EXPECT_NE(output_of({"nm", "-C", "entry.o"}).find(" U level1::toroid_program\n"), std::string::npos);

  outcome = toroid(command);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("tree has files in it\n  help: name a new one"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace toroid
