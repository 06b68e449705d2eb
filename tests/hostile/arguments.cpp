#include "hostile/arguments.h"

#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "fuzz/random.h"
#include "hostile/plausible_calls.h"
#include "support/hash.h"

namespace toroid::hostile {
namespace {

using fuzz::Random;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();

int64_t hostile_integer(Random& random) {
  return random.pick({kLeast, -(int64_t{1} << 31), int64_t{-7}, int64_t{-2}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}, int64_t{7},
                      int64_t{65}, int64_t{1} << 20, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62, kMost});
}
double hostile_number(Random& random) {
  return random.pick({std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300, -1e300, 1e-320, -1.0, -0.0, 0.0, 0.5, 1.0, 2.5, 9.3e18});
}
std::string hostile_word(Random& random) {
  const std::vector<std::string> words = {"",
                                          "sum",
                                          "mean",
                                          "none",
                                          "prod",
                                          "max",
                                          "amin",
                                          "reflect",
                                          "replicate",
                                          "circular",
                                          "constant",
                                          "bilinear",
                                          "bicubic",
                                          "linear",
                                          "lower",
                                          "higher",
                                          "nearest",
                                          "midpoint",
                                          "trunc",
                                          "floor",
                                          "tanh",
                                          "same",
                                          "valid",
                                          "ij",
                                          "xy",
                                          "left",
                                          "right",
                                          "fro",
                                          "nuc",
                                          "reduced",
                                          "complete",
                                          "r",
                                          "L",
                                          "backward",
                                          "ortho",
                                          "...",
                                          "i",
                                          "ij,j",
                                          "ij,jk->ik",
                                          "ii->i",
                                          "ij->ijk",
                                          "->",
                                          "i->j",
                                          "a...b,b...c->a...c",
                                          "no such word",
                                          "\xff\xfe",
                                          std::string(300, 'a')};
  return random.pick(words);
}
DType any_dtype(Random& random) {
  return random.pick({DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I16, DType::I8, DType::U8,
                      DType::Bool, DType::C64, DType::C128, DType::F8E4M3FN, DType::U64, DType::U16});
}

class Maker {
 public:
  Maker(const Schema& schema, uint64_t seed, sym::Context& symbols) : schema_(schema), random_(seed), symbols_(symbols) {
    base_dtype_ = random_.pick({DType::F32, DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8,
                                DType::Bool, DType::C64});
    const int64_t rank = random_.pick({0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5});
    for (int64_t d = 0; d < rank; ++d) base_.push_back(small_size());
    list_length_ = random_.between(0, 3);
  }

  Call make() {
    Call call{&schema_, {}, {}};
    const size_t count = schema_.parameters.size();
    // None, one, or a random pair.
    std::set<size_t> hostile;
    if (count > 0 && random_.chance(0.85)) hostile.insert(static_cast<size_t>(random_.below(static_cast<int64_t>(count))));
    if (count > 0 && random_.chance(0.5)) hostile.insert(static_cast<size_t>(random_.below(static_cast<int64_t>(count))));
    if (random_.chance(0.6)) known_ = plausible_call(schema_);
    for (size_t p = 0; p < count; ++p) {
      is_hostile_ = hostile.contains(p);
      std::optional<Argument> known = is_hostile_ ? std::nullopt : known_argument(schema_.parameters[p], call.inputs);
      call.arguments.push_back(known ? std::move(*known) : argument(schema_.parameters[p], call.inputs));
    }
    return call;
  }

 private:
  int64_t small_size() { return random_.pick({0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8}); }

  // The argument of the plausible call for the parameter of that name, with its tensors added to `inputs`.
  std::optional<Argument> known_argument(const Parameter& parameter, std::vector<TensorType>& inputs) {
    if (!known_) return std::nullopt;
    for (size_t p = 0; p < known_->arguments.size(); ++p) {
      const Parameter& other = known_->schema->parameters[p];
      if (other.name != parameter.name || other.type != parameter.type || other.is_list != parameter.is_list) continue;
      Argument argument = known_->arguments[p];
      const auto move = [&](InputRef& ref) {
        inputs.push_back(known_->inputs[ref.index]);
        ref.index = static_cast<uint32_t>(inputs.size() - 1);
      };
      if (auto* ref = std::get_if<InputRef>(&argument)) move(*ref);
      if (auto* list = std::get_if<InputList>(&argument)) {
        for (std::optional<InputRef>& ref : *list) {
          if (ref) move(*ref);
        }
      }
      return argument;
    }
    return std::nullopt;
  }

  int64_t integer() {
    if (is_hostile_ && random_.chance(0.7)) return hostile_integer(random_);
    return random_.pick({0, 0, 1, 1, 1, 2, 2, 3, 4, -1, -2});
  }
  sym::Expr size() {
    if (is_hostile_ && random_.chance(0.05)) return symbols_.symbol("s0", sym::SymbolKind::Size, {0, 1 << 20});
    return integer();
  }

  TensorType type(const Parameter& parameter) {
    TensorType type{.dtype = base_dtype_, .sizes = base_};
    const std::string& name = parameter.name;
    auto has = [&](std::string_view word) { return name.find(word) != std::string::npos; };
    if (!is_hostile_) {
      // As operators name them.
      const bool is_index = has("ind") || has("offset") || has("target") || has("length") || has("repeats") || has("sorter") || has("ptr");
      if (is_index) type.dtype = DType::I64;
      if (has("mask") || has("condition")) type.dtype = DType::Bool;
      const bool is_vector =
          has("bias") || has("running") || has("save_") || has("scale") || has("zero_point") || has("mean") || has("rstd");
      if (is_vector && random_.chance(0.7)) type.sizes = base_.size() > 1 ? Sizes{base_[1]} : Sizes{};
      if (has("mat2") && base_.size() >= 2) std::swap(type.sizes[type.sizes.size() - 1], type.sizes[type.sizes.size() - 2]);
      if (random_.chance(0.1)) reshape(type);
      return type;
    }
    switch (random_.below(6)) {
      case 0: type.dtype = any_dtype(random_); break;
      case 1:
        if (!type.sizes.empty()) type.sizes[static_cast<size_t>(random_.below(type.rank()))] = 0;
        break;
      case 2:
        if (!type.sizes.empty())
          type.sizes[static_cast<size_t>(random_.below(type.rank()))] = random_.pick({int64_t{1} << 24, int64_t{1} << 31});
        break;
      case 3:
        if (!type.sizes.empty() && random_.chance(0.5)) type.sizes[0] = symbols_.symbol("s0", sym::SymbolKind::Size, {0, 1 << 20});
        break;
      default: break;
    }
    if (random_.chance(0.7)) reshape(type);
    return type;
  }
  void reshape(TensorType& type) {
    type.sizes.clear();
    const int64_t rank = random_.between(0, 5);
    for (int64_t d = 0; d < rank; ++d) type.sizes.push_back(small_size());
  }

  Argument tensor(const Parameter& parameter, std::vector<TensorType>& inputs) {
    inputs.push_back(type(parameter));
    return InputRef{static_cast<uint32_t>(inputs.size() - 1)};
  }

  // How long a list is: what the schema says, or its tensors' count.
  size_t length(const Parameter& parameter) {
    if (is_hostile_ && random_.chance(0.6)) return static_cast<size_t>(random_.below(6));
    if (parameter.type == ArgType::Tensor || parameter.type == ArgType::Scalar) return static_cast<size_t>(list_length_);
    if (parameter.fixed_length > 0 && random_.chance(0.8)) return static_cast<size_t>(parameter.fixed_length);
    return random_.chance(0.4) ? base_.size() : static_cast<size_t>(random_.between(0, 4));
  }

  Argument list(const Parameter& parameter, std::vector<TensorType>& inputs) {
    const size_t count = length(parameter);
    switch (parameter.type) {
      case ArgType::Tensor: {
        InputList refs;
        for (size_t i = 0; i < count; ++i) {
          const bool is_absent = random_.chance(is_hostile_ ? 0.3 : parameter.elements_optional ? 0.2 : 0);
          refs.push_back(is_absent ? std::nullopt : std::optional(std::get<InputRef>(tensor(parameter, inputs))));
        }
        return refs;
      }
      case ArgType::Float: {
        std::vector<double> values(count);
        for (double& value : values) value = is_hostile_ ? hostile_number(random_) : 1.0;
        return values;
      }
      case ArgType::Bool: {
        std::vector<bool> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = random_.chance(0.6);
        return values;
      }
      case ArgType::String: return std::vector<std::string>(count, hostile_word(random_));
      case ArgType::Scalar:
        if (random_.chance(0.5)) return std::vector<double>(count, is_hostile_ ? hostile_number(random_) : 0.5);
        [[fallthrough]];
      default: {
        ExprList values;
        for (size_t i = 0; i < count; ++i) values.push_back(size());
        return values;
      }
    }
  }

  // An argument of some other kind.
  Argument misplaced(const Parameter& parameter, std::vector<TensorType>& inputs) {
    switch (random_.below(8)) {
      case 0: return sym::Expr(hostile_integer(random_));
      case 1: return hostile_number(random_);
      case 2: return random_.chance(0.5);
      case 3: return ExprList{};
      case 4: return InputList{};
      case 5: return hostile_word(random_);
      case 6: return tensor(parameter, inputs);
      default: return None{};
    }
  }

  Argument argument(const Parameter& parameter, std::vector<TensorType>& inputs) {
    if (is_hostile_ && random_.chance(0.08)) return misplaced(parameter, inputs);
    if (parameter.default_value && random_.chance(is_hostile_ ? 0.05 : 0.5)) return *parameter.default_value;
    if (parameter.is_optional && random_.chance(is_hostile_ ? 0.2 : 0.4)) return None{};
    if (parameter.is_list) return list(parameter, inputs);
    switch (parameter.type) {
      case ArgType::Tensor: return tensor(parameter, inputs);
      case ArgType::Int:
      case ArgType::SymInt: return size();
      case ArgType::Float: return is_hostile_ ? hostile_number(random_) : random_.pick({0.0, 0.5, 1.0, 1e-5});
      case ArgType::Bool: return random_.chance(0.5);
      case ArgType::Scalar:
        if (random_.chance(0.4)) return sym::Expr(integer());
        if (random_.chance(0.1)) return random_.chance(0.5);
        return is_hostile_ ? hostile_number(random_) : random_.pick({0.0, 0.5, 1.0, 2.0});
      case ArgType::String: return hostile_word(random_);
      case ArgType::ScalarType: return is_hostile_ ? any_dtype(random_) : random_.pick({DType::F32, DType::I64, DType::Bool, DType::F16});
      case ArgType::Layout: return is_hostile_ ? Layout::Other : Layout::Strided;
      case ArgType::Device: return is_hostile_ && random_.chance(0.5) ? Device{Device::Type::Cuda, 1} : Device{};
      case ArgType::MemoryFormat:
        return random_.pick({MemoryFormat::Contiguous, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d, MemoryFormat::Preserve});
      default: return None{};
    }
  }

  const Schema& schema_;
  Random random_;
  sym::Context& symbols_;
  DType base_dtype_ = DType::F32;
  Sizes base_;
  int64_t list_length_ = 0;
  bool is_hostile_ = false;
  std::optional<PlausibleCall> known_;
};

}  // namespace

Call hostile_call(const Schema& schema, uint64_t seed, sym::Context& symbols) {
  uint64_t name = 0;
  for (const char c : schema.name) name = name * 1099511628211u + static_cast<unsigned char>(c);
  return Maker(schema, seed * 0x9e3779b97f4a7c15u ^ name, symbols).make();
}

Program program_of(const Call& call, std::unique_ptr<sym::Context> symbols, const std::vector<std::optional<TensorType>>& results) {
  Program program;
  program.symbols = std::move(symbols);
  program.name = "hostile";
  Graph& graph = program.graph;
  std::vector<ValueId> inputs;
  for (uint32_t i = 0; i < call.inputs.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    const NodeId node = graph.add_node(Input{i}, {}, {call.inputs[i]}, {}, {name});
    inputs.push_back(graph.node(node).outputs[0]);
    graph.inputs.push_back(inputs.back());
    program.inputs.push_back({name});
  }
  std::vector<TensorType> types;
  for (const std::optional<TensorType>& type : results) types.push_back(type.value_or(TensorType{}));
  const NodeId node = graph.add_node(Aten{call.schema, call.arguments}, inputs, types);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    graph.outputs.push_back(graph.node(node).outputs[i]);
    program.outputs.emplace_back();
  }
  return program;
}

}  // namespace toroid::hostile
