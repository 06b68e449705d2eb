#include "codegen/custom/custom_kernel.h"

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/origin.h"
#include "codegen/wrapper/abi_text.h"
#include "graph/custom/custom_operators.h"
#include "support/hash.h"

namespace toroid::codegen {
namespace {

// What entries are given: ToroidOperand alone of what wrapper and runtime agree on.
std::string_view operand_abi() { return kAbi.substr(0, kAbi.find("struct ToroidPostOps")); }

// 16-bit floats convert to float and from it, rounded to nearest even.
constexpr std::string_view kHalves = R"text(
typedef _Float16 f16;
struct bf16 {
  uint16_t bits;
  bf16() = default;
  bf16(float x) {
    uint32_t b;
    __builtin_memcpy(&b, &x, 4);
    bits = (uint16_t)(x != x ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
  }
  operator float() const {
    const uint32_t b = (uint32_t)bits << 16;
    float x;
    __builtin_memcpy(&x, &b, 4);
    return x;
  }
};
)text";

// Over those of the prelude, which are bits.
constexpr std::string_view kCudaHalves = R"text(
#ifdef TOROID_EMULATED
#undef __device__
#undef __forceinline__
#define __device__
#define __forceinline__ inline
static char* shared_memory() { return dynamic_shared; }
#else
static __device__ char* shared_memory() {
  extern __shared__ __align__(16) char custom_shared[];
  return custom_shared;
}
#endif
struct bf16 {
  uint16_t bits;
  bf16() = default;
  __device__ bf16(float x) : bits((uint16_t)::narrow(x, ::bf16{})) {}
  __device__ operator float() const { return ::widen((::bf16)bits); }
};
struct f16 {
  uint16_t bits;
  f16() = default;
  __device__ f16(float x) : bits((uint16_t)::narrow(x, ::f16{})) {}
  __device__ operator float() const { return ::widen((::f16)bits); }
};
)text";

std::string custom_type(DType dtype) {
  if (dtype == DType::BF16) return "custom::bf16";
  if (dtype == DType::F16) return "custom::f16";
  return std::string(storage_type(dtype));
}

class CallMaker {
 public:
  CallMaker(const CustomOperator& op, const CustomKernel& kernel, const program::LibraryCall& call, const std::vector<DType>& inputs,
            const std::vector<DType>& outputs)
      : op_(op), kernel_(kernel), call_(call), input_dtypes_(inputs), output_dtypes_(outputs) {}

  CustomCall make() {
    for (const Parameter& parameter : op_.schema.parameters) {
      if (parameter.type == ArgType::Tensor) {
        add_tensor(parameter);
      } else {
        add_number(parameter);
      }
    }
    for (size_t r = 0; r < op_.results.size(); ++r) {
      const std::string type = custom_type(output_dtypes_.at(r)) + "*";
      add(type, fmt::format("out[{}].data", r), result_name(r, op_.results.size()));
      last().dtype = output_dtypes_[r], last().output = r;
    }
    if (kernel_.workspace) {
      add("void*", fmt::format("out[{}].data", call_.outputs.size() - 1), "workspace");
      last().dtype = DType::U8, last().output = call_.outputs.size() - 1;
    }
    for (const std::string& name : op_.size_names) {
      last_number(add("int64_t", fmt::format("integers[{}]", next_number_), name));
      ++next_number_;
    }
    if (kernel_.kind == CustomKernel::Kind::Triton) {
      for (size_t i = 0; i < kernel_.configurations.size(); ++i, next_number_ += 3)
        result_.grids.push_back(
            {call_.integers.at(next_number_), call_.integers.at(next_number_ + 1), call_.integers.at(next_number_ + 2)});
      return std::move(result_);
    }
    result_.first = call_.integers.at(next_number_);
    result_.second = call_.integers.at(next_number_ + 1);
    if (kernel_.kind == CustomKernel::Kind::Cuda) result_.third = call_.integers.at(next_number_ + 2);
    return std::move(result_);
  }

 private:
  CustomArgument& add(std::string type, std::string value, std::string name = {}) {
    result_.arguments.push_back({std::move(type), std::move(value), std::move(name)});
    return result_.arguments.back();
  }
  CustomArgument& last() { return result_.arguments.back(); }
  // It is the number at hand.
  void last_number(CustomArgument& argument) { argument.number = call_.integers.at(next_number_); }

  const TypeRule& rule_of(const std::string& parameter) const {
    for (const auto& [name, rule] : op_.arguments) {
      if (name == parameter) return rule;
    }
    TOROID_CHECK(false, "{} has no rule for {}", op_.schema.name, parameter);
  }

  bool takes_strides(const TypeRule& rule) const {
    return rule.is_strided && kernel_.kind != CustomKernel::Kind::Cuda && kernel_.kind != CustomKernel::Kind::Halide;
  }

  bool takes_next() { return call_.integers.at(next_number_++).value() != 0; }

  void add_tensor(const Parameter& parameter) {
    const TypeRule& rule = rule_of(parameter.name);
    if (parameter.is_list) return add_list(rule);
    if (parameter.is_optional && !takes_next()) {
      const std::string type = fmt::format("const {}*", custom_type(dtype_of_absent(rule)));
      add(type, "nullptr", parameter.name);
      last().dtype = dtype_of_absent(rule);
      if (takes_strides(rule)) add("const int64_t*", "nullptr");
      return;
    }
    const size_t i = next_input_++;
    const DType dtype = input_dtypes_.at(i);
    if (const std::optional<DType> fixed = parse_dtype(rule.dtype); !fixed) seen_.try_emplace(rule.dtype, dtype);
    if (parameter.mutated) {
      const size_t o = op_.results.size() + result_.copies.size();
      result_.copies.emplace_back(i, o);
      const std::string type = custom_type(dtype) + "*";
      add(type, fmt::format("out[{}].data", o), parameter.name);
      last().dtype = dtype, last().output = o;
      return;
    }
    const std::string type = fmt::format("const {}*", custom_type(dtype));
    add(type, fmt::format("in[{}].data", i), parameter.name);
    last().dtype = dtype, last().input = i;
    if (takes_strides(rule)) add("const int64_t*", fmt::format("in[{}].strides", i));
  }

  // Of the rule's dtype by a tensor that was there; one that no tensor tells is of any type.
  DType dtype_of_absent(const TypeRule& rule) const {
    if (const std::optional<DType> fixed = parse_dtype(rule.dtype)) return *fixed;
    const auto seen = seen_.find(rule.dtype);
    return seen == seen_.end() ? DType::F32 : seen->second;
  }

  void add_list(const TypeRule& rule) {
    const auto count = static_cast<size_t>(call_.integers.at(next_number_++).value());
    const std::string type = fmt::format("const {}*", custom_type(count == 0 ? dtype_of_absent(rule) : input_dtypes_.at(next_input_)));
    if (count > 0 && !parse_dtype(rule.dtype)) seen_.try_emplace(rule.dtype, input_dtypes_.at(next_input_));
    std::string tensors, sizes, strides;
    for (size_t i = 0; i < count; ++i, ++next_input_) {
      tensors += fmt::format("{}({})in[{}].data", i == 0 ? "" : ", ", type, next_input_);
      sizes += fmt::format("{}in[{}].sizes", i == 0 ? "" : ", ", next_input_);
      strides += fmt::format("{}in[{}].strides", i == 0 ? "" : ", ", next_input_);
    }
    const size_t n = lists_++;
    const auto declare = [&](std::string_view of, std::string_view name, const std::string& list) {
      result_.statements.push_back(fmt::format("{} const {}{}[] = {{{}}};", of, name, n, list.empty() ? "nullptr" : list));
    };
    declare(type, "list", tensors);
    add(type + " const*", fmt::format("list{}", n));
    declare("const int64_t*", "sizes", sizes);
    add("const int64_t* const*", fmt::format("sizes{}", n));
    if (rule.is_strided) {
      declare("const int64_t*", "strides", strides);
      add("const int64_t* const*", fmt::format("strides{}", n));
    }
    add("int64_t", fmt::format("{}", count));
  }

  void add_number(const Parameter& parameter) {
    const bool is_real = parameter.type == ArgType::Float || parameter.type == ArgType::Scalar, is_bool = parameter.type == ArgType::Bool;
    const std::string type = is_real ? "double" : is_bool ? "bool" : "int64_t";
    const std::string_view from = is_real ? "numbers" : "integers";
    if (parameter.is_list) {
      const auto count = static_cast<size_t>(call_.integers.at(next_number_++).value());
      add(fmt::format("const {}*", type), fmt::format("{} + {}", from, next_number_));
      add("int64_t", fmt::format("{}", count));
      next_number_ += count;
      return;
    }
    const bool is_there = !parameter.is_optional || takes_next();
    const std::string value = fmt::format("{}[{}]{}", from, next_number_++, is_bool ? " != 0" : "");
    if (!parameter.is_optional) {
      add(type, value, parameter.name);
      if (!is_real) last().number = call_.integers.at(next_number_ - 1);
      return;
    }
    const std::string pointer = fmt::format("const {}*", type);
    if (!is_there) {
      add(pointer, "nullptr");
      return;
    }
    result_.statements.push_back(fmt::format("const {} number{} = {};", type, lists_, value));
    add(pointer, fmt::format("&number{}", lists_++));
  }

  const CustomOperator& op_;
  const CustomKernel& kernel_;
  const program::LibraryCall& call_;
  const std::vector<DType>&input_dtypes_, &output_dtypes_;
  CustomCall result_;
  size_t next_input_ = 0, next_number_ = 0, lists_ = 0;
  std::map<std::string, DType> seen_;  // what names of dtypes stand for
};

// A path or name in quotes.
std::string c_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\', result += c;
    } else if (c < ' ' || c > '~' || c == '?') {
      result += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// The source's own lines that include something, and all others, each in its place.
std::pair<std::string, std::string> without_includes(std::string_view source) {
  std::string includes, rest;
  while (!source.empty()) {
    const size_t end = source.find('\n');
    const std::string_view line = source.substr(0, end);
    const size_t hash = line.find_first_not_of(" \t");
    bool is_include = false;
    if (hash != line.npos && line[hash] == '#') {
      const size_t word = line.find_first_not_of(" \t", hash + 1);
      is_include = word != line.npos && line.substr(word).starts_with("include");
    }
    if (is_include) includes += std::string(line) + "\n";
    rest += std::string(is_include ? std::string_view() : line) + "\n";
    source.remove_prefix(end == source.npos ? source.size() : end + 1);
  }
  return {includes, rest};
}

std::string unit_of(const CustomOperator& op, const CustomKernel& kernel, const std::map<std::string, std::string>& entries) {
  const auto [includes, source] = without_includes(kernel.source);
  std::string text = fmt::format("// Kernel of {}, from {}.\n{}#include <stdint.h>{}namespace {{\nnamespace custom {{{}", op.schema.name,
                                 comment_text(op.file), includes, operand_abi(), kHalves);
  if (kernel.kind == CustomKernel::Kind::Library) {
    text += fmt::format(
        "extern \"C\" void* dlopen(const char*, int);\nextern \"C\" void* dlsym(void*, const char*);\nvoid* function;\n"
        "__attribute__((constructor)) void open() {{  // its bytes had the SHA-256 {}\n"
        "  void* library = dlopen({}, 2);\n  if (library) function = dlsym(library, {});\n}}\n",
        kernel.digest, c_string(kernel.library.string()), c_string(kernel.function));
  } else {
    text += fmt::format("#line {} {}\n{}", kernel.source_line, c_string(op.file), source);
  }
  text += "\n}\n}\n#line 1 \"entries\"\n";
  for (const auto& [name, entry] : entries) text += entry;
  return text;
}

}  // namespace

CustomCall custom_call(const CustomOperator& op, const CustomKernel& kernel, const program::LibraryCall& call,
                       const std::vector<DType>& input_dtypes, const std::vector<DType>& output_dtypes) {
  return CallMaker(op, kernel, call, input_dtypes, output_dtypes).make();
}

CustomEntry custom_entry(const CustomOperator& op, const CustomKernel& kernel, const CustomCall& call) {
  std::vector<std::string> types, values;
  for (const CustomArgument& each : call.arguments) {
    types.push_back(each.type);
    values.push_back(fmt::format("({})({})", each.type, each.value));
  }
  for (const char* range : {"begin", "end"}) {
    types.emplace_back("int64_t");
    values.emplace_back(range);
  }
  std::string body = "  (void)in, (void)out, (void)integers, (void)numbers;\n";
  for (const std::string& statement : call.statements) body += "  " + statement + "\n";
  const bool is_library = kernel.kind == CustomKernel::Kind::Library;
  const std::string function =
      is_library ? fmt::format("((void (*)({}))custom::function)", fmt::join(types, ", ")) : "custom::" + kernel.function;
  body += fmt::format("  {}({});\n  return 0;\n", function, fmt::join(values, ", "));
  if (is_library) body.insert(0, "  if (!custom::function) return 1;\n");
  const std::string name = fmt::format("toroid_custom_{}", sha256(op.text + kernel.digest + body).hex().substr(0, 16));
  return {name,
          fmt::format("extern \"C\" __attribute__((visibility(\"hidden\"))) int32_t {}(const ToroidOperand* in, const ToroidOperand* out, "
                      "const int64_t* integers, const double* numbers, int64_t begin, int64_t end) {{\n{}}}\n",
                      name, body)};
}

std::vector<std::string> custom_units(const Program& program, const CustomEntries& entries) {
  std::vector<std::string> units;
  for (const auto& [name, uses] : entries) {
    const CustomOperator* op = program.operators->of_library(name);
    TOROID_CHECK(op != nullptr, "{} is no custom operator", name);
    units.push_back(unit_of(*op, *program.operators->kernel_of(*op), uses));
  }
  return units;
}

std::string custom_cuda_source(const CustomOperator& op, const CustomKernel& kernel, const std::string& space, int64_t threads) {
  return fmt::format(
      "// Kernel of {}, from {}.\nnamespace {} {{\nnamespace custom {{{}#undef blockDim\n#ifdef TOROID_EMULATED\n"
      "#define blockDim (Coordinate{{{}}})\n#endif\n#line {} {}\n{}\n}}\n}}\n#line 1 \"kernels\"\n",
      op.schema.name, comment_text(op.file), space, kCudaHalves, threads, kernel.source_line, c_string(op.file), kernel.source);
}

}  // namespace toroid::codegen
