#include "models.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>

namespace toroid::python {
namespace {

// f() without the GIL; what it throws as StatusError becomes Python's.
template <class F>
auto without_gil(F f) {
  std::optional<StatusError> failed;
  try {
    const nb::gil_scoped_release released;
    return f();
  } catch (StatusError& error) {
    failed = std::move(error);
  }
  raise(failed->status, failed->message.c_str());
}

// A description of a tensor as toroid.TensorInfo has it.
nb::tuple described(const ToroidTensorInfo& info) {
  return nb::make_tuple(info.name, info.type, dtype_name(info.dtype), info.rank, info.kind, info.target, info.is_late != 0);
}

class Model {
 public:
  Model(OwnedModel model, int context_threads) : model_(std::move(model)), info_(sized<ToroidModelInfo>()) {
    run_side().model_info(model_.get(), &info_);
    bool has_state = false;
    for (int32_t i = 0; i < info_.num_weights; ++i) {
      auto weight = sized<ToroidWeightInfo>();
      run_side().model_weight(model_.get(), i, &weight);
      has_state = has_state || weight.is_mutable != 0;
    }
    for (int32_t i = 0; i < info_.num_inputs; ++i) {
      inputs_.push_back(sized<ToroidTensorInfo>());
      run_side().model_input(model_.get(), i, &inputs_.back());
    }
    contexts_ = std::make_unique<ContextPool>(model_.get(), has_state, context_threads);
  }

  const ToroidModelInfo& info() const { return info_; }
  ToroidModel* get() const { return model_.get(); }
  ContextPool& contexts() { return *contexts_; }

  nb::list inputs() const {
    nb::list result;
    for (const ToroidTensorInfo& each : inputs_) result.append(described(each));
    return result;
  }
  nb::list outputs() const {
    nb::list result;
    for (int32_t i = 0; i < info_.num_outputs; ++i) {
      auto output = sized<ToroidTensorInfo>();
      run_side().model_output(model_.get(), i, &output);
      result.append(described(output));
    }
    return result;
  }

  // results: as kind_named says; "": arrays as the first input is one.
  nb::list run(nb::sequence arguments, const std::string& results) {
    const size_t count = nb::len(arguments);
    if (count != inputs_.size())
      raise_named("ArgumentError", "the model takes " + std::to_string(inputs_.size()) + " inputs, and got " + std::to_string(count));
    std::vector<Argument> inputs(count);
    std::vector<const DLTensor*> tensors(count);
    Kind kind = Kind::Toroid;
    const ExchangeApi* exchange = nullptr;
    for (size_t i = 0; i < count; ++i) {
      inputs[i].set(arguments[i], inputs_[i].name, inputs_[i].dtype);
      tensors[i] = inputs[i].tensor();
      if (kind == Kind::Toroid) kind = inputs[i].kind(), exchange = inputs[i].exchange();
    }
    if (!results.empty()) {
      const Kind asked = kind_named(results.c_str());
      if (asked != kind) exchange = nullptr;
      kind = asked;
    }
    std::vector<DLManagedTensor*> made(static_cast<size_t>(info_.num_outputs), nullptr);
    without_gil([&] {
      const ContextPool::Lease context(*contexts_);
      const ToroidStatus status = run_side().context_run(context.get(), tensors.data(), static_cast<int32_t>(count), made.data(),
                                                         info_.num_outputs, nullptr);
      if (status != TOROID_OK) throw StatusError{status, run_side().context_message(context.get())};
    });
    std::vector<Tensor> owned;
    for (DLManagedTensor* each : made) owned.emplace_back(each);
    nb::list outputs;
    for (Tensor& each : owned) outputs.append(converted(std::move(each), kind, exchange));
    return outputs;
  }

 private:
  OwnedModel model_;
  ToroidModelInfo info_;
  std::vector<ToroidTensorInfo> inputs_;
  std::unique_ptr<ContextPool> contexts_;
};

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
    return new Model(OwnedModel(model), 0);
  });
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

void compile_model(const std::string& model, const std::string& output, const std::string& cpu, const std::string& device,
                   const std::string& weights, const std::string& operators, int threads, bool cache, const std::string& arch) {
  without_gil([&] {
    auto options = sized<ToroidCompileOptions>();
    options.cpu = or_null(cpu);
    options.device = or_null(device);
    options.weights = or_null(weights);
    options.operators = or_null(operators);
    options.threads = threads;
    options.no_cache = cache ? 0 : 1;
    options.arch = or_null(arch);
    Message message;
    const ToroidStatus status = compiler().compile(model.c_str(), output.c_str(), &options, message.data(), message.size());
    if (status != TOROID_OK) throw StatusError{status, message.data()};
    return true;
  });
}

}  // namespace

void register_models(nb::module_& module) {
  nb::class_<Model>(module, "Model", "A loaded program.")
      .def("run", &Model::run, nb::arg("inputs"), nb::arg("results") = "", "Runs the program on a list of arrays, in the model's order.")
      .def("inputs", &Model::inputs)
      .def("outputs", &Model::outputs)
      .def("seed", [](Model& self, uint64_t seed) { self.contexts().seed(seed); })
      .def_prop_ro("contexts", [](Model& self) { return self.contexts().size(); })
      .def_prop_ro("isa", [](const Model& self) { return self.info().isa; });
  module.def("open_model", open_model, nb::arg("path"), nb::arg("weights") = "", nb::arg("gpu") = 0, nb::arg("threads") = 0);
  module.def("compile_model", compile_model, nb::arg("model"), nb::arg("output"), nb::arg("cpu") = "", nb::arg("device") = "",
             nb::arg("weights") = "", nb::arg("operators") = "", nb::arg("threads") = 0, nb::arg("cache") = true, nb::arg("arch") = "");
}

}  // namespace toroid::python
