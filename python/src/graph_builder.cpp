// Graphs of PyTorch's operators, compiled in memory and called with PyTorch's tensors: what toroid.torch is built on.
//
//   operator_is_supported("aten::add.Tensor") -> bool
//   has_attention_gradient("bf16", rank, width, value_width) -> bool
//   compile_graph(text, constants, options, allocate) -> GraphProgram
//
// text: a graph in the form of src/graph/text/text.h. constants: of each that is `external` there, by its name, (address, bytes, owner);
// the program keeps the owners. options: a dict with the fields of ToroidGraphOptions. allocate(sizes, strides, dtype): a new tensor.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "api.h"
#include "arrays.h"
#include "dlpack.h"
#include "models.h"

namespace toroid::python {
namespace {

// One tensor of PyTorch while a call runs: by DLPack's table of functions, or for PyTorch before 2.10 by the tensor's attributes.
class TorchTensor {
 public:
  // wanted: the dtype that the graph was compiled for.
  void set(nb::handle object, DLDataType wanted, const char* name) {
    if (PyLong_Check(object.ptr())) {
      integer_ = nb::cast<int64_t>(object);
      tensor_ = wanted.code == kDLUInt ? of_size(wanted) : number({kDLInt, 64, 1}, &integer_);
    } else if (PyFloat_Check(object.ptr())) {
      real_ = PyFloat_AsDouble(object.ptr());
      tensor_ = number({kDLFloat, 64, 1}, &real_);
    } else if (const ExchangeApi* const exchange = array_type(Py_TYPE(object.ptr())).exchange; exchange != nullptr) {
      if (exchange->tensor_from_object(object.ptr(), &tensor_) != 0) throw nb::python_error();
      if (is_misplaced()) {
        copy_ = object.attr("clone")();
        if (exchange->tensor_from_object(copy_.ptr(), &tensor_) != 0) throw nb::python_error();
      }
      if (tensor_.dtype.code == kDLComplex) take_pairs();
      if (is_float8(tensor_.dtype) && wanted.code == kDLUInt && wanted.bits == 8) tensor_.dtype = wanted;  // programs hold their bits
      if (tensor_.dtype.code != wanted.code || tensor_.dtype.bits != wanted.bits)
        raise_named("InputError", std::string("input '") + name + "' does not have the dtype that its graph was compiled for");
    } else {
      set_from_attributes(object, wanted, name);
    }
  }
  const DLTensor* tensor() const { return &tensor_; }

 private:
  // Whether it is on a GPU at an address where programs read no tensor, as a view may be.
  bool is_misplaced() const {
    constexpr uintptr_t kAlignment = 16;
    return tensor_.device.device_type == kDLCUDA && (reinterpret_cast<uintptr_t>(tensor_.data) + tensor_.byte_offset) % kAlignment != 0;
  }

  static DLTensor number(DLDataType dtype, void* data) { return {data, {kDLCPU, 0}, 0, dtype, nullptr, nullptr, 0}; }

  // A tensor without elements, of which the integer is a size (graph_text.py).
  DLTensor of_size(DLDataType dtype) {
    sizes_ = {integer_, 0, 1, 1};
    return {&integer_, {kDLCPU, 0}, 2, dtype, sizes_.data(), sizes_.data() + 2, 0};
  }

  // DLPack's codes of 8-bit floats are those from kDLFloat8_e3m4 to kDLFloat8_e8m0fnu.
  static bool is_float8(DLDataType dtype) { return dtype.bits == 8 && dtype.lanes == 1 && dtype.code >= 7 && dtype.code <= 14; }

  // Programs have pairs of real numbers in the place of complex ones (docs/operators.md).
  void take_pairs() {
    const auto rank = static_cast<size_t>(tensor_.ndim);
    std::vector<int64_t> sizes(tensor_.shape, tensor_.shape + rank);
    sizes.push_back(2);
    for (size_t d = 0; d < rank; ++d) sizes.push_back(2 * tensor_.strides[d]);
    sizes.push_back(1);
    sizes_ = std::move(sizes);
    tensor_.ndim += 1;
    tensor_.shape = sizes_.data();
    tensor_.strides = sizes_.data() + rank + 1;
    tensor_.dtype = {kDLFloat, static_cast<uint8_t>(tensor_.dtype.bits / 2), 1};
  }

  void set_from_attributes(nb::handle object, DLDataType wanted, const char* name) {
    sizes_.clear();
    for (nb::handle size : object.attr("shape")) sizes_.push_back(nb::cast<int64_t>(size));
    const size_t rank = sizes_.size();
    const nb::object strides = object.attr("stride")();
    for (nb::handle stride : strides) sizes_.push_back(nb::cast<int64_t>(stride));
    const bool is_complex = nb::cast<bool>(object.attr("is_complex")());
    const int64_t bits = nb::cast<int64_t>(object.attr("element_size")()) * 8;
    if (bits != (is_complex ? 2 : 1) * wanted.bits)
      raise_named("InputError", std::string("input '") + name + "' does not have the dtype that its graph was compiled for");
    void* const data = reinterpret_cast<void*>(nb::cast<uintptr_t>(object.attr("data_ptr")()));
    DLDevice device = {kDLCPU, 0};
    if (nb::cast<bool>(object.attr("is_cuda"))) device = {kDLCUDA, nb::cast<int32_t>(object.attr("get_device")())};
    const DLDataType dtype = is_complex ? DLDataType{kDLComplex, static_cast<uint8_t>(bits), 1} : wanted;
    tensor_ = {data, device, static_cast<int32_t>(rank), dtype, sizes_.data(), sizes_.data() + rank, 0};
    if (is_misplaced()) {
      copy_ = object.attr("clone")();
      return set_from_attributes(copy_, wanted, name);
    }
    if (is_complex) take_pairs();
  }

  DLTensor tensor_{};
  int64_t integer_ = 0;
  double real_ = 0;
  std::vector<int64_t> sizes_;  // and strides
  nb::object copy_;             // that is read in the tensor's place
};

// A result that is an input's new value: copied there when all is computed, as copy_ does.
struct Update {
  size_t result;
  size_t argument;  // of the call
  size_t input;     // of the program, or none where it does not read that
};

// Copies a result to where the elements of a tensor are, which may leave gaps: dim d of the tensor is dim place[d] of the result.
class Scattering {
 public:
  Scattering(const DLTensor& to, const std::vector<int32_t>& place)
      : to_(static_cast<char*>(to.data) + to.byte_offset), row_(to.dtype.bits / 8) {
    const auto rank = static_cast<size_t>(to.ndim);
    bytes_ = row_;
    for (size_t d = 0; d < rank; ++d) bytes_ *= static_cast<size_t>(to.shape[d]);
    if (is_one_row(to, place)) {  // as most are: no call of malloc
      row_ = bytes_;
      return;
    }
    sizes_.resize(rank);
    steps_.resize(rank);
    for (size_t d = 0; d < rank; ++d) {
      const size_t at = d < place.size() ? static_cast<size_t>(place[d]) : d;
      sizes_[at] = to.shape[d];
      steps_[at] = to.strides[d] * static_cast<int64_t>(row_);
    }
    while (!sizes_.empty() && (sizes_.back() == 1 || steps_.back() == static_cast<int64_t>(row_))) {  // no gaps: one row
      row_ *= static_cast<size_t>(sizes_.back());
      sizes_.pop_back();
      steps_.pop_back();
    }
  }
  // Whether one thread may do it. Where several elements are at one place, PyTorch has an error.
  bool is_quick() const {
    constexpr size_t kMostBytes = 1 << 17;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      if (steps_[d] == 0 && sizes_[d] > 1) return false;
    }
    return bytes_ <= kMostBytes;
  }
  size_t bytes() const { return bytes_; }
  void copy(const char* from) const {
    if (bytes_ != 0) copy(0, from, to_);
  }

 private:
  static bool is_one_row(const DLTensor& to, const std::vector<int32_t>& place) {
    int64_t step = 1;
    for (auto d = static_cast<size_t>(to.ndim); d-- > 0;) {
      if (d < place.size() && static_cast<size_t>(place[d]) != d) return false;
      if (to.shape[d] != 1 && to.strides[d] != step) return false;
      step *= to.shape[d];
    }
    return true;
  }
  const char* copy(size_t d, const char* from, char* to) const {
    if (d == sizes_.size()) {
      std::memcpy(to, from, row_);
      return from + row_;
    }
    for (int64_t i = 0; i < sizes_[d]; ++i, to += steps_[d]) from = copy(d + 1, from, to);
    return from;
  }

  char* const to_;
  size_t row_, bytes_;
  std::vector<int64_t> sizes_, steps_;  // of the result's outer dims; steps in bytes
};

// How a result, which is in row-major order, becomes a tensor: dim d of the tensor is dim place[d] of the result.
struct OutputLayout {
  nb::object dtype;
  std::vector<int32_t> place;      // empty: the same order
  bool is_complex;                 // the result has pairs of real numbers
  std::vector<int64_t> last = {};  // sizes of the last call, and
  nb::object arguments = {};       // what that was allocated with
  nb::object always = {};          // what each call allocates it with
};

class GraphProgram {
 public:
  GraphProgram(OwnedModel owned, const ToroidGraphFacts& facts, nb::object allocate)
      : model_(std::move(owned)), contexts_(model_, {}), facts_(facts), allocate_(std::move(allocate)) {
    ToroidModel* const model = model_.get();
    ToroidModelInfo info = sized<ToroidModelInfo>();
    check(run_side().model_info(model, &info), "a graph without information");
    for (int32_t i = 0; i < info.num_inputs; ++i) {
      ToroidTensorInfo input = sized<ToroidTensorInfo>();
      check(run_side().model_input(model, i, &input), "an input without information");
      inputs_.emplace_back(input.dtype, input.name);
    }
    num_outputs_ = info.num_outputs;
    is_for_gpu_ = info.device_type == kDLCUDA;
    for (int32_t i = 0; i < info.num_outputs; ++i) {
      ToroidTensorInfo output = sized<ToroidTensorInfo>();
      check(run_side().model_output(model, i, &output), "an output without information");
      outputs_.push_back(output.dtype);
      has_outputs_on_host_ = has_outputs_on_host_ || (is_for_gpu_ && output.device_type == kDLCPU);
    }
  }
  // Of a program for a GPU: allocate(sizes, strides, dtype) makes its outputs there, and copy_late(tensor, sizes, strides, dtype) those
  // whose sizes become known while it runs, of a toroid.Tensor that the next call writes over.
  void set_gpu(nb::object allocate, nb::object copy_late) {
    allocate_on_gpu_ = std::move(allocate);
    copy_late_ = std::move(copy_late);
  }
  // positions: of each input of the program, which argument of a call it is.
  void set_inputs(std::vector<size_t> positions) {
    if (positions.size() != inputs_.size()) raise_named("InternalError", "a graph with other inputs than it was written with");
    positions_ = std::move(positions);
  }
  // sizes: of each result, without its pairs, where they are the same in every call.
  void set_outputs(nb::list dtypes, std::vector<std::vector<int32_t>> places, const std::vector<bool>& is_complex,
                   const std::vector<std::optional<std::vector<int64_t>>>& sizes) {
    const auto count = static_cast<size_t>(num_outputs_);
    if (places.size() != count || dtypes.size() != count || is_complex.size() != count || sizes.size() != count)
      raise_named("InternalError", "a graph with other outputs than it was written with");
    for (size_t i = 0; i < count; ++i) {
      OutputLayout layout{nb::borrow(dtypes[i]), std::move(places[i]), is_complex[i]};
      if (sizes[i] && !is_for_gpu_) layout.always = arguments_of(layout, *sizes[i]);
      layouts_.push_back(std::move(layout));
    }
    num_given_ = count;
  }

  // Results results[i] are new values of the call's arguments[i], of the same sizes and dtype. are_given: of all results those that calls
  // give; in the place of others there is None, behind the last one nothing. copy(argument, result) copies what is large, in threads of
  // PyTorch's.
  void set_updates(const std::vector<size_t>& results, const std::vector<size_t>& arguments, std::vector<bool> are_given, nb::object copy) {
    if (results.size() != arguments.size() || are_given.size() != layouts_.size())
      raise_named("InternalError", "a graph with other updates than it was written with");
    for (size_t i = 0; i < results.size(); ++i) {
      const auto input = std::find(positions_.begin(), positions_.end(), arguments[i]);
      updates_.push_back({results[i], arguments[i], static_cast<size_t>(input - positions_.begin())});
    }
    are_given_ = std::move(are_given);
    while (num_given_ > 0 && !are_given_[num_given_ - 1]) --num_given_;
    copy_ = std::move(copy);
  }

  // arguments: a list of tensors, ints and floats, with all of the program's inputs. seed: of random operators, or negative. stream: of a
  // program for a GPU the one that its work is started on, and not waited for. What its kernels find wrong is told by a later call.
  nb::list call(nb::list arguments, int64_t seed, uintptr_t stream) {
    if (positions_.size() != inputs_.size()) raise_named("InternalError", "a graph that was not told its inputs");
    alignas(std::max_align_t) char nearby[4096];  // enough for most graphs: no call of malloc
    std::pmr::monotonic_buffer_resource memory(nearby, sizeof(nearby));
    std::pmr::vector<TorchTensor> tensors(positions_.size(), &memory);
    std::pmr::vector<const DLTensor*> inputs(positions_.size(), &memory);
    for (size_t i = 0; i < positions_.size(); ++i) {
      tensors[i].set(arguments[positions_[i]], inputs_[i].first, inputs_[i].second);
      inputs[i] = tensors[i].tensor();
    }
    Results results(*this, &memory);
    for (size_t i = 0; i < are_given_.size(); ++i) results.places[i].is_beside = !are_given_[i];

    std::pmr::vector<TorchTensor> others(updates_.size(), &memory);  // that are written to, but not read
    std::pmr::vector<Scattering> destinations(&memory);
    destinations.reserve(updates_.size());
    for (size_t i = 0; i < updates_.size(); ++i) {
      const Update& update = updates_[i];
      TorchTensor& tensor = update.input < tensors.size() ? tensors[update.input] : others[i];
      if (&tensor == &others[i]) tensor.set(arguments[update.argument], outputs_[update.result], "written to");
      destinations.emplace_back(*tensor.tensor(), layouts_[update.result].place);
      if (!destinations[i].is_quick()) results.places[update.result].is_beside = false;
    }
    for (size_t i = 0; i < layouts_.size(); ++i) {
      if (layouts_[i].always.is_valid() && !results.places[i].is_beside) results.make(i, allocate_, layouts_[i].always, outputs_[i]);
    }
    ToroidRunOptions options = sized<ToroidRunOptions>();
    options.allocate_output = &Results::allocate;
    options.allocate_user = &results;
    options.stream = reinterpret_cast<void*>(stream);
    options.on_gpu = is_for_gpu_ ? 1 : 0;
    std::pmr::vector<DLManagedTensor*> late(layouts_.size(), &memory);
    std::pmr::vector<bool> are_written(updates_.size(), &memory);
    in_context(contexts_, [&](ToroidContext* context) {
      if (is_for_gpu_ && run_side().context_has_failed(context) != 0) {
        const ToroidStatus failed = run_side().context_wait(context);
        if (failed != TOROID_OK) return failed;
      }
      ToroidStatus status = seed >= 0 ? run_side().context_seed(context, static_cast<uint64_t>(seed)) : TOROID_OK;
      if (status == TOROID_OK)
        status = run_side().context_run(context, inputs.data(), static_cast<int32_t>(inputs.size()), late.data(),
                                        static_cast<int32_t>(late.size()), &options);
      if (status == TOROID_OK) results.copy(late);
      if (status == TOROID_OK && has_outputs_on_host_) status = run_side().context_wait(context);
      for (size_t i = 0; i < destinations.size() && status == TOROID_OK && !results.failure; ++i) {
        const Place& place = results.places[updates_[i].result];
        are_written[i] = destinations[i].is_quick() && place.bytes == destinations[i].bytes() && place.data != nullptr;
        if (are_written[i]) destinations[i].copy(place.data);
      }
      return results.failure ? TOROID_OK : status;  // what went wrong in Python says more
    });
    if (results.failure) std::rethrow_exception(results.failure);
    for (size_t i = 0; i < updates_.size(); ++i) {
      if (are_written[i]) continue;
      const nb::object& value = results.tensors[updates_[i].result];
      if (!value.is_valid()) raise_named("InternalError", "a new value of other sizes than the tensor that it is for");
      copy_(arguments[updates_[i].argument], value);
    }
    nb::list made = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(num_given_)));
    for (size_t i = 0; i < num_given_; ++i) {
      nb::object each = results.tensors[i].is_valid() ? std::move(results.tensors[i]) : nb::none();
      PyList_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), each.release().ptr());
    }
    return made;
  }

  bool is_for_gpu() const { return is_for_gpu_; }

  // Throws what kernels of earlier calls on a GPU have found wrong so far and no call has told, each once. Waits for nothing where nothing
  // is wrong.
  void raise_failure() {
    without_gil([&] {
      OwnedContext failed = contexts_.take_failed();
      if (failed == nullptr) return true;
      const ToroidStatus status = run_side().context_wait(failed.get());
      const std::string message = status != TOROID_OK ? run_side().context_message(failed.get()) : "";
      contexts_.give_back(std::move(failed));
      if (status != TOROID_OK) throw StatusError{status, message};
      return true;
    });
  }

  nb::dict facts() const {
    nb::dict dict;
    dict["from_cache"] = facts_.from_cache != 0;
    dict["kernels"] = facts_.kernels;
    dict["kernel_calls"] = facts_.kernel_calls;
    dict["library_calls"] = facts_.library_calls;
    dict["seconds"] = facts_.seconds;
    return dict;
  }

 private:
  // Where a result is. One that only an input is to get needs no tensor.
  struct Place {
    bool is_beside = false;
    std::unique_ptr<char, decltype(&std::free)> memory{nullptr, &std::free};  // of one beside the tensors
    char* data = nullptr;
    size_t bytes = 0;
    size_t room = 0;  // of a tensor that was made before the program said how many bytes it takes
  };

  // Makes the outputs of a call.
  struct Results {
    Results(GraphProgram& its_program, std::pmr::memory_resource* its_memory)
        : program(its_program),
          memory(its_memory),
          tensors(its_program.layouts_.size(), memory),
          places(its_program.layouts_.size(), memory) {}

    GraphProgram& program;
    std::pmr::memory_resource* memory;  // of the call
    std::pmr::vector<nb::object> tensors;
    std::pmr::vector<Place> places;
    std::exception_ptr failure = {};

    void make(size_t output, const nb::object& maker, const nb::object& arguments, DLDataType dtype) {
      tensors[output] = nb::steal(PyObject_CallObject(maker.ptr(), arguments.ptr()));
      if (!tensors[output].is_valid()) throw nb::python_error();
      TorchTensor its;
      its.set(tensors[output], dtype, "an output");
      static char nothing[64];
      char* const data = static_cast<char*>(its.tensor()->data) + its.tensor()->byte_offset;
      places[output].data = data != nullptr ? data : nothing;  // of a tensor without elements
      places[output].room = bytes_of(*its.tensor());
    }

    static void* allocate(void* user, int32_t output, const DLTensor* tensor, size_t) {
      auto& self = *static_cast<Results*>(user);
      Place& place = self.places[static_cast<size_t>(output)];
      place.bytes = bytes_of(*tensor);
      if (place.data != nullptr) return place.room == place.bytes ? place.data : nullptr;
      if (place.is_beside && tensor->device.device_type == kDLCPU) {
        constexpr size_t kAlignment = 64, kFewBytes = 512;
        const size_t room = (place.bytes / kAlignment + 1) * kAlignment;
        if (place.bytes > kFewBytes) place.memory.reset(static_cast<char*>(std::aligned_alloc(kAlignment, room)));
        place.data = place.bytes > kFewBytes ? place.memory.get() : static_cast<char*>(self.memory->allocate(room, kAlignment));
        return place.data;
      }
      const nb::gil_scoped_acquire gil;
      try {
        const nb::object arguments = self.program.arguments(static_cast<size_t>(output), {tensor->shape, tensor->shape + tensor->ndim});
        const bool is_on_gpu = tensor->device.device_type == kDLCUDA;
        const nb::object& maker = is_on_gpu ? self.program.allocate_on_gpu_ : self.program.allocate_;
        self.make(static_cast<size_t>(output), maker, arguments, tensor->dtype);
        return place.data;
      } catch (...) {
        self.failure = std::current_exception();
        return nullptr;
      }
    }

    // Of outputs that are lent until the next call.
    void copy(const std::pmr::vector<DLManagedTensor*>& lent) {
      if (std::all_of(lent.begin(), lent.end(), [](const DLManagedTensor* each) { return each == nullptr; })) return;
      const nb::gil_scoped_acquire gil;
      std::vector<Tensor> owned;
      for (DLManagedTensor* each : lent) {
        if (each != nullptr) owned.emplace_back(each);
      }
      try {
        size_t next = 0;
        for (size_t i = 0; i < lent.size(); ++i) {
          if (lent[i] == nullptr) continue;
          const DLTensor& tensor = lent[i]->dl_tensor;
          const nb::object arguments = program.arguments(i, {tensor.shape, tensor.shape + tensor.ndim});
          tensors[i] = program.copy_late_(nb::cast(std::move(owned[next++])), *arguments);
        }
      } catch (...) {
        failure = std::current_exception();
      }
    }
  };

  static size_t bytes_of(const DLTensor& tensor) {
    size_t result = tensor.dtype.bits / 8;
    for (int32_t d = 0; d < tensor.ndim; ++d) result *= static_cast<size_t>(tensor.shape[d]);
    return result;
  }

  // What the tensor is allocated with: (sizes, strides, dtype).
  nb::object arguments(size_t output, std::vector<int64_t> sizes) {
    OutputLayout& layout = layouts_[output];
    if (layout.is_complex) sizes.pop_back();
    if (layout.arguments.is_valid() && sizes == layout.last) return layout.arguments;
    layout.arguments = arguments_of(layout, sizes);
    layout.last = std::move(sizes);
    return layout.arguments;
  }
  static nb::object arguments_of(const OutputLayout& layout, const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
    nb::list its_sizes, its_strides;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const size_t from = layout.place.empty() ? d : static_cast<size_t>(layout.place[d]);
      its_sizes.append(sizes[from]);
      its_strides.append(strides[from]);
    }
    return nb::make_tuple(nb::tuple(its_sizes), nb::tuple(its_strides), layout.dtype);
  }

  std::shared_ptr<ToroidModel> model_;
  ContextPool contexts_;
  ToroidGraphFacts facts_;
  bool is_for_gpu_ = false, has_outputs_on_host_ = false;
  nb::object allocate_, allocate_on_gpu_, copy_late_;
  std::vector<std::pair<DLDataType, const char*>> inputs_;  // dtype and name
  std::vector<size_t> positions_;                           // of the inputs, among a call's arguments
  std::vector<DLDataType> outputs_;
  int32_t num_outputs_ = 0;
  std::vector<OutputLayout> layouts_;
  std::vector<Update> updates_;
  std::vector<bool> are_given_;  // empty: all results
  size_t num_given_ = 0;         // how many of the results are in the list that a call gives
  nb::object copy_;
};

using GivenConstants = std::map<std::string, nb::tuple>;

struct GraphOptions {
  ToroidGraphOptions options = sized<ToroidGraphOptions>();
  std::vector<ToroidGraphConstant> constants;
  std::vector<std::string> texts;  // that options point to
};

void read_options(const nb::dict& given, GraphOptions& result) {
  result.texts.reserve(given.size());
  for (auto [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto text = [&] { return result.texts.emplace_back(nb::cast<std::string>(value)).c_str(); };
    const auto flag = [&] { return nb::cast<bool>(value) ? 1 : 0; };
    if (name == "no_cache")
      result.options.no_cache = flag();
    else if (name == "measure")
      result.options.measure = flag();
    else if (name == "assertions")
      result.options.assertions = flag();
    else if (name == "threads")
      result.options.threads = nb::cast<int32_t>(value);
    else if (name == "device")
      result.options.device = text();
    else if (name == "save_source")
      result.options.save_source = text();
    else if (name == "dump_ir")
      result.options.dump_ir = text();
    else
      raise_named("ArgumentError", "a graph is compiled with no option '" + name + "'");
  }
}

// Drops the constants' owners, from whatever thread.
void release_owners(void* user) {
  if (Py_IsInitialized() == 0) return;  // with the interpreter its objects are gone
  const nb::gil_scoped_acquire gil;
  delete static_cast<nb::list*>(user);
}

std::unique_ptr<GraphProgram> compile_graph(const std::string& text, const GivenConstants& given_constants, const nb::dict& given,
                                            nb::object allocate) {
  GraphOptions options;
  read_options(given, options);
  auto owners = std::make_unique<nb::list>();
  for (const auto& [name, constant] : given_constants) {
    options.constants.push_back(
        {name.c_str(), reinterpret_cast<const void*>(nb::cast<uintptr_t>(constant[0])), nb::cast<size_t>(constant[1])});
    owners->append(constant[2]);
  }
  options.options.constants = options.constants.data();
  options.options.num_constants = static_cast<int32_t>(options.constants.size());
  options.options.release = &release_owners;
  options.options.release_user = owners.release();
  ToroidModel* model = nullptr;
  ToroidGraphFacts facts = sized<ToroidGraphFacts>();
  Message message;
  ToroidStatus status = TOROID_OK;
  {
    const nb::gil_scoped_release released;
    status = compiler().compile_graph(text.data(), text.size(), &options.options, &model, &facts, message.data(), message.size());
  }
  check(status, message.data());
  return std::make_unique<GraphProgram>(OwnedModel(model), facts, std::move(allocate));
}

bool operator_is_supported(const char* name) { return compiler().has_operator(name) != 0; }
bool has_attention_gradient(const char* dtype, int32_t rank, int64_t width, int64_t value_width) {
  return compiler().has_attention_gradient(dtype, rank, width, value_width) != 0;
}

}  // namespace

void register_graph_builder(nb::module_& module) {
  nb::set_leak_warnings(false);  // Dynamo keeps compiled graphs until the process is gone
  nb::class_<GraphProgram>(module, "GraphProgram", nb::is_weak_referenceable(),
                           "A graph of PyTorch's operators, compiled. Threads may call it at once.")
      .def("set_inputs", &GraphProgram::set_inputs, nb::arg("positions"))
      .def("set_outputs", &GraphProgram::set_outputs, nb::arg("dtypes"), nb::arg("places"), nb::arg("is_complex"), nb::arg("sizes"))
      .def("set_updates", &GraphProgram::set_updates, nb::arg("results"), nb::arg("arguments"), nb::arg("are_given"), nb::arg("copy"))
      .def("call", &GraphProgram::call, nb::arg("arguments"), nb::arg("seed"), nb::arg("stream") = 0)
      .def("set_gpu", &GraphProgram::set_gpu, nb::arg("allocate"), nb::arg("copy_late"))
      .def("raise_failure", &GraphProgram::raise_failure)
      .def_prop_ro("is_for_gpu", &GraphProgram::is_for_gpu)
      .def_prop_ro("facts", &GraphProgram::facts, "What is known of the compilation: its seconds, numbers of kernels.");
  module.def("compile_graph", &compile_graph, nb::arg("text"), nb::arg("constants"), nb::arg("options"), nb::arg("allocate"));
  module.def("operator_is_supported", &operator_is_supported, nb::arg("name"));
  module.def("has_attention_gradient", &has_attention_gradient, nb::arg("dtype"), nb::arg("rank"), nb::arg("width"),
             nb::arg("value_width"));
}

}  // namespace toroid::python
