// Sizes, dtypes, elements and strides: what the inputs of a random program are.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/grow.h"

namespace toroid::fuzz {

void Grower::choose_sizes() {
  const bool symbolic = theme_.shapes == Shapes::Symbolic || (theme_.shapes == Shapes::Any && random.chance(0.35)) ||
                        (theme_.shapes == Shapes::LongRows && random.chance(0.75));
  if (theme_.shapes == Shapes::LongRows) {
    sizes_ = {std::to_string(random.between(1, 7)), std::to_string(random.pick({1, 2, 3}))};
    if (!symbolic) sizes_.push_back(std::to_string(random.pick({65536, 65537, 65599, 66001, 70000})));
    most_elements_ = symbolic ? 4096 : 150000;
  } else if (theme_.shapes == Shapes::ManyRows) {
    const int64_t row = random.pick({1, 3, 16, 17, 64, 100, 257});
    sizes_ = {std::to_string(random.between(36000, 70000) / row), std::to_string(row)};
    most_elements_ = 80000;
  } else {
    const std::vector<int64_t> pool = {1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 15, 16, 17, 19, 31, 32, 33, 37, 47, 64, 65, 100, 127};
    for (int64_t i = random.between(2, 4); i > 0; --i) sizes_.push_back(std::to_string(random.pick(pool)));
    if (random.chance(0.06)) sizes_.push_back("0");
    if (random.chance(0.04)) {
      most_elements_ = 200000;
      sizes_.push_back(std::to_string(random.pick({1000, 4097, 16385, 65537, 70000, 131072})));
    } else if (random.chance(0.25)) {
      sizes_.push_back(std::to_string(random.pick({128, 255, 256, 257, 300, 513, 1000})));
    }
  }
  if (!symbolic) {
    program_.runs.emplace_back();
    if (has_state_ || random.chance(0.3)) program_.runs.push_back({{std::string(kData), 1}});
    if (has_state_ && random.chance(0.3)) program_.runs.push_back({{std::string(kData), 2}});
    return;
  }
  const bool is_long = theme_.shapes == Shapes::LongRows;
  const int64_t symbols = is_long ? 1 : random.between(1, 2);
  for (int64_t i = 0; i < symbols; ++i) {
    const int64_t least = random.pick({0, 1, 1, 1, 2, 2});
    // Hints decide about splits, blocks and tiles; runs need not be near them.
    const int64_t hint = is_long ? random.pick({65536, 70000, 200000}) : random.pick({4, 8, 16, 33, 64, 128, 1000, 20000, 70000, 200000});
    program_.symbols.push_back({fmt::format("s{}", i), least, std::max<int64_t>(hint, 512), std::max(hint, least)});
    sizes_.push_back(program_.symbols.back().name);
    if (is_long || random.chance(0.5)) sizes_.push_back(program_.symbols.back().name);
  }
  for (int64_t i = random.between(2, 3); i > 0; --i) {
    Run run;
    for (const Symbol& symbol : program_.symbols) {
      const int64_t size =
          i == 1 && random.chance(0.3) ? symbol.least : random.pick({2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 63, 65, 130});
      run.emplace_back(symbol.name, std::max(size, symbol.least));
    }
    run.emplace_back(kData, i);
    program_.runs.push_back(std::move(run));
  }
}

std::vector<std::string> Grower::some_shape() {
  if (theme_.shapes == Shapes::ManyRows && random.chance(0.8)) return sizes_;
  if (theme_.shapes == Shapes::LongRows && random.chance(0.8)) {
    std::vector<std::string> shape = {sizes_.back()};  // the long one, and perhaps short ones around it
    if (random.chance(0.4)) shape.insert(shape.begin(), sizes_[0]);
    if (random.chance(0.3)) shape.push_back(sizes_[1]);
    return shape;
  }
  const std::vector<int64_t> ranks = {0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4};
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::vector<std::string> shape;
    for (int64_t d = random.pick(ranks); d > 0; --d) shape.push_back(some_size());
    const std::vector<int64_t> sizes = sizes_in(shape, program_.runs[0]);
    if (numel(sizes) <= most_elements_) return shape;
  }
  return {"3"};
}

DType Grower::some_dtype() { return random.pick(dtypes_); }

std::string Grower::kind_for(DType dtype) {
  if (!theme_.elements.empty() && dtype != DType::Bool && random.chance(0.5)) {
    const std::string kind = random.pick(theme_.elements);
    if (is_floating(dtype) || kind == "ties" || kind == "negative") return kind;
  }
  if (is_floating(dtype)) {
    const double which = random.unit();
    return which < 0.42   ? "grid"
           : which < 0.7  ? "unit"
           : which < 0.8  ? "positive"
           : which < 0.84 ? "distinct"
           : which < 0.88 ? "negative"
                          : "special";
  }
  const double which = random.unit();
  return which < 0.15 ? "extreme" : which < 0.25 ? "negative" : which < 0.35 ? "ties" : "small";
}

// Strides of an input: transposed, with gaps, or expanded; empty for contiguous.
std::vector<std::string> Grower::some_strides(const Input& input, const std::vector<int64_t>& sizes, bool& overlaps) {
  const size_t rank = sizes.size();
  if (rank == 0) return {};
  std::vector<size_t> order(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = d;
  if (random.chance(0.6)) std::swap(order[0], order[rank - 1]);
  std::vector<std::string> strides(rank);
  std::string symbols;  // the stride is `number` times these: "s0*s1"
  int64_t number = random.chance(0.2) ? 2 : 1;
  for (size_t i = rank; i-- > 0;) {
    const size_t d = order[i];
    const std::string& size = input.sizes[d];
    const bool is_number = size.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number && size.find_first_of("+-*/ ") != std::string::npos) return {};
    if (random.chance(0.12) && sizes[d] > 1) {
      strides[d] = random.chance(0.7) ? "0" : "1";  // repeated, or sliding windows
      overlaps = true;
      continue;
    }
    strides[d] = symbols.empty() ? std::to_string(number) : number == 1 ? symbols : fmt::format("{}*{}", number, symbols);
    if (is_number)
      number *= std::max<int64_t>(sizes[d], 1);
    else
      symbols += (symbols.empty() ? "" : "*") + size;
    if (random.chance(0.15)) number = symbols.empty() ? number + random.between(1, 3) : number * 2;
  }
  return strides;
}

Value Grower::fresh(DType dtype, std::vector<std::string> sizes, std::string kind) {
  Input input{.name = {}, .dtype = dtype, .sizes = std::move(sizes), .strides = {}, .values = kind};
  const bool is_fixed = std::all_of(input.sizes.begin(), input.sizes.end(),
                                    [](const std::string& size) { return size.find_first_not_of("0123456789") == std::string::npos; });
  if (has_state_ && is_fixed && random.chance(theme_.state > 0.5 ? 0.6 : 0.35))
    input.kind = random.chance(0.5) ? InputKind::Weight : InputKind::Buffer;
  return add_input(std::move(input), kind.empty() && random.chance(0.25));
}

Value Grower::weight(DType dtype, std::vector<std::string> sizes, std::string kind) {
  const bool strided = random.chance(kind.empty() ? 0.8 : 0.2);
  return add_input(
      {.name = {}, .dtype = dtype, .sizes = std::move(sizes), .strides = {}, .values = std::move(kind), .kind = InputKind::Weight},
      strided);
}

// `values` of the input is the kind of its elements, empty for any.
Value Grower::add_input(Input input, bool strided) {
  if (is_in_body()) throw Error(ErrorKind::InvalidInput, "a body has no inputs of its own");
  input.name = fmt::format("v{}", next_name_++);
  Value value{input.name, input.dtype, input.sizes, sizes_in(input.sizes, program_.runs[0])};
  for (const Run& run : program_.runs) {
    if (numel(sizes_in(input.sizes, run)) > 4 * most_elements_) {
      throw Error(ErrorKind::InvalidInput, fmt::format("an input of type {} is too large", type_text(input.dtype, input.sizes)));
    }
  }
  input.values = fmt::format("{} {}", input.values.empty() ? kind_for(input.dtype) : input.values, random.below(100000));
  bool overlaps = false;
  if (strided && input.kind != InputKind::Buffer) input.strides = some_strides(input, value.concrete, overlaps);
  has_symbolic_strides_ = has_symbolic_strides_ || (has_symbols() && !input.strides.empty());
  value.is_buffer = input.kind == InputKind::Buffer;
  if (input.kind == InputKind::Weight) frozen_.push_back(input.name);
  value.overlaps = overlaps || input.kind == InputKind::Weight;
  eager_->add_input(input);
  program_.inputs.push_back(std::move(input));
  values_.push_back(value);
  return value;
}

}  // namespace toroid::fuzz
