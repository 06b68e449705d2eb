#include "driver/package/provenance.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/mapped_file.h"
#include "codegen/wrapper/package_entry.h"
#include "support/hash.h"
#include "toroid/toroid.h"

namespace toroid {
namespace {

using codegen::kProvenanceBytes, codegen::kProvenanceWord;

// Of a word's own, behind it.
std::string lines_of_model(const CompiledModel& model) {
  std::string lines = fmt::format("{}\n", toroid_api(TOROID_API_VERSION)->description);
  if (model.file.empty()) return lines;
  std::string name = model.file.filename().string();
  // A line is one line, also as a text in C.
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return letter < ' ' || letter == '"' || letter == '\\' || letter == '?'; }, '_');
  const MappedFile file(model.file.string());
  return lines + fmt::format("model {}\nsha256 {}\n", name, sha256(file.text()).hex());
}

}  // namespace

std::string_view provenance_in(std::string_view library) {
  const size_t place = library.find(kProvenanceWord);
  if (place == library.npos || library.size() - place < kProvenanceBytes) return "";
  const std::string_view lines = library.substr(place + kProvenanceWord.size(), kProvenanceBytes - kProvenanceWord.size());
  return lines.substr(0, lines.find('\0'));
}

std::string with_provenance(std::string library, const CompiledModel& model) {
  const std::string_view known = provenance_in(library);
  if (known.empty() || known.find("\nmodel ") != known.npos) return library;  // that of a source has it by now
  const std::string lines = std::string(known) + lines_of_model(model);
  TOROID_CHECK(kProvenanceWord.size() + lines.size() < kProvenanceBytes, "{} bytes of provenance", lines.size());
  std::copy(lines.begin(), lines.end(), library.begin() + (known.data() - library.data()));
  return library;
}

std::string source_with_provenance(std::string entry, const CompiledModel& model) {
  const std::string word = fmt::format("\"{}\\n\"", kProvenanceWord.substr(0, kProvenanceWord.size() - 1));
  const size_t place = entry.find(word);
  TOROID_CHECK(place != entry.npos);
  std::string text = word;
  std::string lines = lines_of_model(model);
  for (size_t end = lines.find('\n'); end != lines.npos; lines.erase(0, end + 1), end = lines.find('\n'))
    text += fmt::format(" \"{}\\n\"", lines.substr(0, end));
  return entry.replace(place, word.size(), text);
}

}  // namespace toroid
