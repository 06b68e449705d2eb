// Grows a random program: values made so far, and the means to pick operands among them or to make new inputs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/eager.h"
#include "fuzz/program_text.h"
#include "fuzz/random.h"

namespace toroid::fuzz {

struct Value {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::string> sizes;  // as text
  std::vector<int64_t> concrete;   // in the first run
  bool overlaps = false;           // elements share memory: must not be written
  bool is_buffer = false;          // of the model: what a call writes to it the next one finds
  int64_t rank() const { return static_cast<int64_t>(concrete.size()); }
  int64_t numel() const { return toroid::numel(concrete); }
  bool is_float() const { return is_floating(dtype); }
  bool is_int() const { return is_integral(dtype); }
  bool is_bool() const { return dtype == DType::Bool; }
};

struct Call {
  std::string text;
  int results = 1;
  // Where they do not follow from the operands: control flow, and sizes that depend on data.
  std::vector<std::string> types = {};
  std::optional<Symbol> symbol = {};  // that it defines
  bool binds = false;                 // … as the value of its result
  std::vector<Body> bodies = {};
};
using MaybeCall = std::optional<Call>;

class Grower;
// An operator, how often it is tried, and how its arguments are chosen (nothing when no value fits).
struct OperatorRow {
  double weight;
  std::function<MaybeCall(Grower&)> make;
};

enum class Shapes : uint8_t {
  Any,
  Fixed,  // no symbols
  Symbolic,
  LongRows,  // reductions over them are split into blocks: 65,536 elements and more, or a symbol that is said to be so large
  ManyRows,  // enough work for several threads
};

// What a program is about: operators that come often in it, and the sizes, dtypes and elements with which they go wrong.
struct Theme {
  double weight;
  const char* name;
  Shapes shapes = Shapes::Any;
  std::vector<DType> dtypes = {};          // empty: any
  std::vector<std::string> elements = {};  // kinds for a half of the inputs; empty: any
  double state = 0.2;                      // how likely it is that some inputs are weights and buffers
  double twins = 0.1;                      // how many operators nearly repeat another
  std::vector<OperatorRow> rows = {};      // of a half of the operators; empty: all are of the whole table
};
const std::vector<Theme>& themes();

class Grower {
 public:
  explicit Grower(uint64_t seed);
  // The finished program of this seed.
  Program grow();

  Random random;
  const Theme& theme() const { return theme_; }
  std::vector<std::string> faults;  // operators that were tried and ended in an error that is toroid's fault

  // ---- used by the table of operators
  using Predicate = std::function<bool(const Value&)>;
  const Value* pick(const Predicate& wanted);  // null: there is none; late values are likelier. None that is complex
  const Value* pick_complex();
  Value fresh(DType dtype, std::vector<std::string> sizes, std::string kind = {});
  // Likewise, part of the model: its strides are seldom those of a contiguous tensor. Its sizes must be numbers.
  Value weight(DType dtype, std::vector<std::string> sizes, std::string kind = {});
  // A value of x's dtype (or `dtype`) that broadcasts with x.
  Value beside(const Value& x, std::optional<DType> dtype = {}, std::string kind = {});
  std::string number_for(const Value& x);  // a scalar argument
  int64_t dim_of(const Value& x) { return random.below(x.rank()); }
  std::string some_dims(const Value& x);  // "[0, 2]", not empty
  std::string some_size();                // of the program's pool
  std::string flag() { return random.chance(0.5) ? "true" : "false"; }
  std::string some_length();  // likewise, or a size that depends on data
  bool has_symbols() const;   // of inputs' sizes
  bool is_constant(const Value& x, int64_t dim) const {
    return x.sizes[static_cast<size_t>(dim)] == std::to_string(x.concrete[static_cast<size_t>(dim)]);
  }
  // Adds the operator at once; null when it does not fit.
  const Value* make(const Call& call);
  // A symbol for a size that depends on data, at most `most`.
  Symbol late_symbol(int64_t most);
  // The largest number of elements that x has in any run.
  int64_t most_elements(const Value& x) const;

  // The body of a loop or branch grows like a program, over parameters like these values, which hold `operands` meanwhile.
  bool is_in_body() const { return !outer_.empty(); }
  size_t depth() const { return outer_.size(); }
  void begin_body(const std::vector<Value>& like, const std::vector<HostTensor>& operands);
  void grow_nodes(int64_t wanted);
  const std::vector<Value>& values() const { return values_; }
  // A late value of this type, one made for it if there is none.
  std::string value_of_type(DType dtype, const std::vector<std::string>& sizes);
  Body end_body(std::vector<std::string> outputs);
  HostTensor elements(const Value& x) const { return eager_->read(x.name); }
  bool share_memory(const Value& x, const Value& y) const { return eager_->shares_memory(x.name, y.name); }

 private:
  const Value* pick_any(const Predicate& wanted);

  struct Outer {
    std::vector<Node> nodes;
    std::vector<Value> values;
    std::optional<Eager> eager;
    size_t parameters;
  };

  void choose_sizes();
  std::vector<std::string> some_shape();
  DType some_dtype();
  std::string kind_for(DType dtype);
  Value add_input(Input input, bool strided);
  std::vector<std::string> some_strides(const Input& input, const std::vector<int64_t>& sizes, bool& overlaps);
  MaybeCall twin();
  bool try_call(const Call& call);
  bool execute(const Call& call, Node& node, Eager& eager, std::vector<Value>& results);
  bool writes_what_it_must_not(const Node& node, const Eager& eager) const;
  void choose_outputs();
  void drop_unused_inputs();

  const Theme& theme_;
  OperatorCache operators_;
  Program program_;
  std::optional<Eager> eager_;
  std::vector<Value> values_;
  std::vector<std::string> sizes_;    // the pool
  std::vector<DType> dtypes_;         // likewise
  std::vector<Outer> outer_;          // of the body that grows
  std::vector<std::string> frozen_;   // nothing may write to these: weights, parameters of bodies
  std::vector<std::string> unclear_;  // results of reshapes of which strides that nobody wrote down decide if they copy
  int64_t most_elements_ = 4096;
  bool has_symbolic_strides_ = false;
  bool has_state_ = false;  // some inputs are weights and buffers
  int next_name_ = 0;
};

// What Grower::pick is asked for.
inline bool is_float(const Value& v) { return v.is_float(); }
inline bool is_number(const Value& v) { return !v.is_bool(); }
inline Grower::Predicate has_dims(Grower::Predicate also = {}, int64_t least = 1) {
  return [=](const Value& v) { return v.rank() >= least && (!also || also(v)); };
}
// The operator's value, or an error that ends the recipe.
Value made(Grower& g, const std::string& call, int results = 1);

// The whole table.
const std::vector<OperatorRow>& operator_table();
// Parts of it:
std::vector<OperatorRow> moving_operators();
std::vector<OperatorRow> network_operators();
std::vector<OperatorRow> complex_operators();
std::vector<OperatorRow> control_flow_operators();  // and those whose sizes depend on data
std::vector<OperatorRow> weight_operators();

}  // namespace toroid::fuzz
