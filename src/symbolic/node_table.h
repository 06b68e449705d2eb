// Where a Context keeps its nodes: interning, symbols by name, and remembered results of simplifications.
//
// This is internal to symbolic/. Results are remembered per depth of proof (see prove.cpp): a simplification tried deep
// inside a proof does less work, and must not be mistaken for the full one.
#pragma once

#include <deque>
#include <memory_resource>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "symbolic/expr.h"

namespace toroid::sym {

inline constexpr int kMaxProofDepth = 3;

// Thrown where 64-bit arithmetic on constants overflows; callers see an ordinary Error.
class SizeOverflow : public Error {
 public:
  explicit SizeOverflow(const std::string& operation);
};
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_multiply(int64_t a, int64_t b);
int64_t checked_negate(int64_t a);

struct NodeKey {
  Kind kind;
  std::span<const Expr> operands;
  size_t hash;
};

struct NodeHash {
  using is_transparent = void;
  size_t operator()(const Node* node) const { return node->hash; }
  size_t operator()(const NodeKey& key) const { return key.hash; }
};

struct NodeEqual {
  using is_transparent = void;
  bool operator()(const Node* a, const Node* b) const { return a == b; }
  bool operator()(const NodeKey& key, const Node* node) const {
    return key.kind == node->kind && std::equal(key.operands.begin(), key.operands.end(), node->operands.begin(), node->operands.end());
  }
  bool operator()(const Node* node, const NodeKey& key) const { return (*this)(key, node); }
};

struct OperationKey {
  Kind kind;
  Expr a, b;
  bool operator==(const OperationKey&) const = default;
};

// Is it 0 or 1?
inline bool is_condition(Kind kind) {
  switch (kind) {
    case Kind::Eq:
    case Kind::Ne:
    case Kind::Lt:
    case Kind::Le:
    case Kind::And:
    case Kind::Or:
    case Kind::Not: return true;
    default: return false;
  }
}

struct OperationHash {
  size_t operator()(const OperationKey& key) const;
};

struct Context::Impl {
  explicit Impl(Context& context) : context(context) {}

  // The node for canonical `operands`, or the constant it always equals.
  Expr intern(Kind kind, std::span<const Expr> operands);
  Expr intern(Kind kind, std::initializer_list<Expr> operands) { return intern(kind, std::span(operands.begin(), operands.size())); }
  Expr make_symbol(std::string name, SymbolKind kind, Range range, std::optional<Expr> extent, std::optional<int64_t> hint);
  std::string fresh_name(std::string_view prefix);

  std::optional<Expr> recall(Kind kind, Expr a, Expr b) const;
  void remember(Kind kind, Expr a, Expr b, Expr result);

  Context& context;
  std::pmr::monotonic_buffer_resource memory;  // nodes live as long as the Context, so nothing is given back
  std::pmr::deque<Node> nodes{&memory};        // stable addresses
  std::pmr::unordered_set<const Node*, NodeHash, NodeEqual> interned{&memory};
  std::unordered_map<std::string_view, const Node*> symbols_by_name;  // names live in the nodes
  std::vector<Expr> symbols;
  std::map<std::string, int64_t, std::less<>> next_number;
  using Results = std::pmr::unordered_map<OperationKey, Expr, OperationHash>;
  Results remembered[kMaxProofDepth + 1] = {Results{&memory}, Results{&memory}, Results{&memory}, Results{&memory}};
  int rewrite_depth = 0;  // divisions being simplified inside one another
  int proof_depth = 0;
  int proof_steps_left = 0;  // of the outermost proof and all that it starts
};

// The Context that `a` and `b` share; null when both are constants.
Context::Impl* common_impl(Expr a, Expr b);

// A symbol that can have only one value, as that constant; else `expr`.
inline Expr fold_single_value(Expr expr) {
  if (expr.is_const() || expr.node()->range.min != expr.node()->range.max) return expr;
  return expr.node()->range.min;
}

}  // namespace toroid::sym
