#include "served_model.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace rt = toroid::runtime;

namespace {

size_t bytes_of(DLDataType dtype) { return (dtype.bits + 7u) / 8u; }

// "f32[s0, 128]": the sizes as text.
std::vector<std::string> sizes_of(const std::string& type) {
  std::vector<std::string> sizes;
  const size_t open = type.find('['), close = type.rfind(']');
  if (open == std::string::npos || close == std::string::npos) return sizes;
  std::string rest = type.substr(open + 1, close - open - 1);
  for (size_t at = 0; at < rest.size();) {
    const size_t comma = std::min(rest.find(", ", at), rest.size());
    sizes.push_back(rest.substr(at, comma - at));
    at = comma + 2;
  }
  return sizes;
}

// The most rows that one call may have, where the first size of all inputs and outputs is one symbol, of which nothing else depends; else 1.
int64_t most_rows_of(const rt::Model& model) {
  std::string symbol;
  std::vector<rt::TensorInfo> tensors = model.inputs();
  for (const rt::TensorInfo& output : model.outputs()) tensors.push_back(output);
  for (const rt::TensorInfo& tensor : tensors) {
    const std::vector<std::string> sizes = sizes_of(tensor.type);
    if (sizes.empty() || tensor.is_late || (!symbol.empty() && sizes[0] != symbol)) return 1;
    symbol = sizes[0];
    for (size_t d = 1; d < sizes.size(); ++d) {
      if (sizes[d].find(symbol) != std::string::npos) return 1;
    }
  }
  for (const rt::WeightInfo& weight : model.weights()) {
    if (weight.is_mutable) return 1;  // a call may change what the next one gives
  }
  for (const rt::SymbolInfo& each : model.symbols()) {
    if (each.name == symbol) return each.most;
  }
  return 1;
}

rt::Model opened(const std::string& path) {
  auto options = rt::sized<ToroidModelOptions>();
  options.threads = 1;  // workers are threads enough
  return rt::Model::open(path, options).value_or_throw();
}

struct Weights {
  std::vector<char> file;
  std::deque<std::vector<int64_t>> elements;  // of each tensor, aligned, as they need not be in a file
  std::vector<std::pair<std::string, rt::TensorView>> values;
};

// safetensors: the length of a JSON header, the header, the tensors' bytes.
Weights read_weights(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path);
  Weights weights{{std::istreambuf_iterator<char>(stream), {}}, {}, {}};
  const std::map<std::string, DLDataType> dtypes = {{"F64", {kDLFloat, 64, 1}}, {"F32", {kDLFloat, 32, 1}},   {"F16", {kDLFloat, 16, 1}},
                                                    {"I64", {kDLInt, 64, 1}},   {"I32", {kDLInt, 32, 1}},     {"I8", {kDLInt, 8, 1}},
                                                    {"U8", {kDLUInt, 8, 1}},    {"BF16", {kDLBfloat, 16, 1}}, {"BOOL", {kDLBool, 8, 1}}};
  uint64_t length = 0;
  if (weights.file.size() < 8) throw std::runtime_error(path + " is no safetensors file");
  std::memcpy(&length, weights.file.data(), 8);
  if (length > weights.file.size() - 8) throw std::runtime_error(path + " is no safetensors file");
  const auto header = nlohmann::json::parse(weights.file.begin() + 8, weights.file.begin() + 8 + static_cast<ptrdiff_t>(length));
  const char* const data = weights.file.data() + 8 + length;
  const size_t bytes = weights.file.size() - 8 - length;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const auto dtype = dtypes.find(tensor.at("dtype").get<std::string>());
    const auto shape = tensor.at("shape").get<std::vector<int64_t>>();
    const auto range = tensor.at("data_offsets").get<std::vector<size_t>>();
    size_t size = dtype == dtypes.end() ? 0 : bytes_of(dtype->second);
    for (const int64_t each : shape) size *= static_cast<size_t>(each);
    if (dtype == dtypes.end() || range.size() != 2 || range[1] > bytes || range[0] > range[1] || range[1] - range[0] != size)
      throw std::runtime_error(path + ": the tensor '" + name + "' is damaged, or of a dtype that is not served");
    std::vector<int64_t>& elements = weights.elements.emplace_back(size / 8 + 1);
    std::memcpy(elements.data(), data + range[0], size);
    weights.values.emplace_back(name, rt::TensorView(elements.data(), dtype->second, shape));
  }
  return weights;
}

}  // namespace

int64_t Array::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

void Metrics::note(std::chrono::steady_clock::duration took, bool failed) {
  const double seconds = std::chrono::duration<double>(took).count();
  ++requests;
  if (failed) ++errors;
  microseconds += static_cast<uint64_t>(seconds * 1e6);
  for (size_t i = 0; i < std::size(kBuckets); ++i) {
    if (seconds <= kBuckets[i]) ++within[i];
  }
}

ServedModel::ServedModel(std::string name, const std::string& path, Options options)
    : name_(std::move(name)), options_(std::move(options)), model_(opened(path)) {
  batch_most_ = std::min(most_rows_of(model_), options_.most_rows);
  if (!options_.weights.empty()) reload();
  for (int i = 0; i < options_.workers; ++i) {
    auto of_worker = rt::sized<ToroidContextOptions>();
    of_worker.threads = 1;
    workers_.emplace_back(&ServedModel::work, this, model_.create_context(of_worker).value_or_throw());
  }
}

ServedModel::~ServedModel() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

size_t ServedModel::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

std::future<ServedModel::Answer> ServedModel::submit(std::vector<Array> inputs) {
  Request request{std::move(inputs), {}};
  std::future<Answer> answer = request.answer.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (is_ending_ || queue_.size() >= options_.longest_queue) {
      finish(request, {{}, "too many requests wait", false});
      return answer;
    }
    queue_.push_back(std::move(request));
  }
  changed_.notify_all();
  return answer;
}

void ServedModel::reload() {
  if (options_.weights.empty()) return;
  const Weights weights = read_weights(options_.weights);
  const rt::Done done = model_.swap_weights(weights.values);
  if (!done) throw std::runtime_error(options_.weights + ": " + done.error().message);
  ++metrics_.reloads;
}

void ServedModel::finish(Request& request, Answer answer) {
  metrics_.note(std::chrono::steady_clock::now() - request.since, !answer.error.empty());
  request.answer.set_value(std::move(answer));
}

// Along the first dim, which is free; all other sizes are equal.
bool ServedModel::joins(const Request& first, const Request& other) const {
  if (first.inputs.size() != other.inputs.size()) return false;
  for (size_t i = 0; i < first.inputs.size(); ++i) {
    const std::vector<int64_t>&a = first.inputs[i].shape, &b = other.inputs[i].shape;
    if (a.empty() || a.size() != b.size() || !std::equal(a.begin() + 1, a.end(), b.begin() + 1)) return false;
    if (b[0] != other.rows()) return false;
  }
  return true;
}

std::vector<ServedModel::Request> ServedModel::next_batch() {
  std::vector<Request> batch;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
  if (queue_.empty()) return batch;
  batch.push_back(std::move(queue_.front()));
  queue_.pop_front();
  int64_t rows = batch[0].rows();
  if (!takes_batches() || !joins(batch[0], batch[0])) return batch;
  const auto until = batch[0].since + options_.window;
  for (;;) {
    while (!queue_.empty() && joins(batch[0], queue_.front()) && rows + queue_.front().rows() <= batch_most_) {
      rows += queue_.front().rows();
      batch.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    // One that does not fit ends the batch: it has waited as well.
    if (!queue_.empty() || rows >= batch_most_ || is_ending_) return batch;
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) return batch;
  }
}

void ServedModel::work(rt::Context context) {
  for (;;) {
    std::vector<Request> batch = next_batch();
    if (batch.empty()) return;
    compute(context, batch);
  }
}

void ServedModel::compute(rt::Context& context, std::vector<Request>& batch) {
  const bool is_joined = batch.size() > 1;
  std::vector<Array> joined = is_joined ? batch[0].inputs : std::vector<Array>();
  for (size_t r = 1; r < batch.size(); ++r) {
    for (size_t i = 0; i < joined.size(); ++i) {
      const Array& more = batch[r].inputs[i];
      joined[i].shape[0] += more.shape[0];
      joined[i].bytes.insert(joined[i].bytes.end(), more.bytes.begin(), more.bytes.end());
    }
  }
  std::vector<rt::TensorView> views;
  for (Array& each : is_joined ? joined : batch[0].inputs) views.emplace_back(each.bytes.data(), each.dtype, each.shape);
  rt::Result<std::vector<rt::Tensor>> outputs = context.run(views);
  ++metrics_.batches;
  if (!outputs && is_joined) {  // one of them may be at fault: each by itself
    for (Request& request : batch) {
      std::vector<Request> alone;
      alone.push_back(std::move(request));
      compute(context, alone);
    }
    return;
  }
  if (!outputs) {
    const ToroidStatus status = outputs.error().status;
    return finish(batch[0], {{}, outputs.error().message, status == TOROID_ERROR_ARGUMENT || status == TOROID_ERROR_INPUT});
  }
  size_t first_row = 0;
  for (Request& request : batch) {
    Answer answer;
    const auto rows = static_cast<size_t>(request.rows());
    metrics_.rows += rows;
    for (const rt::Tensor& output : *outputs) {
      Array part{output.dtype(), {output.shape().begin(), output.shape().end()}, {}};
      const auto* bytes = static_cast<const char*>(output.dlpack().data) + output.dlpack().byte_offset;
      size_t size = output.size() * bytes_of(part.dtype);
      if (is_joined) {
        const size_t row = part.shape[0] == 0 ? 0 : size / static_cast<size_t>(part.shape[0]);
        part.shape[0] = request.rows();
        bytes += first_row * row;
        size = rows * row;
      }
      part.bytes.assign(bytes, bytes + size);
      answer.outputs.push_back(std::move(part));
    }
    first_row += rows;
    finish(request, std::move(answer));
  }
}
