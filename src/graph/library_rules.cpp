#include "graph/library_rules.h"

#include <algorithm>
#include <array>
#include <map>

#include "graph/shape_error.h"
#include "graph/type_rules.h"

namespace toroid {
namespace {

// The last dims of each operand by letters: equal letters are equal sizes. A '#' stands before pivots, which are I32. `side`: where the
// sizes of the last operand, [a, b], depend on the attribute of that position: a = n if it is 1, else b = n.
struct LinalgRule {
  std::string_view name;
  std::array<std::string_view, 3> operands;
  int side = -1;
};
constexpr LinalgRule kLinalgRules[] = {
    {"linalg.cholesky", {"nn"}},
    {"linalg.cholesky_solve", {"nk", "nn"}},
    {"linalg.cholesky_inverse", {"nn"}},
    {"linalg.qr", {"mn"}},
    {"linalg.geqrf", {"mn"}},
    {"linalg.householder_product", {"mn", "k"}},
    {"linalg.ormqr", {"nk", "k", "ab"}, 0},
    {"linalg.svd", {"mn"}},
    {"linalg.svdvals", {"mn"}},
    {"linalg.eigh", {"nn"}},
    {"linalg.eigvalsh", {"nn"}},
    {"linalg.eig", {"nn"}},
    {"linalg.lu_factor", {"mn"}},
    {"linalg.lu_permutation", {"#k"}},
    {"linalg.lu_solve", {"nn", "#n", "ab"}, 0},
    {"linalg.solve", {"nn", "ab"}, 0},
    {"linalg.inv", {"nn"}},
    {"linalg.det", {"nn"}},
    {"linalg.slogdet", {"nn"}},
    {"linalg.solve_triangular", {"nn", "ab"}, 1},
    {"linalg.ldl_factor", {"nn"}},
    {"linalg.ldl_solve", {"nn", "#n", "nk"}},
    {"linalg.matrix_exp", {"nn"}},
    {"linalg.lstsq", {"mn", "mk"}},
};

class OperandsChecker {
 public:
  OperandsChecker(const Library& op, const LinalgRule& rule, std::span<const TensorType* const> operands, std::vector<sym::Expr>* guards)
      : op_(op), rule_(rule), operands_(operands), guards_(guards) {}

  void check() {
    const auto count =
        static_cast<size_t>(std::count_if(rule_.operands.begin(), rule_.operands.end(), [](auto dims) { return !dims.empty(); }));
    require(operands_.size() == count, "{} takes {} tensors, not {}", op_.name, count, operands_.size());
    for (size_t i = 0; i < count; ++i) check_operand(*operands_[i], rule_.operands[i]);
    if (rule_.side >= 0 && static_cast<size_t>(rule_.side) < op_.attributes.size()) {
      const auto* left = std::get_if<sym::Expr>(&op_.attributes[static_cast<size_t>(rule_.side)]);
      if (left != nullptr) same('n', sizes_.at(left->is_const(0) ? 'b' : 'a'));
    }
    if (rule_.name == "linalg.householder_product") {
      const auto at_most = [this](sym::Expr less, sym::Expr more) {
        return !sym::known_lt(more, less) && may_hold(sym::le(less, more), guards_);
      };
      require(at_most(sizes_.at('n'), sizes_.at('m')) && at_most(sizes_.at('k'), sizes_.at('n')),
              "{} of {} with {} reflectors: a matrix needs as many rows as columns, and no fewer columns than reflectors", op_.name,
              to_string(*operands_[0]), sym::to_string(sizes_.at('k')));
    }
  }

 private:
  void check_operand(const TensorType& type, std::string_view dims) {
    const bool is_pivots = dims.starts_with('#');
    if (is_pivots) dims.remove_prefix(1);
    require(is_pivots ? type.dtype == DType::I32 : type.dtype == DType::F32 || type.dtype == DType::F64, "{} of {}", op_.name,
            to_string(type));
    require(type.sizes.size() >= dims.size(), "{} needs {}, not {}", op_.name, dims.size() == 2 ? "matrices" : "vectors", to_string(type));
    const Sizes batch = type.sizes.without_last(dims.size());
    if (!batch_) batch_ = batch;
    require(batch.size() == batch_->size(), "{} of batches {} and {}", op_.name, shape_text(*batch_), shape_text(batch));
    for (size_t d = 0; d < batch.size(); ++d) {
      require(agree(batch[d], (*batch_)[d], guards_), "{} of batches {} and {}", op_.name, shape_text(*batch_), shape_text(batch));
    }
    for (size_t d = 0; d < dims.size(); ++d) same(dims[d], type.sizes[batch.size() + d]);
  }

  void same(char dim, sym::Expr size) {
    const auto [known, is_new] = sizes_.try_emplace(dim, size);
    if (is_new) return;
    require(agree(known->second, size, guards_), "{}: sizes {} and {} of {} differ, but must be equal", op_.name,
            sym::to_string(known->second), sym::to_string(size), operands_.size() == 1 ? to_string(*operands_[0]) : "its tensors");
  }

  const Library& op_;
  const LinalgRule& rule_;
  std::span<const TensorType* const> operands_;
  std::optional<Sizes> batch_;
  std::map<char, sym::Expr> sizes_;
  std::vector<sym::Expr>* guards_;
};

}  // namespace

void check_linalg_operands(const Library& op, std::span<const TensorType* const> operands, std::vector<sym::Expr>* guards) {
  for (const LinalgRule& rule : kLinalgRules) {
    if (rule.name == op.name) return OperandsChecker(op, rule, operands, guards).check();
  }
}

}  // namespace toroid
