#include "symbolic/expr.h"

#include <fmt/format.h>

#include "symbolic/form.h"
#include "symbolic/named_symbols.h"
#include "symbolic/node_table.h"
#include "symbolic/range.h"
#include "symbolic/real.h"
#include "symbolic/simplify.h"

namespace toroid::sym {
namespace {

size_t mix(size_t seed, size_t value) {
  seed ^= value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccdull;
}

Range range_of(Kind kind, std::span<const Expr> operands) {
  switch (kind) {
    case Kind::Const:
    case Kind::Symbol: break;
    case Kind::Add: {
      Range range{0, 0};
      for (Expr operand : operands) range = add_ranges(range, operand.range());
      return range;
    }
    case Kind::Mul: {
      Range range{1, 1};
      for (size_t i = 0; i < operands.size();) {
        size_t power = 1;
        while (i + power < operands.size() && operands[i + power] == operands[i]) ++power;
        Range factor{1, 1};
        for (size_t k = 0; k < power; ++k) factor = multiply_ranges(factor, operands[i].range());
        if (power % 2 == 0) factor.min = std::max<int64_t>(factor.min, 0);
        range = multiply_ranges(range, factor);
        i += power;
      }
      return range;
    }
    case Kind::FloorDiv: return floor_div_ranges(operands[0].range(), operands[1].range());
    case Kind::Mod: return mod_ranges(operands[0].range(), operands[1].range());
    case Kind::Min:
    case Kind::Max: {
      Range range = operands[0].range();
      for (Expr operand : operands.subspan(1)) {
        range = kind == Kind::Min ? min_ranges(range, operand.range()) : max_ranges(range, operand.range());
      }
      return range;
    }
    case Kind::Eq:
    case Kind::Ne:
    case Kind::Lt:
    case Kind::Le:
    case Kind::And:
    case Kind::Or:
    case Kind::Not: return {0, 1};
    case Kind::Scaled: {
      const Range range = operands[0].range();
      const double factor = factor_of(operands[1]);
      return {scale(std::max<int64_t>(range.min, 0), factor).value_or(kPosInf),
              range.max == kPosInf ? kPosInf : scale(range.max, factor).value_or(kPosInf)};
    }
    case Kind::Real: return real_range(operands);
  }
  return {};
}

bool constant_bounds_of(Kind kind, std::span<const Expr> operands) {
  if (is_condition(kind)) return true;
  switch (kind) {
    case Kind::Min:
    case Kind::Max: return false;
    case Kind::Scaled:
    case Kind::Real: return true;
    case Kind::Mod: return operands[1].is_const();
    case Kind::FloorDiv:
      // (s0 + 1)//2 <= s0 takes more than intervals; indices over constant extents are spared the attempt.
      if (!operands[0].is_const() && operands[0].node()->has_sizes) return false;
      break;
    default: break;
  }
  size_t variables = 0;
  for (Expr operand : operands) {
    if (operand.is_const()) continue;
    ++variables;
    if (!operand.node()->constant_bounds) return false;
  }
  return kind == Kind::Add || variables <= 1;
}

bool is_identifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

// The body of a loop with extent 0 never runs, so any non-empty range is true of its axis.
Range range_of_axis(Expr extent) { return {0, extent.range().max == kPosInf ? kPosInf : std::max<int64_t>(extent.range().max, 1) - 1}; }

std::string free_name(const Context& context, std::string_view name) {
  if (context.find_symbol(name)) throw Error(ErrorKind::InvalidModel, fmt::format("symbol '{}' is declared twice", name.substr(0, 80)));
  if (is_identifier(name)) return std::string(name);
  throw Error(ErrorKind::InvalidModel, fmt::format("symbol name '{:?}' is not an identifier", name.substr(0, 80)));
}

}  // namespace

SizeOverflow::SizeOverflow(const std::string& operation)
    : Error(ErrorKind::InvalidModel, "integer overflow in size arithmetic: " + operation) {
  help("sizes, strides and offsets must fit in 64 bits");
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) throw SizeOverflow(fmt::format("{} + {}", a, b));
  return sum;
}

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) throw SizeOverflow(fmt::format("{} * {}", a, b));
  return product;
}

int64_t checked_negate(int64_t a) {
  if (a == kNegInf) throw SizeOverflow(fmt::format("-({})", a));
  return -a;
}

int64_t Expr::value() const {
  TOROID_CHECK(is_const(), "'{}' is not a constant", to_short_string(*this));
  return value_;
}

Kind Expr::kind() const { return node_ ? node_->kind : Kind::Const; }
std::span<const Expr> Expr::operands() const { return node_ ? node_->operands : std::span<const Expr>(); }
Range Expr::range() const { return node_ ? node_->range : Range{value_, value_}; }
Context* Expr::context() const { return node_ ? node_->context : nullptr; }
size_t Expr::hash() const { return node_ ? node_->hash : mix(0x51ed27, static_cast<size_t>(value_)); }

size_t OperationHash::operator()(const OperationKey& key) const {
  return mix(mix(static_cast<size_t>(key.kind), key.a.hash()), key.b.hash());
}

Expr Context::Impl::intern(Kind kind, std::span<const Expr> operands) {
  size_t hash = static_cast<size_t>(kind);
  for (Expr operand : operands) hash = mix(hash, operand.hash());
  const Node* node;
  if (auto found = interned.find(NodeKey{kind, operands, hash}); found != interned.end()) {
    node = *found;
  } else {
    const Node* product = nullptr;
    if (kind == Kind::Mul && operands[0].is_const()) {
      product = operands.size() == 2 ? operands[1].node() : intern(Kind::Mul, operands.subspan(1)).node();
    }
    Node made{};
    made.kind = kind;
    Expr* const stored_operands = std::pmr::polymorphic_allocator<Expr>(&memory).allocate(operands.size());
    std::uninitialized_copy(operands.begin(), operands.end(), stored_operands);
    made.operands = {stored_operands, operands.size()};
    made.range = range_of(kind, operands);
    made.hash = hash;
    made.id = static_cast<uint32_t>(nodes.size());
    made.context = &context;
    made.constant_bounds = constant_bounds_of(kind, operands);
    for (Expr operand : operands) {
      if (operand.is_const()) continue;
      made.symbol_mask |= operand.node()->symbol_mask;
      made.has_sizes |= operand.node()->has_sizes;
    }
    Node& stored = nodes.emplace_back(std::move(made));
    stored.product = product ? product : &stored;
    interned.insert(&stored);
    node = &stored;
  }
  return fold_single_value(Expr(node));
}

Expr Context::Impl::make_symbol(std::string name, SymbolKind kind, Range range, std::optional<Expr> extent, std::optional<int64_t> hint) {
  Node& node = nodes.emplace_back();
  node.kind = Kind::Symbol;
  node.range = range;
  node.id = static_cast<uint32_t>(nodes.size() - 1);
  node.hash = mix(static_cast<size_t>(Kind::Symbol), symbols.size());
  node.context = &context;
  node.product = &node;
  node.symbol_mask = uint64_t{1} << (symbols.size() % 64);
  node.has_sizes = kind == SymbolKind::Size || kind == SymbolKind::DataDependent;
  node.constant_bounds = !extent || extent->is_const();
  node.name = std::move(name);
  node.symbol_kind = kind;
  node.extent = extent;
  node.hint = hint;
  symbols_by_name.emplace(node.name, &node);
  symbols.push_back(Expr(&node));
  return symbols.back();
}

std::string Context::Impl::fresh_name(std::string_view prefix) {
  auto counter = next_number.find(prefix);
  if (counter == next_number.end()) counter = next_number.emplace(prefix, 0).first;
  for (;;) {
    std::string name = fmt::format("{}{}", prefix, counter->second++);
    if (!symbols_by_name.contains(name)) return name;
  }
}

std::optional<Expr> Context::Impl::recall(Kind kind, Expr a, Expr b) const {
  const auto& table = remembered[std::min(proof_depth, kMaxProofDepth)];
  const auto found = table.find({kind, a, b});
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

void Context::Impl::remember(Kind kind, Expr a, Expr b, Expr result) {
  remembered[std::min(proof_depth, kMaxProofDepth)].insert_or_assign({kind, a, b}, result);
}

Context::Impl* common_impl(Expr a, Expr b) {
  Context* context = a.context() ? a.context() : b.context();
  TOROID_CHECK(!b.context() || b.context() == context, "expressions of two contexts meet: '{}' and '{}'", to_short_string(a),
               to_short_string(b));
  return context ? &context->impl() : nullptr;
}

Context::Context() : impl_(std::make_unique<Impl>(*this)) {}
Context::~Context() = default;

Expr Context::symbol(std::string_view name, SymbolKind kind, Range range, std::optional<int64_t> hint) {
  if (std::optional<Expr> found = find_symbol(name)) {
    if (found->node()->symbol_kind != kind) {
      throw Error(ErrorKind::InvalidModel, fmt::format("symbol '{}' is used for two different kinds of integer", name));
    }
    return *found;
  }
  if (!is_identifier(name)) {
    throw Error(ErrorKind::InvalidModel, fmt::format("symbol name '{:?}' is not an identifier", name.substr(0, 80)))
        .help("names of sizes consist of letters, digits and '_' and start with no digit");
  }
  if (range.min > range.max) {
    throw Error(ErrorKind::InvalidModel, fmt::format("symbol '{}' has an empty range: {} to {}", name, range.min, range.max));
  }
  return impl_->make_symbol(std::string(name), kind, range, std::nullopt, hint);
}

std::optional<Expr> Context::find_symbol(std::string_view name) const {
  const auto found = impl_->symbols_by_name.find(name);
  return found == impl_->symbols_by_name.end() ? std::nullopt : std::optional(Expr(found->second));
}

Expr Context::axis(Expr extent, std::string_view prefix) {
  return impl_->make_symbol(impl_->fresh_name(prefix), SymbolKind::Axis, range_of_axis(extent), extent, std::nullopt);
}

Expr Context::value(Range range, std::string_view prefix) {
  return impl_->make_symbol(impl_->fresh_name(prefix), SymbolKind::Value, range, std::nullopt, std::nullopt);
}

std::vector<Expr> Context::symbols() const { return impl_->symbols; }

Expr named_axis(Context& context, std::string_view name, Expr extent) {
  return context.impl().make_symbol(free_name(context, name), SymbolKind::Axis, range_of_axis(extent), extent, std::nullopt);
}

Expr named_value(Context& context, std::string_view name, Range range) {
  return context.impl().make_symbol(free_name(context, name), SymbolKind::Value, range, std::nullopt, std::nullopt);
}

}  // namespace toroid::sym
