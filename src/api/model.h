// The object behind ToroidModel, and the functions of the table that take it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/handles.h"
#include "library/collectives/mpi.h"
#include "runtime/memory/host_bytes.h"
#include "runtime/program/loaded_program.h"
#include "toroid/toroid.h"

namespace toroid::api {

// What contexts share with the model that they were made of, and keep alive.
struct SharedModel {
  ToroidModelOptions options{};
  std::optional<HostMemory> memory;
  std::optional<collectives::Communicator> communicator;
  std::shared_ptr<LoadedProgram> program;
  std::string isa;
  std::vector<int32_t> outputs;         // of the interface: positions among the program's
  std::vector<std::string> conditions;  // of each variant

  const HostMemory* host_memory() const { return memory ? &*memory : nullptr; }
  // Of a program for GPUs: is the tensor at this place of a list in the process's memory? In all variants as in the general one.
  bool is_on_host(const int32_t* ToroidGpuPlacement::*list, size_t position) const {
    return program->variants().back().is_on_host(list, position);
  }
  int32_t device_type(const int32_t* ToroidGpuPlacement::*list, size_t position) const {
    return is_on_host(list, position) ? kDLCPU : device_type();
  }
  int32_t device_type() const { return program->gpu_tables() != nullptr ? kDLCUDA : kDLCPU; }
  void log(int32_t level, const std::string& line) const {
    if (options.log != nullptr) options.log(options.log_user, level, line.c_str());
  }
};

// Throws Refusal unless the model is an open one.
inline SharedModel& shared_of(const ToroidModel* model);

// A handle on a program; `shared` has all but what follows from that.
ToroidModel* make_model(std::shared_ptr<SharedModel> shared);

ToroidStatus model_open(const char* path, const ToroidModelOptions* options, ToroidModel** model, char* message, size_t message_size);
void model_close(ToroidModel* model);
ToroidStatus model_info(const ToroidModel* model, ToroidModelInfo* info);
ToroidStatus model_input(const ToroidModel* model, int32_t i, ToroidTensorInfo* info);
ToroidStatus model_output(const ToroidModel* model, int32_t i, ToroidTensorInfo* info);
ToroidStatus model_symbol(const ToroidModel* model, int32_t i, ToroidSymbolInfo* info);
ToroidStatus model_guard(const ToroidModel* model, int32_t i, const char** text);
ToroidStatus model_weight(const ToroidModel* model, int32_t i, ToroidWeightInfo* info);
ToroidStatus model_variant(const ToroidModel* model, int32_t i, ToroidVariantInfo* info);
ToroidStatus model_step(const ToroidModel* model, int32_t variant, int32_t step, ToroidStepDescription* description);
ToroidStatus model_output_sizes(const ToroidModel* model, const DLTensor* const* inputs, int32_t num_inputs, int32_t output, int64_t* sizes,
                                int32_t rank, char* message, size_t message_size);
ToroidStatus model_memory(const ToroidModel* model, const DLTensor* const* inputs, int32_t num_inputs, ToroidMemoryInfo* info,
                          char* message, size_t message_size);
ToroidStatus model_read_weight(const ToroidModel* model, const char* name, void* data, size_t bytes, char* message, size_t message_size);
ToroidStatus model_swap_weights(ToroidModel* model, const char* const* names, const DLTensor* const* tensors, int32_t count, char* message,
                                size_t message_size);

}  // namespace toroid::api

struct ToroidModel {
  static constexpr uint64_t kMark = 0x746f726f69644d4f;
  uint64_t mark = 0;
  std::unique_ptr<std::shared_ptr<toroid::api::SharedModel>> value;
  ToroidModel* next_closed = nullptr;

  toroid::api::SharedModel& shared() const { return **value; }
};

inline toroid::api::SharedModel& toroid::api::shared_of(const ToroidModel* model) {
  Handles<ToroidModel>::require_open(model, "model");
  return model->shared();
}
