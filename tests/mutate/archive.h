// A `.pt2` archive whose JSON can be edited and put back.
//
//   EditableArchive model("build/conformance/control_flow/cond_tensor.pt2");
//   model.json("models/model.json")["graph_module"]["graph"]["outputs"] = Json::array();
//   import_pt2(model.build())
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace toroid::mutate {

using Json = nlohmann::ordered_json;  // members stay in their order

class EditableArchive {
 public:
  explicit EditableArchive(const std::filesystem::path& path);

  struct Document {
    size_t entry;
    Json json;
  };
  // The model and the configurations of weights and constants.
  std::vector<Document>& documents() { return documents_; }
  const std::string& name_of(const Document& document) const { return entries_[document.entry].first; }
  // The document whose entry's name ends so.
  Json& json(std::string_view name);

  // The bytes of an archive with the documents as they are now.
  std::string build() const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;  // names and bytes
  std::vector<Document> documents_;
};

}  // namespace toroid::mutate
