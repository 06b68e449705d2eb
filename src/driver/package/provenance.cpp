#include "driver/package/provenance.h"

#include <algorithm>
#include <filesystem>
#include <vector>

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
  if (!model.file) return lines;
  std::string name = std::filesystem::path(model.file->path()).filename().string();
  // A line is one line, also as a text in C.
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return letter < ' ' || letter == '"' || letter == '\\' || letter == '?'; }, '_');
  lines += fmt::format("model {}\nsha256 {}\n", name, sha256(model.file->text()).hex());
  const Span<const std::byte> bytes = model.file->bytes();
  refuse_changed_files({&bytes, 1});  // the digest is of what was compiled
  return lines;
}

// Where the word begins that has lines and nothing but zeros behind it, as a package has it. A model's names and constants may hold the word
// alone.
std::vector<size_t> places_of_provenance(std::string_view library) {
  std::vector<size_t> places;
  for (size_t place = library.find(kProvenanceWord); place != library.npos; place = library.find(kProvenanceWord, place + 1)) {
    const std::string_view text = library.substr(place, kProvenanceBytes);
    if (text.size() == kProvenanceBytes && text.find_first_not_of('\0', std::min(text.find('\0'), text.size())) == text.npos &&
        text.back() == '\0') {
      places.push_back(place);
    }
  }
  return places;
}

}  // namespace

std::string_view provenance_in(std::string_view library) {
  const std::vector<size_t> places = places_of_provenance(library);
  if (places.size() != 1) return "";
  const std::string_view lines = library.substr(places[0] + kProvenanceWord.size(), kProvenanceBytes - kProvenanceWord.size());
  return lines.substr(0, lines.find('\0'));
}

std::string with_provenance(std::string library, const CompiledModel& model) {
  if (places_of_provenance(library).size() > 1)
    throw Error(ErrorKind::Unsupported, "the model holds what marks where a package says where it comes from, and zeros behind it");
  const std::string_view known = provenance_in(library);
  const std::string_view toroid = toroid_api(TOROID_API_VERSION)->description;
  if (known.empty() || known.find(toroid) != known.npos) return library;  // that of a source has it by now
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
