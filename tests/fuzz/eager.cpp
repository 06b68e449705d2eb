#include "fuzz/eager.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "fuzz/one_operator.h"
#include "interp/evaluate.h"
#include "support/error.h"

namespace toroid::fuzz {
namespace {

std::string base_of(std::string_view call) {
  std::string_view name = call.substr(0, call.find('('));
  name.remove_prefix(std::min(name.size(), name.find("::") + 2));
  name = name.substr(0, name.find('.'));
  while (name.ends_with("_")) name.remove_suffix(1);
  return std::string(name);
}

// Operators that pick, move or compare elements: their results are no less exact than their operands.
const std::set<std::string>& exact_operators() {
  static const std::set<std::string> names = {"neg",
                                              "abs",
                                              "relu",
                                              "sign",
                                              "floor",
                                              "ceil",
                                              "trunc",
                                              "round",
                                              "eq",
                                              "ne",
                                              "lt",
                                              "le",
                                              "gt",
                                              "ge",
                                              "where",
                                              "clamp",
                                              "clamp_min",
                                              "clamp_max",
                                              "maximum",
                                              "minimum",
                                              "fmax",
                                              "fmin",
                                              "amax",
                                              "amin",
                                              "max",
                                              "min",
                                              "argmax",
                                              "argmin",
                                              "cat",
                                              "stack",
                                              "constant_pad_nd",
                                              "reflection_pad1d",
                                              "replication_pad1d",
                                              "roll",
                                              "flip",
                                              "index_select",
                                              "gather",
                                              "index",
                                              "embedding",
                                              "scatter",
                                              "masked_fill",
                                              "sort",
                                              "topk",
                                              "cummax",
                                              "cummin",
                                              "copy",
                                              "fill",
                                              "zero",
                                              "clone",
                                              "tril",
                                              "triu",
                                              "repeat",
                                              "max_pool2d",
                                              "max_pool1d",
                                              "max_pool2d_with_indices",
                                              "logical_and",
                                              "logical_or",
                                              "logical_not",
                                              "logical_xor",
                                              "bitwise_and",
                                              "bitwise_or",
                                              "bitwise_xor",
                                              "bitwise_not",
                                              "isnan",
                                              "isinf",
                                              "isfinite",
                                              "select_scatter",
                                              "slice_scatter",
                                              "hardtanh",
                                              "relu6",
                                              "to",
                                              "any",
                                              "all",
                                              "full_like",
                                              "zeros_like",
                                              "ones_like",
                                              "nan_to_num",
                                              "argsort",
                                              "signbit",
                                              "copysign",
                                              "heaviside",
                                              "new_zeros",
                                              "index_copy",
                                              "index_fill",
                                              "repeat_interleave",
                                              "one_hot",
                                              "nextafter",
                                              "frac"};
  return names;
}

// Operators that are exact while all numbers are multiples of 1/16 and small.
bool is_exact_on_grid(const std::string& base) {
  static const std::set<std::string> names = {"add",         "sub",       "rsub",      "mul",    "sum",
                                              "matmul",      "mm",        "bmm",       "addmm",  "cumsum",
                                              "scatter_add", "index_add", "index_put", "square", "dot",
                                              "addcmul",     "linear",    "conv1d",    "conv2d", "scatter_reduce",
                                              "baddbmm",     "mv",        "lerp_none"};
  return names.contains(base);
}

int significant_bits(DType dtype) {
  switch (dtype) {
    case DType::F64: return 53;
    case DType::F32: return 24;
    case DType::F16: return 11;
    default: return 8;
  }
}

// Sixteenths whose sums and products over the operands' elements are exact in the dtype.
bool is_on_grid(const HostTensor& result, const std::vector<HostTensor>& operands) {
  double largest = 0;
  double terms = 1;
  auto all_sixteenths = [&](const HostTensor& tensor) {
    if (!is_floating(tensor.dtype())) return true;
    for (double value : tensor.to_doubles()) {
      if (!std::isfinite(value) || value * 16 != std::floor(value * 16)) return false;
      largest = std::max(largest, std::fabs(value));
    }
    return true;
  };
  for (const HostTensor& operand : operands) {
    if (!all_sixteenths(operand)) return false;
    terms = std::max(terms, static_cast<double>(operand.numel()));
  }
  const double product = std::max(1.0, largest) * std::max(1.0, largest);
  if (!all_sixteenths(result)) return false;
  return product * terms * 256 < std::ldexp(1.0, significant_bits(result.dtype()));
}

uint64_t seed_of(std::string_view text) {
  uint64_t seed = 0xcbf29ce484222325u;
  for (char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

HostTensor expanded(const HostTensor& value, const std::vector<int64_t>& sizes) {
  if (value.sizes() == sizes) return value;
  HostTensor result(value.dtype(), sizes);
  const auto width = static_cast<size_t>(size_bytes(value.dtype()));
  const std::vector<int64_t> strides = toroid::strides_of(value.sizes());
  std::vector<int64_t> index(sizes.size());
  auto* to = result.mutable_data<std::byte>();
  const size_t lead = sizes.size() - value.sizes().size();
  for (int64_t e = 0; e < result.numel(); ++e) {
    int64_t from = 0;
    for (size_t d = lead; d < sizes.size(); ++d)
      from += value.sizes()[d - lead] == 1 ? 0 : index[d] * strides[d - lead];
    std::memcpy(to + static_cast<size_t>(e) * width, value.bytes().data() + static_cast<size_t>(from) * width, width);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

HostTensor cast_to(const HostTensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  if (is_floating(value.dtype()) && is_floating(dtype))
    return HostTensor::from_doubles(dtype, value.sizes(), value.to_doubles());
  std::vector<double> floats;
  std::vector<int64_t> ints;
  for (int64_t i = 0; i < value.numel(); ++i) {
    if (dtype == DType::Bool)
      ints.push_back(is_floating(value.dtype()) ? value.double_at(i) != 0 : value.int_at(i) != 0);
    else if (is_floating(dtype))
      floats.push_back(value.double_at(i));
    else
      ints.push_back(value.int_at(i));
  }
  return is_floating(dtype) ? HostTensor::from_doubles(dtype, value.sizes(), floats)
                            : HostTensor::from_ints(dtype, value.sizes(), ints);
}

// Strides under which element [i, j, …] lies at positions[i, j, …], up to an offset; nothing when there are none. A dim of
// size 1 has the stride of a contiguous tensor.
std::optional<std::vector<int64_t>> strides_from(const HostTensor& positions) {
  std::vector<int64_t> strides = toroid::strides_of(positions.sizes());
  if (positions.numel() == 0) return strides;
  const auto* place = positions.data<int64_t>();
  const std::vector<int64_t> rows = strides;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (positions.sizes()[d] > 1) strides[d] = place[rows[d]] - place[0];
  }
  std::vector<int64_t> index(strides.size());
  for (int64_t e = 0; e < positions.numel(); ++e) {
    const int64_t expected = std::inner_product(index.begin(), index.end(), strides.begin(), place[0]);
    if (place[e] != expected) return std::nullopt;
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < positions.sizes()[d]) break;
      index[d] = 0;
    }
  }
  return strides;
}

bool is_narrow(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

}  // namespace

Eager::Eager(const Eager& other)
    : symbols_(other.symbols_),
      run_(other.run_),
      options_(other.options_),
      tensors_(other.tensors_),
      executed_(other.executed_) {
  std::map<Memory*, std::shared_ptr<Memory>> copies;
  for (auto& [name, tensor] : tensors_) {
    std::shared_ptr<Memory>& copy = copies[tensor.memory.get()];
    if (!copy) copy = std::make_shared<Memory>(*tensor.memory);
    tensor.memory = copy;
  }
}

std::string Eager::concrete(std::string_view text) const {
  std::vector<std::pair<std::string, std::string>> words;
  for (const auto& [name, value] : run_) words.emplace_back(name, std::to_string(value));
  if (options_.widen) {
    words.emplace_back("f16", "f32");
    words.emplace_back("bf16", "f32");
  }
  return replace_words(text, words);
}

std::string Eager::type_of(const HostTensor& tensor) const {
  return fmt::format("{}[{}]", to_string(tensor.dtype()), fmt::join(tensor.sizes(), ", "));
}

void Eager::add_input(const Input& input) {
  HostTensor elements = elements_of(input, run_);
  if (options_.widen && is_narrow(elements.dtype())) elements = cast_to(elements, DType::F32);
  const std::vector<int64_t> sizes = elements.sizes();
  if (input.strides.empty()) {
    tensors_[input.name] = {std::make_shared<Memory>(Memory{std::move(elements)}), {}, sizes};
    return;
  }
  // In memory as the strides say, with gaps that nothing shows.
  const std::vector<int64_t> strides = sizes_in(input.strides, run_);
  HostTensor positions(DType::I64, sizes);
  auto* place = positions.mutable_data<int64_t>();
  std::vector<int64_t> index(sizes.size());
  int64_t span = 1;
  for (int64_t e = 0; e < positions.numel(); ++e) {
    place[e] = std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
    span = std::max(span, place[e] + 1);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
  HostTensor memory(elements.dtype(), {span});
  const auto width = static_cast<size_t>(size_bytes(elements.dtype()));
  auto* to = memory.mutable_data<std::byte>();
  std::memset(to, 0, memory.bytes().size());
  for (int64_t e = 0; e < elements.numel(); ++e) {
    std::memcpy(to + static_cast<size_t>(place[e]) * width, elements.bytes().data() + static_cast<size_t>(e) * width,
                width);
  }
  tensors_[input.name] = {std::make_shared<Memory>(Memory{std::move(memory)}), std::move(positions), sizes};
}

HostTensor Eager::read(const std::string& name) const { return read(tensors_.at(name)); }

HostTensor Eager::read(const Tensor& tensor) const {
  const HostTensor& data = tensor.memory->data;
  if (!tensor.positions) return data;
  HostTensor result(data.dtype(), tensor.sizes);
  const auto width = static_cast<size_t>(size_bytes(data.dtype()));
  auto* to = result.mutable_data<std::byte>();
  const auto* positions = tensor.positions->data<int64_t>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    std::memcpy(to + static_cast<size_t>(i) * width, data.bytes().data() + static_cast<size_t>(positions[i]) * width,
                width);
  }
  return result;
}

HostTensor Eager::positions_of(const Tensor& tensor) const {
  if (tensor.positions) return *tensor.positions;
  HostTensor positions(DType::I64, tensor.sizes);
  std::iota(positions.mutable_data<int64_t>(), positions.mutable_data<int64_t>() + positions.numel(), int64_t{0});
  return positions;
}

std::vector<int64_t> Eager::strides(const std::string& name) const {
  const Tensor& tensor = tensors_.at(name);
  if (!tensor.positions) return {};
  std::optional<std::vector<int64_t>> found = strides_from(*tensor.positions);
  if (!found || *found == toroid::strides_of(tensor.sizes)) return {};
  return *found;
}

void Eager::write(Tensor& tensor, const HostTensor& value, const std::string& call) {
  const HostTensor& old = tensor.memory->data;
  const HostTensor fitting = expanded(cast_to(value, old.dtype()), tensor.sizes);
  tensor.memory->written = true;
  if (!tensor.positions) {
    tensor.memory->data = fitting;
    return;
  }
  HostTensor data(old.dtype(), old.sizes());
  const auto width = static_cast<size_t>(size_bytes(old.dtype()));
  auto* to = data.mutable_data<std::byte>();
  std::memcpy(to, old.bytes().data(), old.bytes().size());
  const auto* positions = tensor.positions->data<int64_t>();
  std::vector<bool> seen(static_cast<size_t>(old.numel()));
  for (int64_t i = 0; i < fitting.numel(); ++i) {
    const auto place = static_cast<size_t>(positions[i]);
    if (seen[place]) throw Error(ErrorKind::InvalidInput, fmt::format("{} writes an element twice", call));
    seen[place] = true;
    std::memcpy(to + place * width, fitting.bytes().data() + static_cast<size_t>(i) * width, width);
  }
  tensor.memory->data = data;
}

// The value with each element moved by up to 8 units in the last place (one for 16-bit floats, whose other roundings
// the widened run stands for).
HostTensor Eager::moved(const HostTensor& value, Random& random) const {
  const double ulp = std::ldexp(value.dtype() == DType::F32 || value.dtype() == DType::F64 ? 8.0 : 1.0,
                                1 - significant_bits(value.dtype()));
  std::vector<double> values = value.to_doubles();
  for (double& each : values) {
    const double step = (random.unit() * 2 - 1) * ulp;
    each *= 1 + (options_.mirrored ? -step : step);
  }
  return HostTensor::from_doubles(value.dtype(), value.sizes(), values);
}

// A float that does not fit the integer it is converted to.
void Eager::refuse_processors_choice(const Node& node, const std::vector<HostTensor>& operands) const {
  if (operands.empty() || !is_floating(operands[0].dtype()) || !base_of(node.call).starts_with("to")) return;
  const auto dtype = parse_dtype(node.types[0].substr(0, node.types[0].find('[')));
  if (!dtype || is_floating(*dtype) || *dtype == DType::Bool) return;
  const double most = std::ldexp(1.0, static_cast<int>(size_bytes(*dtype) * 8) - (is_signed(*dtype) ? 1 : 0));
  for (double value : operands[0].to_doubles()) {
    const double whole = std::trunc(value);
    if (!(whole >= (is_signed(*dtype) ? -most : 0) && whole < most)) {
      throw Error(ErrorKind::InvalidInput, fmt::format("{} does not fit {}", value, to_string(*dtype)));
    }
  }
}

void Eager::execute(const Node& node) {
  const std::string call = concrete(node.call);
  std::vector<std::string> names = values_in(call);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<HostTensor> operands;
  Operands types;
  for (const std::string& name : names) {
    operands.push_back(read(name));
    types.emplace_back(name, type_of(operands.back()));
  }
  if (!node.types.empty()) refuse_processors_choice(node, operands);
  const std::string base = base_of(call);
  ++executed_;

  const OneOperator first = one_operator({}, types, call, node.results.size());
  const bool is_reshape = base == "reshape" || base == "flatten";
  if ((first.schema->is_view() && !first.schema->mutates() && base != "to") || is_reshape) {
    // The same view of the positions. All its tensors but the first matter by their shapes.
    const std::string viewed = values_in(call)[0];
    Tensor& source = tensors_.at(viewed);
    for (auto& [name, type] : types) {
      if (name == viewed) type = "i64" + type.substr(type.find('['));
    }
    std::vector<HostTensor> inputs = operands;
    inputs[static_cast<size_t>(std::find(names.begin(), names.end(), viewed) - names.begin())] = positions_of(source);
    const OneOperator on_positions = one_operator({}, types, call, node.results.size());
    const std::vector<HostTensor> results = evaluate(on_positions.program, inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      tensors_[node.results[i]] = {source.memory, results[i], results[i].sizes()};
      if (is_reshape && !strides_from(results[i])) {
        HostTensor copy = read(tensors_[node.results[i]]);
        std::vector<int64_t> sizes = copy.sizes();
        tensors_[node.results[i]] = {std::make_shared<Memory>(Memory{copy}), {}, std::move(sizes)};
      }
    }
    return;
  }

  bool is_exact = options_.noise == 0 || exact_operators().contains(base);
  std::vector<HostTensor> results = evaluate(first.program, operands);
  if (!is_exact && is_exact_on_grid(base)) is_exact = is_on_grid(results[0], operands);
  if (!is_exact) {
    Random random(options_.noise * 1000003 + executed_ * 7919 + seed_of(base));
    for (HostTensor& operand : operands) {
      if (is_floating(operand.dtype())) operand = moved(operand, random);
    }
    results = evaluate(first.program, operands);
    for (HostTensor& result : results) {
      if (is_floating(result.dtype())) result = moved(result, random);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (i == 0 && first.schema->mutates()) {
      Tensor target = tensors_.at(values_in(call)[0]);
      write(target, results[0], call);
      tensors_[node.results[0]] = target;
    } else {
      std::vector<int64_t> sizes = results[i].sizes();
      tensors_[node.results[i]] = {std::make_shared<Memory>(Memory{results[i]}), {}, std::move(sizes)};
    }
  }
}

EagerResult run_eagerly(const Program& program, const Run& run, EagerOptions options) {
  Eager eager(program, run, options);
  for (const Input& input : program.inputs) eager.add_input(input);
  for (const Node& node : program.nodes) eager.execute(node);
  EagerResult result;
  for (const std::string& output : program.outputs) result.outputs.push_back(eager.read(output));
  for (const Input& input : program.inputs) {
    if (eager.is_written(input.name)) result.written_inputs.emplace_back(input.name, eager.read(input.name));
  }
  return result;
}

}  // namespace toroid::fuzz
