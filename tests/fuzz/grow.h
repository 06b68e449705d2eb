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
  int64_t rank() const { return static_cast<int64_t>(concrete.size()); }
  int64_t numel() const { return toroid::numel(concrete); }
  bool is_float() const { return is_floating(dtype); }
  bool is_int() const { return is_integral(dtype); }
  bool is_bool() const { return dtype == DType::Bool; }
};

struct Call {
  std::string text;
  int results = 1;
};
using MaybeCall = std::optional<Call>;

class Grower {
 public:
  explicit Grower(uint64_t seed);
  // The finished program of this seed.
  Program grow();

  Random random;

  // ---- used by the table of operators
  using Predicate = std::function<bool(const Value&)>;
  const Value* pick(const Predicate& wanted);  // null: there is none; late values are likelier
  Value fresh(DType dtype, std::vector<std::string> sizes, std::string kind = {});
  // A value of x's dtype (or `dtype`) that broadcasts with x.
  Value beside(const Value& x, std::optional<DType> dtype = {}, std::string kind = {});
  std::string number_for(const Value& x);  // a scalar argument
  int64_t dim_of(const Value& x) { return random.below(x.rank()); }
  std::string some_dims(const Value& x);  // "[0, 2]", not empty
  std::string some_size();                // of the program's pool
  std::string flag() { return random.chance(0.5) ? "true" : "false"; }
  bool has_symbols() const { return !program_.symbols.empty(); }
  bool is_constant(const Value& x, int64_t dim) const {
    return x.sizes[static_cast<size_t>(dim)] == std::to_string(x.concrete[static_cast<size_t>(dim)]);
  }

 private:
  void choose_sizes();
  std::vector<std::string> some_shape();
  DType some_dtype();
  std::string kind_for(DType dtype);
  std::vector<std::string> some_strides(const std::vector<int64_t>& sizes, bool& overlaps);
  MaybeCall twin();
  bool try_call(const Call& call);
  void choose_outputs();
  void drop_unused_inputs();

  Program program_;
  std::optional<Eager> eager_;
  std::vector<Value> values_;
  std::vector<std::string> sizes_;  // the pool
  std::vector<DType> dtypes_;       // likewise
  int64_t most_elements_ = 4096;
  int next_name_ = 0;
};

// The table: an operator, how often it is tried, and how its arguments are chosen (nothing when no value fits).
struct OperatorRow {
  double weight;
  std::function<MaybeCall(Grower&)> make;
};
const std::vector<OperatorRow>& operator_table();
std::vector<OperatorRow> moving_operators();  // the part of it in moving_operators.cpp

}  // namespace toroid::fuzz
