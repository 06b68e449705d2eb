// Integer expressions over symbols: tensor sizes, strides, loop indices, buffer offsets and guards.
//
// An Expr is a small value: a constant, or a pointer to a node interned in a Context. Equal expressions of one Context
// are the same pointer, so comparing is cheap. Building simplifies: every Expr is in canonical form
//
//   c0 + c1*t1 + c2*t2 + …      with each t a product of atoms, and terms in a fixed order
//
// where an atom is a symbol or an irreducible floordiv, mod, min, max or comparison (or, where multiplying out would
// make too many terms, a sum). Terms are ordered by their structure and the age of their symbols, so equal formulas
// look equal however they were built. A symbol whose range is one value is replaced by it. All arithmetic is on 64-bit
// integers; constant overflow throws Error{InvalidModel, "integer overflow in size arithmetic: …"}. Division rounds
// toward minus infinity, and mod has the sign of its divisor, as in Python and SymPy. Comparisons yield 0 or 1.
//
// Ranges: every node knows an interval that contains its value, computed from its symbols' ranges. A loop axis is a
// symbol with an extent: 0 <= axis < extent holds even where extent is symbolic, and the simplifier uses it:
//   (i*n + j) / n = i and (i*n + j) % n = j  for an axis j of extent n.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::sym {

inline constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kPosInf = std::numeric_limits<int64_t>::max();

// A closed interval; kNegInf and kPosInf stand for "unbounded".
struct Range {
  int64_t min = kNegInf;
  int64_t max = kPosInf;
  bool operator==(const Range&) const = default;
};

enum class Kind : uint8_t {
  Const,
  Symbol,
  Add,       // operands sum; canonical: at most one constant, first
  Mul,       // operands' product; canonical: at most one constant, first
  FloorDiv,  // operands[0] // operands[1]
  Mod,       // operands[0] mod operands[1]
  Min,
  Max,
  Eq,  // comparisons: 0 or 1
  Ne,
  Lt,
  Le,
  And,  // of 0/1 values
  Or,
  Not,
  Scaled,  // operands[0], which is not negative, times the double whose bits operands[1] holds, in doubles, rounded down
  Real,    // a function over doubles, operands[0], of the others: see real.h
};

// What a symbol stands for. Sizes are free inputs of the program; data-dependent ones are defined by a node at run
// time; axes are loop variables; values are integers loaded by a kernel (indirect indices).
enum class SymbolKind : uint8_t { Size, DataDependent, Axis, Value };

class Context;
struct Node;

class Expr {
 public:
  Expr() = default;                       // the constant 0
  Expr(int64_t value) : value_(value) {}  // NOLINT: implicit, so that formulas read well
  Expr(int value) : value_(value) {}      // NOLINT
  explicit Expr(const Node* node) : node_(node) {}

  bool is_const() const { return node_ == nullptr; }
  bool is_const(int64_t value) const { return is_const() && value_ == value; }
  int64_t value() const;  // needs is_const()
  std::optional<int64_t> try_value() const { return is_const() ? std::optional(value_) : std::nullopt; }
  bool is_symbol() const { return kind() == Kind::Symbol; }

  Kind kind() const;
  std::span<const Expr> operands() const;  // empty for constants and symbols
  Range range() const;
  Context* context() const;  // null for constants
  const Node* node() const { return node_; }

  bool operator==(const Expr& other) const { return node_ == other.node_ && value_ == other.value_; }
  size_t hash() const;

 private:
  const Node* node_ = nullptr;
  int64_t value_ = 0;  // used only for constants; 0 otherwise
};

struct Node {
  Kind kind;
  std::span<const Expr> operands;  // owned by the Context
  Range range;
  size_t hash;
  uint32_t id;  // creation order in its Context
  Context* context;
  // Derived facts that the simplifier asks for often:
  const Node* product;   // this without a leading constant factor: s0*s1 for 4*s0*s1, itself for other nodes
  uint64_t symbol_mask;  // a bit for each symbol inside, shared modulo 64: a clear bit proves absence
  bool has_sizes;        // a symbol inside is no axis and no value
  bool constant_bounds;  // no bound in terms of sizes can be better than its range
  // Symbols only:
  std::string name;
  SymbolKind symbol_kind = SymbolKind::Size;
  std::optional<Expr> extent;   // axes: 0 <= this < extent
  std::optional<int64_t> hint;  // a likely value, for tuning and cost decisions; never for correctness
};

// Owns nodes and symbols. Not thread-safe; one per compilation. Outlives every Expr made in it.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The symbol called `name`, made at first use. A later call must not contradict the kind; the range is intersected
  // only at creation.
  Expr symbol(std::string_view name, SymbolKind kind, Range range = {}, std::optional<int64_t> hint = {});
  std::optional<Expr> find_symbol(std::string_view name) const;
  // A fresh loop axis: 0 <= axis < extent. `prefix` and a number make its name, unique in this Context.
  Expr axis(Expr extent, std::string_view prefix = "i");
  // A fresh integer value symbol with the given range (an index loaded in a kernel).
  Expr value(Range range, std::string_view prefix = "v");
  std::vector<Expr> symbols() const;  // in creation order

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator*(Expr a, Expr b);
inline Expr& operator+=(Expr& a, Expr b) { return a = a + b; }
inline Expr& operator-=(Expr& a, Expr b) { return a = a - b; }
inline Expr& operator*=(Expr& a, Expr b) { return a = a * b; }
Expr floor_div(Expr a, Expr b);  // throws Error{InvalidModel} when b is the constant 0
Expr ceil_div(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
inline Expr gt(Expr a, Expr b) { return lt(b, a); }
inline Expr ge(Expr a, Expr b) { return le(b, a); }
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
Expr align_up(Expr a, int64_t alignment);
// The whole part of factor * size, multiplied in doubles; size >= 0, factor > 0 and finite. Throws Error{InvalidModel} where a constant
// result needs more than 63 bits.
Expr scaled(Expr size, double factor);
std::optional<int64_t> scale(int64_t value, double factor);  // of numbers; nullopt beyond 63 bits
double factor_of(Expr bits);                                 // of a Scaled expression's second operand
Expr product(std::span<const Expr> factors);

// Provable facts: false means "not known", never "the opposite holds".
bool known_eq(Expr a, Expr b);
bool known_ne(Expr a, Expr b);
bool known_lt(Expr a, Expr b);
bool known_le(Expr a, Expr b);
bool known_divisible(Expr a, Expr divisor);

// Replaces symbols (keys are symbols) and simplifies again.
using Substitution = std::vector<std::pair<Expr, Expr>>;
Expr substitute(Expr expr, const Substitution& replacements);
// Applies `replace` to every symbol; nullopt keeps it.
Expr substitute(Expr expr, const std::function<std::optional<Expr>(Expr symbol)>& replace);

std::vector<Expr> free_symbols(Expr expr);  // in creation order, each once
bool depends_on(Expr expr, Expr symbol);
// The value when every symbol has one; throws Error{InvalidInput} for a missing symbol, overflow or division by zero.
int64_t evaluate(Expr expr, const std::function<std::optional<int64_t>(Expr symbol)>& value_of);
// The value with every symbol at its hint (or the middle of a bounded range, or `fallback`).
int64_t evaluate_hint(Expr expr, int64_t fallback = 32);

// If `expr` = coefficient*symbol + rest with neither part depending on `symbol` otherwise, those two; else nullopt.
struct Linear {
  Expr coefficient;
  Expr rest;
};
std::optional<Linear> linear_in(Expr expr, Expr symbol);

// "2*s0 + 3", "(s0 + 1)//2", "Mod(i0, 4)", "Max(1, u0)": what parse() reads and .pt2 files contain.
std::string to_string(Expr expr);
// Parses SymPy's text as PyTorch writes it: + - * // / ** ( ), Mod, PythonMod, FloorDiv, CeilToInt, CleanDiv, Min, Max,
// floor, ceiling, Eq, Ne, Lt, Le, Gt, Ge, == != < <= > >=, And(&), Or(|), Not(~), True, False, torch.sym_* spellings.
// Unknown symbols are made through `make_symbol`. Throws Error{InvalidModel} with the offset. Nesting deeper than 100
// is refused.
Expr parse(std::string_view text, Context& context, const std::function<Expr(std::string_view name)>& make_symbol);
// The same for a text whose value is a double: a Real expression (real.h), or the bits of a constant. A symbol that holds the
// bits of a double is made as Real(value, symbol).
Expr parse_real(std::string_view text, Context& context, const std::function<Expr(std::string_view name)>& make_symbol);

}  // namespace toroid::sym

template <>
struct std::hash<toroid::sym::Expr> {
  size_t operator()(const toroid::sym::Expr& e) const { return e.hash(); }
};
