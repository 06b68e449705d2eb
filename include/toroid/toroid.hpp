// toroid.h for C++17: objects that close themselves, results instead of status and message. Nothing here throws but Result::value_or_throw.
//
//   namespace rt = toroid::runtime;
//   const rt::Model model = rt::Model::open("m.so").value_or_throw();
//   rt::Context context = model.create_context().value_or_throw();
//   std::vector<float> x(8 * 128);
//   rt::Result<std::vector<rt::Tensor>> y = context.run({rt::TensorView(x.data(), {8, 128})});
//   if (!y) std::cerr << y.error().message << '\n';
//   else for (float each : y->at(0).span<float>()) ...
#ifndef TOROID_TOROID_HPP
#define TOROID_TOROID_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "toroid/toroid.h"

namespace toroid::runtime {

struct Error {
  ToroidStatus status = TOROID_ERROR_INTERNAL;
  std::string message;
};

class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error(error.message), status_(error.status) {}
  ToroidStatus status() const { return status_; }

 private:
  ToroidStatus status_;
};

// A value, or why there is none: as std::expected of C++23.
template <class T>
class Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit, so that functions return either
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  // Where there is one.
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  // Where there is none.
  const Error& error() const { return *std::get_if<1>(&state_); }
  // Throws Exception where there is none.
  T value_or_throw() && {
    if (!has_value()) throw Exception(error());
    return std::move(**this);
  }

 private:
  std::variant<T, Error> state_;
};
// A struct of toroid.h with its size, and all else its default.
template <class Struct>
Struct sized() {
  Struct result{};
  result.size = sizeof result;
  return result;
}

struct None {};
using Done = Result<None>;

// Elements of somebody else's; std::span takes it where there is one.
template <class T>
class Span {
 public:
  Span(T* data, size_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  size_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_;
  size_t size_;
};

template <class T>
constexpr DLDataType dtype_of() {
  using U = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<U>, "of other types give the DLDataType");
  constexpr auto bits = static_cast<uint8_t>(8 * sizeof(U));
  if constexpr (std::is_same_v<U, bool>) return {kDLBool, bits, 1};
  return {static_cast<uint8_t>(std::is_floating_point_v<U> ? kDLFloat : std::is_signed_v<U> ? kDLInt : kDLUInt), bits, 1};
}

// A tensor in memory of the caller's, with its own copy of shape and strides. Strides, in elements, are empty for rows without gaps.
class TensorView {
 public:
  TensorView(void* data, DLDataType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {},
             DLDevice device = {static_cast<decltype(DLDevice::device_type)>(kDLCPU), 0})
      : data_(data), dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)), device_(device) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  TensorView(const T* data, std::vector<int64_t> shape, std::vector<int64_t> strides = {})
      : TensorView(const_cast<T*>(data), dtype_of<T>(), std::move(shape), std::move(strides)) {}

  // Valid as long as this, and not moved.
  DLTensor dlpack() const {
    return {data_,
            device_,
            static_cast<int32_t>(shape_.size()),
            dtype_,
            const_cast<int64_t*>(shape_.data()),
            strides_.empty() ? nullptr : const_cast<int64_t*>(strides_.data()),
            0};
  }

 private:
  void* data_;
  DLDataType dtype_;
  std::vector<int64_t> shape_, strides_;
  DLDevice device_;
};

// A tensor that is its own: an output.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(DLManagedTensor* tensor) : tensor_(tensor) {}

  explicit operator bool() const { return tensor_ != nullptr; }
  const DLTensor& dlpack() const { return tensor_->dl_tensor; }
  Span<const int64_t> shape() const { return {dlpack().shape, static_cast<size_t>(dlpack().ndim)}; }
  DLDataType dtype() const { return dlpack().dtype; }
  size_t size() const {  // in elements
    size_t count = 1;
    for (const int64_t each : shape()) count *= static_cast<size_t>(each);
    return count;
  }
  // T is as wide as the dtype; in row-major order.
  template <class T>
  Span<const T> span() const {
    return {reinterpret_cast<const T*>(static_cast<const char*>(dlpack().data) + dlpack().byte_offset), size()};
  }
  // For frameworks that take DLPack: they call its deleter.
  DLManagedTensor* release() { return tensor_.release(); }

 private:
  struct Delete {
    void operator()(DLManagedTensor* tensor) const {
      if (tensor->deleter != nullptr) tensor->deleter(tensor);
    }
  };
  std::unique_ptr<DLManagedTensor, Delete> tensor_;
};

struct TensorInfo {
  std::string name, type, target;  // type: "f32[s0, 128]"
  DLDataType dtype{};
  int32_t rank = 0, kind = 0;
  bool is_late = false;
  int32_t device_type = kDLCPU;  // where the program has it
};
struct SymbolInfo {
  std::string name;
  int64_t least = 0, most = 0;
};
struct WeightInfo {
  std::string name, type;
  int64_t bytes = 0;
  bool is_mutable = false;
};

// One thread at a time.
class Context {
 public:
  // outputs: of the model, by their number.
  Context(const ToroidApi* api, ToroidContext* context, int32_t outputs) : context_(context, {api}), outputs_(outputs) {}

  // options.into must have a place for each output, if it is set; tensors for those are then empty.
  Result<std::vector<Tensor>> run(const std::vector<TensorView>& inputs, const ToroidRunOptions& options = sized<ToroidRunOptions>()) {
    std::vector<DLTensor> tensors;
    for (const TensorView& input : inputs) tensors.push_back(input.dlpack());
    std::vector<const DLTensor*> pointers;
    for (const DLTensor& tensor : tensors) pointers.push_back(&tensor);
    std::vector<DLManagedTensor*> made(static_cast<size_t>(outputs_));
    const ToroidStatus status =
        api().context_run(get(), pointers.data(), static_cast<int32_t>(pointers.size()), made.data(), outputs_, &options);
    if (status != TOROID_OK) return error(status);
    std::vector<Tensor> outputs;
    for (DLManagedTensor* each : made) outputs.emplace_back(each);
    return outputs;
  }
  Done seed(uint64_t seed) { return done(api().context_seed(get(), seed)); }
  Done read_buffer(const std::string& name, void* data, size_t bytes) {
    return done(api().context_read_buffer(get(), name.c_str(), data, bytes));
  }
  Done reset_buffer(const std::string& name) { return done(api().context_reset_buffer(get(), name.c_str())); }
  Done reset_buffers() { return done(api().context_reset_buffer(get(), nullptr)); }

  ToroidContext* get() const { return context_.get(); }

 private:
  struct Destroy {
    const ToroidApi* api;
    void operator()(ToroidContext* context) const { api->context_destroy(context); }
  };
  const ToroidApi& api() const { return *context_.get_deleter().api; }
  Error error(ToroidStatus status) const { return {status, api().context_message(get())}; }
  Done done(ToroidStatus status) const { return status == TOROID_OK ? Done(None{}) : Done(error(status)); }

  std::unique_ptr<ToroidContext, Destroy> context_;
  int32_t outputs_;
};

// Any number of threads.
class Model {
 public:
  // api: the table of the library that is linked, or of another one.
  static Result<Model> open(const std::string& path, const ToroidModelOptions& options = sized<ToroidModelOptions>(),
                            const ToroidApi* api = toroid_api(TOROID_API_VERSION)) {
    if (api == nullptr) return Error{TOROID_ERROR_UNSUPPORTED, "the library is older than its header"};
    ToroidModel* model = nullptr;
    std::array<char, 2048> message{};
    const ToroidStatus status = api->model_open(path.c_str(), &options, &model, message.data(), message.size());
    if (status != TOROID_OK) return Error{status, message.data()};
    return Model(api, model);
  }

  Result<Context> create_context(const ToroidContextOptions& options = sized<ToroidContextOptions>()) const {
    ToroidContext* context = nullptr;
    std::array<char, 2048> message{};
    const ToroidStatus status = api().context_create(get(), &options, &context, message.data(), message.size());
    if (status != TOROID_OK) return Error{status, message.data()};
    return Context(&api(), context, info().num_outputs);
  }

  ToroidModelInfo info() const {
    auto info = sized<ToroidModelInfo>();
    api().model_info(get(), &info);
    return info;
  }
  std::vector<TensorInfo> inputs() const { return all<ToroidTensorInfo, TensorInfo>(info().num_inputs, api().model_input, tensor_info); }
  std::vector<TensorInfo> outputs() const { return all<ToroidTensorInfo, TensorInfo>(info().num_outputs, api().model_output, tensor_info); }
  std::vector<SymbolInfo> symbols() const {
    return all<ToroidSymbolInfo, SymbolInfo>(info().num_symbols, api().model_symbol, [](const ToroidSymbolInfo& symbol) {
      return SymbolInfo{symbol.name, symbol.least, symbol.most};
    });
  }
  std::vector<WeightInfo> weights() const {
    return all<ToroidWeightInfo, WeightInfo>(info().num_weights, api().model_weight, [](const ToroidWeightInfo& weight) {
      return WeightInfo{weight.name, weight.type, weight.bytes, weight.is_mutable != 0};
    });
  }

  // As model_read_weight and model_swap_weights.
  Done read_weight(const std::string& name, void* data, size_t bytes) const {
    std::array<char, 2048> message{};
    return done(api().model_read_weight(get(), name.c_str(), data, bytes, message.data(), message.size()), message.data());
  }
  Done swap_weights(const std::vector<std::pair<std::string, TensorView>>& values) const {
    std::vector<const char*> names;
    std::vector<DLTensor> tensors;
    std::vector<const DLTensor*> pointers;
    for (const auto& [name, view] : values) {
      names.push_back(name.c_str());
      tensors.push_back(view.dlpack());
    }
    for (const DLTensor& tensor : tensors) pointers.push_back(&tensor);
    std::array<char, 2048> message{};
    return done(
        api().model_swap_weights(get(), names.data(), pointers.data(), static_cast<int32_t>(names.size()), message.data(), message.size()),
        message.data());
  }

  ToroidModel* get() const { return model_.get(); }

 private:
  struct Close {
    const ToroidApi* api;
    void operator()(ToroidModel* model) const { api->model_close(model); }
  };
  Model(const ToroidApi* api, ToroidModel* model) : model_(model, {api}) {}

  const ToroidApi& api() const { return *model_.get_deleter().api; }
  static Done done(ToroidStatus status, const char* message) { return status == TOROID_OK ? Done(None{}) : Done(Error{status, message}); }
  static TensorInfo tensor_info(const ToroidTensorInfo& info) {
    return {info.name, info.type, info.target, info.dtype, info.rank, info.kind, info.is_late != 0, info.device_type};
  }
  template <class Info, class Row, class Describe, class Make>
  std::vector<Row> all(int32_t count, Describe describe, Make make) const {
    std::vector<Row> rows;
    for (int32_t i = 0; i < count; ++i) {
      auto info = sized<Info>();
      if (describe(get(), i, &info) == TOROID_OK) rows.push_back(make(info));
    }
    return rows;
  }

  std::unique_ptr<ToroidModel, Close> model_;
};

}  // namespace toroid::runtime

#endif
