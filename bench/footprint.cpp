// One side of bench/footprint.py in a process of its own: loads a model, runs it, and prints what that took. Compiled once for each side,
// with -DTOROID, -DEXECUTORCH or -DAOTINDUCTOR.
//
// usage: SIDE MODEL SECONDS INPUT...      INPUT: f32:1x3x224x224=FILE or i64:…, of raw numbers. Writes the first output to MODEL.result;
//                                        with 0 SECONDS the process ends after the first run
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#ifdef TOROID
#include <dlfcn.h>

#include "toroid/toroid.h"
#elif defined(EXECUTORCH)
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#else
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>
#endif

namespace {

struct Input {
  bool is_float;
  std::vector<int64_t> sizes;
  std::vector<char> data;
};

[[noreturn]] void fail(const std::string& words) {
  std::fprintf(stderr, "%s\n", words.c_str());
  std::exit(1);
}

Input read_input(const std::string& text) {
  Input input{text.compare(0, 3, "f32") == 0, {}, {}};
  const size_t equals = text.find('=');
  for (size_t at = 4; at < equals; at = text.find_first_of("x=", at) + 1) input.sizes.push_back(std::atoll(text.c_str() + at));
  std::ifstream file(text.substr(equals + 1), std::ios::binary);
  input.data.assign(std::istreambuf_iterator<char>(file), {});
  return input;
}

// Loads in its constructor. run() drops what comes out; result() gives its bytes.
#ifdef TOROID
class Side {
 public:
  explicit Side(const std::string& path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW);
    if (library == nullptr) fail(dlerror());
    toroid_ = reinterpret_cast<const ToroidApi* (*)(uint32_t)>(dlsym(library, "toroid_api"))(TOROID_API_VERSION);
    ToroidModelOptions options{};
    options.size = sizeof options;
    char message[1024];
    ToroidModel* model;
    if (toroid_->model_open(nullptr, &options, &model, message, sizeof message) != TOROID_OK ||
        toroid_->context_create(model, nullptr, &context_, message, sizeof message) != TOROID_OK)
      fail(message);
  }
  void take(std::vector<Input>& inputs) {
    for (Input& input : inputs) {
      const uint8_t code = input.is_float ? kDLFloat : kDLInt, bits = input.is_float ? 32 : 64;
      tensors_.push_back(
          {input.data.data(), {kDLCPU, 0}, static_cast<int32_t>(input.sizes.size()), {code, bits, 1}, input.sizes.data(), nullptr, 0});
    }
    for (const DLTensor& tensor : tensors_) inputs_.push_back(&tensor);
  }
  void run() { output()->deleter(output_); }
  std::string result() {
    const DLTensor& tensor = output()->dl_tensor;
    size_t bytes = sizeof(float);
    for (int d = 0; d < tensor.ndim; ++d) bytes *= static_cast<size_t>(tensor.shape[d]);
    return {static_cast<const char*>(tensor.data), bytes};
  }

 private:
  DLManagedTensor* output() {
    if (toroid_->context_run(context_, inputs_.data(), static_cast<int32_t>(inputs_.size()), &output_, 1, nullptr) != TOROID_OK)
      fail(toroid_->context_message(context_));
    return output_;
  }

  const ToroidApi* toroid_;
  ToroidContext* context_ = nullptr;
  std::vector<DLTensor> tensors_;
  std::vector<const DLTensor*> inputs_;
  DLManagedTensor* output_ = nullptr;
};
#elif defined(EXECUTORCH)
class Side {
 public:
  explicit Side(const std::string& path) : module_(path) {
    if (module_.load_method("forward") != executorch::runtime::Error::Ok) fail("load_method");
  }
  void take(std::vector<Input>& inputs) {
    for (Input& input : inputs) {
      const std::vector<executorch::aten::SizesType> sizes(input.sizes.begin(), input.sizes.end());
      tensors_.push_back(executorch::extension::from_blob(
          input.data.data(), sizes, input.is_float ? executorch::aten::ScalarType::Float : executorch::aten::ScalarType::Long));
      inputs_.emplace_back(tensors_.back());
    }
  }
  void run() {
    if (!module_.forward(inputs_).ok()) fail("forward");
  }
  std::string result() {
    const auto outputs = module_.forward(inputs_);
    const auto tensor = outputs->at(0).toTensor();
    return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
  }

 private:
  executorch::extension::Module module_;
  std::vector<executorch::extension::TensorPtr> tensors_;
  std::vector<executorch::runtime::EValue> inputs_;
};
#else
class Side {
 public:
  explicit Side(const std::string& path) { loader_ = std::make_unique<torch::inductor::AOTIModelPackageLoader>(path); }
  void take(std::vector<Input>& inputs) {
    for (Input& input : inputs)
      inputs_.push_back(torch::from_blob(input.data.data(), input.sizes, input.is_float ? torch::kFloat : torch::kLong));
  }
  void run() { loader_->run(inputs_); }
  std::string result() {
    const at::Tensor tensor = loader_->run(inputs_)[0].contiguous();
    return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
  }

 private:
  c10::InferenceMode mode_;
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> loader_;
  std::vector<at::Tensor> inputs_;
};
#endif

// The most so far; getrusage's begins with what the parent had.
double resident_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, 6, "VmHWM:") == 0) return std::atof(line.c_str() + 6) / 1e3;
  }
  return 0;
}

using Clock = std::chrono::steady_clock;
double ms(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) fail("usage: SIDE MODEL SECONDS INPUT...");
  std::vector<Input> inputs;
  for (int i = 3; i < argc; ++i) inputs.push_back(read_input(argv[i]));
  const auto begin = Clock::now();
  Side side(argv[1]);
  const auto loaded = Clock::now();
  side.take(inputs);
  side.run();
  const auto first = Clock::now();
  std::vector<double> times;
  for (const auto end = first + std::chrono::duration<double>(std::atof(argv[2])); Clock::now() < end;) {
    const auto start = Clock::now();
    side.run();
    times.push_back(ms(Clock::now() - start));
  }
  if (times.empty()) times.push_back(0);
  std::sort(times.begin(), times.end());
  const double memory_mb = resident_mb();
  if (times[0] == 0) std::_Exit(0);
  std::ofstream(std::string(argv[1]) + ".result", std::ios::binary) << side.result();
  std::printf("{\"load_ms\": %f, \"first_ms\": %f, \"call_us\": %f, \"memory_mb\": %f}\n", ms(loaded - begin), ms(first - loaded),
              times[times.size() / 2] * 1e3, memory_mb);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(".so") != line.npos) std::printf("%s\n", line.substr(line.find('/')).c_str());
  }
  std::fflush(stdout);
  std::_Exit(0);
}
