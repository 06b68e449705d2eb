#include "runtime/program/safetensors_weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "base/fail.h"
#include "base/file/mapped_file.h"
#include "base/format.h"
#include "base/machine/out_of_memory.h"
#include "base/sort_indices.h"
#include "runtime/contract/contract.h"
#include "runtime/memory/host_bytes.h"
#include "tensor/host_tensor.h"
#include "tensor/strided_copy.h"

namespace toroid {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMostDims = 64;
constexpr size_t kShownLetters = 200;

std::optional<DType> dtype_called(std::string_view name) {
  constexpr struct {
    std::string_view name;
    DType dtype;
  } kNames[] = {{"BOOL", DType::Bool},     {"U8", DType::U8},   {"I8", DType::I8},     {"I16", DType::I16}, {"I32", DType::I32},
                {"I64", DType::I64},       {"F16", DType::F16}, {"BF16", DType::BF16}, {"F32", DType::F32}, {"F64", DType::F64},
                {"U16", DType::U16},       {"U32", DType::U32}, {"U64", DType::U64},   {"C64", DType::C64}, {"F8_E4M3", DType::F8E4M3FN},
                {"F8_E5M2", DType::F8E5M2}};
  for (const auto& each : kNames) {
    if (each.name == name) return each.dtype;
  }
  return std::nullopt;
}

// Names come from the file: no escapes of terminals, and no endless lines.
std::string shown(std::string_view name) {
  std::string text(name.substr(0, kShownLetters));
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < ' ' || letter == 0x7f) letter = '?';
  }
  return text;
}

// Reads the header from its first byte on; errors name the place in the file.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(std::string message) const {
    throw Error(ErrorKind::InvalidInput, std::move(message))
        .at(formatted("at byte {}", sizeof(uint64_t) + at_))
        .help("write the file again with a safetensors library");
  }
  // Past spaces, the next letter if it is this one.
  bool take(char letter) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }
  void expect(char letter) {
    if (!take(letter)) fail(formatted("the header has no '{}' here", letter));
  }
  void expect_end() {
    skip_spaces();
    if (at_ != text_.size()) fail("the header goes on behind its end");
  }
  // Calls f for each element up to `end`, with commas between; what begins the list is taken already.
  template <class F>
  void each(char end, F f) {
    if (take(end)) return;
    do {
      f();
    } while (take(','));
    expect(end);
  }
  std::string string() {
    expect('"');
    std::string result;
    for (;;) {
      const char letter = next();
      if (letter == '"') return result;
      if (static_cast<unsigned char>(letter) < ' ') fail("a text has a control character");
      if (letter == '\\') {
        append_escape(result);
      } else {
        result += letter;
      }
    }
  }
  int64_t number() {
    skip_spaces();
    const size_t begin = at_;
    Checked value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value *= 10;
      value += text_[at_] - '0';
    }
    if (at_ == begin || (text_[begin] == '0' && at_ > begin + 1)) fail("the header has no whole number here");
    if (!value.fits()) fail("a number has more than 63 bits");
    return *value.value();
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
  }
  char next() {
    if (at_ == text_.size()) fail("the header ends within a text");
    return text_[at_++];
  }
  uint32_t hex_digits() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char digit = next();
      const auto of = [&](char first, char last, int base) { return digit >= first && digit <= last ? digit - first + base : -1; };
      const int bits = std::max({of('0', '9', 0), of('a', 'f', 10), of('A', 'F', 10)});
      if (bits < 0) fail("a text has a wrong escape");
      value = value << 4 | static_cast<uint32_t>(bits);
    }
    return value;
  }
  void append_escape(std::string& result) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char letter = next();
    if (letter != 'u') {
      const size_t found = kLetters.find(letter);
      if (found == kLetters.npos) fail("a text has a wrong escape");
      result += kMeant[found];
      return;
    }
    uint32_t code = hex_digits();
    if (code >= 0xDC00 && code < 0xE000) fail("a text has half a surrogate pair");
    if (code >= 0xD800 && code < 0xDC00) {
      if (next() != '\\' || next() != 'u') fail("a text has half a surrogate pair");
      const uint32_t low = hex_digits();
      if (low < 0xDC00 || low >= 0xE000) fail("a text has half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    const auto add = [&](uint32_t bits) { result += static_cast<char>(bits); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
      add(0xC0 | code >> 6);
    } else {
      if (code < 0x10000) {
        add(0xE0 | code >> 12);
      } else {
        add(0xF0 | code >> 18);
        add(0x80 | (code >> 12 & 0x3F));
      }
      add(0x80 | (code >> 6 & 0x3F));
    }
    add(0x80 | (code & 0x3F));
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::optional<uint64_t> bytes_needed(const WeightInFile& tensor) {
  Checked bytes = size_bytes(tensor.dtype);
  if (std::count(tensor.sizes.begin(), tensor.sizes.end(), 0) > 0) return 0;
  for (const int64_t size : tensor.sizes) bytes *= size;
  if (!bytes.fits()) return std::nullopt;
  return static_cast<uint64_t>(*bytes.value());
}

WeightInFile read_tensor(Header& header, std::string name, Span<const std::byte> data) {
  WeightInFile tensor{/*name=*/std::move(name), /*dtype=*/{}, /*sizes=*/{}, /*bytes=*/{}};
  bool has_dtype = false, has_shape = false;
  std::vector<int64_t> offsets;
  header.expect('{');
  header.each('}', [&] {
    const std::string field = header.string();
    header.expect(':');
    if (field == "dtype" && !has_dtype) {
      const std::string dtype = header.string();
      const std::optional<DType> known = dtype_called(dtype);
      if (!known) header.fail(formatted("tensor '{}' has the unknown dtype '{}'", shown(tensor.name), shown(dtype)));
      tensor.dtype = *known;
      has_dtype = true;
    } else if (field == "shape" && !has_shape) {
      header.expect('[');
      header.each(']', [&] {
        if (tensor.sizes.size() == kMostDims) header.fail(formatted("tensor '{}' has over {} dimensions", shown(tensor.name), kMostDims));
        tensor.sizes.push_back(header.number());
      });
      has_shape = true;
    } else if (field == "data_offsets" && offsets.empty()) {
      header.expect('[');
      offsets.push_back(header.number());
      header.expect(',');
      offsets.push_back(header.number());
      header.expect(']');
    } else {
      header.fail(formatted("tensor '{}' has the field '{}', which is unknown or there twice", shown(tensor.name), shown(field)));
    }
  });
  if (!has_dtype || !has_shape || offsets.empty()) header.fail(formatted("tensor '{}' lacks a field", shown(tensor.name)));
  const auto begin = static_cast<uint64_t>(offsets[0]), end = static_cast<uint64_t>(offsets[1]);
  if (begin > end || end > data.size())
    header.fail(formatted("tensor '{}' lies at [{}, {}), outside the {} bytes of data", shown(tensor.name), begin, end, data.size()));
  const std::optional<uint64_t> needed = bytes_needed(tensor);
  if (!needed || *needed != end - begin)
    header.fail(formatted("tensor '{}' has {} bytes, and another size by its shape", shown(tensor.name), end - begin));
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

void refuse_holes_and_overlaps(const Header& header, Span<const WeightInFile> tensors, Span<size_t> order, Span<const std::byte> data) {
  sort_indices(order, [&](size_t a, size_t b) {
    const Span<const std::byte> first = tensors[a].bytes, second = tensors[b].bytes;
    return first.data() != second.data() ? first.data() < second.data() : first.size() < second.size();
  });
  const std::byte* covered = data.data();
  for (const size_t i : order) {
    if (tensors[i].bytes.data() != covered) header.fail("tensors overlap, or leave bytes of the file to none");
    covered += tensors[i].bytes.size();
  }
  if (covered != data.data() + data.size()) header.fail("bytes at the file's end belong to no tensor");
}

// Those that the program reads it with.
std::vector<int64_t> strides_wanted(const ToroidConstantInfo& constant) {
  if (constant.strides == nullptr) return strides_of(rows(constant.sizes, constant.rank));
  return {constant.strides, constant.strides + constant.rank};
}

}  // namespace

std::vector<WeightInFile> parse_weights(std::string_view file) {
  uint64_t size = 0;
  if (file.size() >= sizeof size) std::memcpy(&size, file.data(), sizeof size);
  if (file.size() < sizeof size || size > file.size() - sizeof size || size > kMostHeaderBytes)
    fail(ErrorKind::InvalidInput, Help{"write it again with a safetensors library"}, "the file is no safetensors file, or is cut off");
  Header header(file.substr(sizeof size, size));
  const Span<const std::byte> data = as_bytes(Span(file.substr(sizeof size + size)));
  std::vector<WeightInFile> tensors;
  bool has_metadata = false;
  header.expect('{');
  header.each('}', [&] {
    std::string name = header.string();
    header.expect(':');
    if (name != "__metadata__") {
      tensors.push_back(read_tensor(header, std::move(name), data));
      return;
    }
    if (has_metadata) header.fail("the header has its metadata twice");
    has_metadata = true;
    header.expect('{');
    header.each('}', [&] {
      header.string();
      header.expect(':');
      header.string();
    });
  });
  header.expect_end();
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  refuse_holes_and_overlaps(header, tensors, order, data);
  sort_indices(order, [&](size_t a, size_t b) { return tensors[a].name < tensors[b].name; });
  for (size_t i = 1; i < order.size(); ++i) {
    const std::string& name = tensors[order[i]].name;
    if (name == tensors[order[i - 1]].name) header.fail(formatted("tensor '{}' is there twice", shown(name)));
  }
  return tensors;
}

std::string weight_name(const ToroidConstantInfo& constant, size_t position) {
  return *constant.name != '\0' ? constant.name : formatted("constant.{}", position);
}

ConstantBytes read_safetensors_weights(const std::string& path, const ToroidProgram& program, const HostMemory* memory) {
  ErrorContext context("reading weights from {}", path);
  const auto file = std::make_shared<const MappedFile>(path);
  const std::vector<WeightInFile> tensors = parse_weights(file->text());
  ConstantBytes result;
  size_t i = 0;
  for (const ToroidConstantInfo& constant : rows(program.constants, program.num_constants)) {
    const std::string name = weight_name(constant, i++);
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const WeightInFile& each) { return each.name == name; });
    const Span<const int64_t> sizes = rows(constant.sizes, constant.rank);
    if (found == tensors.end())
      fail(ErrorKind::InvalidInput, Help{"toroid compile --weights writes one with all"}, "the file has no weight '{}'", shown(name));
    const auto dtype = static_cast<DType>(constant.dtype);
    if (found->dtype != dtype || !std::equal(found->sizes.begin(), found->sizes.end(), sizes.begin(), sizes.end()))
      fail(ErrorKind::InvalidInput, "the weight '{}' is {}{} in the file, and {} in the program", shown(name), to_string(found->dtype),
           shape_text(found->sizes), constant.type);
    const std::vector<int64_t> strides = strides_wanted(constant);
    const auto element = static_cast<size_t>(size_bytes(dtype));
    const bool is_as_it_lies = is_same_layout(sizes, strides, strides_of(sizes)) || found->bytes.empty();
    if (is_as_it_lies && reinterpret_cast<uintptr_t>(found->bytes.data()) % element == 0) {
      result.places.push_back(found->bytes.data());
      result.owners.push_back(file);
      continue;
    }
    const auto bytes = static_cast<size_t>(constant.bytes);
    const auto copy = asking_for(bytes, "a weight", [&] { return std::make_shared<HostBytes>(bytes, memory); });
    copy_strided(reinterpret_cast<std::byte*>(copy->data()), strides, found->bytes.data(), strides_of(sizes), sizes, element);
    result.places.push_back(copy->data());
    result.owners.push_back(copy);
  }
  return result;
}

}  // namespace toroid
