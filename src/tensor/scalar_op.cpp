#include "tensor/scalar_op.h"

#include <array>

namespace toroid {
namespace {

enum class Result { Same, Bool };
struct Row {
  std::string_view name;
  int arity;
  Result result;
};
constexpr Row kRows[] = {
#define TOROID_SCALAR_OP(Enum, name, arity, result) {#name, arity, Result::result},
#include "tensor/scalar_op.def"
#undef TOROID_SCALAR_OP
};
constexpr std::string_view kReduceNames[] = {"sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "welford"};
constexpr std::string_view kScanNames[] = {"sum", "prod", "max", "min", "logaddexp"};
constexpr std::string_view kScatterNames[] = {"set", "add", "mul", "min", "max"};

template <class Enum, size_t N>
std::optional<Enum> find(const std::string_view (&names)[N], std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(ScalarOp op) { return kRows[static_cast<size_t>(op)].name; }
std::optional<ScalarOp> parse_scalar_op(std::string_view name) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].name == name) return static_cast<ScalarOp>(i);
  }
  return std::nullopt;
}
int arity(ScalarOp op) { return kRows[static_cast<size_t>(op)].arity; }
DType result_dtype(ScalarOp op, DType operand) { return kRows[static_cast<size_t>(op)].result == Result::Bool ? DType::Bool : operand; }

std::string_view to_string(ReduceOp op) { return kReduceNames[static_cast<size_t>(op)]; }
std::optional<ReduceOp> parse_reduce_op(std::string_view name) { return find<ReduceOp>(kReduceNames, name); }
std::string_view to_string(ScanOp op) { return kScanNames[static_cast<size_t>(op)]; }
std::optional<ScanOp> parse_scan_op(std::string_view name) { return find<ScanOp>(kScanNames, name); }
std::string_view to_string(ScatterMode mode) { return kScatterNames[static_cast<size_t>(mode)]; }
std::optional<ScatterMode> parse_scatter_mode(std::string_view name) { return find<ScatterMode>(kScatterNames, name); }

}  // namespace toroid
