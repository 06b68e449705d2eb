// The operators of random programs that move elements: views, joins, indexing, and writes through all of these.
#include <fmt/format.h>

#include "fuzz/grow.h"

namespace toroid::fuzz {
namespace {

// ---- views and movement --------------------------------------------------------------------------------------------------------

MaybeCall view(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  const int64_t size = a.concrete[static_cast<size_t>(dim)];
  const std::string size_text = a.sizes[static_cast<size_t>(dim)];
  switch (g.random.below(12)) {
    case 0: {
      std::vector<int64_t> order;
      for (int64_t d = 0; d < a.rank(); ++d) order.insert(order.begin() + g.random.below(d + 1), d);
      return Call{fmt::format("aten::permute({}, [{}])", a.name, fmt::join(order, ", "))};
    }
    case 1:
    case 2: return Call{fmt::format("aten::transpose.int({}, {}, {})", a.name, dim, g.dim_of(a))};
    case 3:
    case 4: {
      const int64_t start = g.random.pick({int64_t{0}, int64_t{1}, int64_t{2}, size / 2});
      const std::string end = g.random.chance(0.5)    ? "9223372036854775807"
                              : g.is_constant(a, dim) ? std::to_string(std::max<int64_t>(0, size - g.random.between(0, 2)))
                                                      : size_text + " - 1";
      return Call{fmt::format("aten::slice.Tensor({}, {}, {}, {}, {})", a.name, dim, start, end, g.random.pick({1, 1, 1, 2, 3}))};
    }
    case 5:
      return Call{
          fmt::format("aten::select.int({}, {}, {})", a.name, dim, size == 0 ? 0 : g.random.pick({int64_t{0}, int64_t{-1}, size / 2}))};
    case 6: return Call{fmt::format("aten::unsqueeze({}, {})", a.name, g.random.below(a.rank() + 1))};
    case 7: return Call{fmt::format("aten::squeeze.dim({}, {})", a.name, dim)};
    case 8: {
      std::vector<std::string> sizes = a.sizes;
      for (std::string& each : sizes) {
        if (each == "1") each = g.some_size();
      }
      if (g.random.chance(0.4)) sizes.insert(sizes.begin(), g.some_size());
      return Call{fmt::format("aten::expand({}, [{}])", a.name, fmt::join(sizes, ", "))};
    }
    case 9: {
      if (a.rank() < 2) return std::nullopt;
      const int64_t d1 = g.dim_of(a);
      return d1 == dim ? std::nullopt
                       : MaybeCall(Call{fmt::format("aten::diagonal({}, {}, {}, {})", a.name, g.random.pick({0, 1, -1}), dim, d1)});
    }
    case 10: {
      if (!g.is_constant(a, dim) || size < 2) return std::nullopt;
      return Call{fmt::format("aten::unfold({}, {}, {}, {})", a.name, dim, g.random.between(1, std::min<int64_t>(size, 5)),
                              g.random.between(1, 3))};
    }
    default: {
      const int64_t parts = size > 0 && size <= 40 && g.is_constant(a, dim) ? g.random.between(1, 3) : 1;
      const int64_t length = (size + parts - 1) / parts;
      if (!g.is_constant(a, dim) || size == 0) return std::nullopt;
      return Call{fmt::format("aten::split.Tensor({}, {}, {})", a.name, length, dim), static_cast<int>((size + length - 1) / length)};
    }
  }
}

MaybeCall reshape(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  std::vector<std::string> sizes = x->sizes;
  const int64_t dim = g.dim_of(*x);
  const auto d = static_cast<size_t>(dim);
  if (g.random.chance(0.5) && sizes.size() > 1 && d + 1 < sizes.size()) {
    sizes[d] = g.is_constant(*x, dim) && g.is_constant(*x, dim + 1) ? std::to_string(x->concrete[d] * x->concrete[d + 1])
                                                                    : fmt::format("{}*{}", sizes[d], sizes[d + 1]);
    if (sizes[d].find_first_of("+-") != std::string::npos) return std::nullopt;
    sizes.erase(sizes.begin() + dim + 1);
  } else if (g.is_constant(*x, dim) && x->concrete[d] > 3) {
    for (int64_t factor : {2, 3, 5, 7}) {
      if (x->concrete[d] % factor != 0 || !g.random.chance(0.7)) continue;
      sizes[d] = std::to_string(x->concrete[d] / factor);
      sizes.insert(sizes.begin() + dim + (g.random.chance(0.5) ? 0 : 1), std::to_string(factor));
      break;
    }
  } else {
    sizes = {"-1"};
  }
  return Call{fmt::format("aten::reshape({}, [{}])", x->name, fmt::join(sizes, ", "))};
}

MaybeCall move(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  switch (g.random.below(6)) {
    case 0: return Call{fmt::format("aten::flip({}, {})", a.name, g.some_dims(a))};
    case 1: return Call{fmt::format("aten::roll({}, [{}], [{}])", a.name, g.random.pick({1, -1, 3, 7}), dim)};
    case 2: return Call{fmt::format("aten::clone({})", a.name)};
    case 3:
      if (a.rank() < 2) return std::nullopt;
      return Call{fmt::format("aten::{}({}, {})", g.random.pick({"tril", "triu"}), a.name, g.random.pick({0, 1, -1, 3}))};
    case 4: {
      std::vector<int64_t> times(static_cast<size_t>(a.rank()), 1);
      times[static_cast<size_t>(dim)] = 2;
      return Call{fmt::format("aten::repeat({}, [{}])", a.name, fmt::join(times, ", "))};
    }
    default: return Call{fmt::format("aten::movedim.int({}, {}, {})", a.name, dim, g.dim_of(a))};
  }
}

MaybeCall join(Grower& g) {
  const Value* x = g.pick(has_dims());
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  std::vector<std::string> parts = {a.name};
  const int64_t dim = g.dim_of(a);
  const bool stack = g.random.chance(0.3);
  for (int64_t i = g.random.between(1, 2); i > 0; --i) {
    const Value* other = g.pick([&](const Value& v) {
      if (v.dtype != a.dtype || v.rank() != a.rank()) return false;
      for (int64_t d = 0; d < a.rank(); ++d) {
        if ((stack || d != dim) && v.sizes[static_cast<size_t>(d)] != a.sizes[static_cast<size_t>(d)]) return false;
      }
      return true;
    });
    parts.insert(g.random.chance(0.5) ? parts.begin() : parts.end(), other->name);
  }
  return Call{fmt::format("aten::{}([{}], {})", stack ? "stack" : "cat", fmt::join(parts, ", "), dim)};
}

MaybeCall pad(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  std::vector<int64_t> amounts;
  for (int64_t i = 2 * g.random.between(1, x->rank()); i > 0; --i) amounts.push_back(g.random.pick({0, 0, 1, 2, 5, -1}));
  return Call{fmt::format("aten::constant_pad_nd({}, [{}], {})", x->name, fmt::join(amounts, ", "), g.number_for(*x))};
}

// ---- indexing -----------------------------------------------------------------------------------------------------------------

MaybeCall read_by_index(Grower& g) {
  const Value* x = g.pick([&g](const Value& v) { return v.rank() >= 1; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  const int64_t size = a.concrete[static_cast<size_t>(dim)];
  if (size == 0 || !g.is_constant(a, dim)) return std::nullopt;
  const std::string index_kind = fmt::format("index {}", size);
  const std::string wrapped = fmt::format("wrap {}", size);
  switch (g.random.below(4)) {
    case 0: return Call{fmt::format("aten::index_select({}, {}, {})", a.name, dim, g.fresh(DType::I64, {g.some_size()}, index_kind).name)};
    case 1: {
      std::vector<std::string> sizes = a.sizes;
      sizes[static_cast<size_t>(dim)] = g.some_size();
      return Call{fmt::format("aten::gather({}, {}, {})", a.name, dim, g.fresh(DType::I64, sizes, index_kind).name)};
    }
    case 2: {
      std::vector<std::string> indices(static_cast<size_t>(dim), "none");
      indices.push_back(g.fresh(DType::I64, {g.some_size()}, wrapped).name);
      return Call{fmt::format("aten::index.Tensor({}, [{}])", a.name, fmt::join(indices, ", "))};
    }
    default: {
      if (a.rank() != 2 || !a.is_float() || dim != 0) return std::nullopt;
      return Call{fmt::format("aten::embedding({}, {})", a.name, g.fresh(DType::I64, {g.some_size(), "3"}, index_kind).name)};
    }
  }
}

MaybeCall write_by_index(Grower& g) {
  const Value* x = g.pick(has_dims(is_number));
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  const int64_t dim = g.dim_of(a);
  const int64_t size = a.concrete[static_cast<size_t>(dim)];
  if (size == 0 || !g.is_constant(a, dim)) return std::nullopt;
  const std::string index_kind = fmt::format("index {}", size);
  std::vector<std::string> sizes = a.sizes;
  const std::string in_place = a.overlaps || !g.random.chance(0.3) ? "" : "_";
  switch (g.random.below(5)) {
    case 0: {
      sizes[static_cast<size_t>(dim)] = g.some_size();
      const std::string index = g.fresh(DType::I64, sizes, index_kind).name;
      return Call{fmt::format("aten::scatter_add{}({}, {}, {}, {})", in_place, a.name, dim, index, g.fresh(a.dtype, sizes).name)};
    }
    case 1: {  // each row's indices differ
      const Value index = g.fresh(DType::I64, {a.sizes[static_cast<size_t>(dim)]}, "permute");
      std::vector<std::string> row(static_cast<size_t>(a.rank()), "1");
      return Call{fmt::format("aten::index_copy{}({}, {}, {}, {})", in_place, a.name, dim, index.name, g.fresh(a.dtype, a.sizes).name)};
    }
    case 2: {
      sizes[static_cast<size_t>(dim)] = g.some_size();
      const std::string index = g.fresh(DType::I64, {sizes[static_cast<size_t>(dim)]}, index_kind).name;
      return Call{fmt::format("aten::index_add{}({}, {}, {}, {})", in_place, a.name, dim, index, g.fresh(a.dtype, sizes).name)};
    }
    case 3: {
      if (dim != 0) return std::nullopt;
      sizes[0] = g.some_size();
      const std::string index = g.fresh(DType::I64, {sizes[0]}, fmt::format("wrap {}", size)).name;
      return Call{fmt::format("aten::index_put{}({}, [{}], {}, true)", in_place, a.name, index, g.fresh(a.dtype, sizes).name)};
    }
    default: {
      const std::string index = g.fresh(DType::I64, sizes, index_kind).name;
      return Call{fmt::format("aten::scatter_reduce.two({}, {}, {}, {}, \"{}\")", a.name, dim, index, g.fresh(a.dtype, sizes).name,
                              g.random.pick({"amax", "amin", "sum"}))};
    }
  }
}

// ---- in place -------------------------------------------------------------------------------------------------------------------

MaybeCall write(Grower& g) {
  const Value* x = g.pick([](const Value& v) { return !v.overlaps; });
  if (x == nullptr) return std::nullopt;
  const Value a = *x;
  switch (g.random.below(6)) {
    case 0: {
      const Value* from = g.pick([&](const Value& v) { return v.sizes == a.sizes && (a.is_float() || !v.is_float()); });
      return Call{fmt::format("aten::copy_({}, {})", a.name, from->name)};
    }
    case 1: return Call{fmt::format("aten::fill_.Scalar({}, {})", a.name, g.number_for(a))};
    case 2: return Call{fmt::format("aten::zero_({})", a.name)};
    case 3:
      if (a.is_bool()) return Call{fmt::format("aten::logical_not_({})", a.name)};
      return Call{fmt::format("aten::{}({}, {})", g.random.pick({"add_.Scalar", "mul_.Scalar"}), a.name,
                              a.is_float() ? "1.5" : g.random.pick({"2", "3"}))};
    default: {
      if (a.is_bool()) return std::nullopt;
      const Value b = g.beside(a);
      return Call{fmt::format("aten::{}({}, {})", g.random.pick({"add_.Tensor", "mul_.Tensor", "sub_.Tensor"}), a.name, b.name)};
    }
  }
}

}  // namespace

std::vector<OperatorRow> moving_operators() {
  return {
      {12, view}, {5, reshape}, {4, move}, {5, join}, {3, pad}, {5, read_by_index}, {5, write_by_index}, {8, write},
  };
}

}  // namespace toroid::fuzz
