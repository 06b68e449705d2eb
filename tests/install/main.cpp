// toroid.hpp, over the models scaled and counter in the folder that is the argument.
#include <cstdio>

#include "toroid/toroid.hpp"

namespace rt = toroid::runtime;

namespace {

int failures = 0;

void check(bool is_so, const char* what) {
  if (is_so) return;
  std::printf("not so: %s\n", what);
  ++failures;
}
#define CHECK(condition) check(condition, #condition)

void run(const std::string& folder) {
  const rt::Model model = rt::Model::open(folder + "/scaled.so").value_or_throw();
  CHECK(model.inputs().size() == 1 && model.inputs()[0].name == "x" && model.inputs()[0].type == "f32[s0, 3]");
  CHECK(model.outputs().size() == 1 && model.outputs()[0].rank == 2);
  CHECK(model.symbols().size() == 1 && model.symbols()[0].most == 64);
  CHECK(model.weights().size() == 1 && model.weights()[0].name == "w" && model.weights()[0].bytes == 12);
  rt::Context context = model.create_context().value_or_throw();
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<rt::Tensor> outputs = context.run({rt::TensorView(x.data(), {2, 3})}).value_or_throw();
  CHECK(outputs.size() == 1 && outputs[0].size() == 6 && outputs[0].shape()[1] == 3 && outputs[0].span<float>()[5] == 18);
  const std::vector<float> w = {1, 1, 2};
  CHECK(model.swap_weights({{"w", rt::TensorView(w.data(), {3})}}).has_value());
  std::vector<float> read(3);
  CHECK(model.read_weight("w", read.data(), 12).has_value() && read == w);
  const auto swapped = context.run({rt::TensorView(x.data(), {2, 3}, {1, 2})});
  CHECK(swapped.has_value() && swapped->at(0).span<float>()[5] == 12);

  const auto refused = context.run({rt::TensorView(x.data(), {3, 2})});
  CHECK(!refused && refused.error().status == TOROID_ERROR_INPUT && refused.error().message.find("input 'x'") == 0);
  CHECK(!rt::Model::open(folder + "/none.so") && rt::Model::open("none").error().status == TOROID_ERROR_ENVIRONMENT);
  try {
    rt::Model::open("none").value_or_throw();
    CHECK(false);
  } catch (const rt::Exception& exception) {
    CHECK(exception.status() == TOROID_ERROR_ENVIRONMENT);
  }
}

void count(const std::string& folder) {
  rt::Context context = rt::Model::open(folder + "/counter.so").value_or_throw().create_context().value_or_throw();
  const std::vector<int32_t> ones(4, 1);
  for (int32_t i = 1; i <= 3; ++i) {
    const auto outputs = context.run({rt::TensorView(ones.data(), {4})});
    CHECK(outputs && outputs->at(0).span<int32_t>()[1] == i * i);
  }
  std::vector<int32_t> value(4);
  CHECK(context.read_buffer("count", value.data(), 16).has_value() && value[0] == 103);
  CHECK(context.reset_buffers().has_value());
  CHECK(context.read_buffer("count", value.data(), 16).has_value() && value[0] == 100);
  CHECK(context.reset_buffer("none").error().status == TOROID_ERROR_NOT_FOUND);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    run(argv[1]);
    count(argv[1]);
  } catch (const rt::Exception& exception) {
    std::printf("%s\n", exception.what());
    return 1;
  }
  return failures != 0;
}
