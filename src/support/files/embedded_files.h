// Files that came in the program itself: a portable toroid (package/portable/) is one file, and what it links packages with is inside it,
// as an archive. They are unpacked once, into a folder of the cache that is named by their digests.
//
// The archive is a tar file (ustar, regular files alone), compressed by gzip. The list has a line for each file, as sha256sum writes it:
// 64 digits, two spaces, the path.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace toroid {

struct EmbeddedFiles {
  std::span<const std::byte> archive;
  std::string_view list;
};
// Those of this program; none where files lie beside it.
std::optional<EmbeddedFiles> embedded_files();

// The text of one file; nothing where there is none of that path. Throws Error{Internal} where the archive is damaged.
std::optional<std::string> embedded_file(const EmbeddedFiles& files, std::string_view path);

// The folder in `parent` that has the files. They are unpacked where it is missing: beside it, and put in its place by renaming, so that of
// several processes one does it, and the others find it whole. Throws Error{Environment} where they cannot be written, Error{Internal}
// where they are not as listed.
std::filesystem::path unpack(const EmbeddedFiles& files, const std::filesystem::path& parent);

// All folders in `parent` that unpack() of any toroid has made.
void remove_unpacked(const std::filesystem::path& parent);

// Unpacks the folder anew where a file below `below` is not as listed.
void mend(const EmbeddedFiles& files, const std::filesystem::path& folder, std::string_view below);

// The folder with this program's files, for as long as it runs: in the cache folder, or where that cannot be used in a temporary one.
std::filesystem::path embedded_folder(const EmbeddedFiles& files);

}  // namespace toroid
