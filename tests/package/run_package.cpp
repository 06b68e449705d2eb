// Runs a package as a program in C does, by dlopen and its own run side: what `toroid run` does by the command's.
//
// usage: run_package PACKAGE.so IN.safetensors OUT.safetensors [RUNS]      RUNS: prints the median time of so many, and of opening
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "api/tensors.h"
#include "frontend/safetensors.h"
#include "toroid/toroid.h"

namespace {

using toroid::SafeTensor;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "run_package: %s\n", message.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) fail("give a package, inputs and where outputs go");
  const int runs = argc > 4 ? std::atoi(argv[4]) : 0;
  const toroid::SafeTensors given = toroid::read_safetensors(argv[2]);
  const auto start = Clock::now();
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(dlerror());
  const auto get = reinterpret_cast<const ToroidApi* (*)(uint32_t)>(dlsym(library, "toroid_api"));
  if (get == nullptr) fail(dlerror());
  const ToroidApi* const api = get(TOROID_API_VERSION);
  char message[4096];
  ToroidModel* model = nullptr;
  if (api->model_open(nullptr, nullptr, &model, message, sizeof message) != TOROID_OK) fail(message);
  ToroidContext* context = nullptr;
  if (api->context_create(model, nullptr, &context, message, sizeof message) != TOROID_OK) fail(message);

  ToroidModelInfo info{};
  info.size = sizeof info;
  api->model_info(model, &info);
  const bool by_name = [&] {
    ToroidTensorInfo first{};
    first.size = sizeof first;
    return info.num_inputs == 0 || (api->model_input(model, 0, &first) == TOROID_OK && given.find(first.name) != nullptr);
  }();
  std::vector<DLTensor> inputs(static_cast<size_t>(info.num_inputs));
  std::vector<std::vector<std::byte>> copies;  // aligned
  std::vector<const DLTensor*> pointers;
  for (int32_t i = 0; i < info.num_inputs; ++i) {
    ToroidTensorInfo input{};
    input.size = sizeof input;
    api->model_input(model, i, &input);
    const std::string name = by_name ? input.name : "in" + std::to_string(i);
    const SafeTensor* const tensor = given.find(name);
    if (tensor == nullptr) fail("the file has no input '" + name + "'");
    copies.emplace_back(tensor->bytes.begin(), tensor->bytes.end());
    DLTensor& made = inputs[static_cast<size_t>(i)];
    made.data = copies.back().data();
    made.device = {kDLCPU, 0};
    made.dtype = toroid::api::dlpack_dtype(tensor->dtype);
    // What the program sees as a complex or an 8-bit number is written as pairs or bytes (cli/arrays.h); there is none of it here.
    made.ndim = static_cast<int32_t>(tensor->sizes.size());
    made.shape = const_cast<int64_t*>(tensor->sizes.data());
    pointers.push_back(&made);
  }
  std::vector<DLManagedTensor*> outputs(static_cast<size_t>(info.num_outputs));
  const auto run = [&] {
    if (api->context_run(context, pointers.data(), info.num_inputs, outputs.data(), info.num_outputs, nullptr) != TOROID_OK)
      fail(api->context_message(context));
  };
  const auto drop = [&] {
    for (DLManagedTensor*& output : outputs) output->deleter(output);
  };
  run();
  const double first_ms = milliseconds_since(start);

  std::vector<SafeTensor> written;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ToroidTensorInfo output{};
    output.size = sizeof output;
    api->model_output(model, static_cast<int32_t>(i), &output);
    if (output.kind == TOROID_INPUT_UPDATE) continue;  // as `toroid run`
    const DLTensor& tensor = outputs[i]->dl_tensor;
    const toroid::DType dtype = *toroid::api::dtype_of(tensor.dtype);
    std::vector<int64_t> sizes(tensor.shape, tensor.shape + tensor.ndim);
    size_t bytes = static_cast<size_t>(toroid::size_bytes(dtype));
    for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
    const auto* const data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    written.push_back({"out" + std::to_string(written.size()), dtype, sizes, {data, bytes}});
  }
  toroid::write_safetensors(argv[3], written);
  drop();
  if (runs > 0) {
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
      const auto before = Clock::now();
      run();
      times.push_back(milliseconds_since(before));
      drop();
    }
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    std::printf("%s: median %.4f ms, first result after %.2f ms, for %s\n", argv[1], times[static_cast<size_t>(runs / 2)], first_ms,
                info.isa);
  }
  api->context_destroy(context);
  api->model_close(model);
  return 0;
}
