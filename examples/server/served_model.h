// A compiled model behind a queue: workers with a context each take requests, several at once where the model's first size is free.
//
//   ServedModel model("classifier", "classifier.so", {.workers = 2, .window = 2ms});
//   std::future<Answer> answer = model.submit({{"image", kFloat, {1, 28, 28}, bytes}});
//
// A request waits at most the window for others to be computed with. Requests of one batch are laid one behind the other along the first
// dim, and so are their results. Weights may be replaced meanwhile: calls that began go on with the old ones.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "toroid/toroid.hpp"

// Elements in row-major order.
struct Array {
  DLDataType dtype{};
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  int64_t elements() const;
};

// Of one model, since the start.
struct Metrics {
  static constexpr double kBuckets[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1};  // seconds
  std::atomic<uint64_t> requests = 0, errors = 0, batches = 0, rows = 0, reloads = 0, microseconds = 0;
  std::atomic<uint64_t> within[std::size(kBuckets)] = {};  // requests that took at most so long

  void note(std::chrono::steady_clock::duration took, bool failed);
};

class ServedModel {
 public:
  struct Options {
    int workers = 1;
    std::chrono::microseconds window{2000};
    int64_t most_rows = 64;       // of a batch
    std::string weights = {};     // a .safetensors whose tensors replace the model's own, now and with each reload(); empty: none
    size_t longest_queue = 1000;  // requests that wait; more are refused
  };
  // What came of a request: the results, or why there are none.
  struct Answer {
    std::vector<Array> outputs;
    std::string error;
    bool is_callers_fault = false;
  };

  // Throws std::runtime_error where the model cannot be opened, or its weights cannot be read.
  ServedModel(std::string name, const std::string& path, Options options);
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;

  const std::string& name() const { return name_; }
  const toroid::runtime::Model& model() const { return model_; }
  bool takes_batches() const { return batch_most_ > 1; }
  size_t waiting() const;
  Metrics& metrics() { return metrics_; }

  std::future<Answer> submit(std::vector<Array> inputs);
  void reload();  // reads the weights again; throws as the constructor does, and then the old ones stay

 private:
  struct Request {
    std::vector<Array> inputs;
    std::promise<Answer> answer;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    int64_t rows() const { return inputs.empty() || inputs[0].shape.empty() ? 1 : inputs[0].shape[0]; }
  };
  void work(toroid::runtime::Context context);
  std::vector<Request> next_batch();
  bool joins(const Request& first, const Request& other) const;
  void compute(toroid::runtime::Context& context, std::vector<Request>& batch);
  void finish(Request& request, Answer answer);

  const std::string name_;
  const Options options_;
  toroid::runtime::Model model_;
  int64_t batch_most_ = 1;  // rows that a call may have
  Metrics metrics_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  bool is_ending_ = false;
  std::vector<std::thread> workers_;
};
