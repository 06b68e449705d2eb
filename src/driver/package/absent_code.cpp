#include "driver/package/absent_code.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "runtime/kernels/gemm/microkernel.h"

namespace toroid {
namespace {

struct Function {
  std::string_view code, symbol, name;
};

// "avx512 _ZN… toroid::f::g(int)"
Function function_of(std::string_view line) {
  const size_t first = line.find(' '), second = line.find(' ', first + 1);
  TOROID_CHECK(first != line.npos && second != line.npos, "a line of level_code is '{}'", line);
  return {line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

bool is_linked(std::string_view code, std::span<const Machine> machines) {
  return std::ranges::any_of(machines, [&](const Machine& machine) {
    if (code == "amx") return machine.has_amx();
    if (code == "emulated-amx") return machine.emulates_amx;
    return machine.isa.level == parse_isa(code).level;
  });
}

// The name and the numbers of "…::multiply<6, 4>(…)", in such a namespace.
struct Microkernel {
  std::string_view name;
  int rows = 0, vectors = 0;
};
std::optional<Microkernel> microkernel_of(std::string_view function, std::string_view space) {
  const size_t found = function.find(space);
  if (found == function.npos) return std::nullopt;
  std::string_view rest = function.substr(found + space.size());
  rest = rest.substr(0, rest.find('('));
  const size_t open = rest.find('<'), comma = rest.find_first_of(",>", open), close = rest.find('>', open);
  if (open == rest.npos || comma == rest.npos || close == rest.npos) return std::nullopt;
  Microkernel result{.name = rest.substr(0, open)};
  std::from_chars(rest.data() + open + 1, rest.data() + comma, result.rows);
  if (comma < close) std::from_chars(rest.data() + comma + 2, rest.data() + close, result.vectors);
  return result;
}

bool ends_with_name(std::string_view path, std::string_view name) {
  return path == name || (path.ends_with(name) && path.substr(0, path.size() - name.size()).ends_with("::"));
}

// Kernels that multiply in float32 by the microkernels of products, by other sizes than those of matrices.
bool multiplies_otherwise(std::string_view kernel) {
  if (kernel == "library.products.grouped" || kernel == "library.convolution.backward_weights") return true;
  return kernel != "matmul.f32" && kernel != "sort" && !kernel.starts_with("library.");
}

constexpr int64_t kScatteredDepth = 8;  // shorter sums are element by element (macrokernel.cpp)
constexpr int64_t kDotColumns = 4;      // at once (gemm_small_m.cpp)

// Does a product take the function, one of the microkernels?
bool takes(const codegen::ProductShape& product, std::string_view level, const Microkernel& function) {
  if (function.name.ends_with("pairs")) return false;  // of convolutions
  const GemmMicrokernels& kernels = *MicrokernelSets<float>::all[static_cast<size_t>(parse_isa(level).level)];
  const int64_t step = function.vectors > 0 ? kernels.row_step[function.vectors - 1] : 1;
  if (product.rows && function.rows >= *product.rows + step) return false;
  if (function.name.ends_with("scattered") && product.depth.value_or(0) >= kScatteredDepth) return false;
  if (!product.columns) return true;
  const int64_t panel = kernels.panel_width(), rest = *product.columns % panel;
  return (*product.columns >= panel && function.vectors == kernels.vectors) ||
         (rest > 0 && function.vectors == (rest + kernels.lanes - 1) / kernels.lanes);
}
bool takes_small_m(const codegen::ProductShape& product, const Microkernel& function) {
  if (product.rows && function.rows > *product.rows) return false;
  if (ends_with_name(function.name, "sum_rows")) return product.right_by_rows;
  // A column at a time: of products that have not as many as the other one takes.
  const bool is_single = ends_with_name(function.name, "dots") && function.vectors == 1;
  return product.right_by_columns && !(is_single && product.columns.value_or(0) >= kDotColumns);
}

bool is_taken(const PackageNeeds& needs, const Function& function) {
  if (!is_linked(function.code, needs.code)) return false;
  if (std::ranges::any_of(needs.linked_kernels, multiplies_otherwise)) return true;
  if (const auto strip = microkernel_of(function.name, "microkernel_f32_levels::"))
    return std::ranges::any_of(needs.products, [&](const auto& product) { return takes(product, function.code, *strip); });
  if (const auto few = microkernel_of(function.name, "small_m_levels::"))
    return std::ranges::any_of(needs.products, [&](const auto& product) { return takes_small_m(product, *few); });
  return true;
}

}  // namespace

std::vector<std::string> absent_code(const PackageNeeds& needs, std::string_view level_code) {
  std::vector<std::string> symbols;
  while (!level_code.empty()) {
    const std::string_view line = level_code.substr(0, level_code.find('\n'));
    level_code.remove_prefix(std::min(level_code.size(), line.size() + 1));
    if (line.empty()) continue;
    const Function function = function_of(line);
    if (!is_taken(needs, function)) symbols.emplace_back(function.symbol);
  }
  return symbols;
}

std::vector<Machine> code_of_levels(std::span<const Isa> levels, bool is_portable) {
  std::vector<Machine> code;
  for (const Isa& isa : levels) code.push_back({isa});
  if (is_portable) code.push_back({parse_isa("avx512+vnni+bf16+fp16+amx")});
  // Whoever compiles on a machine that emulates AMX wants its results.
  if (machine().emulates_amx && levels.size() == 1) code[0].emulates_amx = true;
  return code;
}

std::string linked_code_text(std::span<const Machine> code) {
  std::string text;
  for (const Machine& each : code) text += (text.empty() ? "" : ",") + each.name();
  return text;
}

}  // namespace toroid
