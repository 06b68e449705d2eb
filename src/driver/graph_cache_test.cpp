#include "driver/graph_cache.h"
#include "driver/pipeline/generate.h"
#include "driver/signature.h"

#include <thread>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "cache/remote/remote_for_test.h"
#include "cache/remote/remote_health.h"
#include "cache/scratch_cache_for_test.h"
#include "cache/sqlite.h"
#include "driver/end_to_end/compiled_for_test.h"
#include "passes/decompose/engine/overrides.h"
#include "toolchain/fake_compiler_for_test.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = fs::path(TOROID_CONFORMANCE_DIR) / "models/mlp.pt2";

// Sessions with a cache of their own.
class GraphCacheTest : public testing::Test {
 protected:
  static std::string cache_use(const std::string& text, const CompileModelOptions& options = {}) {
    return CompileSession().compile(parse_text(text), options).cache_use;
  }

  ScratchCache scratch_;
};

std::string scaled(std::string_view weights, std::string_view more = "") {
  return fmt::format(R"(
{1}sym s0 in [1, 512] hint 8
constant 0 "w": f32[20] = [{0}]
graph(x: f32[s0, 20]) {{
  w: f32[20] = constant(0)
  y: f32[s0, 20] = aten::mul.Tensor(x, w)
  return y
}})",
                     weights, more);
}
std::string twenty(int first) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("{}{}.0", i == 0 ? "" : ", ", first + i);
  return text;
}
const HostTensor kOnes = HostTensor::from_doubles(DType::F32, {1, 20}, std::vector<double>(20, 1.0));

TEST_F(GraphCacheTest, TheSameFileIsNotEvenReadAsAModel) {
  const CompiledModel cold = CompileSession().compile_file(kModel);
  EXPECT_EQ(cold.cache_use, "miss");
  const fs::path copy = scratch_.files() / "renamed.pt2";
  fs::copy_file(kModel, copy);
  const CompiledModel warm = CompileSession().compile_file(copy);
  EXPECT_EQ(warm.cache_use, "hit: model file");
  EXPECT_EQ(warm.phases.size(), 1u);
  EXPECT_EQ(warm.library, cold.library);
  EXPECT_EQ(warm.kernels, cold.kernels);
  ASSERT_EQ(warm.constants.size(), cold.constants.size());
  for (size_t i = 0; i < warm.constants.size(); ++i) {
    EXPECT_TRUE(std::equal(warm.constants[i].begin(), warm.constants[i].end(), cold.constants[i].begin(), cold.constants[i].end()));
  }
  Executable executable = warm.load(1);
  const Program signature = signature_of(general_variant(executable.tables()));
  const std::vector<HostTensor> inputs = example_inputs(signature, {{signature.symbols->symbols()[0].node()->name, 4}});
  EXPECT_EQ(difference(executable.run(inputs)[0], cold.load(1).run(inputs)[0], {}), std::nullopt);
}

TEST_F(GraphCacheTest, OtherWeightsInTheSameGraphAreAHit) {
  EXPECT_EQ(cache_use(scaled(twenty(0))), "miss");
  const CompiledModel other = CompileSession().compile(parse_text(scaled(twenty(100), "program \"trained again\"\n")));
  EXPECT_EQ(other.cache_use, "hit: graph");
  EXPECT_EQ(other.load(1).run({&kOnes, 1})[0].double_at(3), 103.0);
}

// The bias of a classifier of ten classes, a scale of rank 0, and the count of batches that a norm has seen.
TEST_F(GraphCacheTest, SmallWeightsMayBeTrainedAgain) {
  auto classifier = [](int value) {
    return parse_text(fmt::format(R"(
constant 0 "bias": f32[3] = [{0}.0, 1.0, {0}.5]
constant 1 "scale": f32[] = [{0}.25]
buffer 2 "norm.num_batches_tracked": i64[] = [{0}]
graph(x: f32[2, 3]) {{
  bias: f32[3] = constant(0)
  scale: f32[] = constant(1)
  seen: i64[] = constant(2)
  y: f32[2, 3] = aten::add.Tensor(x, bias)
  z: f32[2, 3] = aten::mul.Tensor(y, scale)
  return z
}})",
                                  value));
  };
  EXPECT_EQ(CompileSession().compile(classifier(1)).cache_use, "miss");
  const CompiledModel again = CompileSession().compile(classifier(2));
  EXPECT_EQ(again.cache_use, "hit: graph");
  const HostTensor x = HostTensor::from_doubles(DType::F32, {2, 3}, std::vector<double>(6, 1.0));
  EXPECT_EQ(again.load(1).run({&x, 1})[0].double_at(2), (1 + 2.5) * 2.25);
}

TEST_F(GraphCacheTest, ComplexAndQuantisedWeightsMayBeTrainedAgain) {
  auto model = [](std::string_view filter, int code) {
    return parse_text(fmt::format(R"(
constant 0 "filter": c64[1] = hex {}
constant 1 "codes": i8[3] = [{}, -5, 7]
graph(x: f32[3]) {{
  filter: c64[1] = constant(0)
  codes: i8[3] = constant(1)
  parts: f32[1, 2] = aten::view_as_real(filter)
  wide: f32[3] = aten::to.dtype(codes, dtype.f32)
  y: f32[3] = aten::mul.Tensor(x, wide)
  return y, parts
}})",
                                  filter, code));
  };
  EXPECT_EQ(CompileSession().compile(model("0000803f000000bf", 1)).cache_use, "miss");  // 1 - i/2
  const CompiledModel again = CompileSession().compile(model("00000040000000bf", 2));   // 2 - i/2
  EXPECT_EQ(again.cache_use, "hit: graph");
  const HostTensor x = HostTensor::from_doubles(DType::F32, {3}, std::vector<double>(3, 1.0));
  const std::vector<HostTensor> results = again.load(1).run({&x, 1});
  EXPECT_EQ(results[0].double_at(0), 2);
  EXPECT_EQ(results[1].double_at(0), 2);
}

TEST_F(GraphCacheTest, ConstantsThatPassesReadCountByValue) {
  auto positions = [](int value) {
    std::string list;
    for (int i = 0; i < 40; ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", (i + value) % 40);
    return fmt::format(
        "constant 0 \"i\": i64[40] = [{}]\n"
        "graph(x: f32[40]) {{\n  i: i64[40] = constant(0)\n  y: f32[40] = aten::index_select(x, 0, i)\n  return y\n}}",
        list);
  };
  EXPECT_EQ(cache_use(positions(0)), "miss");
  EXPECT_NE(cache_use(positions(1)), "hit: graph");
  auto one = [](std::string_view index) {
    return fmt::format(
        "constant 0 \"i\": i64[1] = [{}]\n"
        "graph(x: f32[40]) {{\n  i: i64[1] = constant(0)\n  y: f32[1] = aten::index_select(x, 0, i)\n  return y\n}}",
        index);
  };
  EXPECT_EQ(cache_use(one("3")), "miss");
  const CompiledModel missed = CompileSession().compile(parse_text(one("4")), {.explain_cache = true});
  ASSERT_GE(missed.lookups.size(), 1u);
  ASSERT_TRUE(missed.lookups[0].nearest);
  EXPECT_EQ(differing_labels(missed.lookups[0].key.parts, *missed.lookups[0].nearest), std::vector<std::string>{"constant 0"});
  EXPECT_EQ(part_text(missed.lookups[0].key.parts, "constant 0"), "i i64[1] = [4]");
}

// Integers that passes read may share their memory with floats that none does.
TEST_F(GraphCacheTest, IntegersCountByValueWhateverTheyShareMemoryWith) {
  const auto number = std::make_shared<int32_t>();
  const auto model = [&](int32_t value) {
    Program program = parse_text(R"(
constant 0 "w": f32[1] = [0]
constant 1 "n": i32[1] = [0]
graph(x: f32[4]) {
  w: f32[1] = constant(0)
  n: i32[1] = constant(1)
  y: f32[4] = aten::mul.Tensor(x, w)
  z: f32[4] = aten::add.Tensor(y, n)
  return z
})");
    *number = value;
    for (ConstantData& constant : program.constants) {
      constant.bytes = std::as_bytes(std::span(number.get(), 1));
      constant.owner = number;
    }
    return program;
  };
  EXPECT_EQ(CompileSession().compile(model(1)).cache_use, "miss");
  EXPECT_NE(CompileSession().compile(model(2)).cache_use, "hit: graph");
}

TEST_F(GraphCacheTest, TheSameModelGivesTheSameBytesFromAnyPath) {
  const fs::path folder = scratch_.files() / "elsewhere";
  fs::create_directories(folder);
  fs::copy_file(kModel, folder / "other.pt2");
  CompileSession session(false);
  EXPECT_EQ(session.compile_file(kModel).library, session.compile_file(folder / "other.pt2").library);
}

TEST_F(GraphCacheTest, WhichConstantsShareMemoryIsPartOfTheGraph) {
  const std::string text = fmt::format(R"(
constant 0 "w": f32[20] = [{0}]
constant 1 "v": f32[20] = [{0}]
graph(x: f32[1, 20]) {{
  w: f32[20] = constant(0)
  v: f32[20] = constant(1)
  y: f32[1, 20] = aten::mul.Tensor(x, w)
  z: f32[1, 20] = aten::add.Tensor(y, v)
  return z
}})",
                                       twenty(0));
  Program tied = parse_text(text);
  tied.constants[1].bytes = tied.constants[0].bytes;
  tied.constants[1].owner = tied.constants[0].owner;
  EXPECT_EQ(CompileSession().compile(std::move(tied)).cache_use, "miss");
  Program untied = parse_text(text);
  auto other = std::make_shared<HostTensor>(HostTensor::from_doubles(DType::F32, {20}, std::vector<double>(20, 5.0)));
  untied.constants[1].bytes = other->bytes();
  untied.constants[1].owner = other;
  const CompiledModel model = CompileSession().compile(std::move(untied));
  EXPECT_NE(model.cache_use, "hit: graph");
  EXPECT_EQ(model.load(1).run({&kOnes, 1})[0].double_at(3), 8.0);
}

TEST_F(GraphCacheTest, EverythingThatDecidesTheResultIsAMiss) {
  const std::string text = scaled(twenty(0));
  EXPECT_EQ(cache_use(text), "miss");
  EXPECT_EQ(cache_use(text), "hit: graph");
  EXPECT_EQ(cache_use(text, {.optimization = 2}), "miss");
  EXPECT_NE(cache_use(text, {.optimise = false}), "hit: graph");
  EXPECT_EQ(cache_use(text, {.variants = {{{"s0", 1}}}}), "miss");
  EXPECT_EQ(cache_use(text, {.variants = {{{"s0", 2}}}}), "miss");
  EXPECT_EQ(cache_use(text, {.compiler_flags = {"-fno-unroll-loops"}}), "miss");
  EXPECT_EQ(cache_use(text, {.compiler_flags = {"-fno-unroll-loops", "-O2"}}), "miss");
  EXPECT_EQ(error_of([&] { cache_use(text, {.compiler_flags = {"-march=native"}}); }).kind(), ErrorKind::InvalidOption);
  EXPECT_NE(cache_use(text, {.without_passes = {"fold-constants"}}), "hit: graph");
  EXPECT_EQ(cache_use(text, {.without_passes = {"fold-constants"}}), "hit: graph");
  EXPECT_EQ(cache_use(text, {.assertions = true}), "miss");
  EXPECT_EQ(cache_use(text, {.assertions = true}), "hit: graph");
  EXPECT_EQ(cache_use(text, {.compile_threads = 1}), "hit: graph");  // decides the time only
  // What compilers read decides, or is withheld from them.
  auto use_with = [&](const char* variable, const char* value) {
    const ScopedVariable scope(variable, value);
    return cache_use(text);
  };
  EXPECT_EQ(use_with("COMPILER_PATH", "/nonexistent"), "miss");
  EXPECT_EQ(use_with("CCC_OVERRIDE_OPTIONS", "+-fno-such-flag"), "hit: graph");
  EXPECT_EQ(use_with("TOROID_ISA", "baseline"), "miss");
  EXPECT_EQ(use_with("TOROID_CXXFLAGS", "-fno-tree-vectorize"), "miss");
  EXPECT_EQ(use_with("TOROID_CXXFLAGS", "-fno-tree-vectorize -g"), "miss");
  std::string wider = text;
  wider.replace(wider.find("512"), 3, "513");
  EXPECT_NE(cache_use(wider), "hit: graph");
  std::string hinted = text;
  hinted.replace(hinted.find("hint 8"), 6, "hint 9");
  EXPECT_EQ(cache_use(hinted), "hit: graph");
}

TEST_F(GraphCacheTest, AWishForMoreThanTheResultBypassesWithAReason) {
  const std::string text = scaled(twenty(0));
  EXPECT_EQ(cache_use(text, {.save_source = scratch_.files() / "source"}), "bypass: the generated sources are wanted");
  EXPECT_EQ(cache_use(text, {.dump_ir = scratch_.files() / "ir"}), "bypass: the program's phases are wanted");
  EXPECT_EQ(cache_use(text, {.keep_program = true}), "bypass: the program is wanted");
  EXPECT_EQ(CompileSession(false).compile(parse_text(text)).cache_use, "bypass: the cache is off");
}

// A debug build refers to its sources, so they are there also when the library comes from the cache, and a build that refers to others is
// another one.
TEST_F(GraphCacheTest, DebugBuildsHaveTheirSources) {
  const std::string text = scaled(twenty(0));
  auto sources_in = [](const fs::path& folder) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".cpp") found.push_back(entry.path());
    }
    return found;
  };
  auto debug_build = [&](const fs::path& folder, const CompileModelOptions& options = {.debug = true}) {
    const ScopedVariable variable("TOROID_KEEP_FILES", folder.string());
    return CompileSession().compile(parse_text(text), options);
  };
  const fs::path here = scratch_.files() / "here", there = scratch_.files() / "there";
  const CompiledModel cold = debug_build(here);
  EXPECT_FALSE(cold.from_cache);
  ASSERT_EQ(sources_in(here).size(), 1u);
  EXPECT_NE(cold.library.find(sources_in(here)[0].string()), std::string::npos);
  fs::remove_all(here);
  EXPECT_TRUE(debug_build(here).from_cache);
  EXPECT_EQ(sources_in(here).size(), 1u);
  EXPECT_FALSE(debug_build(there).from_cache);
  EXPECT_FALSE(debug_build(here, {}).from_cache);
  EXPECT_EQ(cold.load(1).run({&kOnes, 1})[0].double_at(3), 3.0);
  EXPECT_EQ(error_of([&] { CompileSession().compile(parse_text(text), {.debug = true}); }).help_text(),
            "name one with TOROID_KEEP_FILES=DIR");
}

TEST_F(GraphCacheTest, AnotherFormulaIsSeenByItsCompilationsAlone) {
  const std::string text = scaled(twenty(0));
  EXPECT_EQ(cache_use(text), "miss");
  {
    const OverriddenDecomposition sums(
        "aten::mul.Tensor", [](Decomposer&, const Args& a) -> std::vector<Tensor> { return {a.tensor("self") + a.tensor("other")}; });
    const CompiledModel model = CompileSession().compile(parse_text(text));
    EXPECT_EQ(model.cache_use, "bypass: decompositions are overridden");
    EXPECT_EQ(model.load(1).run({&kOnes, 1})[0].double_at(3), 4.0);
  }
  EXPECT_EQ(cache_use(text), "hit: graph");
  EXPECT_EQ(CompileSession().compile(parse_text(text)).load(1).run({&kOnes, 1})[0].double_at(3), 3.0);
}

TEST_F(GraphCacheTest, CodeNeedsNoCompiler) {
  const FakeCompiler fake("exit 1");
  const ScopedVariable compiler("TOROID_CXX", fake.path().string());
  const codegen::GeneratedProgram code = generate_code(parse_text(scaled(twenty(0))));
  ASSERT_EQ(code.kernels.size(), 1u);
  EXPECT_NE(code.kernels[0].text.find("const float* x"), std::string::npos) << code.kernels[0].text;
  EXPECT_EQ(code.units.size(), 1u);
  EXPECT_EQ(program::counts(code.module).kernel_calls, 1);
  EXPECT_EQ(fake.runs(), 0);
}

TEST_F(GraphCacheTest, ALostLibraryIsMadeAgain) {
  const std::string text = scaled(twenty(0));
  const CompiledModel cold = CompileSession().compile(parse_text(text));
  {
    Store store;
    store.put({.kind = "library", .hex = cold.graph.library_key, .parts = ""}, "");
    Database(store.file()).execute("DELETE FROM entries WHERE kind = 'library'");
  }
  const CompiledModel again = CompileSession().compile(parse_text(text));
  EXPECT_EQ(again.cache_use, "miss");
  EXPECT_EQ(again.library, cold.library);
  EXPECT_EQ(cache_use(text), "hit: graph");
}

TEST_F(GraphCacheTest, AnotherMachineTakesItFromTheServer) {
  if (!RedisProcess::is_installed()) GTEST_SKIP() << "redis-server is not installed: nothing of this was tested";
  const RedisProcess redis;
  const fs::path secret = scratch_.files() / "secret";
  write_file_atomically(secret, std::string_view("a secret of more than 32 bytes, as it must be"), 0600);
  auto on_machine = [&](const char* name) {
    scratch_.switch_to(name);
    return CompileSession().compile_file(kModel);
  };
  std::optional<ScopedVariable> address(std::in_place, "TOROID_REMOTE_CACHE", redis.address());
  const ScopedVariable key("TOROID_REMOTE_CACHE_KEY", secret.string());
  const CompiledModel first = on_machine("first"), second = on_machine("second");
  std::optional<ScopedVariable> mode(std::in_place, "TOROID_REMOTE_CACHE_MODE", "ro");
  const CompiledModel third = on_machine("third");
  mode.reset();
  address.reset();
  EXPECT_EQ(first.cache_use, "miss");
  EXPECT_EQ(second.cache_use, "hit: model file");
  EXPECT_EQ(second.library, first.library);
  EXPECT_EQ(third.cache_use, "hit: model file");
  EXPECT_EQ(on_machine("second").cache_use, "hit: model file");  // without the server
  std::map<std::string, int64_t> counters = Store().counters();
  EXPECT_EQ(counters["remote hits"], 2);
  EXPECT_EQ(counters["graph hits"], 2);
}

// What one machine knows of a graph is added to what others know.
TEST_F(GraphCacheTest, AlternativesOfAllMachinesComeTogether) {
  BazelServer server;
  const CacheKey key = KeyBuilder("graph", 1).add("test", "machines").finish();
  const CacheKey library = KeyBuilder("library", 1).add("test", "machines").finish();
  auto tiers_of = [&](const char* name) {
    constexpr std::chrono::seconds kLong{20}, kLonger{30};
    return CacheOptions{.store = {.folder = scratch_.files() / name},
                        .remote = RemoteOptions{.address = parse_remote_address(server.address()),
                                                .secret = "for tests",
                                                .health = std::make_shared<RemoteHealth>(kLonger, kLong),
                                                .request_time = kLong}};
  };
  auto put = [&](const char* machine, const char* guard, int number) {
    Cache tiers(tiers_of(machine));
    tiers.put(library, "library");
    GraphCache(tiers).put_alternative(key,
                                      {.library_key = library.hex, .constants = {}, .inlined = {}, .guards = {guard}, .kernels = number});
  };
  auto found = [&](const char* machine, const char* hint) {
    Cache tiers(tiers_of(machine));
    std::string text = scaled(twenty(0));
    text.replace(text.find("hint 8"), 6, hint);
    const auto hit = GraphCache(tiers).find(key, parse_text(text));
    return hit ? hit->graph.kernels : 0;
  };
  put("first", "s0 <= 4", 1);
  put("second", "5 <= s0", 2);
  EXPECT_EQ(found("first", "hint 8"), 2);  // knows another one itself
  EXPECT_EQ(found("first", "hint 3"), 1);
  EXPECT_EQ(found("third", "hint 3"), 1);
  Cache alone({.store = {.folder = scratch_.files() / "third"}});
  EXPECT_TRUE(GraphCache(alone).find(key, parse_text(scaled(twenty(0)))));  // came with the other
}

TEST_F(GraphCacheTest, GuardsChooseAmongTheEntriesOfAGraph) {
  const Program program = parse_text(scaled(twenty(0)));  // s0 is about 8
  Cache tiers;
  GraphCache cache(tiers);
  const CacheKey key = KeyBuilder("graph", 1).add("test", "guards").finish();
  int number = 0;
  auto put = [&](std::vector<std::string> guards) {
    CompiledGraph graph;
    graph.library_key = KeyBuilder("library", 1).add("number", number).finish().hex;
    graph.guards = std::move(guards);
    graph.kernels = ++number;
    tiers.put({.kind = "library", .hex = graph.library_key, .parts = ""}, "library");
    cache.put_alternative(key, graph);
  };
  auto found = [&](std::string_view text) {
    const auto hit = cache.find(key, parse_text(text));
    return hit ? hit->graph.kernels : 0;
  };
  EXPECT_EQ(found(scaled(twenty(0))), 0);
  put({"s0 <= 4"});
  EXPECT_EQ(found(scaled(twenty(0))), 0);
  put({"5 <= s0", "s0 <= 100"});
  EXPECT_EQ(found(scaled(twenty(0))), 2);
  std::string hinted = scaled(twenty(0));
  hinted.replace(hinted.find("hint 8"), 6, "hint 3");
  EXPECT_EQ(found(hinted), 1);
  hinted.replace(hinted.find("hint 3"), 6, "");
  EXPECT_EQ(found(hinted), 0);
  put({"s0 <= 4"});  // takes the place of the first
  hinted = scaled(twenty(0));
  hinted.replace(hinted.find("hint 8"), 6, "hint 3");
  EXPECT_EQ(found(hinted), 3);
  put({"not_a_size <= 4"});
  EXPECT_EQ(found(hinted), 3);
}

TEST_F(GraphCacheTest, ManyAtOnceCompileOnce) {
  const std::string text = scaled(twenty(0));
  std::vector<std::string> uses(6);
  std::vector<std::thread> threads;
  for (std::string& use : uses) threads.emplace_back([&] { use = cache_use(text); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(uses.begin(), uses.end(), "miss"), 1);
  EXPECT_EQ(std::count(uses.begin(), uses.end(), "hit: graph"), 5);
}

TEST_F(GraphCacheTest, CountsWhatItSaves) {
  const std::string text = scaled(twenty(0));
  for (int i = 0; i < 3; ++i) cache_use(text);
  cache_use(text, {.keep_program = true});
  const std::map<std::string, int64_t> counters = Store().counters();
  EXPECT_EQ(counters.at("graph hits"), 2);
  EXPECT_EQ(counters.at("graph misses"), 1);
  EXPECT_EQ(counters.at("graph bypasses: the program is wanted"), 1);
  EXPECT_GT(counters.at("milliseconds saved"), 0);
}

TEST(CompiledGraphBytes, ComeBackAsTheyWere) {
  CompiledGraph graph;
  graph.library_key = std::string(64, 'a');
  graph.constants = {
      {ConstantSource::Place::File, 4096, 12}, {ConstantSource::Place::Program, 3, 8}, {ConstantSource::Place::Inline, 0, 4}};
  graph.inlined = std::string("\0\1\2\3", 4);
  graph.guards = {"s0 <= 4"};
  graph.kernels = 1;
  graph.kernel_calls = 2;
  graph.library_calls = 3;
  graph.seconds = 0.25;
  const std::string bytes = to_bytes(graph);
  const CompiledGraph again = parse_compiled_graph(bytes);
  EXPECT_EQ(again.library_key, graph.library_key);
  EXPECT_EQ(again.constants, graph.constants);
  EXPECT_EQ(again.inlined, graph.inlined);
  EXPECT_EQ(again.guards, graph.guards);
  EXPECT_EQ(again.seconds, graph.seconds);
  EXPECT_EQ(to_bytes(again), bytes);
}

TEST(CompiledGraphBytes, AnythingElseIsRefused) {
  CompiledGraph graph;
  graph.library_key = std::string(64, 'a');
  graph.constants = {{ConstantSource::Place::Inline, 0, 4}};
  graph.inlined = "four";
  const std::string bytes = to_bytes(graph);
  for (size_t length = 0; length < bytes.size() - graph.inlined.size(); ++length) {
    EXPECT_THROW(parse_compiled_graph(std::string_view(bytes).substr(0, length)), Error) << length;
  }
  for (std::string wrong : {R"({"library": 3})", "[]", R"({"library": "a", "constants": [["moon", 0, 0]]})", "{"}) {
    const uint64_t size = wrong.size();
    EXPECT_THROW(parse_compiled_graph("TOROIDG1" + std::string(reinterpret_cast<const char*>(&size), 8) + wrong), Error) << wrong;
  }
  for (const ConstantSource& outside : {ConstantSource{ConstantSource::Place::Inline, 1, 4},
                                        {ConstantSource::Place::Inline, -1, 2},
                                        {ConstantSource::Place::Inline, 0, INT64_MAX},
                                        {ConstantSource::Place::Program, 0, 4},
                                        {ConstantSource::Place::File, 0, 1}}) {
    graph.constants = {outside};
    EXPECT_THROW(find_constants(graph, {}, {}, nullptr), Error);
  }
}

}  // namespace
}  // namespace toroid
