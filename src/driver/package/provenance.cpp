#include "driver/package/provenance.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/mapped_file.h"
#include "base/format.h"
#include "codegen/wrapper/package_entry.h"
#include "support/hash.h"
#include "toroid/toroid.h"

namespace toroid {
namespace {

using codegen::kProvenanceBytes, codegen::kProvenanceWord;

std::vector<std::string> lines_of_model(const CompiledModel& model) {
  std::vector<std::string> lines = {toroid_api(TOROID_API_VERSION)->description};
  if (!model.file) return lines;
  std::string name = std::filesystem::path(model.file->path()).filename().string();
  // A line is one line, also as a text in C.
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return letter < ' ' || letter == '"' || letter == '\\' || letter == '?'; }, '_');
  lines.push_back("model " + name);
  lines.push_back("sha256 " + sha256(model.file->text()).hex());
  const Span<const std::byte> bytes = model.file->bytes();
  refuse_changed_files({&bytes, 1});  // the digest is of what was compiled
  return lines;
}

// The lines behind each word that has nothing but zeros behind them, as a package has it. A model's names and constants may hold the word
// alone.
std::vector<std::string_view> all_lines_in(std::string_view library) {
  std::vector<std::string_view> found;
  for (size_t place = library.find(kProvenanceWord); place != library.npos; place = library.find(kProvenanceWord, place + 1)) {
    std::string_view text = library.substr(place, kProvenanceBytes);
    if (text.size() < kProvenanceBytes || text.back() != '\0') continue;
    text.remove_prefix(kProvenanceWord.size());
    const size_t end = text.find('\0');
    if (text.find_first_not_of('\0', end) == text.npos) found.push_back(text.substr(0, end));
  }
  return found;
}

}  // namespace

std::string_view provenance_in(std::string_view library) {
  const std::vector<std::string_view> found = all_lines_in(library);
  return found.size() == 1 ? found[0] : "";
}

std::string with_provenance(std::string library, const CompiledModel& model) {
  const std::vector<std::string_view> found = all_lines_in(library);
  if (found.size() > 1)
    throw Error(ErrorKind::Unsupported, "the model holds what marks where a package says where it comes from, and zeros behind it");
  if (found.empty()) return library;
  const std::string_view known = found[0], toroid = toroid_api(TOROID_API_VERSION)->description;
  if (known.empty() || known.find(toroid) != known.npos) return library;  // that of a source has it by now
  const std::string lines = std::string(known) + joined(lines_of_model(model), "\n") + "\n";
  TOROID_CHECK(kProvenanceWord.size() + lines.size() < kProvenanceBytes, "{} bytes of provenance", lines.size());
  std::copy(lines.begin(), lines.end(), library.begin() + (known.data() - library.data()));
  return library;
}

std::string source_with_provenance(std::string entry, const CompiledModel& model) {
  const std::string word = fmt::format("\"{}\\n\"", kProvenanceWord.substr(0, kProvenanceWord.size() - 1));
  const size_t place = entry.find(word);
  TOROID_CHECK(place != entry.npos);
  std::string text = word;
  for (const std::string& line : lines_of_model(model)) text += fmt::format(" \"{}\\n\"", line);
  return entry.replace(place, word.size(), text);
}

}  // namespace toroid
