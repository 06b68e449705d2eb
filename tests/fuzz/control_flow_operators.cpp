// Branches, loops, and operators whose results have sizes that depend on data.
#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/grow.h"

namespace toroid::fuzz {
namespace {

using Values = std::vector<Value>;

bool is_small(const Value& v) { return v.numel() <= 600; }

Values some_values(Grower& g, int64_t most, const Grower::Predicate& wanted) {
  Values list;
  for (int64_t i = g.random.between(1, most); i > 0; --i) {
    if (const Value* found = g.pick(wanted)) list.push_back(*found);
  }
  return list;
}

std::string names(const Values& values) {
  std::vector<std::string> list;
  for (const Value& each : values) list.push_back(each.name);
  return fmt::format("[{}]", fmt::join(list, ", "));
}

std::vector<HostTensor> elements(Grower& g, const Values& values) {
  std::vector<HostTensor> list;
  for (const Value& each : values) list.push_back(g.elements(each));
  return list;
}

std::vector<std::string> types(const Values& values) {
  std::vector<std::string> list;
  for (const Value& each : values) list.push_back(type_text(each.dtype, each.sizes));
  return list;
}

// Grows the body that is begun, until it gives values of these types.
Body body_giving(Grower& g, const Values& wanted) {
  g.grow_nodes(g.random.between(1, 5));
  std::vector<std::string> outputs;
  for (const Value& each : wanted) outputs.push_back(g.value_of_type(each.dtype, each.sizes));
  return g.end_body(std::move(outputs));
}

// Grows the body that is begun, and gives one or two of its last values.
Body body_giving_any(Grower& g, Values& results) {
  g.grow_nodes(g.random.between(1, 5));
  for (int64_t i = g.random.between(1, 2); i > 0; --i) {
    const auto count = static_cast<int64_t>(g.values().size());
    results.push_back(g.values()[static_cast<size_t>(count - 1 - g.random.below(std::min<int64_t>(count, 3)))]);
  }
  std::vector<std::string> outputs;
  for (const Value& each : results) outputs.push_back(each.name);
  return g.end_body(std::move(outputs));
}

// A value as one of its slices along the first dim.
Value slice_of(Value v) {
  v.sizes.erase(v.sizes.begin());
  v.concrete.erase(v.concrete.begin());
  return v;
}
Values slices_of(Values values) {
  for (Value& each : values) each = slice_of(each);
  return values;
}

std::vector<HostTensor> first_slices(const std::vector<HostTensor>& tensors) {
  std::vector<HostTensor> list;
  for (const HostTensor& x : tensors) {
    const std::vector<int64_t> sizes(x.sizes().begin() + 1, x.sizes().end());
    const auto bytes = static_cast<size_t>(numel(sizes) * size_bytes(x.dtype()));
    list.emplace_back(x.dtype(), sizes, x.bytes().first(bytes), std::make_shared<HostTensor>(x));
  }
  return list;
}

std::vector<HostTensor> joined(std::vector<HostTensor> a, const std::vector<HostTensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr size_t kDeepest = 1;  // bodies within bodies

bool too_deep(Grower& g) { return g.depth() > kDeepest; }

MaybeCall cond(Grower& g) {
  if (too_deep(g)) return std::nullopt;
  const Values operands = some_values(g, 3, [](const Value& v) { return v.numel() <= 4096; });
  if (operands.empty()) return std::nullopt;
  std::string predicate;
  if (g.has_symbols() && g.random.chance(0.2)) {
    predicate = fmt::format("(s0 < {})", g.random.pick({4, 16, 33}));
  } else {
    const Value* found = g.pick([](const Value& v) { return v.is_bool() && v.rank() == 0; });
    if (found == nullptr && g.is_in_body()) return std::nullopt;
    predicate = found != nullptr ? found->name : g.fresh(DType::Bool, {}).name;
  }
  const std::vector<HostTensor> tensors = elements(g, operands);
  Values results;
  g.begin_body(operands, tensors);
  Body taken = body_giving_any(g, results);
  g.begin_body(operands, tensors);
  Body other = body_giving(g, results);
  const int count = static_cast<int>(results.size());
  return Call{.text = fmt::format("higher_order::cond({}, @0, @1, {})", predicate, names(operands)),
              .results = count,
              .types = types(results),
              .bodies = {std::move(taken), std::move(other)}};
}

// A counter that an input starts, and what the turns make of some values.
MaybeCall while_loop(Grower& g) {
  if (too_deep(g)) return std::nullopt;
  const Value* start = g.pick([](const Value& v) { return v.dtype == DType::I64 && v.rank() == 0; });
  if (start == nullptr && g.is_in_body()) return std::nullopt;
  const Value counter = start != nullptr ? *start : g.fresh(DType::I64, {}, "small");
  const std::vector<HostTensor> first = {g.elements(counter)};
  if (first[0].int_at(0) < -12 || first[0].int_at(0) > 1000) return std::nullopt;
  Values carried = {counter};
  for (const Value& each : some_values(g, 2, is_small)) carried.push_back(each);
  const Values others = some_values(g, 2, is_small);
  const Values all = joined(carried, others);
  const std::vector<HostTensor> tensors = elements(g, all);

  g.begin_body(all, tensors);
  const Value* goes_on = g.make({fmt::format("aten::lt.Scalar({}, {})", g.values()[0].name, g.random.between(-2, 4))});
  if (goes_on == nullptr) throw Error(ErrorKind::InvalidInput, "no condition");
  Body condition = g.end_body({goes_on->name});

  g.begin_body(all, tensors);
  const Value* next = g.make({fmt::format("aten::add.Scalar({}, {})", g.values()[0].name, g.random.between(1, 3))});
  if (next == nullptr) throw Error(ErrorKind::InvalidInput, "no counter");
  const std::string counted = next->name;
  Body turn = body_giving(g, carried);
  turn.outputs[0] = counted;
  return Call{.text = fmt::format("higher_order::while_loop(@0, @1, {}, {})", names(carried), names(others)),
              .results = static_cast<int>(carried.size()),
              .types = types(carried),
              .bodies = {std::move(condition), std::move(turn)}};
}

// Values with the same first size.
Values sliceable(Grower& g, int64_t most) {
  const auto fits = [](const Value& v) { return v.rank() >= 1 && v.concrete[0] >= 1 && v.concrete[0] <= 40 && v.numel() <= 4096; };
  const Value* first = g.pick(fits);
  if (first == nullptr) return {};
  Values list = {*first};
  const std::string length = first->sizes[0];
  for (int64_t i = g.random.below(most); i > 0; --i) {
    if (const Value* more = g.pick([&](const Value& v) { return fits(v) && v.sizes[0] == length; })) list.push_back(*more);
  }
  return list;
}

std::vector<std::string> stacked_types(const std::string& length, const Values& slices) {
  std::vector<std::string> list;
  for (Value each : slices) {
    each.sizes.insert(each.sizes.begin(), length);
    list.push_back(type_text(each.dtype, each.sizes));
  }
  return list;
}

MaybeCall map(Grower& g) {
  const Values sliced = too_deep(g) ? Values{} : sliceable(g, 2);
  if (sliced.empty()) return std::nullopt;
  const Values others = g.random.chance(0.6) ? some_values(g, 2, is_small) : Values{};
  Values results;
  g.begin_body(joined(slices_of(sliced), others), joined(first_slices(elements(g, sliced)), elements(g, others)));
  Body body = body_giving_any(g, results);
  return Call{.text = fmt::format("higher_order::map_impl(@0, {}, {})", names(sliced), names(others)),
              .results = static_cast<int>(results.size()),
              .types = stacked_types(sliced[0].sizes[0], results),
              .bodies = {std::move(body)}};
}

MaybeCall scan(Grower& g) {
  const Values sliced = too_deep(g) ? Values{} : sliceable(g, 2);
  if (sliced.empty()) return std::nullopt;
  const Values carried = some_values(g, 2, is_small);
  const Values others = g.random.chance(0.5) ? some_values(g, 2, is_small) : Values{};
  if (carried.empty()) return std::nullopt;
  g.begin_body(joined(joined(carried, slices_of(sliced)), others),
               joined(joined(elements(g, carried), first_slices(elements(g, sliced))), elements(g, others)));
  g.grow_nodes(g.random.between(1, 5));
  std::vector<std::string> outputs;
  for (const Value& each : carried) outputs.push_back(g.value_of_type(each.dtype, each.sizes));
  const Value stacked = g.values().back();
  outputs.push_back(stacked.name);
  Body body = g.end_body(std::move(outputs));
  std::vector<std::string> all = types(carried);
  for (const std::string& type : stacked_types(sliced[0].sizes[0], {stacked})) all.push_back(type);
  return Call{.text = fmt::format("higher_order::scan(@0, {}, {}, {})", names(carried), names(sliced), names(others)),
              .results = static_cast<int>(all.size()),
              .types = all,
              .bodies = {std::move(body)}};
}

MaybeCall associative_scan(Grower& g) {
  const Values sliced = too_deep(g) ? Values{} : sliceable(g, 2);
  if (sliced.empty()) return std::nullopt;
  const Values slices = slices_of(sliced);
  const std::vector<HostTensor> tensors = first_slices(elements(g, sliced));
  g.begin_body(joined(slices, slices), joined(tensors, tensors));
  Body body = body_giving(g, slices);
  return Call{.text = fmt::format("higher_order::associative_scan(@0, {}, [])", names(sliced)),
              .results = static_cast<int>(sliced.size()),
              .types = types(sliced),
              .bodies = {std::move(body)}};
}

// ---- sizes that depend on data -----------------------------------------------------------------------------------------

// Rounding must not decide how many elements there are.
bool is_countable(const Value& v) { return !v.is_float() && v.rank() >= 1 && v.numel() <= 2000; }

MaybeCall nonzero(Grower& g) {
  const Value* x = g.pick(is_countable);
  if (x == nullptr) return std::nullopt;
  const Symbol symbol = g.late_symbol(g.most_elements(*x));
  return Call{
      .text = fmt::format("aten::nonzero({})", x->name), .types = {fmt::format("i64[{}, {}]", symbol.name, x->rank())}, .symbol = symbol};
}

MaybeCall masked_select(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return v.rank() >= 1 && v.numel() <= 2000; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const Symbol symbol = g.late_symbol(g.most_elements(a));
  const Value* mask = g.pick([&](const Value& v) { return v.is_bool() && v.sizes == a.sizes; });
  const std::string name = mask != nullptr ? mask->name : g.fresh(DType::Bool, a.sizes).name;
  const std::string type = fmt::format("{}[{}]", to_string(a.dtype), symbol.name);
  if (g.random.chance(0.4)) {
    return Call{.text = fmt::format("aten::masked_select({}, {})", a.name, name), .types = {type}, .symbol = symbol};
  }
  return Call{.text = fmt::format("aten::index.Tensor({}, [{}])", a.name, name), .types = {type}, .symbol = symbol};
}

// Rows that a mask over the first dim selects.
MaybeCall select_rows(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return v.rank() >= 2 && v.numel() <= 2000; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const Symbol symbol = g.late_symbol(g.most_elements(a));
  std::vector<std::string> sizes = a.sizes;
  sizes[0] = symbol.name;
  return Call{.text = fmt::format("aten::index.Tensor({}, [{}])", a.name, g.fresh(DType::Bool, {a.sizes[0]}).name),
              .types = {type_text(a.dtype, sizes)},
              .symbol = symbol};
}

MaybeCall unique(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return v.is_int() && v.rank() >= 1 && v.numel() <= 2000; });
  if (x == nullptr) return std::nullopt;
  const Symbol symbol = g.late_symbol(g.most_elements(*x));
  return Call{.text = fmt::format("aten::_unique2({}, true, true, true)", x->name),
              .results = 3,
              .types = {fmt::format("{}[{}]", to_string(x->dtype), symbol.name), type_text(DType::I64, x->sizes),
                        fmt::format("i64[{}]", symbol.name)},
              .symbol = symbol};
}

// A number read from a tensor: a size.
MaybeCall item(Grower& g) {
  Symbol symbol = g.late_symbol(40);
  symbol.most = g.random.pick({12, 40, 1000});
  const Value* x = g.pick([](const Value& v) { return v.is_int() && v.rank() == 0; });
  const std::string name = x != nullptr && g.random.chance(0.5) ? x->name : g.fresh(DType::I64, {}, "index 12").name;
  return Call{.text = fmt::format("aten::item({})", name), .symbol = symbol, .binds = true};
}

// What such a size is for.
MaybeCall use_late_size(Grower& g) {
  const std::string size = g.some_length();
  if (!size.starts_with("u")) return std::nullopt;
  switch (g.random.below(3)) {
    case 0: return Call{fmt::format("aten::full([{}, {}], {}, dtype=dtype.f32)", size, g.some_size(), g.random.pick({"0.5", "-2"}))};
    case 1: {
      const Value* x = g.pick([](const Value& v) { return v.rank() >= 1 && v.concrete[0] == 1 && v.sizes[0] == "1"; });
      if (x == nullptr) return std::nullopt;
      std::vector<std::string> sizes = x->sizes;
      sizes[0] = size;
      return Call{fmt::format("aten::expand({}, [{}])", x->name, fmt::join(sizes, ", "))};
    }
    default: {
      const Value* x = g.pick([](const Value& v) { return v.rank() >= 1 && v.concrete[0] >= 12; });
      if (x == nullptr) return std::nullopt;
      return Call{fmt::format("aten::slice.Tensor({}, 0, 0, {})", x->name, size)};
    }
  }
}

}  // namespace

std::vector<OperatorRow> control_flow_operators() {
  return {
      {2.0, cond},          {1.2, while_loop},  {1.0, map},    {1.0, scan}, {0.6, associative_scan}, {0.7, nonzero},
      {0.9, masked_select}, {0.5, select_rows}, {0.5, unique}, {0.6, item}, {3.0, use_late_size},
  };
}

}  // namespace toroid::fuzz
