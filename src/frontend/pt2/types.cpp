#include "frontend/pt2/types.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "symbolic/real.h"

namespace toroid::pt2 {
namespace {

constexpr size_t kMaxRank = 64;
// PyTorch writes "no upper bound" as the largest integer or one less.
constexpr int64_t kUnboundedMax = std::numeric_limits<int64_t>::max() - 1;

struct NumberedDType {
  int64_t number;
  DType dtype;
};
constexpr NumberedDType kDTypes[] = {
    {1, DType::U8},      {2, DType::I8},          {3, DType::I16},         {4, DType::I32},  {5, DType::I64},
    {6, DType::F16},     {7, DType::F32},         {8, DType::F64},         {9, DType::C32},  {10, DType::C64},
    {11, DType::C128},   {12, DType::Bool},       {13, DType::BF16},       {28, DType::U16}, {29, DType::F8E4M3FN},
    {30, DType::F8E5M2}, {31, DType::F8E4M3FNUZ}, {32, DType::F8E5M2FNUZ}, {34, DType::U32}, {35, DType::U64},  // since PyTorch 2.15
};
constexpr int64_t kStridedLayout = 7;

bool is_numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return false;
  name.remove_prefix(prefix.size());
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// PyTorch's own rule: strides of dims of size 1 do not matter, and neither do any when there is no element.
bool is_contiguous(std::span<const sym::Expr> sizes, std::span<const sym::Expr> strides) {
  for (const sym::Expr& size : sizes) {
    if (size.is_const(0)) return true;
  }
  sym::Expr expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d].is_const(1)) continue;
    if (strides[d] != expected) return false;
    expected = expected * sizes[d];
  }
  return true;
}

}  // namespace

bool is_dense(const TensorType& type) {
  if (type.strides.empty()) return true;
  std::vector<size_t> order;  // from the innermost dim in memory outwards
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (!type.sizes[d].is_const(1)) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sym::known_lt(type.strides[a], type.strides[b]); });
  sym::Expr expected = 1;
  return std::all_of(order.begin(), order.end(), [&](size_t d) {
    const bool follows = sym::known_eq(type.strides[d], expected);
    expected = expected * type.sizes[d];
    return follows;
  });
}

DType read_dtype(const JsonValue& number) {
  const int64_t wanted = number.as_integer();
  for (const NumberedDType& entry : kDTypes) {
    if (entry.number == wanted) return entry.dtype;
  }
  number.fail(fmt::format("unknown dtype number {}", wanted));
}

Device read_device(const JsonValue& device) {
  const JsonValue& type = device.at("type");
  Device result;
  if (type.as_string() == "cuda") {
    result.type = Device::Type::Cuda;
  } else if (type.as_string() != "cpu" && type.as_string() != "meta") {  // of a meta tensor, only its type is read
    throw Error(ErrorKind::Unsupported, fmt::format("device '{}' is not supported", type.as_string().substr(0, 40)))
        .help("export the model on 'cpu' or 'cuda'");
  }
  if (const JsonValue* index = device.find_value("index")) {
    if (index->as_integer() < 0 || index->as_integer() > 1023) index->fail("a device index is out of range");
    result.index = static_cast<int32_t>(index->as_integer());
  }
  return result;
}

Layout read_layout(const JsonValue& number) { return number.as_integer() == kStridedLayout ? Layout::Strided : Layout::Other; }

MemoryFormat read_memory_format(const JsonValue& number) {
  switch (number.as_integer()) {
    case 1: return MemoryFormat::Contiguous;
    case 2: return MemoryFormat::ChannelsLast;
    case 3: return MemoryFormat::ChannelsLast3d;
    case 4: return MemoryFormat::Preserve;
    default: number.fail(fmt::format("unknown memory format number {}", number.as_integer()));
  }
}

double read_float(const JsonValue& number) {
  if (number.kind() != JsonValue::Kind::String) return number.as_real();
  const std::string_view text = number.as_string();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  number.fail("expected a number, \"Infinity\", \"-Infinity\" or \"NaN\"");
}

const JsonMember& read_union(const JsonValue& value) {
  if (value.members().size() != 1) value.fail(fmt::format("a union needs one alternative, not {}", value.members().size()));
  return value.members().front();
}

SizeReader::SizeReader(sym::Context& symbols, const JsonValue* range_constraints, SymbolRanges further)
    : symbols_(symbols), further_(std::move(further)) {
  if (!range_constraints) return;
  for (const JsonMember& member : range_constraints->members()) {
    sym::Range range;
    if (const JsonValue* min = member.value.find_value("min_val")) range.min = min->as_integer();
    if (const JsonValue* max = member.value.find_value("max_val")) {
      range.max = max->as_integer() >= kUnboundedMax ? sym::kPosInf : max->as_integer();
    }
    if (range.min > range.max) member.value.fail("a symbol's smallest value is above its largest");
    ranges_.emplace(member.key, range);
  }
}

sym::Expr SizeReader::symbol(const SymbolText& text, std::optional<int64_t> hint) {
  // PyTorch's names: s77 for sizes, u0 for data-dependent integers, zf3 and zuf0 for floats.
  if (is_numbered(text.name, "zf") || is_numbered(text.name, "zuf")) {
    return sym::real(sym::RealFunction::Value, {symbols_.symbol(text.name, sym::SymbolKind::DataDependent)});
  }
  const bool data_dependent = is_numbered(text.name, "u");
  // The stated range counts: SymPy's symbols are called positive even where Dim(min=0) lets them be 0.
  sym::Range range;
  const auto known = ranges_.find(text.name);
  const bool may_be_zero = known != ranges_.end() && known->second.min == 0;
  if (!data_dependent || text.nonnegative) range.min = 0;
  if (text.positive && !may_be_zero) range.min = 1;
  if (known != ranges_.end()) {
    // A size from 2 on is any: the exporter traces no size of 0 or 1, and its own programs ask for no bound below 3.
    const bool is_any = !data_dependent && known->second.min == 2;
    if (!is_any) range.min = std::max(range.min, known->second.min);
    range.max = known->second.max;
  }
  if (const auto also = further_.find(text.name); also != further_.end()) {
    range = {std::max(range.min, also->second.min), std::min(range.max, also->second.max)};
  }
  if (range.min > range.max) {
    throw Error(ErrorKind::InvalidModel, fmt::format("symbol '{}' has no possible value", text.name.substr(0, 40)));
  }
  return symbols_.symbol(text.name, data_dependent ? sym::SymbolKind::DataDependent : sym::SymbolKind::Size, range, hint);
}

sym::Expr SizeReader::parse(const JsonValue& text, const JsonValue* hint) {
  const auto [entry, is_new] = parsed_.try_emplace(text.as_string());
  if (!is_new) return entry->second;
  std::optional<int64_t> hint_value;
  if (hint) {
    const JsonMember& value = read_union(*hint);
    if (value.key == "as_int") hint_value = value.value.as_integer();
  }
  bool only_symbol = true;  // a compound expression's hint says nothing of its symbols
  const std::string_view expression = text.as_string();
  if (!expression.starts_with("Symbol(") || expression.find('(', 7) != expression.npos) {
    for (char c : expression) only_symbol &= std::isalnum(static_cast<unsigned char>(c)) != 0;
  }
  const auto make_symbol = [&](const SymbolText& symbol_text) { return symbol(symbol_text, only_symbol ? hint_value : std::nullopt); };
  try {
    entry->second = parse_size(expression, symbols_, make_symbol);
  } catch (...) {
    parsed_.erase(entry);
    throw;
  }
  return entry->second;
}

sym::Expr SizeReader::read_int(const JsonValue& value) {
  const JsonMember& member = read_union(value);
  if (member.key == "as_int") return member.value.as_integer();
  if (member.key == "as_expr") return parse(member.value.at("expr_str"), member.value.find_value("hint"));
  value.fail(fmt::format("expected an integer or an expression, found '{}'", member.key));
}

sym::Expr SizeReader::read_bool(const JsonValue& value) {
  const JsonMember& member = read_union(value);
  if (member.key == "as_bool") return member.value.as_bool() ? 1 : 0;
  if (member.key == "as_expr") return parse(member.value.at("expr_str"), member.value.find_value("hint"));
  value.fail(fmt::format("expected a boolean or an expression, found '{}'", member.key));
}

sym::Expr SizeReader::read_real(const JsonValue& value) {
  const JsonMember& member = read_union(value);
  if (member.key == "as_float") return sym::real_literal(read_float(member.value));
  if (member.key != "as_expr") value.fail(fmt::format("expected a float or an expression, found '{}'", member.key));
  const std::string_view text = member.value.at("expr_str").as_string();
  if (const auto found = parsed_reals_.find(text); found != parsed_reals_.end()) return found->second;
  const sym::Expr result = parse_real(text, symbols_, [&](const SymbolText& symbol_text) { return symbol(symbol_text, std::nullopt); });
  return parsed_reals_.emplace(text, result).first->second;
}

TensorType SizeReader::read_type(const JsonValue& meta) {
  TensorType type;
  const JsonValue& sizes = meta.at("sizes");
  const JsonValue& strides = meta.at("strides");
  type.dtype = read_dtype(meta.at("dtype"));
  type.device = read_device(meta.at("device"));
  if (read_layout(meta.at("layout")) != Layout::Strided) {
    throw Error(ErrorKind::Unsupported, "sparse and other non-strided tensors are not supported")
        .help("convert the tensor with .to_dense() before exporting");
  }
  if (sizes.elements().size() > kMaxRank) {
    sizes.fail(fmt::format("a tensor has {} dimensions, and the limit is {}", sizes.elements().size(), kMaxRank));
  }
  if (strides.elements().size() != sizes.elements().size()) {
    strides.fail(fmt::format("a tensor of {} dimensions has {} strides", sizes.elements().size(), strides.elements().size()));
  }
  for (const JsonValue& size : sizes.elements()) {
    type.sizes.push_back(read_int(size));
    if (type.sizes.back().is_const() && type.sizes.back().value() < 0) size.fail("a size is negative");
  }
  for (const JsonValue& stride : strides.elements()) {
    type.strides.push_back(read_int(stride));
    if (type.strides.back().is_const() && type.strides.back().value() < 0) stride.fail("a stride is negative");
  }
  type.storage_offset = read_int(meta.at("storage_offset"));
  if (is_contiguous(type.sizes, type.strides)) type.strides.clear();
  return type;
}

}  // namespace toroid::pt2
