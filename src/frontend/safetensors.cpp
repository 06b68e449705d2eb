#include "frontend/safetensors.h"

#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "base/file/write_parts.h"
#include "base/span.h"
#include "frontend/json_reader.h"
#include "support/text/json_writer.h"

namespace toroid {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMostDims = 64;
constexpr size_t kHeaderAlignment = 64;  // so that the data begins on a cache line

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr DTypeName kDTypeNames[] = {
    {DType::Bool, "BOOL"},      {DType::U8, "U8"},   {DType::I8, "I8"},     {DType::I16, "I16"}, {DType::I32, "I32"},
    {DType::I64, "I64"},        {DType::F16, "F16"}, {DType::BF16, "BF16"}, {DType::F32, "F32"}, {DType::F64, "F64"},
    {DType::U16, "U16"},        {DType::U32, "U32"}, {DType::U64, "U64"},   {DType::C64, "C64"}, {DType::F8E4M3FN, "F8_E4M3"},
    {DType::F8E5M2, "F8_E5M2"},
};

std::optional<DType> dtype_named(std::string_view name) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::optional<std::string_view> name_of(DType dtype) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return std::nullopt;
}

Error invalid(std::string message) {
  return Error(ErrorKind::InvalidInput, std::move(message)).help("write the file again with a safetensors library");
}

// Names come from the file: keep terminal escapes and endless lines out of messages.
std::string printable(std::string_view name) {
  std::string text;
  for (char c : name.substr(0, 200)) text += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
  return text;
}

std::optional<uint64_t> bytes_of(std::span<const int64_t> sizes, DType dtype) {
  Checked bytes = size_bytes(dtype);
  bool empty = false;
  for (int64_t size : sizes) {
    if (size == 0)
      empty = true;
    else
      bytes *= size;
  }
  if (!bytes.fits()) return std::nullopt;
  return empty ? 0 : static_cast<uint64_t>(*bytes.value());
}

// Where a tensor lies in the data, and where the header says so.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  size_t tensor = 0;
};

Extent read_tensor(const JsonValue& entry, std::span<const std::byte> data, uint64_t header_begin, SafeTensor& tensor) {
  const auto fault = [&](const JsonValue& value, std::string message) {
    throw invalid(std::move(message)).at(fmt::format("at byte {}", header_begin + value.offset()));
  };
  const std::string shown = printable(tensor.name);
  for (const JsonMember& member : entry.members()) {
    if (member.key != "dtype" && member.key != "shape" && member.key != "data_offsets") {
      fault(member.value, fmt::format("tensor '{}' has an unknown field '{}'", shown, printable(member.key)));
    }
  }
  const JsonValue& dtype = entry.at("dtype");
  if (const std::optional<DType> known = dtype_named(dtype.as_string()))
    tensor.dtype = *known;
  else
    fault(dtype, fmt::format("tensor '{}' has the unknown dtype '{}'", shown, printable(dtype.as_string())));

  const JsonValue& shape = entry.at("shape");
  if (shape.elements().size() > kMostDims) {
    fault(shape, fmt::format("tensor '{}' has {} dimensions, and the limit is {}", shown, shape.elements().size(), kMostDims));
  }
  for (const JsonValue& size : shape.elements()) {
    if (size.as_integer() < 0) fault(size, fmt::format("tensor '{}' has a negative size", shown));
    tensor.sizes.push_back(size.as_integer());
  }
  const JsonValue& offsets = entry.at("data_offsets");
  if (offsets.elements().size() != 2) fault(offsets, fmt::format("tensor '{}' needs two data offsets", shown));
  const int64_t begin = offsets.elements()[0].as_integer();
  const int64_t end = offsets.elements()[1].as_integer();
  if (begin < 0 || begin > end || static_cast<uint64_t>(end) > data.size()) {
    fault(offsets, fmt::format("tensor '{}' lies at [{}, {}), outside the {} bytes of data", shown, begin, end, data.size()));
  }
  const std::optional<uint64_t> needed = bytes_of(tensor.sizes, tensor.dtype);
  if (!needed) fault(shape, fmt::format("the size of tensor '{}' overflows 63 bits", shown));
  if (*needed != static_cast<uint64_t>(end - begin)) {
    fault(offsets, fmt::format("tensor '{}' needs {} bytes and has {}", shown, *needed, end - begin));
  }
  tensor.bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  return {.begin = static_cast<uint64_t>(begin), .end = static_cast<uint64_t>(end)};
}

void refuse_holes_and_overlaps(std::vector<Extent> extents, const std::vector<SafeTensor>& tensors, uint64_t data_begin,
                               uint64_t data_bytes) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != covered) {
      throw invalid(fmt::format("tensor '{}' {}", printable(tensors[extent.tensor].name),
                                extent.begin < covered ? "overlaps another" : "leaves a hole before it"))
          .at(fmt::format("at byte {}", data_begin + extent.begin));
    }
    covered = extent.end;
  }
  if (covered != data_bytes) {
    throw invalid(fmt::format("{} bytes after the last tensor belong to none", data_bytes - covered))
        .at(fmt::format("at byte {}", data_begin + covered));
  }
}

// nlohmann parses into an `Error{InvalidModel}`; a tensor file is the user's input.
JsonDocument parse_header(std::string_view text) {
  try {
    return parse_json(text, "the header");
  } catch (const Error& error) {
    Error again = invalid(error.message());
    again.at(error.locations().empty() ? "in the header" : error.locations().front());
    throw again;
  }
}

}  // namespace

const SafeTensor* SafeTensors::find(std::string_view name) const {
  for (const SafeTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

SafeTensors parse_safetensors(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string_view file) {
  ErrorContext context("reading {}", file);
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    throw invalid(fmt::format("{} bytes are too few for a safetensors file", bytes.size())).at("at byte 0");
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes) {
    throw invalid(fmt::format("a header of {} bytes is over the limit of {}", header_bytes, kMaxHeaderBytes)).at("at byte 0");
  }
  if (header_bytes > bytes.size() - sizeof(header_bytes)) {
    throw invalid(fmt::format("the header of {} bytes is longer than the file of {}", header_bytes, bytes.size())).at("at byte 0");
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof(header_bytes), header_bytes);
  const std::span<const std::byte> data = bytes.subspan(sizeof(header_bytes) + header_bytes);

  const JsonDocument document = parse_header(header);
  SafeTensors result;
  result.owner = std::move(owner);
  std::vector<Extent> extents;
  try {
    for (const JsonMember& member : document.root().members()) {
      if (member.key == "__metadata__") {
        for (const JsonMember& item : member.value.members()) result.metadata.emplace(item.key, item.value.as_string());
        continue;
      }
      SafeTensor tensor{.name = std::string(member.key), .dtype = DType::F32, .sizes = {}, .bytes = {}};
      Extent extent = read_tensor(member.value, data, sizeof(header_bytes), tensor);
      extent.tensor = result.tensors.size();
      extents.push_back(extent);
      result.tensors.push_back(std::move(tensor));
    }
  } catch (const Error& error) {
    // The JSON accessors blame the model.
    if (error.kind() == ErrorKind::InvalidInput) throw;
    throw invalid(error.message()).at(error.locations().front());
  }
  refuse_holes_and_overlaps(std::move(extents), result.tensors, sizeof(header_bytes) + header_bytes, data.size());
  return result;
}

SafeTensors read_safetensors(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  return parse_safetensors(bytes, std::move(file), path.string());
}

namespace {

// A file's first bytes, and behind them the tensors' in this order.
struct FileLayout {
  std::string header;
  std::vector<size_t> order;
};

FileLayout layout_of(std::span<const SafeTensor> tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<size_t> layout(tensors.size());
  std::iota(layout.begin(), layout.end(), size_t{0});
  std::stable_sort(layout.begin(), layout.end(),
                   [&](size_t a, size_t b) { return size_bytes(tensors[a].dtype) > size_bytes(tensors[b].dtype); });
  std::vector<uint64_t> begins(tensors.size());
  uint64_t data_bytes = 0;
  for (size_t i : layout) {
    begins[i] = data_bytes;
    data_bytes += tensors[i].bytes.size();
  }

  JsonWriter header;
  std::set<std::string_view> names;
  header.begin_object();
  if (!metadata.empty()) {
    header.begin_object("__metadata__");
    for (const auto& [key, value] : metadata) header.add(key, value);
    header.end();
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SafeTensor& tensor = tensors[i];
    const std::optional<std::string_view> dtype = name_of(tensor.dtype);
    if (!dtype) {
      throw Error(ErrorKind::Unsupported,
                  fmt::format("safetensors has no dtype for {} (tensor '{}')", to_string(tensor.dtype), tensor.name));
    }
    TOROID_CHECK(bytes_of(tensor.sizes, tensor.dtype) == tensor.bytes.size(), "tensor '{}'", tensor.name);
    TOROID_CHECK(names.insert(tensor.name).second, "two tensors are named '{}'", tensor.name);
    header.begin_object(tensor.name);
    header.add("dtype", *dtype);
    header.add_all("shape", tensor.sizes);
    header.add_all("data_offsets", std::array{begins[i], begins[i] + tensor.bytes.size()});
    header.end();
  }
  header.end();
  std::string text = header.take();
  const size_t unpadded = sizeof(uint64_t) + text.size();
  text.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');

  std::string out(sizeof(uint64_t), '\0');
  const uint64_t header_bytes = text.size();
  std::memcpy(out.data(), &header_bytes, sizeof(header_bytes));
  out += text;
  return {std::move(out), std::move(layout)};
}

}  // namespace

std::string format_safetensors(std::span<const SafeTensor> tensors, const std::map<std::string, std::string>& metadata) {
  auto [out, order] = layout_of(tensors, metadata);
  for (size_t i : order) out.append(reinterpret_cast<const char*>(tensors[i].bytes.data()), tensors[i].bytes.size());
  return std::move(out);
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafeTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const FileLayout layout = layout_of(tensors, metadata);
  std::vector<Span<const std::byte>> parts = {std::as_bytes(std::span(layout.header))};
  for (size_t i : layout.order) parts.push_back(tensors[i].bytes);
  write_parts_atomically(path, parts);
}

}  // namespace toroid
