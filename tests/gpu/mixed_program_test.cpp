// Programs with tensors in the process's memory and on a GPU. The driver is the fake's (fake_gpu.c), which refuses addresses that are not
// of the memory that they should be of; what the host computes is computed.
#include <gtest/gtest.h>

#include "base/environment_for_test.h"
#include "base/error_for_test.h"
#include "base/file/file.h"
#include "driver/compile.h"
#include "graph/text/text.h"
#include "runtime/cuda/device.h"

namespace toroid {
namespace {

// A kernel of the fake gives the sum of the first words that it reads, and one.
constexpr std::string_view kBoth = R"(graph(x: i32[4], g: i32[4] on cuda:0) {
  a: i32[4] = aten::add.Tensor(x, x)
  b: i32[4] on cuda:0 = aten::to.device(a, device=device.cuda:0, dtype=dtype.i32)
  c: i32[4] on cuda:0 = aten::add.Tensor(b, g)
  d: i32[4] = aten::to.device(c, device=device.cpu, dtype=dtype.i32)
  e: i32[4] = aten::mul.Tensor(d, x)
  return c, e
}
)";

class MixedProgram : public testing::Test {
 protected:
  static Executable load(std::string_view text) {
    return session().compile(parse_text(text), {.target = codegen::Target::Cuda, .as_exported = true}).load(1);
  }
  static CompileSession& session() {
    static const TempFolder folder;
    static const ScopedVariable here("TOROID_CACHE_DIR", folder.path().string());
    static CompileSession made;
    return made;
  }
  static HostTensor words(int64_t first) { return HostTensor::from_ints(DType::I32, {4}, std::vector<int64_t>{first, 2, 2, 2}); }

  const ScopedVariable driver_{"TOROID_CUDA_DRIVER", FAKE_GPU}, nvrtc_{"TOROID_NVRTC", FAKE_GPU}, products_{"TOROID_CUBLASLT", FAKE_GPU},
      how_{"FAKE_GPU", "two"}, architecture_{"TOROID_CUDA_ARCH", ""};
};

TEST_F(MixedProgram, TheHostAndTheGpuTakeTurns) {
  Executable program = load(kBoth);
  for (int64_t x = 3; x < 6; ++x) {
    const std::vector<HostTensor> results = program.run(std::vector{words(x), words(10)});
    EXPECT_EQ(results[0].int_at(0), 2 * x + 10 + 1);
    EXPECT_EQ(results[1].int_at(0), (2 * x + 11) * x);
    EXPECT_EQ(program.graph_nodes(), std::nullopt);
  }
  EXPECT_EQ(program.graph_obstacles(),
            (std::vector<std::string>{"it copies tensors between the host and the GPU", "its host waits for the GPU"}));
}

// Each weight is where the model has it; what is copied of one is copied once.
TEST_F(MixedProgram, WeightsAreOnBoth) {
  Executable program = load(R"(constant 0 "w": i32[4] = [5, 0, 0, 0]
constant 1 "v": i32[4] on cuda:0 = [7, 0, 0, 0]
graph(x: i32[4]) {
  w: i32[4] = constant(0)
  v: i32[4] on cuda:0 = constant(1)
  a: i32[4] = aten::add.Tensor(x, w)
  u: i32[4] on cuda:0 = aten::to.device(w, device=device.cuda:0, dtype=dtype.i32)
  b: i32[4] on cuda:0 = aten::to.device(a, device=device.cuda:0, dtype=dtype.i32)
  c: i32[4] on cuda:0 = aten::mul.Tensor(b, v)
  d: i32[4] on cuda:0 = aten::mul.Tensor(c, u)
  return a, d
}
)");
  for (int64_t x = 3; x < 5; ++x) {
    const std::vector<HostTensor> results = program.run(std::vector{words(x)});
    EXPECT_EQ(results[0].int_at(0), x + 5);
    EXPECT_EQ(results[1].int_at(0), x + 5 + 7 + 5 + 1);
  }
}

// Each call's new value is the next one's old value, in the memory where the buffer is.
TEST_F(MixedProgram, StateStaysWhereItIs) {
  Executable program = load(R"(buffer 0 "count": i32[4] = [100, 0, 0, 0]
buffer 1 "sum": i32[4] on cuda:0 = [7, 0, 0, 0]
graph(x: i32[4], g: i32[4] on cuda:0) {
  c: i32[4] = constant(0)
  s: i32[4] on cuda:0 = constant(1)
  n: i32[4] = aten::add.Tensor(c, x)
  m: i32[4] on cuda:0 = aten::to.device(n, device=device.cuda:0, dtype=dtype.i32)
  t: i32[4] on cuda:0 = aten::add.Tensor(s, m)
  return m, n -> buffer "count", t -> buffer "sum"
}
)");
  const auto value = [&](size_t constant) {
    HostTensor now = words(0);
    program.read_buffer(constant, {now.mutable_data<std::byte>(), 16});
    return now.int_at(0);
  };
  int64_t count = 100, sum = 7;
  for (int64_t x = 3; x < 6; ++x) {
    EXPECT_EQ(program.run(std::vector{words(x), words(0)})[0].int_at(0), count += x);
    EXPECT_EQ(value(0), count);
    EXPECT_EQ(value(1), sum += count + 1);
  }
  program.reset_buffer(0);
  EXPECT_EQ(program.run(std::vector{words(1), words(0)})[0].int_at(0), 101);
}

TEST_F(MixedProgram, ResultsOnTheHostMayHaveSizesThatDependOnData) {
  Executable program = load(R"(sym u0 in [0, 4] from data
graph(x: i32[4], g: i32[4] on cuda:0) {
  c: i32[4] = aten::to.device(g, device=device.cpu, dtype=dtype.i32)
  y: i32[4] = aten::sub.Tensor(c, x)
  n: i64[u0, 1] = aten::nonzero(y)
  m: i64[u0, 1] = aten::neg(n)
  return m
}
)");
  EXPECT_EQ(program.run(std::vector{words(4), words(4)})[0].sizes()[0], 0);
  EXPECT_EQ(program.run(std::vector{words(3), words(4)})[0].sizes()[0], 1);
}

TEST_F(MixedProgram, CallersGiveMemoryOfBoth) {
  Executable program = load(kBoth);
  const cuda::OnDevice here(cuda::Device::get());
  const cuda::Stream stream;
  const cuda::Memory g(stream, 16), c(stream, 16), other(stream, 16);
  const HostTensor x = words(4), ten = words(10);
  cuda::copy_in(stream, g.data(), ten.bytes().data(), 16);
  HostTensor e = words(0);
  const auto tensor = [](void* data) { return DeviceTensor{DType::I32, {4}, data}; };
  auto* const of_host = const_cast<std::byte*>(x.bytes().data());
  std::vector<DeviceTensor> outputs = {tensor(c.data()), tensor(e.mutable_data<std::byte>())};
  program.start(std::vector{tensor(of_host), tensor(g.data())}, outputs, stream.handle());
  program.wait();
  EXPECT_EQ(e.int_at(0), (2 * 4 + 11) * 4);

  const auto message = [&](std::vector<DeviceTensor> inputs) {
    return error_of([&] { program.start(inputs, outputs, stream.handle()); }).message();
  };
  EXPECT_EQ(message({tensor(other.data()), tensor(g.data())}), "input 'x' is in a GPU's memory, and the program has it on the CPU");
  EXPECT_NE(message({tensor(of_host), tensor(of_host)}).find("input 'g'"), std::string::npos);
}

}  // namespace
}  // namespace toroid
