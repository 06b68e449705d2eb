#include "fuzz/grow.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/one_operator.h"

namespace toroid::fuzz {
Grower::Grower(uint64_t seed) : random(seed), theme_(random.pick_weighted(themes())) {
  has_state_ = random.chance(theme_.state);
  choose_sizes();
  std::vector<DType> all = {DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16,
                            DType::I64, DType::I32, DType::I16, DType::I8,  DType::U8,   DType::Bool};
  if (!theme_.dtypes.empty()) all = theme_.dtypes;
  for (int64_t i = random.between(1, 4); i > 0; --i) dtypes_.push_back(random.pick(all));
  if (theme_.dtypes.empty() && random.chance(0.6)) dtypes_.push_back(DType::F32);
  Run first;
  for (const Symbol& symbol : program_.symbols) first.emplace_back(symbol.name, symbol.hint);
  if (!program_.runs.empty()) first = program_.runs[0];
  eager_.emplace(program_, first, EagerOptions{}, SharedByRuns{.operators = &operators_});
}

std::string Grower::some_size() { return random.pick(sizes_); }

std::string Grower::some_length() {
  for (const Symbol& symbol : program_.symbols) {
    if (symbol.from_data && random.chance(0.5)) return symbol.name;
  }
  return some_size();
}

bool Grower::has_symbols() const {
  return std::any_of(program_.symbols.begin(), program_.symbols.end(), [](const Symbol& symbol) { return !symbol.from_data; });
}

Symbol Grower::late_symbol(int64_t most) {
  const auto late = std::count_if(program_.symbols.begin(), program_.symbols.end(), [](const Symbol& s) { return s.from_data; });
  return {fmt::format("u{}", late), 0, random.chance(0.5) ? most : int64_t{1} << 31, 0, true};
}

int64_t Grower::most_elements(const Value& x) const {
  int64_t most = x.numel();
  for (const Run& run : program_.runs) {
    Run all = run;
    for (const Symbol& symbol : program_.symbols) {
      if (symbol.from_data) all.emplace_back(symbol.name, symbol.most);
    }
    int64_t elements = 1;
    for (int64_t size : sizes_in(x.sizes, all)) elements *= std::min<int64_t>(size, 1 << 20);
    most = std::max(most, std::min<int64_t>(elements, int64_t{1} << 40));
  }
  return most;
}

const Value* Grower::pick(const Predicate& wanted) {
  return pick_any([&](const Value& v) { return !is_complex(v.dtype) && wanted(v); });
}
const Value* Grower::pick_complex() {
  return pick_any([](const Value& v) { return is_complex(v.dtype); });
}

const Value* Grower::pick_any(const Predicate& wanted) {
  // Late values make chains, early ones make values that live long.
  for (int attempt = 0; attempt < 12; ++attempt) {
    const auto count = static_cast<int64_t>(values_.size());
    const int64_t place = random.chance(0.6) ? count - 1 - random.below(std::min<int64_t>(count, 3)) : random.below(count);
    const Value& value = values_[static_cast<size_t>(place)];
    if (wanted(value)) return &value;
  }
  for (size_t i = values_.size(); i-- > 0;) {
    if (wanted(values_[i])) return &values_[i];
  }
  return nullptr;
}

Value Grower::beside(const Value& x, std::optional<DType> dtype, std::string kind) {
  const DType wanted = dtype.value_or(x.dtype);
  if (kind.empty() && random.chance(0.65)) {
    const Value* found = pick([&](const Value& y) {
      if (y.dtype != wanted || y.rank() > x.rank()) return false;
      for (int64_t d = 0; d < y.rank(); ++d) {
        const std::string& mine = x.sizes[static_cast<size_t>(x.rank() - y.rank() + d)];
        const std::string& theirs = y.sizes[static_cast<size_t>(d)];
        if (mine != theirs && theirs != "1") return false;
      }
      return true;
    });
    if (found != nullptr) return *found;
  }
  std::vector<std::string> sizes = x.sizes;
  if (random.chance(0.35)) {
    if (!sizes.empty() && random.chance(0.5))
      sizes.erase(sizes.begin(), sizes.begin() + random.below(static_cast<int64_t>(sizes.size()) + 1));
    for (std::string& size : sizes) {
      if (random.chance(0.3)) size = "1";
    }
  }
  return fresh(wanted, std::move(sizes), std::move(kind));
}

std::string Grower::number_for(const Value& x) {
  if (x.is_bool()) return random.chance(0.7) ? flag() : random.pick({"2", "-1", "0.5", "0"});
  if (x.is_float()) return random.pick({"0.5", "2.0", "-1.0", "1.0", "0.0", "3.25", "-0.75", "1.5", "2", "0.1"});
  if (!is_signed(x.dtype)) return random.pick({"0", "1", "2", "3", "7", "255", "-1", "300", "1.5"});
  return random.pick({"0", "1", "2", "-1", "3", "7", "-5", "127", "-128", "300", "2.5"});
}

std::string Grower::some_dims(const Value& x) {
  std::vector<int64_t> dims;
  while (dims.empty()) {
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (random.chance(0.5)) dims.push_back(d);
    }
  }
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

// An earlier operator again, with another number, flag or operand: nearly equal operators must not be taken for equal.
MaybeCall Grower::twin() {
  const Node& node = random.pick(program_.nodes);
  std::string call = node.call;
  // Their operands were chosen with care: no ties, no index twice.
  if (!node.bodies.empty() || !node.bound.empty() || node.results.empty()) return std::nullopt;
  for (const char* part : {"topk", "index_copy", "index_put", "kthvalue", "dequantize"}) {
    if (call.find(part) != std::string::npos) return std::nullopt;
  }
  std::vector<std::pair<size_t, std::string>> changes;  // where, and the word that is there
  for (size_t i = call.find('('); i < call.size();) {
    size_t end = i;
    while (end < call.size() && (std::isalnum(static_cast<unsigned char>(call[end])) != 0 || call[end] == '_')) ++end;
    if (end > i) changes.emplace_back(i, call.substr(i, end - i));
    i = std::max(end, i + 1);
  }
  const auto& [place, word] = random.chance(0.3) ? changes.back() : random.pick(changes);
  std::string other = word;
  if (word == "true" || word == "false") {
    other = word == "true" ? "false" : "true";
  } else if (word.find_first_not_of("0123456789") == std::string::npos) {
    other = std::to_string(random.below(4));
  } else if (word[0] == 'v' && word.find_first_not_of("0123456789", 1) == std::string::npos) {
    const auto old = std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.name == word; });
    const Value* found = pick([&](const Value& v) { return v.dtype == old->dtype && v.sizes == old->sizes; });
    if (found == nullptr) return std::nullopt;
    other = found->name;
  }
  call.replace(place, word.size(), other);
  return Call{call, static_cast<int>(node.results.size())};
}

// Runs the node after `eager`; `results` become the values it gives. Says whether it fits.
bool Grower::execute(const Call& call, Node& node, Eager& eager, std::vector<Value>& results) {
  std::vector<std::pair<std::string, std::string>> operands;
  std::set<std::string> seen;
  bool touches_complex = false;
  for (const std::string& name : values_in(call.text)) {
    if (!seen.insert(name).second) continue;
    const auto value = std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.name == name; });
    operands.emplace_back(name, type_text(value->dtype, value->sizes));
    touches_complex = touches_complex || is_complex(value->dtype);
  }
  if (call.bodies.empty()) {
    RandomStreams streams;
    node.types = result_types({program_.symbols, call.binds ? std::vector<std::string>{} : call.types, &streams}, operands, call.text);
  } else {
    node.types = call.types;
  }
  if (node.types.size() < node.results.size()) return false;
  node.types.resize(node.results.size());
  for (size_t i = 0; i < node.results.size(); ++i) {
    results.push_back({node.results[i], dtype_of(node.types[i]), sizes_of(node.types[i]), {}});
    if (!call.symbol && numel(sizes_in(results[i].sizes, eager.run())) > most_elements_ * 2) return false;
  }
  eager.execute(node);
  for (size_t i = 0; i < results.size(); ++i) {
    Value& result = results[i];
    result.concrete = sizes_in(result.sizes, eager.run());
    if (result.numel() > most_elements_ * 2 || result.rank() > 5) return false;
    bool is_fixed = !has_symbols();
    for (size_t d = 0; d < result.sizes.size(); ++d) {
      if (result.sizes[d].size() > 24) return false;  // sizes grow unreadable
      is_fixed = is_fixed && is_constant(result, static_cast<int64_t>(d));
    }
    const HostTensor value = eager.read(result.name);
    result.overlaps = touches_complex;
    if (is_complex(result.dtype)) continue;
    if (value.sizes() != result.concrete || value.dtype() != result.dtype) return false;
    if (result.is_float() && value.numel() > 0) {
      const std::vector<double> elements = value.to_doubles();
      const auto finite = std::count_if(elements.begin(), elements.end(), [](double e) { return std::isfinite(e) && std::fabs(e) < 1e6; });
      if (finite * 2 < value.numel() && !random.chance(0.1)) return false;  // little to see
    }
    if (eager.is_view(result.name)) {
      const std::vector<int64_t> strides = eager.strides(result.name);
      for (size_t d = 0; d < strides.size(); ++d) result.overlaps |= strides[d] == 0 && result.concrete[d] > 1;
      if (is_fixed && !strides.empty()) node.types[i] += fmt::format(" strides [{}]", fmt::join(strides, ", "));
    }
  }
  return true;
}

bool Grower::writes_what_it_must_not(const Node& node, const Eager& eager) const {
  const std::string_view op = std::string_view(node.call).substr(0, node.call.find('('));
  if (!op.substr(0, op.find('.')).ends_with("_")) return false;
  auto is_written = [&](const std::string& name) { return eager.knows(name) && eager.is_written(name); };
  return std::any_of(frozen_.begin(), frozen_.end(), is_written) || std::any_of(unclear_.begin(), unclear_.end(), is_written);
}

bool Grower::try_call(const Call& call) {
  if (is_in_body() && call.symbol) return false;
  Node node;
  node.call = call.text;
  node.bodies = call.bodies;
  if (call.binds) node.bound = call.symbol->name;
  for (int i = 0; i < call.results; ++i) node.results.push_back(fmt::format("v{}", next_name_++));
  const std::vector<Symbol> symbols = program_.symbols;
  try {
    Eager tried = *eager_;
    if (call.symbol) {
      program_.symbols.push_back(*call.symbol);
      tried.add_symbol(*call.symbol);
    }
    std::vector<Value> results;
    if (execute(call, node, tried, results) && !writes_what_it_must_not(node, tried)) {
      if (has_symbols() || !program_.symbols.empty()) {
        const bool is_reshape = call.text.find("reshape") != std::string::npos || call.text.find("flatten") != std::string::npos;
        const std::string viewed = is_reshape ? values_in(call.text).at(0) : "";
        if (is_reshape && (has_symbolic_strides_ || !tried.shares_memory(results[0].name, viewed))) {
          unclear_.push_back(viewed);
          unclear_.push_back(results[0].name);
        }
      }
      if (call.binds) frozen_.push_back(results[0].name);  // a number, which a program cannot write to
      *eager_ = std::move(tried);
      values_.insert(values_.end(), results.begin(), results.end());
      program_.nodes.push_back(std::move(node));
      return true;
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) faults.push_back(fmt::format("{}: {}", call.text, error.message()));
  }
  program_.symbols = symbols;
  return false;
}

const Value* Grower::make(const Call& call) { return try_call(call) ? &values_.back() : nullptr; }

Value made(Grower& g, const std::string& call, int results) {
  const Value* value = g.make({call, results});
  if (value == nullptr) throw Error(ErrorKind::InvalidInput, fmt::format("{} does not fit", call));
  return *value;
}

// ---- bodies ------------------------------------------------------------------------------------------------------------

void Grower::begin_body(const std::vector<Value>& like, const std::vector<HostTensor>& operands) {
  outer_.push_back({std::move(program_.nodes), std::move(values_), std::move(eager_), like.size()});
  program_.nodes.clear();
  values_.clear();
  eager_.emplace(program_, outer_.back().eager->run(), EagerOptions{}, SharedByRuns{.operators = &operators_});
  for (size_t i = 0; i < like.size(); ++i) {
    Value parameter = like[i];
    parameter.name = fmt::format("v{}", next_name_++);
    parameter.concrete = operands[i].sizes();
    parameter.overlaps = true;
    frozen_.push_back(parameter.name);
    eager_->set(parameter.name, operands[i]);
    values_.push_back(std::move(parameter));
  }
}

std::string Grower::value_of_type(DType dtype, const std::vector<std::string>& sizes) {
  for (size_t i = values_.size(); i-- > 0;) {
    if (values_[i].dtype == dtype && values_[i].sizes == sizes && (i >= outer_.back().parameters || random.chance(0.3)))
      return values_[i].name;
  }
  const Value* made = nullptr;
  const Value* other = pick([&](const Value& v) { return v.sizes == sizes; });
  if (other != nullptr) made = make({fmt::format("aten::to.dtype({}, dtype.{}, false, true)", other->name, to_string(dtype))});
  if (made == nullptr) {
    made = make({fmt::format("aten::full([{}], {}, dtype=dtype.{})", fmt::join(sizes, ", "), dtype == DType::Bool ? "true" : "2",
                             to_string(dtype))});
  }
  if (made == nullptr) throw Error(ErrorKind::InvalidInput, "no value of this type can be made");
  return made->name;
}

Body Grower::end_body(std::vector<std::string> outputs) {
  Body body;
  const size_t parameters = outer_.back().parameters;
  for (size_t i = 0; i < parameters; ++i) body.parameters.emplace_back(values_[i].name, type_text(values_[i].dtype, values_[i].sizes));
  body.nodes = std::move(program_.nodes);
  body.outputs = std::move(outputs);
  program_.nodes = std::move(outer_.back().nodes);
  values_ = std::move(outer_.back().values);
  eager_ = std::move(outer_.back().eager);
  outer_.pop_back();
  return body;
}

// ---- the whole -----------------------------------------------------------------------------------------------------------

void Grower::choose_outputs() {
  std::set<std::string> used;
  for (const Node& node : program_.nodes) {
    for (const std::string& name : values_in(node.call)) used.insert(name);
  }
  std::vector<std::string> unused;
  std::vector<std::string> others;
  for (const Node& node : program_.nodes) {
    for (const std::string& name : node.results) {
      if (!eager_->is_complex(name)) (used.contains(name) ? others : unused).push_back(name);
    }
  }
  for (const std::string& name : unused) {
    if (random.chance(0.9)) program_.outputs.push_back(name);
  }
  for (const std::string& name : others) {
    if (random.chance(0.12)) program_.outputs.push_back(name);
  }
  if (random.chance(0.06)) program_.outputs.push_back(program_.inputs[0].name);  // an input, unchanged or written
  if (!program_.outputs.empty() && random.chance(0.04)) program_.outputs.push_back(random.pick(program_.outputs));
  if (program_.outputs.empty()) program_.outputs.push_back(values_.empty() ? program_.inputs[0].name : values_.front().name);
}

void Grower::drop_unused_inputs() {
  std::set<std::string> used(program_.outputs.begin(), program_.outputs.end());
  for (const Node& node : program_.nodes) {
    for (const std::string& name : values_in(node.call)) used.insert(name);
  }
  // A symbol is known from an input's size.
  const std::vector<Symbol> symbols = program_.symbols;
  for (const Symbol& symbol : symbols) {
    if (symbol.from_data) continue;
    const bool found = std::any_of(program_.inputs.begin(), program_.inputs.end(), [&](const Input& input) {
      return used.contains(input.name) && std::find(input.sizes.begin(), input.sizes.end(), symbol.name) != input.sizes.end();
    });
    if (!found) used.insert(fresh(DType::F32, {symbol.name}, "grid").name);
  }
  std::erase_if(program_.inputs, [&](const Input& input) { return !used.contains(input.name); });
}

void Grower::grow_nodes(int64_t wanted) {
  const size_t depth = outer_.size();
  for (int64_t attempt = 0; attempt < 40 + 10 * wanted && static_cast<int64_t>(program_.nodes.size()) < wanted; ++attempt) {
    const bool on_theme = !theme_.rows.empty() && random.chance(0.6);
    const OperatorRow& row = random.pick_weighted(on_theme ? theme_.rows : operator_table());
    try {
      if (random.chance(0.03)) fresh(some_dtype(), some_shape());
      const bool again = !program_.nodes.empty() && random.chance(theme_.twins);
      if (const MaybeCall call = again ? twin() : row.make(*this)) try_call(*call);
    } catch (const Error&) {
      while (outer_.size() > depth) end_body({});  // an operand would be too large
    }
  }
}

Program Grower::grow() {
  while (program_.inputs.size() < 2) {
    try {
      fresh(some_dtype(), some_shape());
    } catch (const Error&) {
      // Too large in another run.
    }
  }
  grow_nodes(random.chance(0.04) ? random.between(20, 40) : theme_.rows.empty() ? random.between(3, 14) : random.between(2, 9));
  choose_outputs();
  drop_unused_inputs();
  return program_;
}

}  // namespace toroid::fuzz
