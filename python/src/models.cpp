#include "models.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>

namespace toroid::python {
namespace {

// As toroid.TensorInfo takes it.
nb::tuple described(const ToroidTensorInfo& info) {
  return nb::make_tuple(info.name, info.type, dtype_name(info.dtype), info.rank, info.kind, info.target, info.is_late != 0);
}

struct StepTime {
  int32_t variant, step;
  std::string name, origin;
  int64_t nanoseconds;
};

// The arrays of a call's inputs, as the interface takes them.
class Inputs {
 public:
  Inputs(const std::vector<ToroidTensorInfo>& infos, nb::handle arguments) : arguments_(infos.size()), tensors_(infos.size()) {
    const size_t count = nb::len(arguments);
    if (count != infos.size())
      raise_named("ArgumentError", "the model takes " + std::to_string(infos.size()) + " inputs, and got " + std::to_string(count));
    for (size_t i = 0; i < count; ++i) {
      arguments_[i].set(arguments[i], infos[i].name, infos[i].dtype);
      tensors_[i] = arguments_[i].tensor();
      if (kind_ == Kind::Toroid) kind_ = arguments_[i].kind(), exchange_ = arguments_[i].exchange();
    }
  }
  const DLTensor* const* data() const { return tensors_.data(); }
  int32_t size() const { return static_cast<int32_t>(tensors_.size()); }
  Kind kind() const { return kind_; }
  const ExchangeApi* exchange() const { return exchange_; }
  // Of arrays on a GPU.
  struct Stream {
    void* stream = nullptr;  // that their library works on now; null, the default stream, where none says it
    bool is_on_gpu = false;  // whether there are such arrays
    bool orders_all = true;  // the libraries of all of them work on this stream: they give their memory to nobody before it is read
  };
  Stream stream() const {
    Stream result;
    bool is_said = false;
    for (const Argument& each : arguments_) {
      const DLDevice device = each.tensor()->device;
      if (device.device_type != kDLCUDA) continue;
      result.is_on_gpu = true;
      if (each.exchange() == nullptr || each.exchange()->current_work_stream == nullptr) {
        result.orders_all = false;
        continue;
      }
      void* stream = nullptr;
      if (each.exchange()->current_work_stream(device.device_type, device.device_id, &stream) != 0) throw nb::python_error();
      if (!is_said) result.stream = stream;
      result.orders_all = result.orders_all && stream == result.stream;
      is_said = true;
    }
    return result;
  }

 private:
  std::vector<Argument> arguments_;
  std::vector<const DLTensor*> tensors_;
  Kind kind_ = Kind::Toroid;  // of the first that is an array of another library
  const ExchangeApi* exchange_ = nullptr;
};

// A loaded program: what all its models share.
struct Loaded {
  explicit Loaded(OwnedModel owned) : model(std::move(owned)), info(sized<ToroidModelInfo>()) {
    run_side().model_info(model.get(), &info);
    for (int32_t i = 0; i < info.num_weights; ++i) {
      weights.push_back(sized<ToroidWeightInfo>());
      run_side().model_weight(model.get(), i, &weights.back());
      has_state = has_state || weights.back().is_mutable != 0;
    }
    for (int32_t i = 0; i < info.num_inputs; ++i) {
      inputs.push_back(sized<ToroidTensorInfo>());
      run_side().model_input(model.get(), i, &inputs.back());
    }
  }

  std::shared_ptr<ToroidModel> model;
  ToroidModelInfo info;
  bool has_state = false;
  std::vector<ToroidTensorInfo> inputs;
  std::vector<ToroidWeightInfo> weights;
};

class Model {
 public:
  Model(std::shared_ptr<Loaded> loaded, const ContextOptions& options)
      : loaded_(std::move(loaded)), contexts_(std::make_unique<ContextPool>(loaded_->model, options)) {}

  const ToroidModelInfo& info() const { return loaded_->info; }
  ToroidModel* get() const { return loaded_->model.get(); }
  ContextPool& contexts() { return *contexts_; }
  const Loaded& loaded() const { return *loaded_; }
  // The same program with contexts of its own.
  Model* with_contexts(bool is_single, int threads, std::vector<int32_t> processors) const {
    return new Model(loaded_, {.is_single = is_single || loaded_->has_state, .threads = threads, .processors = std::move(processors)});
  }

  // results: as kind_named says; "": arrays as the first input is one. timeout_s: 0 is none. times: each step's are added, if it is there.
  nb::list run(nb::handle arguments, const std::string& results, double timeout_s, std::vector<StepTime>* times) {
    const Inputs inputs(loaded_->inputs, arguments);
    Kind kind = inputs.kind();
    const ExchangeApi* exchange = inputs.exchange();
    if (!results.empty()) {
      const Kind asked = kind_named(results.c_str());
      if (asked != kind) exchange = nullptr;
      kind = asked;
    }
    auto options = sized<ToroidRunOptions>();
    const bool is_for_gpu = info().device_type != kDLCPU;
    const Inputs::Stream stream = is_for_gpu ? inputs.stream() : Inputs::Stream{};
    options.stream = stream.stream;
    // Results are told no stream but where PyTorch, which works on the inputs' one, takes them at once.
    const bool waits = stream.is_on_gpu && !(stream.orders_all && inputs.kind() == Kind::Torch && kind == Kind::Torch);
    if (timeout_s > 0) options.deadline_ns = now_ns() + static_cast<int64_t>(timeout_s * 1e9);
    if (times != nullptr) {
      options.profile = [](void* user, const ToroidStepTime* time) {
        static_cast<std::vector<StepTime>*>(user)->push_back({time->variant, time->step, time->name, time->origin, time->nanoseconds});
      };
      options.profile_user = times;
    }
    std::vector<DLManagedTensor*> made(static_cast<size_t>(info().num_outputs), nullptr);
    in_context(*contexts_, [&](ToroidContext* context) {
      // What kernels of an earlier call have found wrong.
      if (is_for_gpu && run_side().context_has_failed(context) != 0) {
        const ToroidStatus failed = run_side().context_wait(context);
        if (failed != TOROID_OK) return failed;
      }
      ToroidStatus status = run_side().context_run(context, inputs.data(), inputs.size(), made.data(), info().num_outputs, &options);
      if (status != TOROID_OK || !waits) return status;
      status = run_side().context_wait(context);
      if (status != TOROID_OK) {
        for (DLManagedTensor* each : made) Tensor{each};  // nobody gets them
      }
      return status;
    });
    std::vector<Tensor> owned;
    for (DLManagedTensor* each : made) owned.emplace_back(each);
    nb::list outputs;
    for (Tensor& each : owned) outputs.append(converted(std::move(each), kind, exchange));
    return outputs;
  }

 private:
  static int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  std::shared_ptr<Loaded> loaded_;
  std::unique_ptr<ContextPool> contexts_;
};

nb::tuple profiled(Model& model, nb::handle arguments, const std::string& results, double timeout_s) {
  std::vector<StepTime> times;
  nb::list outputs = model.run(arguments, results, timeout_s, &times);
  nb::list steps;
  for (const StepTime& each : times) steps.append(nb::make_tuple(each.variant, each.step, each.name, each.origin, each.nanoseconds));
  return nb::make_tuple(outputs, steps);
}

nb::list inputs_of(const Model& model) {
  nb::list result;
  for (const ToroidTensorInfo& each : model.loaded().inputs) result.append(described(each));
  return result;
}

nb::list outputs_of(const Model& model) {
  nb::list result;
  for (int32_t i = 0; i < model.info().num_outputs; ++i) {
    auto output = sized<ToroidTensorInfo>();
    run_side().model_output(model.get(), i, &output);
    result.append(described(output));
  }
  return result;
}

nb::list weights_of(const Model& model) {
  nb::list result;
  for (const ToroidWeightInfo& each : model.loaded().weights) {
    nb::list sizes;
    for (int32_t i = 0; i < each.rank; ++i) sizes.append(each.sizes[i]);
    result.append(nb::make_tuple(each.name, each.type, dtype_name(each.dtype), nb::tuple(sizes), each.bytes, each.is_mutable != 0));
  }
  return result;
}

nb::list symbols_of(const Model& model) {
  nb::list result;
  for (int32_t i = 0; i < model.info().num_symbols; ++i) {
    auto symbol = sized<ToroidSymbolInfo>();
    run_side().model_symbol(model.get(), i, &symbol);
    result.append(nb::make_tuple(symbol.name, symbol.least, symbol.most));
  }
  return result;
}

nb::list guards_of(const Model& model) {
  nb::list result;
  for (int32_t i = 0; i < model.info().num_guards; ++i) {
    const char* text = nullptr;
    if (run_side().model_guard(model.get(), i, &text) == TOROID_OK) result.append(text);
  }
  return result;
}

nb::list steps_of(const Model& model) {
  nb::list result;
  auto variant = sized<ToroidVariantInfo>();
  const int32_t last = model.info().num_variants - 1;
  run_side().model_variant(model.get(), last, &variant);
  for (int32_t i = 0; i < variant.num_steps; ++i) {
    auto step = sized<ToroidStepDescription>();
    run_side().model_step(model.get(), last, i, &step);
    result.append(nb::make_tuple(step.name, step.origin));
  }
  return result;
}

nb::dict memory_of(Model& model, nb::handle arguments) {
  const Inputs inputs(model.loaded().inputs, arguments);
  auto info = sized<ToroidMemoryInfo>();
  Message message;
  check(run_side().model_memory(model.get(), inputs.data(), inputs.size(), &info, message.data(), message.size()), message.data());
  nb::dict result;
  result["temporaries"] = info.temporaries;
  result["outputs"] = info.outputs;
  result["weights"] = info.weights;
  result["packed"] = info.packed;
  return result;
}

const ToroidWeightInfo& weight_named(const Model& model, const std::string& name) {
  for (const ToroidWeightInfo& each : model.loaded().weights)
    if (name == each.name) return each;
  raise_named("NotFoundError", "the model has no weight or buffer called '" + name + "'");
}

// Memory of its own for a tensor of the weight's type.
struct WeightCopy {
  DLManagedTensor tensor{};
  std::vector<int64_t> sizes;
  std::unique_ptr<char[]> data;
};

template <class Read>
Tensor copied(const ToroidWeightInfo& weight, Read read) {
  auto* copy = new WeightCopy{.sizes = {weight.sizes, weight.sizes + weight.rank},
                              .data = std::make_unique<char[]>(static_cast<size_t>(std::max<int64_t>(weight.bytes, 1)))};
  copy->tensor.dl_tensor = {copy->data.get(), {kDLCPU, 0}, weight.rank, weight.dtype, copy->sizes.data(), nullptr, 0};
  copy->tensor.manager_ctx = copy;
  copy->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<WeightCopy*>(self->manager_ctx); };
  Tensor result(&copy->tensor);
  read(copy->data.get(), static_cast<size_t>(weight.bytes));
  return result;
}

Tensor read_weight(const Model& model, const std::string& name) {
  return copied(weight_named(model, name), [&](void* data, size_t bytes) {
    Message message;
    check(run_side().model_read_weight(model.get(), name.c_str(), data, bytes, message.data(), message.size()), message.data());
  });
}

Tensor read_buffer(Model& model, const std::string& name) {
  return copied(weight_named(model, name), [&](void* data, size_t bytes) {
    in_context(model.contexts(),
               [&](ToroidContext* context) { return run_side().context_read_buffer(context, name.c_str(), data, bytes); });
  });
}

void reset_buffer(Model& model, const std::string& name) {
  in_context(model.contexts(),
             [&](ToroidContext* context) { return run_side().context_reset_buffer(context, name.empty() ? nullptr : name.c_str()); });
}

void swap_weights(Model& model, const nb::dict& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(nb::cast<std::string>(name));
  std::vector<Argument> arguments(names.size());
  std::vector<const char*> texts;
  std::vector<const DLTensor*> tensors;
  size_t i = 0;
  for (const auto& [name, value] : values) {
    arguments[i].set(value, names[i].c_str(), weight_named(model, names[i]).dtype);
    texts.push_back(names[i].c_str());
    tensors.push_back(arguments[i++].tensor());
  }
  without_gil([&] {
    Message message;
    const ToroidStatus status =
        run_side().model_swap_weights(model.get(), texts.data(), tensors.data(), static_cast<int32_t>(i), message.data(), message.size());
    if (status != TOROID_OK) throw StatusError{status, message.data()};
    return true;
  });
}

Model* made_of(ToroidModel* model) {
  auto loaded = std::make_shared<Loaded>(OwnedModel(model));
  const ContextOptions how{.is_single = loaded->has_state};
  return new Model(std::move(loaded), how);
}

Model* open_model(const std::string& path, const std::string& weights, int gpu, int threads) {
  return without_gil([&] {
    auto options = sized<ToroidModelOptions>();
    options.weights = weights.empty() ? nullptr : weights.c_str();
    options.gpu = gpu;
    options.threads = threads;
    ToroidModel* model = nullptr;
    Message message;
    const ToroidStatus status = run_side().model_open(path.c_str(), &options, &model, message.data(), message.size());
    if (status != TOROID_OK) throw StatusError{status, message.data()};
    return made_of(model);
  });
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

// Compiles a file and writes a package; or, without a name for that, gives the program itself.
Model* compile_model(const std::string& path, const std::string& output, const std::string& cpu, const std::string& device,
                     const std::string& weights, const std::string& operators, int threads, bool cache, const std::string& arch) {
  return without_gil([&]() -> Model* {
    auto options = sized<ToroidCompileOptions>();
    options.cpu = or_null(cpu);
    options.device = or_null(device);
    options.weights = or_null(weights);
    options.operators = or_null(operators);
    options.threads = threads;
    options.no_cache = cache ? 0 : 1;
    options.arch = or_null(arch);
    Message message;
    ToroidModel* model = nullptr;
    const ToroidStatus status = output.empty()
                                    ? compiler().compile_model(path.c_str(), &options, &model, nullptr, message.data(), message.size())
                                    : compiler().compile(path.c_str(), output.c_str(), &options, message.data(), message.size());
    if (status != TOROID_OK) throw StatusError{status, message.data()};
    return model == nullptr ? nullptr : made_of(model);
  });
}

nb::dict info_of(const Model& model) {
  const ToroidModelInfo& info = model.info();
  nb::dict result;
  result["name"] = info.name;
  result["isa"] = info.isa;
  result["training"] = info.training;
  result["device"] = info.device_type == kDLCPU ? "cpu" : "cuda";
  result["weight_bytes"] = info.weight_bytes;
  result["threads"] = info.threads;
  result["variants"] = info.num_variants;
  result["call_tree"] = info.call_tree == nullptr ? "" : info.call_tree;
  result["has_state"] = model.loaded().has_state;
  return result;
}

}  // namespace

void register_models(nb::module_& module) {
  nb::class_<Model>(module, "Model", "A loaded program, and the contexts of its calls; toroid.Model is what users have.")
      .def(
          "run",
          [](Model& self, nb::handle inputs, const std::string& results, double timeout_s) {
            return self.run(inputs, results, timeout_s, nullptr);
          },
          nb::arg("inputs"), nb::arg("results") = "", nb::arg("timeout_s") = 0.0, "Runs the program on arrays in the model's order.")
      .def("profile", profiled, nb::arg("inputs"), nb::arg("results") = "", nb::arg("timeout_s") = 0.0,
           "The outputs, and (variant, step, name, origin, nanoseconds) of each step.")
      .def("with_contexts", &Model::with_contexts, nb::arg("is_single"), nb::arg("threads") = 0,
           nb::arg("processors") = std::vector<int32_t>(), "The same program with contexts of its own.")
      .def(
          "seed", [](Model& self, uint64_t seed) { self.contexts().seed(seed); }, nb::arg("seed"))
      .def("read_weight", read_weight, nb::arg("name"))
      .def("read_buffer", read_buffer, nb::arg("name"))
      .def("reset_buffer", reset_buffer, nb::arg("name") = "")
      .def("swap_weights", swap_weights, nb::arg("values"))
      .def("memory", memory_of, nb::arg("inputs"))
      .def_prop_ro("info", info_of)
      .def_prop_ro("inputs", inputs_of)
      .def_prop_ro("outputs", outputs_of)
      .def_prop_ro("weights", weights_of)
      .def_prop_ro("symbols", symbols_of)
      .def_prop_ro("guards", guards_of)
      .def_prop_ro("steps", steps_of)
      .def_prop_ro("num_contexts", [](Model& self) { return self.contexts().size(); });
  module.def("open_model", open_model, nb::arg("path"), nb::arg("weights") = "", nb::arg("gpu") = 0, nb::arg("threads") = 0);
  module.def("compile_model", compile_model, nb::arg("model"), nb::arg("output") = "", nb::arg("cpu") = "", nb::arg("device") = "",
             nb::arg("weights") = "", nb::arg("operators") = "", nb::arg("threads") = 0, nb::arg("cache") = true, nb::arg("arch") = "");
}

}  // namespace toroid::python
