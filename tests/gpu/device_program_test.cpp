// Programs on a GPU as a host calls them: graphs, state that stays on the device, device pointers and streams. A library plays the driver
// (fake_gpu.c), in this process: a kernel's results begin with the sum of the first words that it reads, and one.
#include <algorithm>
#include <bit>
#include <set>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "base/file/system_library.h"
#include "driver/compile.h"
#include "driver/gpu_binaries.h"
#include "graph/text/text.h"
#include "runtime/cuda/graph.h"
#include "runtime/pool/pool.h"

extern "C" void fake_gpu_counts(int* captures, int* updates, int* graph_launches);
extern "C" const char* fake_gpu_launches();
extern "C" int fake_gpu_blocks(size_t bytes, int device);

namespace toroid {
namespace {

constexpr std::string_view kSum = R"(graph(x: i32[4], y: i32[4]) {
  z: i32[4] = aten::add.Tensor(x, y)
  return z
}
)";
constexpr std::string_view kCounter = R"(buffer 0 "count": i32[4] = [100, 0, 0, 0]
graph(x: i32[4]) {
  c: i32[4] = constant(0)
  n: i32[4] = aten::add.Tensor(c, x)
  return x, n -> buffer "count"
}
)";

struct Counts {
  int captures, updates, graph_launches;
};

class DeviceProgram : public testing::Test {
 protected:
  static Executable load(std::string_view text, int gpu = 0) {
    return session().compile(parse_text(text), {.target = codegen::Target::Cuda, .gpu = gpu}).load(1);
  }
  static HostTensor words(std::vector<int64_t> values) {
    return HostTensor::from_ints(DType::I32, {static_cast<int64_t>(values.size())}, values);
  }
  Counts counts() const {
    Counts now{};
    library_.function<decltype(fake_gpu_counts)>("fake_gpu_counts")(&now.captures, &now.updates, &now.graph_launches);
    return {now.captures - before_.captures, now.updates - before_.updates, now.graph_launches - before_.graph_launches};
  }
  void SetUp() override { before_ = counts(); }

  static CompileSession& session() {
    static const TempFolder folder;
    static const ScopedVariable here("TOROID_CACHE_DIR", folder.path().string());
    static CompileSession made;
    return made;
  }

  const ScopedVariable driver_{"TOROID_CUDA_DRIVER", FAKE_GPU}, nvrtc_{"TOROID_NVRTC", FAKE_GPU}, products_{"TOROID_CUBLASLT", FAKE_GPU},
      how_{"FAKE_GPU", "two"}, architecture_{"TOROID_CUDA_ARCH", ""};
  const SystemLibrary library_{"the fake", "TOROID_CUDA_DRIVER", {}};
  Counts before_{};
};

// Device memory with words in it.
class Words {
 public:
  Words(const cuda::Stream& stream, std::vector<int32_t> values) : memory_(stream, 4 * values.size()), count_(values.size()) {
    cuda::copy_in(stream, memory_.data(), values.data(), 4 * values.size());
  }
  DeviceTensor tensor() const { return {DType::I32, {static_cast<int64_t>(count_)}, memory_.data()}; }
  int32_t first(const cuda::Stream& stream) const {
    int32_t word = 0;
    cuda::copy_out(stream, &word, memory_.data(), sizeof word);
    stream.synchronize();
    return word;
  }

 private:
  cuda::Memory memory_;
  size_t count_;
};

TEST_F(DeviceProgram, ASecondCallIsAGraph) {
  Executable program = load(kSum);
  const std::vector<HostTensor> inputs = {words({3, 0, 0, 0}), words({4, 0, 0, 0})};
  EXPECT_EQ(program.run(inputs)[0].int_at(0), 8);
  EXPECT_EQ(program.graph_nodes(), std::nullopt);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(program.run(std::vector{words({5 + i, 0, 0, 0}), words({4, 0, 0, 0})})[0].int_at(0), 10 + i);
  EXPECT_EQ(program.graph_nodes(), 1U);
  EXPECT_EQ(counts().captures, 1);
  EXPECT_EQ(counts().graph_launches, 3);
}

// Kernels behind each other start early, in graphs too. The first of a call does not, nor a scatter behind the copy of its base.
TEST_F(DeviceProgram, KernelsStartWhileTheOneBeforeEnds) {
  constexpr std::string_view kThree = R"(graph(x: f32[8, 512]) {
  y: f32[8, 512] = aten::softmax.int(x, 1)
  s: f32[512] = aten::sum.dim_IntList(y, [0])
  c: f32[512] = aten::cumsum(s, 0)
  return c
}
)";
  const auto launches = [&] { return std::string(library_.function<decltype(fake_gpu_launches)>("fake_gpu_launches")()); };
  const std::vector<HostTensor> inputs = {HostTensor(DType::F32, {8, 512})};
  launches();
  Executable program = load(kThree);
  for (int call = 0; call < 3; ++call) {
    program.run(inputs);
    EXPECT_EQ(launches(), call < 2 ? "kee" : "") << call;  // the third one is the second's graph
  }
  {
    const ScopedVariable never("TOROID_CUDA_OVERLAP", "never");
    load(kThree).run(inputs);
    EXPECT_EQ(launches(), "kkk");
  }
  Executable scatter = load(R"(graph(x: f32[64, 4], i: i64[2], y: f32[2, 4]) {
  u: f32[2, 4] = aten::softmax.int(y, 1)
  z: f32[64, 4] = aten::index_copy(x, 0, i, u)
  c: f32[64, 4] = aten::cumsum(z, 1)
  return c
}
)");
  scatter.run(std::vector{HostTensor(DType::F32, {64, 4}), HostTensor(DType::I64, {2}), HostTensor(DType::F32, {2, 4})});
  EXPECT_EQ(launches(), "kke");
}

// Two convolutions of few pixels do not wait for each other: in a graph one of them is on a stream of its own.
TEST_F(DeviceProgram, BranchesAreStreamsOfAGraph) {
  constexpr std::string_view kTwo = R"(graph(x: bf16[1, 256, 14, 14], a: bf16[256, 256, 3, 3], b: bf16[256, 256, 3, 3]) {
  p: bf16[1, 256, 14, 14] = aten::conv2d(x, a, none, [1, 1], [1, 1])
  q: bf16[1, 256, 14, 14] = aten::conv2d(x, b, none, [1, 1], [1, 1])
  y: bf16[1, 256, 14, 14] = aten::mul.Tensor(p, q)
  return y
}
)";
  const auto launches = [&] { return std::string(library_.function<decltype(fake_gpu_launches)>("fake_gpu_launches")()); };
  const HostTensor filters(DType::BF16, {256, 256, 3, 3});
  const std::vector<HostTensor> inputs = {HostTensor(DType::BF16, {1, 256, 14, 14}), filters, filters};
  launches();
  Executable program = load(kTwo);
  const HostTensor expected = program.run(inputs)[0];
  const std::string one_by_one = launches();
  EXPECT_EQ(one_by_one.find('b'), std::string::npos) << one_by_one;
  EXPECT_EQ(program.run(inputs)[0].to_doubles(), expected.to_doubles());
  const std::string captured = launches();
  EXPECT_EQ(captured.size(), one_by_one.size());
  EXPECT_NE(captured.find('b'), std::string::npos) << captured;
  EXPECT_NE(captured.back(), 'b');
  EXPECT_EQ(program.graph_nodes(), one_by_one.size());
  EXPECT_EQ(program.run(inputs)[0].to_doubles(), expected.to_doubles());
  const ScopedVariable never("TOROID_CUDA_BRANCHES", "never");
  Executable in_order = load(kTwo);
  for (int call = 0; call < 2; ++call) in_order.run(inputs);
  EXPECT_EQ(launches().find('b'), std::string::npos);
}

// A collective operation is on a stream of its own where kernels do not wait for it; the one that does comes behind it.
TEST_F(DeviceProgram, CollectiveOperationsRunBesideKernels) {
  constexpr std::string_view kBeside = R"(graph(x: i32[4], y: i32[4, 512]) {
  a: i32[4] = _c10d_functional::all_gather_into_tensor(x, 1, "0")
  s: i32[4] = aten::sum.dim_IntList(y, [1], dtype=dtype.i32)
  z: i32[4] = aten::add.Tensor(a, s)
  t: i32[4] = aten::cumsum(z, 0, dtype=dtype.i32)
  return t
}
)";
  const ScopedVariable nccl("TOROID_NCCL", FAKE_GPU);
  const auto launches = [&] { return std::string(library_.function<decltype(fake_gpu_launches)>("fake_gpu_launches")()); };
  const std::vector<HostTensor> inputs = {words({3, 0, 0, 0}), HostTensor(DType::I32, {4, 512})};
  launches();
  Executable program = load(kBeside);
  const int64_t expected = program.run(inputs)[0].int_at(0);
  std::string one_by_one = launches();
  EXPECT_EQ(one_by_one[0], 'k') << "what runs once";
  one_by_one.erase(0, 1);
  EXPECT_EQ(one_by_one, "ckk");
  EXPECT_EQ(program.run(inputs)[0].int_at(0), expected);
  EXPECT_EQ(program.graph_nodes(), one_by_one.size()) << one_by_one;
  std::string captured = launches();
  EXPECT_EQ(captured[0], 'C') << captured;
  EXPECT_EQ(captured[2], 'k') << "what waits for it does not start early: " << captured;
  captured[0] = 'c';
  EXPECT_EQ(captured, one_by_one);
  EXPECT_EQ(program.run(inputs)[0].int_at(0), expected);
  const ScopedVariable never("TOROID_CUDA_BESIDE", "never");
  Executable in_order = load(kBeside);
  for (int call = 0; call < 2; ++call) EXPECT_EQ(in_order.run(inputs)[0].int_at(0), expected);
  EXPECT_EQ(launches().find('C'), std::string::npos);
}

// PTX for GPUs before Hopper has no instructions to wait with.
TEST_F(DeviceProgram, KernelsForEarlierGpusDoNotStartEarly) {
  const auto launches = [&] { return std::string(library_.function<decltype(fake_gpu_launches)>("fake_gpu_launches")()); };
  Executable program = session()
                           .compile(parse_text(R"(graph(x: f32[8, 512]) {
  y: f32[8, 512] = aten::softmax.int(x, 1)
  s: f32[512] = aten::sum.dim_IntList(y, [0])
  return s
}
)"),
                                    {.target = codegen::Target::Cuda, .architectures = {"compute_80"}})
                           .load(1);
  launches();
  program.run(std::vector{HostTensor(DType::F32, {8, 512})});
  EXPECT_EQ(launches(), "kk");
}

TEST_F(DeviceProgram, SizesThatComeOnceAreNoGraph) {
  Executable program = load(R"(sym s0 in [1, 64]
graph(x: i32[s0], y: i32[s0]) {
  z: i32[s0] = aten::add.Tensor(x, y)
  return z
}
)");
  const auto run = [&](std::vector<int64_t> values) { program.run(std::vector{words(values), words(values)}); };
  for (int64_t size = 1; size < 4; ++size) run(std::vector<int64_t>(static_cast<size_t>(size), 1));
  EXPECT_EQ(counts().captures, 0);
  run({1, 2});
  run({1, 2});
  EXPECT_EQ(counts().captures, 1);
  EXPECT_EQ(counts().graph_launches, 2);
}

TEST_F(DeviceProgram, RandomNumbersAreOthersInEachReplay) {
  Executable program = load("graph(x: f32[300]) {\n  r: f32[300] = aten::rand_like(x)\n  return r\n}\n");
  std::set<uint32_t> drawn;  // the kernel reads the first word of the state: the seed
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    program.set_seed(seed);
    const std::vector<HostTensor> results = program.run(std::vector{HostTensor(DType::F32, {300})});
    drawn.insert(std::bit_cast<uint32_t>(results[0].data<float>()[0]));
  }
  EXPECT_EQ(drawn.size(), 4u);
  EXPECT_EQ(counts().captures, 1);
  EXPECT_EQ(counts().updates, 0);
  EXPECT_EQ(counts().graph_launches, 3);
  EXPECT_TRUE(program.graph_obstacles().empty());
}

// Each run has a state of its own, which the host makes.
TEST_F(DeviceProgram, ALoopThatDrawsIsNoGraph) {
  Executable program = load(R"(subgraph 0(carried: f32[2], row: f32[3]) {
  r: f32[2] = aten::rand([2])
  next: f32[2] = aten::add.Tensor(carried, r)
  q: f32[2] = aten::clone(r)
  return next, q
}
graph(p: f32[6, 3]) {
  start: f32[2] = aten::zeros([2])
  total: f32[2], steps: f32[6, 2] = higher_order::scan(@0, [start], [p], [])
  outside: f32[3] = aten::rand([3])
  return total, steps, outside
}
)");
  for (int i = 0; i < 3; ++i) program.run(std::vector{HostTensor(DType::F32, {6, 3})});
  EXPECT_EQ(counts().captures, 0);
  const std::vector<std::string> obstacles = program.graph_obstacles();
  EXPECT_EQ(std::count(obstacles.begin(), obstacles.end(), "a loop's body draws random numbers"), 1);
}

TEST_F(DeviceProgram, WhatNoGraphHoldsIsNamed) {
  Executable program = load(R"(sym u0 in [0, 9] from data
graph(x: i32[9]) {
  n: i64[u0, 1] = aten::nonzero(x)
  return n
}
)");
  for (int i = 0; i < 3; ++i) program.run(std::vector{words({0, 0, 0, 0, 0, 0, 0, 0, 0})});
  EXPECT_EQ(counts().captures, 0);
  EXPECT_FALSE(program.graph_obstacles().empty());
}

TEST_F(DeviceProgram, WhatIsDoneOnceOnTheHostIsNoObstacle) {
  const std::vector<std::string> ones(64 * 64, "1.0");  // as many as are not sorted while compiling
  Executable program = load(fmt::format(R"(constant 0 "a": f32[64, 64] = [{}]
graph(x: f32[64, 64]) {{
  a: f32[64, 64] = constant(0)
  b: f32[64, 64], i: i64[64, 64] = aten::sort(a)
  y: f32[64, 64] = aten::add.Tensor(x, b)
  return y
}}
)",
                                        fmt::join(ones, ", ")));
  ASSERT_NE(general_variant(program.tables()).prepare, nullptr);
  for (int i = 0; i < 3; ++i) program.run(std::vector{HostTensor::from_doubles(DType::F32, {64, 64}, std::vector<double>(64 * 64))});
  EXPECT_TRUE(program.calls_on_host().empty());
  EXPECT_TRUE(program.graph_obstacles().empty());
  EXPECT_NE(program.graph_nodes(), std::nullopt);
}

// And anew for weights that replace others; tests/c_api/gpu_weights.c has the weights themselves.
TEST_F(DeviceProgram, WhatIsPreparedOfWeightsIsThereOnceForAllContexts) {
  const std::vector<std::string> ones(64 * 64, "1.0");
  const CompiledModel model = session().compile(parse_text(fmt::format(R"(constant 0 "a": f32[64, 64] = [{}]
graph(x: f32[64]) {{
  a: f32[64, 64] = constant(0)
  b: f32[64, 64], i: i64[64, 64] = aten::sort(a)
  y: f32[64, 64] = aten::mul.Tensor(x, b)
  z: f32[64] = aten::sum.dim_IntList(y, [1])
  return z
}}
)",
                                                                       fmt::join(ones, ", "))),
                                                {.target = codegen::Target::Cuda});
  const auto program = std::make_shared<LoadedProgram>(model.library, model.constants, model.owner, model.name, RuntimePool::shared(1));
  const auto bytes = static_cast<size_t>(general_variant(program->tables()).prepared_bytes);
  ASSERT_GE(bytes, 64 * 64 * sizeof(float));
  const auto blocks = [&] { return library_.function<decltype(fake_gpu_blocks)>("fake_gpu_blocks")(bytes, 0); };
  const std::vector<HostTensor> inputs = {HostTensor(DType::F32, {64})};
  const int before = blocks();
  {
    Executable one(program), other(program);
    one.run(inputs);
    const int with_one = blocks();
    EXPECT_GT(with_one, before);
    other.run(inputs);
    EXPECT_EQ(blocks(), with_one);
    const LoadedProgram::NewValue value = {0, std::make_shared<const HostBytes>(64 * 64 * sizeof(float), nullptr)};
    program->replace_weights({&value, 1});
    one.run(inputs);
    EXPECT_GT(blocks(), with_one);
    other.run(inputs);
    EXPECT_EQ(blocks(), with_one);
  }
  EXPECT_EQ(blocks(), before);
}

TEST_F(DeviceProgram, StateStaysOnTheDevice) {
  Executable program = load(kCounter);
  for (int i = 1; i <= 5; ++i) {
    const std::vector<HostTensor> outputs = program.run(std::vector{words({5, 0, 0, 0})});
    EXPECT_EQ(outputs[1].numel(), 0);
    EXPECT_EQ(program.updated_buffer(1).int_at(0), 100 + 6 * i);
  }
  EXPECT_EQ(counts().captures, 1);  // in place
  EXPECT_EQ(counts().graph_launches, 4);
}

TEST_F(DeviceProgram, StateIsUpdatedOnceWhereTheFirstCallIsMadeTwice) {
  const ScopedVariable when("TOROID_CUDA_GRAPHS", "first");
  Executable program = load(kCounter);
  for (int i = 1; i <= 3; ++i) {
    program.run(std::vector{words({5, 0, 0, 0})});
    EXPECT_EQ(program.updated_buffer(1).int_at(0), 100 + 6 * i);
  }
  EXPECT_EQ(counts().graph_launches, 3);
}

TEST_F(DeviceProgram, StateThatCannotBeInPlaceTakesTurns) {
  Executable program = load(R"(buffer 0 "count": i32[4] = [100, 0, 0, 0]
graph(x: i32[4]) {
  c: i32[4] = constant(0)
  f: i32[4] = aten::flip(c, [0])
  n: i32[4] = aten::add.Tensor(f, x)
  return n -> buffer "count"
}
)");
  for (int i = 1; i <= 5; ++i) {
    program.run(std::vector{words({5, 0, 0, 0})});
    EXPECT_EQ(program.updated_buffer(0).int_at(0), 100 + 6 * i);
  }
  EXPECT_EQ(counts().captures, 2);
}

TEST_F(DeviceProgram, StateThatIsGivenBackAsAnInputStaysAsItIsMeanwhile) {
  Executable program = load(kCounter);
  const cuda::OnDevice here(cuda::Device::get());
  const cuda::Stream stream;
  const Words x(stream, {5, 0, 0, 0}), copy(stream, {0, 0, 0, 0});
  const auto call = [&](const DeviceTensor& input) {
    std::vector<DeviceTensor> outputs = program.outputs_of(std::vector{input});
    outputs[0].data = copy.tensor().data;
    program.start(std::vector{input}, outputs, stream.handle());
    program.wait();
    return outputs[1];
  };
  const auto word = [&](const DeviceTensor& tensor) {
    int32_t first = 0;
    cuda::copy_out(stream, &first, tensor.data, sizeof first);
    stream.synchronize();
    return first;
  };
  const DeviceTensor before = call(x.tensor()), after = call(before);
  EXPECT_NE(before.data, after.data);
  EXPECT_EQ(word(before), 106);
  EXPECT_EQ(word(after), 106 + 106 + 1);
  EXPECT_EQ(call(x.tensor()).data, after.data) << "in place again";
}

TEST_F(DeviceProgram, CallsTakeDevicePointersOnTheCallersStream) {
  Executable program = load(kSum);
  const cuda::OnDevice here(cuda::Device::get());
  const cuda::Stream stream;
  const Words x(stream, {3, 0, 0, 0}), y(stream, {4, 0, 0, 0});
  std::vector<Words> results;
  for (int i = 0; i < 6; ++i) results.emplace_back(stream, std::vector<int32_t>(4));
  for (int round = 0; round < 3; ++round) {
    for (const Words& result : results) {
      const std::vector<DeviceTensor> inputs = {x.tensor(), y.tensor()};
      std::vector<DeviceTensor> outputs = program.outputs_of(inputs);
      ASSERT_EQ(outputs.size(), 1U);
      EXPECT_EQ(outputs[0].sizes, std::vector<int64_t>{4});
      outputs[0].data = result.tensor().data;
      program.start(inputs, outputs, stream.handle());
      program.wait();
      EXPECT_EQ(result.first(stream), 8);
    }
  }
  EXPECT_GT(counts().updates, 0);  // there are fewer graphs than results
  EXPECT_EQ(counts().graph_launches, 17);
}

TEST_F(DeviceProgram, TheCallersStreamMayBeGoneBeforeItsWorkIsWaitedFor) {
  Executable program = load(kSum);
  const cuda::OnDevice here(cuda::Device::get());
  const cuda::Stream kept;
  const Words x(kept, {3, 0, 0, 0}), y(kept, {4, 0, 0, 0}), z(kept, {0, 0, 0, 0});
  for (int i = 0; i < 3; ++i) {
    std::vector<DeviceTensor> outputs = {z.tensor()};
    program.start(std::vector{x.tensor(), y.tensor()}, outputs, cuda::Stream().handle());
  }
  program.wait();
  EXPECT_EQ(z.first(kept), 8);
}

TEST_F(DeviceProgram, CallsOnTheHostAndOnTheDeviceShareTheirState) {
  Executable program = load(kCounter);
  program.run(std::vector{words({5, 0, 0, 0})});
  const cuda::OnDevice here(cuda::Device::get());
  const cuda::Stream stream;
  const Words x(stream, {7, 0, 0, 0}), copy(stream, {0, 0, 0, 0});
  std::vector<DeviceTensor> outputs = program.outputs_of(std::vector{x.tensor()});
  outputs[0].data = copy.tensor().data;
  program.start(std::vector{x.tensor()}, outputs, stream.handle());
  EXPECT_NE(outputs[1].data, nullptr);
  EXPECT_EQ(program.updated_buffer(1).int_at(0), 114);
}

TEST_F(DeviceProgram, PointersToOtherMemoryAreRefused) {
  Executable program = load(kSum);
  const cuda::Device &first = cuda::Device::get(), &second = cuda::Device::get(1);
  const auto with = [&](const DeviceTensor& x, const DeviceTensor& z) {
    const cuda::OnDevice here(first);
    const cuda::Stream stream;
    const Words y(stream, {4, 0, 0, 0});
    return error_of([&] {
      std::vector<DeviceTensor> outputs = {z};
      program.start(std::vector{x, y.tensor()}, outputs, stream.handle());
    });
  };
  const cuda::OnDevice here(first);
  const cuda::Stream stream;
  const Words good(stream, {1, 2, 3, 4}), large(stream, std::vector<int32_t>(66));
  int32_t host[4] = {};
  const Error of_host = with({DType::I32, {4}, host}, good.tensor());
  EXPECT_EQ(of_host.kind(), ErrorKind::InvalidInput);
  EXPECT_EQ(of_host.message(), "input 'x' is not in a GPU's memory");
  EXPECT_EQ(of_host.help_text(), "give a device pointer, or run the program with tensors of the host");
  char* const place = static_cast<char*>(large.tensor().data);
  EXPECT_EQ(with(good.tensor(), {DType::I32, {4}, place + 256}).message(), "output 'out0' needs 16 bytes, and its memory ends after 8");
  EXPECT_EQ(with({DType::I32, {4}, place + 8}, good.tensor()).message(), "input 'x' begins at an address that is no multiple of 16");
  const cuda::OnDevice there(second);
  const cuda::Stream other_stream;
  const Words other(other_stream, {1, 2, 3, 4});
  EXPECT_EQ(with(other.tensor(), good.tensor()).message(), "input 'x' is on GPU 1, and the program on GPU 0");
  EXPECT_EQ(with({DType::I32, {4}, good.tensor().data, {2}}, good.tensor()).message(),
            "input 'x' has strides [2], and the program reads it with [1]");
}

TEST_F(DeviceProgram, ACapturedStreamIsRefused) {
  Executable program = load(kSum);
  const cuda::OnDevice here(cuda::Device::get());
  const cuda::Stream stream;
  const Words x(stream, {1, 2, 3, 4}), z(stream, {0, 0, 0, 0});
  cuda::Graph graph;
  std::vector<DeviceTensor> outputs = {z.tensor()};
  const Error error = error_of([&] {
    graph.capture(stream, [&] { program.start(std::vector{x.tensor(), x.tensor()}, outputs, stream.handle()); });
  });
  EXPECT_EQ(error.message(), "the stream is being captured into a graph");
}

TEST_F(DeviceProgram, KernelsAreForSeveralArchitectures) {
  const auto load_for = [](std::string_view architectures) {
    return session()
        .compile(parse_text(kSum), {.target = codegen::Target::Cuda, .architectures = parse_architectures(architectures)})
        .load(1);
  };
  for (std::string_view with_mine : {"sm_80,sm_90a", "sm_90", "sm_80,compute_80"}) {
    EXPECT_EQ(load_for(with_mine).run(std::vector{words({3, 0, 0, 0}), words({4, 0, 0, 0})})[0].int_at(0), 8);
  }
  const Error other = error_of([&] { load_for("sm_80,sm_100a"); });
  EXPECT_EQ(other.kind(), ErrorKind::Environment);
  EXPECT_EQ(other.message(), "the program's kernels are for sm_100a, sm_80, and the GPU is sm_90");
  EXPECT_EQ(other.help_text(), "compile it with '--arch sm_90', or with an earlier 'compute_…' for all later GPUs");
  EXPECT_EQ(error_of([] { parse_architectures("sm_80,hopper"); }).message(), "'hopper' is no architecture");
}

TEST_F(DeviceProgram, AProgramRunsOnTheGpuThatIsAskedFor) {
  Executable program = load(kSum, 1);
  EXPECT_EQ(program.run(std::vector{words({3, 0, 0, 0}), words({4, 0, 0, 0})})[0].int_at(0), 8);
  const cuda::OnDevice here(cuda::Device::get(0));
  const cuda::Stream stream;
  const Words x(stream, {1, 2, 3, 4});
  std::vector<DeviceTensor> outputs = {x.tensor()};
  EXPECT_EQ(error_of([&] {
              program.start(std::vector{x.tensor(), x.tensor()}, outputs, stream.handle());
            }).message(),
            "input 'x' is on GPU 0, and the program on GPU 1");
}

}  // namespace
}  // namespace toroid
