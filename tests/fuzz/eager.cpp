#include "fuzz/eager.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/exactness.h"
#include "fuzz/one_operator.h"
#include "interp/evaluate.h"

namespace toroid::fuzz {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 26;  // of a run: a second or two

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
    for (size_t d = lead; d < sizes.size(); ++d) from += value.sizes()[d - lead] == 1 ? 0 : index[d] * strides[d - lead];
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
  if (is_floating(value.dtype()) && is_floating(dtype)) return HostTensor::from_doubles(dtype, value.sizes(), value.to_doubles());
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
  return is_floating(dtype) ? HostTensor::from_doubles(dtype, value.sizes(), floats) : HostTensor::from_ints(dtype, value.sizes(), ints);
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

// Operands under which every intermediate sum and product is the largest that it can be.
std::vector<HostTensor> magnitudes(std::vector<HostTensor> operands, const std::string& base) {
  for (HostTensor& operand : operands) {
    if (!is_floating(operand.dtype())) continue;
    const double neutral = base.find("prod") != std::string::npos ? 1 : 0;
    std::vector<double> values = operand.to_doubles();
    for (double& value : values) {
      value = std::isfinite(value) ? std::fabs(value) : neutral;
      if (value == 0) value = neutral;
    }
    operand = HostTensor::from_doubles(operand.dtype(), operand.sizes(), values);
  }
  return operands;
}

// The result of another class wherever `largest` overflows, so that nobody is sure about it: NaN in one run, since after a relu an infinity
// is not to be told from a number, and infinite or a number in the other.
HostTensor otherwise_where_infinite(const HostTensor& result, const HostTensor& largest, bool is_nan) {
  if (!is_floating(result.dtype())) return result;
  std::vector<double> values = result.to_doubles();
  const std::vector<double> bounds = largest.to_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(bounds[i])) values[i] = is_nan ? std::nan("") : std::isfinite(values[i]) ? HUGE_VAL : 0;
  }
  return HostTensor::from_doubles(result.dtype(), result.sizes(), values);
}

// With zeros for subnormal numbers, which 1 / (1 + exp(-x)) gives and exp(x) / (1 + exp(x)) does not.
HostTensor without_subnormals(const HostTensor& result) {
  std::vector<double> values = result.to_doubles();
  const double least = result.dtype() == DType::F64 ? 0x1p-1022 : 0x1p-126;
  for (double& value : values) {
    if (std::fabs(value) < least) value = std::copysign(0.0, value);
  }
  return HostTensor::from_doubles(result.dtype(), result.sizes(), values);
}

bool has_zeros_of_both_signs(const std::vector<HostTensor>& tensors) {
  bool found[2] = {false, false};
  for (const HostTensor& tensor : tensors) {
    if (!is_floating(tensor.dtype())) continue;
    for (double value : tensor.to_doubles()) {
      if (value == 0) found[std::signbit(value) ? 1 : 0] = true;
    }
  }
  return found[0] && found[1];
}

bool has_infinite(const std::vector<HostTensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const HostTensor& tensor) {
    if (!is_floating(tensor.dtype())) return false;
    const std::vector<double> values = tensor.to_doubles();
    return std::any_of(values.begin(), values.end(), [](double value) { return !std::isfinite(value); });
  });
}

// The result with what implementations choose chosen otherwise: the sign of a sum that is zero, which of zeros of both signs is the
// larger one, whether the padding of a convolution is multiplied with weights that are infinite (PyTorch's kernels differ too), and whether
// weights of attention below 2^-125 are 0, which makes NaN of infinite values.
// Sums and picks have a sign each in a run, and runs have all pairs of signs: were signs only changed, a pick from a sum would change
// twice.
HostTensor with_other_choices(const HostTensor& result, std::string_view call, const std::vector<HostTensor>& operands, bool is_complex,
                              const EagerOptions& options) {
  const std::string base = base_of(call);
  const bool picks = is_floating(result.dtype()) && orders_elements(call) && has_zeros_of_both_signs(operands);
  const bool sums = is_complex || (may_overflow_on_the_way(base) && !is_element_wise(base));
  const bool is_even = options.noise % 2 == 0;
  const bool pads = options.mirrored && !is_even && base.find("conv") != std::string::npos && has_infinite(operands);
  const bool drops = options.mirrored && base.find("attention") != std::string::npos && has_infinite(operands);
  if (!is_floating(result.dtype()) || (!sums && !picks && !pads && !drops)) return result;
  const double zero = (picks ? is_even : is_even == options.mirrored) ? -0.0 : 0.0;
  std::vector<double> values = result.to_doubles();
  for (double& value : values) {
    if (value == 0 && (sums || picks)) value = zero;
    if ((pads && !std::isfinite(value)) || (drops && std::isinf(value))) value = 0;
  }
  return HostTensor::from_doubles(result.dtype(), result.sizes(), values);
}

bool is_narrow(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

}  // namespace

Eager::Eager(const Eager& other)
    : symbols_(other.symbols_),
      run_(other.run_),
      options_(other.options_),
      shared_(other.shared_),
      tensors_(other.tensors_),
      streams_(other.streams_),
      random_(other.random_),
      draws_(other.draws_),
      executed_(other.executed_),
      elements_(other.elements_) {
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
  // Where the program itself converts to 16 bits it is meant.
  const std::string base = base_of(text);
  if (options_.widen && base != "to" && base != "_to_copy" && base != "convert_element_type") {
    words.emplace_back("f16", "f32");
    words.emplace_back("bf16", "f32");
  }
  return replace_words(text, words);
}

std::string Eager::type_of(const HostTensor& tensor, std::optional<DType> complex) const {
  std::vector<int64_t> sizes = tensor.sizes();
  if (complex) sizes.pop_back();
  return fmt::format("{}[{}]", to_string(complex.value_or(tensor.dtype())), fmt::join(sizes, ", "));
}

void Eager::add_input(const Input& input) {
  HostTensor memory = memory_of(input, run_);
  if (options_.widen && is_narrow(memory.dtype())) memory = cast_to(memory, DType::F32);
  const std::vector<int64_t> sizes = sizes_in(input.sizes, run_);
  std::optional<HostTensor> positions;
  if (!input.strides.empty()) {
    positions = HostTensor::from_ints(DType::I64, sizes, places_in_memory(sizes, sizes_in(input.strides, run_)));
  }
  tensors_[input.name] = {std::make_shared<Memory>(Memory{std::move(memory)}), std::move(positions), sizes};
}

void Eager::set(const std::string& name, HostTensor value) {
  std::vector<int64_t> sizes = value.sizes();
  tensors_[name] = {std::make_shared<Memory>(Memory{std::move(value)}), {}, std::move(sizes)};
}

HostTensor Eager::read(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw Error(ErrorKind::InvalidInput, fmt::format("'{}' is not defined", name));
  return read(found->second);
}

HostTensor Eager::read(const Tensor& tensor) const {
  const HostTensor& data = tensor.memory->data;
  if (!tensor.positions) return data;
  HostTensor result(data.dtype(), tensor.sizes);
  const auto width = static_cast<size_t>(size_bytes(data.dtype()));
  auto* to = result.mutable_data<std::byte>();
  const auto* positions = tensor.positions->data<int64_t>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    std::memcpy(to + static_cast<size_t>(i) * width, data.bytes().data() + static_cast<size_t>(positions[i]) * width, width);
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
  const double ulp =
      std::ldexp(value.dtype() == DType::F32 || value.dtype() == DType::F64 ? 8.0 : 1.0, 1 - significant_bits(value.dtype()));
  std::vector<double> values = value.to_doubles();
  for (double& each : values) {
    const double step = (random.unit() * 2 - 1) * ulp;
    each *= 1 + (options_.mirrored ? -step : step);
  }
  return HostTensor::from_doubles(value.dtype(), value.sizes(), values);
}

// A float that does not fit the wide unsigned integer it is converted to. What does not fit the others gives the least integer, wrapped.
void Eager::refuse_processors_choice(const Node& node, const std::vector<HostTensor>& operands) const {
  const std::string base = base_of(node.call);
  const bool converts = base == "to" || base == "_to_copy" || base == "copy" || base == "convert_element_type";
  if (operands.empty() || !is_floating(operands[0].dtype()) || !converts) return;
  const auto dtype = parse_dtype(node.types[0].substr(0, node.types[0].find('[')));
  if (!dtype || (*dtype != DType::U16 && *dtype != DType::U32 && *dtype != DType::U64)) return;
  const double most = std::ldexp(1.0, static_cast<int>(size_bytes(*dtype) * 8));
  for (double value : operands[0].to_doubles()) {
    const double whole = std::trunc(value);
    if (!(whole >= 0 && whole < most)) {
      throw Error(ErrorKind::InvalidInput, fmt::format("{} does not fit {}", value, to_string(*dtype)));
    }
  }
}

void Eager::execute(const Node& node) {
  if (!node.bodies.empty()) {
    const std::vector<HostTensor> results = control_flow(node);
    for (size_t i = 0; i < results.size(); ++i) set(node.results.at(i), results[i]);
  } else {
    execute_aten(node);
  }
  if (!node.bound.empty()) bind(node.bound, read(node.results[0]).int_at(0));
}

void Eager::bind(const std::string& symbol, int64_t value) {
  for (const auto& [name, known] : run_) {
    if (name == symbol && known != value) throw Error(ErrorKind::InvalidInput, fmt::format("{} is two sizes", symbol));
    if (name == symbol) return;
  }
  for (const Symbol& each : symbols_) {
    if (each.name == symbol && (value < each.least || value > each.most))
      throw Error(ErrorKind::InvalidInput, fmt::format("{} = {} is out of its range", symbol, value));
  }
  run_.emplace_back(symbol, value);
}

// The types of the node's results, if one of them has a size that the node defines or is complex.
std::vector<std::string> Eager::declared_types(const Node& node) const {
  bool defines = false;
  std::vector<std::string> types;
  for (const std::string& type : node.types) types.push_back(plain_type(concrete(type)));
  for (const std::string& type : types) {
    defines = defines || toroid::is_complex(dtype_of(type));
    for (const std::string& size : sizes_of(type)) {
      defines = defines || size.find_first_not_of("0123456789") != std::string::npos;
    }
  }
  return defines ? types : std::vector<std::string>{};
}

std::shared_ptr<const OneOperator> Eager::operator_for(const OperatorContext& context, const Operands& operands, const Node& node,
                                                       const std::string& call) const {
  if (shared_.operators != nullptr) return shared_.operators->get(context, operands, call, node.results.size());
  return std::make_shared<const OneOperator>(one_operator(context, operands, call, node.results.size()));
}

void Eager::execute_aten(const Node& node) {
  const std::string call = concrete(node.call);
  std::vector<std::string> names = values_in(call);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<HostTensor> operands;
  Operands types;
  for (const std::string& name : names) {
    operands.push_back(read(name));
    types.emplace_back(name, type_of(operands.back(), tensors_.at(name).complex));
  }
  if (!node.types.empty()) refuse_processors_choice(node, operands);
  const std::string base = base_of(call);
  ++executed_;

  OperatorContext context;
  context.declared = declared_types(node);
  for (const Symbol& symbol : symbols_) {
    const bool is_known = std::any_of(run_.begin(), run_.end(), [&](const auto& each) { return each.first == symbol.name; });
    if (!is_known) context.symbols.push_back(symbol);
  }
  streams_.begin_node();
  context.streams = &streams_;
  const std::shared_ptr<const OneOperator> made = operator_for(context, types, node, call);
  const OneOperator& first = *made;
  const EvaluateOptions evaluation{.after_node = {}, .random = random_};
  const bool is_complex_node =
      std::any_of(names.begin(), names.end(), [&](const auto& name) { return is_complex(name); }) ||
      std::any_of(node.types.begin(), node.types.end(), [](const std::string& type) { return toroid::is_complex(dtype_of(type)); });
  const bool is_reshape = base == "reshape" || base == "flatten";
  // Nothing writes to complex tensors, nor to what shows them.
  if (((first.schema->is_view() && !first.schema->mutates() && base != "to") || is_reshape) && !is_complex_node) {
    // The same view of the positions. All its tensors but the first matter by their shapes.
    const std::string viewed = values_in(call)[0];
    Tensor& source = tensors_.at(viewed);
    for (auto& [name, type] : types) {
      if (name == viewed) type = "i64" + type.substr(type.find('['));
    }
    std::vector<HostTensor> inputs = operands;
    inputs[static_cast<size_t>(std::find(names.begin(), names.end(), viewed) - names.begin())] = positions_of(source);
    const std::vector<HostTensor> results = evaluate(operator_for({}, types, node, call)->program, inputs);
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

  bool may_be_exact = options_.noise == 0 || is_exact(base);
  std::vector<HostTensor> results = evaluate(first.program, operands, evaluation);
  if (results.empty()) return;  // it writes to each tensor of an empty list
  for (const HostTensor& result : results) elements_ += result.numel();
  if (elements_ > kMostElements) throw Error(ErrorKind::InvalidInput, "the program has too many elements for the reference");
  if (!may_be_exact && is_exact_on_grid(base)) may_be_exact = is_on_grid(results[0], operands);
  if (!may_be_exact) {
    Random random(options_.noise * 1000003 + executed_ * 7919 + seed_of(base));
    for (HostTensor& operand : operands) {
      if (is_floating(operand.dtype())) operand = moved(operand, random);
    }
    if (options_.mirrored && may_overflow_on_the_way(base)) {
      const std::vector<HostTensor> largest = evaluate(first.program, magnitudes(operands, base), evaluation);
      results = evaluate(first.program, operands, evaluation);
      for (size_t i = 0; i < results.size(); ++i) results[i] = otherwise_where_infinite(results[i], largest[i], options_.noise % 2 == 0);
    } else {
      results = evaluate(first.program, operands, evaluation);
    }
    for (HostTensor& result : results) {
      if (!is_floating(result.dtype())) continue;
      result = moved(result, random);
      if (options_.mirrored) result = without_subnormals(result);
    }
    if (is_root_of_products(call, operands)) results[0] = with_rounded_squares(results[0], operands, options_.mirrored);
  }
  if (options_.noise != 0) {
    for (HostTensor& result : results) result = with_other_choices(result, call, operands, is_complex_node, options_);
  }
  if (draws_many_values(base) && results[0].numel() >= 4) draws_.emplace_back(fmt::format("{} {}", base, type_of(results[0])), results[0]);
  const std::vector<std::string> listed = writes_to_list(call) ? values_in(arguments_of(call).at(0)) : std::vector<std::string>{};
  for (size_t i = 0; i < listed.size(); ++i) write(tensors_.at(listed[i]), results.at(i), call);
  if (!listed.empty()) return;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!context.declared.empty()) {
      const std::vector<std::string> sizes = sizes_of(context.declared[i]);
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (sizes[d].find_first_not_of("0123456789") != std::string::npos) bind(sizes[d], results[i].sizes().at(d));
      }
    }
    if (options_.widen && is_narrow(results[i].dtype())) results[i] = cast_to(results[i], DType::F32);
    if (i == 0 && first.schema->mutates()) {
      Tensor target = tensors_.at(values_in(call)[0]);
      write(target, results[0], call);
      tensors_[node.results[0]] = target;
    } else {
      set(node.results[i], results[i]);
      const DType dtype = node.types.empty() ? DType::F32 : dtype_of(node.types[i]);
      if (toroid::is_complex(dtype)) tensors_[node.results[i]].complex = dtype;
    }
  }
}

HostTensor widened(const HostTensor& value) { return is_narrow(value.dtype()) ? cast_to(value, DType::F32) : value; }

EagerResult run_eagerly(const Program& program, const Run& run, const EagerOptions& options, SharedByRuns shared, Buffers& buffers) {
  Eager eager(program, run, options, shared);
  for (const Input& input : program.inputs) {
    eager.add_input(input);
    const auto kept = buffers.find(input.name);
    if (kept != buffers.end()) eager.set(input.name, kept->second);
  }
  for (const Node& node : program.nodes) eager.execute(node);
  EagerResult result;
  result.draws = eager.draws();
  for (const std::string& output : program.outputs) result.outputs.push_back(eager.read(output));
  for (const Input& input : program.inputs) {
    if (!eager.is_written(input.name)) continue;
    result.written_inputs.emplace_back(input.name, eager.read(input.name));
    if (input.kind == InputKind::Buffer) buffers.insert_or_assign(input.name, eager.read(input.name));
  }
  return result;
}

}  // namespace toroid::fuzz
