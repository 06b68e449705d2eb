#include "driver/eager/loaded_operator.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/machine/out_of_memory.h"
#include "tensor/strided_copy.h"

namespace toroid {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<int64_t> strides_given(const TensorView& view) {
  return view.strides.empty() ? strides_of(view.sizes) : std::vector<int64_t>(view.strides.begin(), view.strides.end());
}

// "aten::add.Tensor" as a file's name.
std::string file_name(std::string_view op) {
  std::string name(op.substr(op.rfind(':') + 1));
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// Two elements in one place could not both be written.
void check_distinct_elements(const OperatorCall& call, size_t tensor) {
  const TensorView& view = *call.tensors[tensor].view;
  for (size_t d = 0; d < view.strides.size(); ++d) {
    if (view.strides[d] != 0 || view.sizes[d] < 2) continue;
    throw Error(ErrorKind::InvalidInput,
                fmt::format("{} writes to its argument '{}', {}, of which several elements are one place in memory", call.schema->name,
                            call.tensors[tensor].name, to_string(view)))
        .help("pass a tensor of its own memory");
  }
}

bool overlap(const char* a, int64_t a_bytes, const char* b, int64_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

}  // namespace

char* EagerContext::reserve(int64_t bytes) {
  if (!block_ || size_ < bytes) {
    block_.reset();
    const auto size = static_cast<size_t>(bytes);
    block_ = asking_for(size, "what an operator works on", [&] { return std::make_unique<AlignedBytes>(size); });
    size_ = bytes;
  }
  return block_->data();
}

LoadedOperator::LoadedOperator(const CompiledModel& model, const OperatorCall& call, OperatorProgram made)
    : name_(call.schema->name),
      library_(model.library, file_name(call.schema->name)),
      variant_(general_variant(library_.tables()), library_.tables().bad_index),
      owner_(model.owner),
      num_results_(made.results.size()),
      numbers_(std::move(made.numbers)) {
  for (int32_t position : rows(variant_.tables.constants, variant_.tables.num_constants))
    constants_.push_back(model.constants[static_cast<size_t>(position)].data());
  bool writes = false;
  for (int32_t i = 0; i < variant_.tables.num_outputs; ++i) {
    const ToroidOutputInfo& output = variant_.tables.outputs[i];
    Destination destination;
    if (output.kind == TOROID_OUTPUT_INPUT_MUTATION) {
      const auto target =
          std::find_if(call.tensors.begin(), call.tensors.end(), [&](const auto& tensor) { return tensor.name == output.target; });
      TOROID_CHECK(target != call.tensors.end(), "{} writes to '{}', which it does not have", name_, output.target);
      destination.tensor = static_cast<int>(target - call.tensors.begin());
      writes = true;
    } else {
      destination.result = static_cast<int>(std::find(made.results.begin(), made.results.end(), i) - made.results.begin());
    }
    destinations_.push_back(destination);
  }
  for (const OperatorCall::Tensor& tensor : call.tensors) {
    const Parameter& parameter = call.schema->parameters[tensor.parameter];
    are_overwritten_.push_back(parameter.mutated && parameter.keyword_only);
  }
  const bool gives_argument = std::any_of(call.schema->parameters.begin(), call.schema->parameters.end(), [&](const Parameter& parameter) {
    return parameter.mutated && !call.schema->results.empty() && call.schema->results[0].alias == parameter.alias;
  });
  if (gives_argument && !writes) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} changes how its tensor is seen, and computes nothing", name_))
        .help("do that where the tensor's sizes and strides are kept");
  }
}

LoadedOperator::Prepared LoadedOperator::prepare(const OperatorCall& call) const {
  std::vector<InputShape> shapes;
  for (const OperatorCall::Tensor& tensor : call.tensors) shapes.push_back({tensor.view->dtype, tensor.view->sizes});
  Prepared prepared;
  const std::vector<int64_t> slots = slots_of(call);
  for (const OperatorProgram::Number& number : numbers_) {
    prepared.numbers_.push_back(slots[number.slot]);
    shapes.push_back({DType::I64, {}});
  }
  CallSizes& sizes = prepared.sizes_.emplace(variant_.bind(shapes));
  for (size_t i = 0; i < numbers_.size(); ++i) variant_.bind(sizes, numbers_[i].symbol, prepared.numbers_[i]);
  prepared.layout_ = variant_.lay_out(sizes);
  prepared.bytes_ = aligned(prepared.layout_.arena.bytes);
  auto reserve = [&](int64_t bytes) {
    const int64_t offset = prepared.bytes_;
    const std::optional<int64_t> all = (Checked(offset) + bytes + kAlignment).value();
    if (!all) throw Error(ErrorKind::InvalidInput, fmt::format("{} needs more memory than 63 bits count", name_));
    prepared.bytes_ += aligned(bytes);
    return offset;
  };
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorView& view = *call.tensors[i].view;
    const std::vector<int64_t> given = strides_given(view);
    Prepared::Input input;
    input.strides = strides_wanted(sizes, i, view.sizes);
    const auto needed = [&](std::span<const int64_t> strides) {
      return static_cast<int64_t>(
          needed_bytes(view.sizes, strides, size_bytes(view.dtype), fmt::format("argument '{}'", call.tensors[i].name)));
    };
    input.extent_bytes = needed(given);
    if (!is_aligned(view) || !is_same_layout(view.sizes, given, input.strides)) {
      input.copy_offset = reserve(needed(input.strides));
    }
    prepared.inputs_.push_back(std::move(input));
  }
  for (size_t i = 0; i < destinations_.size(); ++i) {
    Prepared::Output output;
    const ToroidOutputInfo& described = variant_.tables.outputs[i];
    if (destinations_[i].tensor >= 0) {
      const auto tensor = static_cast<size_t>(destinations_[i].tensor);
      const TensorView& view = *call.tensors[tensor].view;
      check_distinct_elements(call, tensor);
      if (described.is_late == 0) {
        const auto dtype = static_cast<DType>(described.dtype);
        const std::vector<int64_t>& sizes = prepared.layout_.output_sizes[i];
        if (dtype != view.dtype || !std::equal(sizes.begin(), sizes.end(), view.sizes.begin(), view.sizes.end())) {
          throw Error(ErrorKind::InvalidInput, fmt::format("{} gives {}{}, but its argument '{}' is {}", name_, to_string(dtype),
                                                           shape_text(sizes), call.tensors[tensor].name, to_string(view)))
              .help("pass memory for just that many elements");
        }
        output.copy_offset = reserve(bytes_of(view.dtype, sizes));
        output.may_go_there_directly =
            are_overwritten_[tensor] && is_aligned(view) && is_same_layout(view.sizes, strides_given(view), strides_of(view.sizes));
      }
    }
    prepared.outputs_.push_back(output);
  }
  return prepared;
}

std::vector<HostTensor> LoadedOperator::run(EagerContext& context, const Prepared& prepared, std::span<const TensorView* const> tensors,
                                            const int64_t* random) const {
  const ToroidOutputInfo* const infos = variant_.tables.outputs;
  char* const memory = context.reserve(prepared.bytes_);
  context.inputs.clear();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Prepared::Input& input = prepared.inputs_[i];
    if (input.copy_offset < 0) {
      context.inputs.push_back(tensors[i]->data);
      continue;
    }
    auto* const copy = reinterpret_cast<std::byte*>(memory + input.copy_offset);
    copy_strided(copy, input.strides, static_cast<const std::byte*>(tensors[i]->data), strides_given(*tensors[i]), tensors[i]->sizes,
                 static_cast<size_t>(size_bytes(tensors[i]->dtype)));
    context.inputs.push_back(copy);
  }

  for (const int64_t& number : prepared.numbers_) context.inputs.push_back(&number);

  // An output goes straight to the caller's memory where nothing else that is read or written lies.
  auto goes_there_directly = [&](size_t output) {
    if (!prepared.outputs_[output].may_go_there_directly) return false;
    const auto target = static_cast<size_t>(destinations_[output].tensor);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (i != target && overlap(static_cast<const char*>(tensors[target]->data), prepared.inputs_[target].extent_bytes,
                                 static_cast<const char*>(tensors[i]->data), prepared.inputs_[i].extent_bytes)) {
        return false;
      }
    }
    return true;
  };
  std::vector<HostTensor> results(num_results_);
  context.outputs.clear();
  context.late_outputs.resize(destinations_.size());
  for (size_t i = 0; i < destinations_.size(); ++i) {
    const Destination& to = destinations_[i];
    if (infos[i].is_late != 0) {
      context.outputs.push_back(nullptr);
    } else if (to.tensor < 0) {
      HostTensor& result = results[static_cast<size_t>(to.result)];
      result = HostTensor(static_cast<DType>(infos[i].dtype), prepared.layout_.output_sizes[i]);
      context.outputs.push_back(result.mutable_data<std::byte>());
    } else {
      context.outputs.push_back(goes_there_directly(i) ? tensors[static_cast<size_t>(to.tensor)]->data
                                                       : memory + prepared.outputs_[i].copy_offset);
    }
  }

  const auto prepare = [&] { return variant_.prepare_in_memory(context.host, name_, constants_.data(), nullptr); };
  char* const shared = variant_.tables.prepared_bytes == 0 ? nullptr : prepared_.get(prepare);
  OutputTensors late_outputs(context.late_outputs);
  variant_.run(context.host, name_, prepared.layout_, context.inputs.data(), constants_.data(), memory, shared, random, *prepared.sizes_,
               context.outputs.data(), late_outputs);

  for (size_t i = 0; i < destinations_.size(); ++i) {
    const Destination& to = destinations_[i];
    const bool is_late = infos[i].is_late != 0;
    if (to.tensor < 0) {
      if (is_late) results[static_cast<size_t>(to.result)] = std::move(context.late_outputs[i]);
      continue;
    }
    const TensorView& target = *tensors[static_cast<size_t>(to.tensor)];
    const auto* from = static_cast<const std::byte*>(context.outputs[i]);
    if (is_late) {
      const std::vector<int64_t>& sizes = context.late_outputs[i].sizes();
      if (!std::equal(sizes.begin(), sizes.end(), target.sizes.begin(), target.sizes.end())) {
        throw Error(ErrorKind::InvalidInput,
                    fmt::format("{} gives {}, but has {} to write to", name_, to_string(context.late_outputs[i]), to_string(target)))
            .help("pass memory for just that many elements, or take the result that the form without 'out' gives");
      }
      from = context.late_outputs[i].bytes().data();
    }
    if (from == target.data) continue;
    copy_strided(static_cast<std::byte*>(target.data), strides_given(target), from, strides_of(target.sizes), target.sizes,
                 static_cast<size_t>(size_bytes(target.dtype)));
  }
  return results;
}

}  // namespace toroid
