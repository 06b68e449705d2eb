#include "runtime/kernels/registry/problem.h"

#include <cctype>
#include <charconv>
#include <clocale>
#include <cstdlib>

#include "base/bits.h"
#include "base/error.h"
#include "base/format.h"
#include "base/sort_indices.h"
#include "base/text_cursor.h"
#include "tensor/host_tensor.h"

namespace toroid {
namespace {

constexpr size_t kMaxRank = 64;

OperandMeta meta_of(const ToroidOperand& operand) {
  OperandMeta meta;
  meta.dtype = static_cast<DType>(operand.dtype);
  meta.sizes.assign(operand.sizes, operand.sizes + operand.rank);
  meta.strides.assign(operand.strides, operand.strides + operand.rank);
  const auto address = reinterpret_cast<uintptr_t>(operand.data) | uintptr_t{OperandMeta::kAlignment};
  meta.alignment_bytes = int64_t{1} << count_trailing_zeros(address);
  meta.is_constant = operand.is_constant != 0;
  return meta;
}

std::vector<OperandMeta> metas_of(Span<const ToroidOperand> operands) {
  std::vector<OperandMeta> metas;
  for (const ToroidOperand& operand : operands) metas.push_back(meta_of(operand));
  return metas;
}

std::string list_text(const std::vector<OperandMeta>& operands) {
  std::string text;
  for (const OperandMeta& operand : operands) text += (text.empty() ? "" : ", ") + to_string(operand);
  return text;
}

// Whether all of the text is a number, which goes to `number`.
bool parse(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}
bool parse(std::string_view text, double& number) {
#ifdef __cpp_lib_to_chars
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
#else
  // What from_chars() takes, which reads integers alone here, by the point of the host's locale: no leading space or sign, no other base.
  if (text.empty() || (text[0] != '-' && text[0] != '.' && !std::isalnum(static_cast<unsigned char>(text[0])))) return false;
  if (text.find_first_of("xX(") != text.npos) return false;
  std::string copy(text);
  if (const size_t point = copy.find('.'); point != copy.npos) copy.replace(point, 1, std::localeconv()->decimal_point);
  char* end = nullptr;
  number = std::strtod(copy.c_str(), &end);
  return end == copy.c_str() + copy.size();
#endif
}

template <class Number>
Number read_number(Cursor& cursor, std::string_view wanted) {
  const size_t place = cursor.place();
  const std::string_view text = cursor.raw(",;] )/@|}");
  Number number{};
  if (!parse(text, number)) cursor.fail_at(place, formatted("expected {}", wanted));
  return number;
}

std::vector<int64_t> read_sizes(Cursor& cursor) {
  std::vector<int64_t> sizes;
  cursor.expect("[");
  if (cursor.accept("]")) return sizes;
  do {
    const size_t place = cursor.place();
    sizes.push_back(read_number<int64_t>(cursor, "a size"));
    if (sizes.back() < 0) cursor.fail_at(place, "sizes and strides are not negative");
    if (sizes.size() > kMaxRank) cursor.fail_at(place, formatted("more than {} dims", kMaxRank));
  } while (cursor.accept(","));
  cursor.expect("]");
  return sizes;
}

// Bytes fit an int64_t, whatever is computed from them later.
void check_extent(Cursor& cursor, size_t place, const OperandMeta& operand) {
  int64_t elements = 1, last = 1;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    int64_t step = 0;
    if (__builtin_mul_overflow(elements, std::max<int64_t>(operand.sizes[d], 1), &elements) ||
        __builtin_mul_overflow(std::max<int64_t>(operand.sizes[d] - 1, 0), operand.strides[d], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      cursor.fail_at(place, "the operand has more than 2^62 bytes");
    }
  }
  constexpr int64_t kMostBytes = int64_t{1} << 62;
  if (std::max(elements, last) > kMostBytes / size_bytes(operand.dtype)) cursor.fail_at(place, "the operand has more than 2^62 bytes");
}

OperandMeta read_operand(Cursor& cursor) {
  OperandMeta operand;
  operand.is_constant = cursor.accept_word("constant");
  const size_t place = cursor.place();
  const std::string name = cursor.word("a dtype");
  const std::optional<DType> dtype = parse_dtype(name);
  if (!dtype) cursor.fail_at(place, formatted("'{}' is no dtype", name));
  operand.dtype = *dtype;
  operand.sizes = read_sizes(cursor);
  const size_t after_sizes = cursor.place();
  operand.strides = cursor.accept("/") ? read_sizes(cursor) : strides_of(operand.sizes);
  if (operand.strides.size() != operand.sizes.size()) cursor.fail_at(after_sizes, "as many strides as sizes are needed");
  check_extent(cursor, place, operand);
  if (cursor.accept("@")) {
    const size_t at = cursor.place();
    operand.alignment_bytes = read_number<int64_t>(cursor, "an alignment");
    if (!is_power_of_two(static_cast<uint64_t>(operand.alignment_bytes)) || operand.alignment_bytes > OperandMeta::kAlignment) {
      cursor.fail_at(at, formatted("an alignment is a power of two up to {}", OperandMeta::kAlignment));
    }
  }
  return operand;
}

std::vector<OperandMeta> read_operands(Cursor& cursor) {
  std::vector<OperandMeta> operands;
  do operands.push_back(read_operand(cursor));
  while (cursor.accept(","));
  return operands;
}

bool at_end_of_list(Cursor& cursor) { return cursor.at_end() || cursor.next_is(";") || cursor.next_is("|") || cursor.next_is("}"); }

// What follows the family.
void read_call(Cursor& cursor, Problem& problem) {
  cursor.expect("(");
  if (!cursor.accept(")")) {
    problem.inputs = read_operands(cursor);
    cursor.expect(")");
  }
  cursor.expect("->");
  problem.outputs = read_operands(cursor);
  while (cursor.accept(";")) {
    if (cursor.accept_word("integers")) {
      while (!at_end_of_list(cursor)) problem.integers.push_back(read_number<int64_t>(cursor, "an integer"));
    } else if (cursor.accept_word("epilogue")) {
      problem.has_epilogue = true;
    } else {
      cursor.expect_word("numbers");
      while (!at_end_of_list(cursor)) problem.numbers.push_back(read_number<double>(cursor, "a number"));
    }
  }
}

std::string read_family(Cursor& cursor) { return cursor.word("a family, as matmul.f32"); }

}  // namespace

int64_t OperandMeta::elements() const { return numel(sizes); }
bool OperandMeta::is_contiguous() const { return strides == strides_of(sizes); }

bool OperandMeta::is_row_major() const {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= std::max<int64_t>(sizes[d], 1);
  }
  return true;
}

bool OperandMeta::is_dense() const {
  std::vector<size_t> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1) dims.push_back(d);
  }
  sort_indices(dims, [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (const size_t d : dims) {
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

int64_t OperandMeta::extent_bytes() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return (last + 1) * size_bytes(dtype);
}

int64_t OperandMeta::size(int dim) const {
  const auto back = static_cast<size_t>(-dim);
  return back <= sizes.size() ? sizes[sizes.size() - back] : 1;
}

int64_t OperandMeta::stride(int dim) const {
  const auto back = static_cast<size_t>(-dim);
  return back <= strides.size() ? strides[strides.size() - back] : 1;
}

OperandMeta contiguous_operand(DType dtype, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides = strides_of(sizes);
  return {dtype, std::move(sizes), std::move(strides)};
}

std::string family_of(std::string_view kernel, Span<const DType> inputs, DType output) {
  if (kernel == "matmul" && inputs.size() == 4) return "matmul.int4";
  if (kernel == "matmul" && inputs.size() == 2 && inputs[1] == DType::I8 && is_floating(output)) return "matmul.int8";
  return formatted("{}.{}", kernel, to_string(output));
}

Problem problem_of(std::string family, const KernelCall& call) {
  if (call.num_stages > 0) {
    Problem chain;
    chain.family = std::move(family);
    for (size_t i = 0; i < call.num_stages; ++i) {
      const KernelCall& stage = call.stages[i];
      chain.stages.push_back(problem_of(family_of("convolution", {}, static_cast<DType>(stage.outputs[0].dtype)), stage));
    }
    return chain;
  }
  return {std::move(family),
          metas_of(call.inputs),
          metas_of(call.outputs),
          {call.integers.begin(), call.integers.end()},
          {call.numbers.begin(), call.numbers.end()},
          call.epilogue != nullptr};
}

std::string to_string(const OperandMeta& operand) {
  std::string text = formatted("{}{}{}", operand.is_constant ? "constant " : "", to_string(operand.dtype), shape_text(operand.sizes));
  if (!operand.is_contiguous()) text += "/" + shape_text(operand.strides);
  if (operand.alignment_bytes != OperandMeta::kAlignment) text += formatted("@{}", operand.alignment_bytes);
  return text;
}

std::string to_string(const Problem& problem) {
  if (!problem.stages.empty()) {
    std::string stages;
    for (const Problem& stage : problem.stages) stages += (stages.empty() ? "" : " | ") + to_string(stage);
    return problem.family + "{" + stages + "}";
  }
  std::string text = formatted("{}({}) -> {}", problem.family, list_text(problem.inputs), list_text(problem.outputs));
  if (!problem.integers.empty()) text += formatted("; integers {}", joined(problem.integers, " "));
  if (!problem.numbers.empty()) text += formatted("; numbers {}", joined(problem.numbers, " "));
  if (problem.has_epilogue) text += "; epilogue";
  return text;
}

Problem parse_problem(std::string_view text) {
  const ErrorContext context("reading the problem '{}'", text.substr(0, 400));
  Cursor cursor(text);
  Problem problem;
  problem.family = read_family(cursor);
  if (cursor.accept("{")) {
    do {
      Problem& stage = problem.stages.emplace_back();
      stage.family = read_family(cursor);
      read_call(cursor, stage);
    } while (cursor.accept("|"));
    cursor.expect("}");
    if (!cursor.at_end()) cursor.fail("expected the end");
    return problem;
  }
  read_call(cursor, problem);
  if (!cursor.at_end()) cursor.fail("expected ';' or the end");
  return problem;
}

}  // namespace toroid
