#include "frontend/pt2/archive.h"

#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/error.h"
#include "graph/builder.h"

namespace toroid::pt2 {
namespace {

constexpr std::string_view kModels = "models/";
constexpr std::string_view kJson = ".json";
constexpr std::string_view kFormatEntry = "archive_format";

Error invalid_archive(std::string message) {
  return Error(ErrorKind::InvalidModel, std::move(message)).help("export the model again with torch.export.save");
}

std::string_view without_trailing_space(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return text.substr(0, end == text.npos ? 0 : end + 1);
}

// Bytes that a tensor of constant sizes spans in its storage, from the storage's start. None beyond 63 bits.
std::optional<int64_t> storage_bytes(const TensorType& type) {
  for (sym::Expr size : type.sizes) {
    if (size.is_const(0)) return 0;
  }
  const std::vector<sym::Expr> strides = type.strides.empty() ? contiguous_strides(type.sizes) : type.strides;
  Checked last = type.storage_offset.value();
  for (size_t d = 0; d < type.sizes.size(); ++d) last += (Checked(type.sizes[d].value()) - 1) * strides[d].value();
  return ((last + 1) * size_bytes(type.dtype)).value();
}

bool all_constant(const TensorType& type) {
  const auto is_const = [](const sym::Expr& e) { return e.is_const(); };
  return std::all_of(type.sizes.begin(), type.sizes.end(), is_const) && std::all_of(type.strides.begin(), type.strides.end(), is_const) &&
         type.storage_offset.is_const();
}

}  // namespace

Archive::Archive(ZipReader zip) : zip_(std::move(zip)) {
  for (const ZipEntry& entry : zip_.entries()) {
    const std::string_view name = entry.name;
    if (name.ends_with(kFormatEntry) && name.find('/') == name.size() - kFormatEntry.size() - 1) {
      top_ = name.substr(0, name.size() - kFormatEntry.size());
    }
  }
  if (top_.empty()) {
    throw invalid_archive("this ZIP file is not a PyTorch export archive: it has no 'archive_format' entry")
        .help("save the model with torch.export.save of PyTorch 2.8 or newer");
  }
  expect_text(kFormatEntry, "pt2");
  expect_text("archive_version", "0");
  expect_text("byteorder", "little");
  choose_model();
  model_ = parse_json(zip_.read_text(need(model_entry_)), model_entry_);
  read_config("weights", weights_);
  read_config("constants", constants_);
}

const ZipEntry* Archive::find(std::string_view name_in_top) const { return zip_.find(fmt::format("{}{}", top_, name_in_top)); }

const ZipEntry& Archive::need(std::string_view name_in_top) const {
  const ZipEntry* entry = find(name_in_top);
  if (!entry) throw invalid_archive(fmt::format("the archive lacks the entry '{}{}'", top_, name_in_top));
  return *entry;
}

void Archive::expect_text(std::string_view entry, std::string_view wanted) const {
  const std::string_view text = without_trailing_space(zip_.read_text(need(entry)));
  if (text == wanted) return;
  throw Error(ErrorKind::Unsupported, fmt::format("the archive's {} is '{}', and toroid reads '{}'", entry, text.substr(0, 40), wanted))
      .help("save the model with torch.export.save of PyTorch 2.8 or newer");
}

void Archive::choose_model() {
  std::vector<std::string> names;
  for (const ZipEntry& entry : zip_.entries()) {
    std::string_view name = entry.name;
    if (!name.starts_with(top_)) continue;
    name.remove_prefix(top_.size());
    if (!name.starts_with(kModels) || !name.ends_with(kJson)) continue;
    names.emplace_back(name.substr(kModels.size(), name.size() - kModels.size() - kJson.size()));
  }
  if (names.empty()) {
    throw invalid_archive("the archive holds no model: no entry 'models/NAME.json'")
        .help("save the model with torch.export.save of PyTorch 2.8 or newer");
  }
  const auto chosen = std::find(names.begin(), names.end(), "model");
  if (chosen == names.end() && names.size() > 1) {
    throw Error(ErrorKind::Unsupported, fmt::format("the archive holds {} models, none called 'model': {}", names.size(),
                                                    fmt::join(std::span(names).first(std::min<size_t>(names.size(), 8)), ", ")))
        .help("save one model to an archive, or call it 'model'");
  }
  model_name_ = chosen == names.end() ? names.front() : *chosen;
  model_entry_ = fmt::format("{}{}{}", kModels, model_name_, kJson);
}

void Archive::read_config(const char* folder, JsonDocument& document) {
  const std::string name = fmt::format("data/{}/{}_{}_config.json", folder, model_name_, folder);
  const ZipEntry* entry = find(name);
  if (!entry) return;  // a model without any
  document = parse_json(zip_.read_text(*entry), name);
  ErrorContext context("reading {}", name);
  for (const JsonMember& member : document.root().at("config").members()) {
    if (!payloads_.emplace(member.key, Payload{folder, &member.value}).second) {
      member.value.fail(fmt::format("'{}' is both a weight and a constant", member.key.substr(0, 200)));
    }
  }
}

const Archive::Storage& Archive::storage(const ZipEntry& entry) {
  const auto [found, is_new] = storages_.try_emplace(&entry);
  Storage& storage = found->second;
  if (!is_new) return storage;
  storage = {zip_.read(entry), zip_.owner()};
  if (reinterpret_cast<uintptr_t>(storage.bytes.data()) % alignof(std::max_align_t) != 0) {
    // torch.export.save aligns entries; other writers may not.
    auto copy = std::make_shared<std::vector<std::byte>>(storage.bytes.begin(), storage.bytes.end());
    storage = {*copy, copy};
  }
  return storage;
}

ConstantData Archive::load(std::string_view name, const TensorType& type, SizeReader& sizes) {
  const auto payload = payloads_.find(name);
  if (payload == payloads_.end()) {
    throw invalid_archive(fmt::format("weight '{}' is missing from the archive", name));
  }
  const char* folder = payload->second.folder;
  const JsonValue& meta = *payload->second.meta;
  ErrorContext context("loading weight '{}' by data/{}/{}_{}_config.json", name.substr(0, 200), folder, model_name_, folder);
  if (meta.at("use_pickle").as_bool()) {
    throw Error(ErrorKind::Unsupported, fmt::format("weight '{}' is stored as a Python pickle, which toroid never loads", name))
        .help("make it a plain contiguous tensor before exporting: subclasses and quantized tensors are pickled");
  }
  const std::string entry_name = fmt::format("data/{}/{}", folder, meta.at("path_name").as_string());
  const ZipEntry* entry = find(entry_name);
  if (!entry) throw invalid_archive(fmt::format("weight '{}' is missing from the archive: no entry '{}'", name, entry_name));

  ConstantData data;
  data.name = name;
  data.type = sizes.read_type(meta.at("tensor_meta"));
  if (!all_constant(data.type)) meta.fail(fmt::format("weight '{}' has a size, stride or offset that is no number", name));
  if (data.type.storage_offset.value() < 0) meta.fail(fmt::format("weight '{}' begins before its entry", name));
  if (data.type.dtype != type.dtype || data.type.sizes != type.sizes) {
    meta.fail(fmt::format("weight '{}' is {} in the archive and {} in the graph", name, to_string(data.type), to_string(type)));
  }
  const auto& [bytes, owner] = storage(*entry);
  const std::optional<int64_t> needed = storage_bytes(data.type);
  if (!needed || static_cast<uint64_t>(*needed) > bytes.size()) {
    throw invalid_archive(fmt::format("weight '{}' of type {} needs {} bytes, and its entry '{}' holds {}", name, to_string(data.type),
                                      needed ? fmt::format("{}", *needed) : "more than 2^63", entry_name, bytes.size()));
  }
  const int64_t element_bytes = size_bytes(data.type.dtype);
  const auto first = static_cast<size_t>(*needed == 0 ? 0 : data.type.storage_offset.value() * element_bytes);
  data.bytes = bytes.subspan(first, static_cast<size_t>(*needed) - first);
  data.owner = owner;
  data.type.storage_offset = 0;  // `bytes` begins with the first element
  return data;
}

}  // namespace toroid::pt2
