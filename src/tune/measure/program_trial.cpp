#include "tune/measure/program_trial.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/file.h"
#include "runtime/cuda/device.h"
#include "runtime/program/executable.h"
#include "tensor/host_tensor.h"
#include "tune/measure/random_elements.h"
#include "tune/measure/same_result.h"

namespace toroid::tune {
namespace {

// Integers are zeros, which may be indices of anything. Of many elements some are there several times, at places that have nothing to do
// with rows.
HostTensor input_of(const OperandMeta& meta, uint64_t seed) {
  constexpr size_t kDistinct = 1'000'003;
  HostTensor tensor(meta.dtype, meta.sizes);
  const size_t size = tensor.bytes().size(), distinct = std::min(size, kDistinct * static_cast<size_t>(size_bytes(meta.dtype)));
  auto* const data = tensor.mutable_data<std::byte>();
  if (!is_floating(meta.dtype) && meta.dtype != DType::Bool) {
    std::memset(data, 0, size);
    return tensor;
  }
  write_random_elements(meta.dtype, {data, distinct}, seed);
  for (size_t at = distinct; at < size; at += distinct) std::memcpy(data + at, data, std::min(distinct, size - at));
  return tensor;
}

double median_seconds(std::vector<double> list) {
  const auto middle = list.begin() + static_cast<ptrdiff_t>(list.size() / 2);
  std::nth_element(list.begin(), middle, list.end());
  return *middle;
}

using Results = std::vector<std::vector<std::byte>>;

// Of float32, in parts one after the other.
std::vector<std::byte> sum_of_parts(const std::vector<std::byte>& parts, int64_t count) {
  std::vector<std::byte> sums(parts.size() / static_cast<size_t>(count));
  for (size_t at = 0; at < sums.size(); at += sizeof(float)) {
    double sum = 0;
    for (size_t part = at; part < parts.size(); part += sums.size()) {
      float value = 0;
      std::memcpy(&value, &parts[part], sizeof value);
      sum += value;
    }
    const auto rounded = static_cast<float>(sum);
    std::memcpy(&sums[at], &rounded, sizeof rounded);
  }
  return sums;
}

// Where programs run.
class Place {
 public:
  virtual ~Place() = default;
  // The results, in memory that was NaN before.
  virtual Results run(Executable& program) = 0;
  virtual double time_s(Executable& program, uint64_t repetitions) = 0;
};

class OnProcessor final : public Place {
 public:
  explicit OnProcessor(std::vector<HostTensor> inputs) : inputs_(std::move(inputs)) {}
  Results run(Executable& program) override {
    Results results;
    for (const HostTensor& each : program.run(inputs_)) results.emplace_back(each.bytes().begin(), each.bytes().end());
    return results;
  }
  double time_s(Executable& program, uint64_t repetitions) override {
    std::vector<double> seconds;
    for (uint64_t i = 0; i < repetitions; ++i) {
      const Stopwatch watch;
      program.run(inputs_);
      seconds.push_back(watch.seconds());
    }
    return median_seconds(std::move(seconds));
  }

 private:
  std::vector<HostTensor> inputs_;
};

class OnGpu final : public Place {
 public:
  OnGpu(const cuda::Device& device, const std::vector<HostTensor>& inputs, const std::vector<OperandMeta>& outputs)
      : here_(device), other_(stream_, 4 * device.l2_bytes()) {
    for (const HostTensor& each : inputs) {
      const cuda::Memory& memory = memory_.emplace_back(stream_, std::max<size_t>(each.bytes().size(), 1));
      cuda::copy_in(stream_, memory.data(), each.bytes().data(), each.bytes().size());
      inputs_.push_back({.dtype = each.dtype(), .sizes = {each.sizes().begin(), each.sizes().end()}, .data = memory.data()});
    }
    for (const OperandMeta& each : outputs) {
      const cuda::Memory& memory = memory_.emplace_back(stream_, std::max<size_t>(static_cast<size_t>(each.extent_bytes()), 1));
      outputs_.push_back({.dtype = each.dtype, .sizes = each.sizes, .data = memory.data()});
      bytes_.push_back(static_cast<size_t>(each.extent_bytes()));
      nan_.resize(std::max(nan_.size(), bytes_.back()), std::byte{0xff});
    }
    stream_.synchronize();
  }

  Results run(Executable& program) override {
    for (size_t i = 0; i < outputs_.size(); ++i) cuda::copy_in(stream_, outputs_[i].data, nan_.data(), bytes_[i]);
    start(program);
    program.wait();
    Results results;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      cuda::copy_out(stream_, results.emplace_back(bytes_[i]).data(), outputs_[i].data, bytes_[i]);
    }
    stream_.synchronize();
    return results;
  }

  // From an L2 cache that has nothing of theirs.
  double time_s(Executable& program, uint64_t repetitions) override {
    while (events_.size() < repetitions) events_.emplace_back();
    for (uint64_t i = 0; i < repetitions; ++i) {
      const auto& [from, to] = events_[i];
      cuda::clear(stream_, other_.data(), other_.size());
      from.record(stream_.handle());
      start(program);
      to.record(stream_.handle());
    }
    program.wait();
    stream_.synchronize();
    std::vector<double> seconds;
    for (uint64_t i = 0; i < repetitions; ++i) seconds.push_back(cuda::Event::seconds(events_[i].first, events_[i].second));
    return median_seconds(std::move(seconds));
  }

  bool is_lost() const {
    try {
      const cuda::Stream another;
      another.synchronize();
      return false;
    } catch (const Error&) {
      return true;
    }
  }

 private:
  void start(Executable& program) { program.start(inputs_, outputs_, stream_.handle()); }

  const cuda::OnDevice here_;
  cuda::Stream stream_;
  std::deque<cuda::Memory> memory_;
  cuda::Memory other_;
  std::vector<DeviceTensor> inputs_, outputs_;
  std::vector<size_t> bytes_;  // of outputs
  std::vector<std::byte> nan_;
  std::deque<std::pair<cuda::Event, cuda::Event>> events_;
};

class ProgramTrial final : public Trial {
 public:
  ProgramTrial(ProgramsToTry what, const Request& request, int gpu, std::shared_ptr<cuda::ProductMemory> products)
      : what_(std::move(what)), threads_(static_cast<int>(request.threads)), gpu_(gpu), products_(std::move(products)) {
    Executable& reference = program(request.choice);
    std::vector<HostTensor> inputs;
    for (const OperandMeta& each : what_.tensors.inputs) inputs.push_back(input_of(each, request.seed + inputs.size() + 1));
    if (reference.is_on_device()) {
      auto place = std::make_unique<OnGpu>(cuda::Device::get(gpu), inputs, what_.tensors.outputs);
      on_gpu_ = place.get();
      place_ = std::move(place);
    } else {
      place_ = std::make_unique<OnProcessor>(std::move(inputs));
    }
    expected_ = guarded([&] { return place_->run(reference); });
  }

  Check check(std::string_view choice) override {
    return guarded([&]() -> Check {
      Executable& candidate = program(choice);
      const Results first = place_->run(candidate);
      if (std::optional<std::string> fault = fault_of(first)) return {.fault = std::move(fault)};
      const Results second = place_->run(candidate);
      if (second != first) {
        if (std::optional<std::string> fault = fault_of(second)) return {.fault = std::move(fault)};
      }
      return {.seconds = place_->time_s(candidate, 3)};  // behind which products of the library have their algorithms
    });
  }

  double time_s(std::string_view choice, uint64_t repetitions, bool /*cold*/) override {
    return guarded([&] { return place_->time_s(program(choice), repetitions); });
  }

 private:
  Executable& program(std::string_view choice) {
    const std::string name(choice);
    const auto found = programs_.find(name);
    if (found != programs_.end()) return found->second;
    const std::string library = read_file(what_.folder / (name + ".so"));
    Executable& made = programs_.emplace(name, Executable(library, {}, nullptr, name, threads_, gpu_)).first->second;
    if (products_ && made.is_on_device()) made.remember_products(products_);
    return made;
  }

  std::optional<std::string> fault_of(const Results& results) const {
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] == expected_[i]) continue;
      const std::vector<int64_t>& integers = what_.tensors.integers;
      const int64_t depth = integers.at(0), parts = integers.size() > 1 ? integers[1] : 1;
      std::optional<DType> sums;
      if (integers.size() > 2) sums = static_cast<DType>(integers[2]);
      const DType dtype = what_.tensors.outputs.at(i).dtype;
      const bool is_in_parts = parts > 1 && dtype == DType::F32;
      const auto difference = is_in_parts
                                  ? difference_of_results(dtype, depth, sum_of_parts(results[i], parts), sum_of_parts(expected_[i], parts))
                                  : difference_of_results(dtype, depth, results[i], expected_[i], sums);
      if (difference) return fmt::format("output {}: {}", i, *difference);
    }
    return std::nullopt;
  }

  template <class F>
  auto guarded(F&& run) -> decltype(run()) {
    try {
      return run();
    } catch (const Error& error) {
      if (on_gpu_ == nullptr || !on_gpu_->is_lost()) throw;
      fmt::print(stderr, "{}\n", error.message());
      std::fflush(stderr);
      ::_exit(1);
    }
  }

  ProgramsToTry what_;
  int threads_, gpu_;
  std::shared_ptr<cuda::ProductMemory> products_;  // may be null
  std::map<std::string, Executable> programs_;
  std::unique_ptr<Place> place_;
  OnGpu* on_gpu_ = nullptr;  // the place, if it is one
  Results expected_;
};

}  // namespace

std::string to_string(const ProgramsToTry& programs) { return to_string(programs.tensors) + "\n" + programs.folder.string(); }

std::optional<ProgramsToTry> parse_programs(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  return ProgramsToTry{parse_problem(text.substr(0, end)), std::filesystem::path(text.substr(end + 1))};
}

std::unique_ptr<Trial> make_program_trial(const ProgramsToTry& programs, const Request& request, int gpu,
                                          std::shared_ptr<cuda::ProductMemory> products) {
  return std::make_unique<ProgramTrial>(programs, request, gpu, std::move(products));
}

}  // namespace toroid::tune
