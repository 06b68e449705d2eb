// What a model says about itself.
#include <numeric>

#include "api/model.h"
#include "api/structs.h"
#include "api/tensors.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "runtime/pool/pool.h"

namespace toroid::api {
namespace {

// Descriptions have no place for words.
template <class F>
ToroidStatus described(F&& f) noexcept {
  std::string ignored;
  return guarded(TOROID_ERROR_ARGUMENT, ignored, f);
}

template <class Row>
const Row& row_at(Span<const Row> all, int32_t i, const char* what) {
  if (i < 0 || static_cast<size_t>(i) >= all.size())
    fail(TOROID_ERROR_ARGUMENT, "there are {} {}s, and number {} is asked for", all.size(), what, i);
  return all[static_cast<size_t>(i)];
}

std::vector<InputShape> shapes_of(const DLTensor* const* inputs, int32_t num_inputs) {
  if (num_inputs < 0) fail(TOROID_ERROR_ARGUMENT, "'num_inputs' is {}", num_inputs);
  if (num_inputs > 0) require_pointer(inputs, "inputs");
  std::vector<InputShape> shapes;
  for (int32_t i = 0; i < num_inputs; ++i) {
    const InputView view = view_of(inputs[i], "input", i, kProcessor, false);
    shapes.push_back({view.dtype, view.sizes});
  }
  return shapes;
}

}  // namespace

ToroidStatus model_info(const ToroidModel* model, ToroidModelInfo* info) {
  return described([&] {
    const SharedModel& shared = shared_of(model);
    const ToroidProgram& program = shared.program->tables();
    const ToroidContract& contract = general_variant(program).contract;
    ToroidModelInfo made{};
    made.name = shared.program->name().c_str();
    made.isa = shared.isa.c_str();
    made.training = program.training;
    made.call_tree = program.call_tree;
    made.provenance = shared.program->provenance();
    made.device_type = shared.device_type();
    made.abi_version = program.abi_version;
    made.num_inputs = contract.num_inputs;
    made.num_outputs = static_cast<int32_t>(shared.outputs.size());
    made.num_symbols = contract.num_symbols;
    made.num_guards = contract.num_guards + contract.num_later_guards;
    made.num_weights = program.num_constants;
    made.num_variants = program.num_variants;
    for (const ToroidConstantInfo& constant : rows(program.constants, program.num_constants)) made.weight_bytes += constant.bytes;
    made.threads = shared.program->pool()->threads();
    fill(info, made, "info");
  });
}

ToroidStatus model_input(const ToroidModel* model, int32_t i, ToroidTensorInfo* info) {
  return described([&] {
    const ToroidContract& contract = general_variant(shared_of(model).program->tables()).contract;
    const ToroidInputInfo& input = row_at(rows(contract.inputs, contract.num_inputs), i, "input");
    fill(info,
         {0, input.name, input.type, "", dlpack_dtype(static_cast<DType>(input.dtype)), input.rank, 0, 0,
          shared_of(model).device_type(&ToroidGpuPlacement::inputs, static_cast<size_t>(i))},
         "info");
  });
}

ToroidStatus model_output(const ToroidModel* model, int32_t i, ToroidTensorInfo* info) {
  return described([&] {
    const SharedModel& shared = shared_of(model);
    const int32_t position = row_at(Span<const int32_t>(shared.outputs), i, "output");
    const ToroidOutputInfo& output = general_variant(shared.program->tables()).outputs[position];
    fill(info,
         {0, output.name, output.type, output.target, dlpack_dtype(static_cast<DType>(output.dtype)), output.rank, output.kind,
          output.is_late, shared.device_type(&ToroidGpuPlacement::outputs, static_cast<size_t>(position))},
         "info");
  });
}

ToroidStatus model_symbol(const ToroidModel* model, int32_t i, ToroidSymbolInfo* info) {
  return described([&] {
    const ToroidContract& contract = general_variant(shared_of(model).program->tables()).contract;
    const ToroidSymbol& symbol = row_at(rows(contract.symbols, contract.num_symbols), i, "symbol");
    fill(info, {0, symbol.name, symbol.least, symbol.most}, "info");
  });
}

ToroidStatus model_guard(const ToroidModel* model, int32_t i, const char** text) {
  return described([&] {
    const ToroidContract& contract = general_variant(shared_of(model).program->tables()).contract;
    require_pointer(text, "text");
    std::vector<int32_t> guards(contract.guards, contract.guards + contract.num_guards);
    guards.insert(guards.end(), contract.later_guards, contract.later_guards + contract.num_later_guards);
    *text = contract.expressions[row_at(Span<const int32_t>(guards), i, "guard")].text;
  });
}

ToroidStatus model_weight(const ToroidModel* model, int32_t i, ToroidWeightInfo* info) {
  return described([&] {
    const ToroidProgram& program = shared_of(model).program->tables();
    const ToroidConstantInfo& constant = row_at(rows(program.constants, program.num_constants), i, "weight");
    const auto dtype = static_cast<DType>(constant.dtype);
    const auto bytes = bytes_of(dtype, rows(constant.sizes, constant.rank));
    fill(info, {0, constant.name, constant.type, bytes, dlpack_dtype(dtype), constant.rank, constant.sizes, constant.is_mutable}, "info");
  });
}

ToroidStatus model_variant(const ToroidModel* model, int32_t i, ToroidVariantInfo* info) {
  return described([&] {
    const SharedModel& shared = shared_of(model);
    const ToroidVariant& variant = row_at(shared.program->variants(), i, "variant").tables;
    fill(info, {0, shared.conditions[static_cast<size_t>(i)].c_str(), variant.num_steps, variant.num_kernels}, "info");
  });
}

ToroidStatus model_step(const ToroidModel* model, int32_t variant, int32_t step, ToroidStepDescription* description) {
  return described([&] {
    const ToroidVariant& its = row_at(shared_of(model).program->variants(), variant, "variant").tables;
    const ToroidStepInfo& info = row_at(rows(its.steps, its.num_steps), step, "step");
    fill(description, {0, info.name, info.origin}, "description");
  });
}

ToroidStatus model_output_sizes(const ToroidModel* model, const DLTensor* const* inputs, int32_t num_inputs, int32_t output, int64_t* sizes,
                                int32_t rank, char* message, size_t message_size) {
  return guarded(TOROID_ERROR_INPUT, message, message_size, [&] {
    const SharedModel& shared = shared_of(model);
    const auto position = static_cast<size_t>(row_at(Span<const int32_t>(shared.outputs), output, "output"));
    const auto [variant, bound] = shared.program->find_variant(shapes_of(inputs, num_inputs));
    const LoadedVariant& its = shared.program->variants()[variant];
    const ToroidOutputInfo& info = its.tables.outputs[position];
    if (info.is_late != 0) fail(TOROID_ERROR_UNSUPPORTED, "the sizes of output '{}' become known while the program runs", info.name);
    if (rank != info.rank) fail(TOROID_ERROR_ARGUMENT, "output '{}' has {} dimensions, and 'rank' is {}", info.name, info.rank, rank);
    if (rank > 0) require_pointer(sizes, "sizes");
    const CallLayout layout = its.lay_out(bound);
    std::copy(layout.output_sizes[position].begin(), layout.output_sizes[position].end(), sizes);
  });
}

ToroidStatus model_memory(const ToroidModel* model, const DLTensor* const* inputs, int32_t num_inputs, ToroidMemoryInfo* info,
                          char* message, size_t message_size) {
  return guarded(TOROID_ERROR_INPUT, message, message_size, [&] {
    const SharedModel& shared = shared_of(model);
    const auto [variant, bound] = shared.program->find_variant(shapes_of(inputs, num_inputs));
    const LoadedVariant& its = shared.program->variants()[variant];
    const CallLayout layout = its.lay_out(bound);
    ToroidMemoryInfo made{};
    made.temporaries = layout.arena.bytes;
    for (const int32_t output : shared.outputs) {
      const ToroidOutputInfo& described = its.tables.outputs[output];
      if (described.is_late == 0)
        made.outputs += bytes_of(static_cast<DType>(described.dtype), layout.output_sizes[static_cast<size_t>(output)]);
    }
    const ToroidProgram& program = shared.program->tables();
    for (const ToroidConstantInfo& constant : rows(program.constants, program.num_constants)) made.weights += constant.bytes;
    made.packed = shared.program->weights()->packed().bytes();
    fill(info, made, "info");
  });
}

}  // namespace toroid::api
