// The entries of a `.pt2` archive that make a model:
//
//   TOP/archive_format                              "pt2"
//   TOP/archive_version                             "0"
//   TOP/byteorder                                   "little"
//   TOP/models/NAME.json                            the exported program
//   TOP/data/weights/NAME_weights_config.json       parameters and buffers: name -> entry, tensor metadata
//   TOP/data/weights/weight_K                       the storage of one weight
//   TOP/data/constants/NAME_constants_config.json   likewise for constants and non-persistent buffers
//   TOP/data/constants/tensor_K
//
// Weights are ranges of the mapped file. Entries that hold Python pickles (sample inputs, and weights that say
// use_pickle) are never read: a pickle is a program.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "frontend/archive/zip_reader.h"
#include "frontend/json_reader.h"
#include "frontend/pt2/types.h"

namespace toroid::pt2 {

class Archive {
 public:
  explicit Archive(ZipReader zip);

  // "models/model.json", or the only one there is.
  const std::string& model_entry() const { return model_entry_; }
  const JsonValue& model() const { return model_.root(); }

  // The weight, buffer or constant called `name`, as the model wants it: `type` is its metadata in the graph. Names
  // that share storage get the same bytes.
  ConstantData load(std::string_view name, const TensorType& type, SizeReader& sizes);

 private:
  struct Payload {
    const char* folder;     // "weights" or "constants"
    const JsonValue* meta;  // its PayloadMeta
  };
  const ZipEntry* find(std::string_view name_in_top) const;
  const ZipEntry& need(std::string_view name_in_top) const;
  void expect_text(std::string_view entry, std::string_view wanted) const;
  void choose_model();
  void read_config(const char* folder, JsonDocument& document);
  // Bytes that are fit to be used as elements: their CRC was checked and they are aligned.
  struct Storage {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  const Storage& storage(const ZipEntry& entry);

  ZipReader zip_;
  std::string top_;  // with its trailing slash
  std::string model_entry_;
  std::string model_name_;
  JsonDocument model_;
  JsonDocument weights_;
  JsonDocument constants_;
  std::unordered_map<std::string_view, Payload> payloads_;
  std::unordered_map<const ZipEntry*, Storage> storages_;  // so that shared weights are checked once
};

}  // namespace toroid::pt2
