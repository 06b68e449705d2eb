// Files: read, write whole or not at all, temporary folders. Mapping them: mapped_file.h.
//
// Every failure is an Error{Environment} that names the path, the system's reason and a next step:
//
//   error: cannot write /opt/models/a.so: Permission denied
//     help: check the permissions of /opt/models, or choose another place
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file/fd.h"
#include "base/span.h"

struct stat;

namespace toroid {

// Paths that packages open are texts: std::filesystem would be 30 KB of each.
//
// "cannot <action> <path>: <text of errno>", with the next step that fits the errno.
Error file_error(std::string_view action, const std::string& path, int error_number);
[[noreturn]] void fail_file(std::string_view action, const std::string& path, int error_number);  // throws it

// Opened for reading. Refuses anything but a regular file, without waiting for a FIFO's writer.
Fd open_regular(const std::string& path, struct stat& info);

// The whole file. Refuses anything but a regular file, and one larger than `limit_bytes`.
std::string read_file(const std::string& path, uint64_t limit_bytes = UINT64_MAX);
// The first 16 KB of a small file of the system's, as in /proc; "" where it cannot be read.
std::string start_of_file(const std::string& path);
// What follows the last '/'.
std::string_view file_name_of(std::string_view path);
// Of the file's name, from its last '.' on: ".so". None is "", and so is that of ".hidden".
std::string_view extension_of(std::string_view path);

// Writes a temporary file beside `path`, syncs it and renames it: whatever happens, `path` holds the old contents or
// the new, and no temporary file stays behind. A link stays, and where it leads is written. A device or pipe cannot be replaced and is
// written in place; a pipe that nobody reads is an error after 5 s.
// `permissions` is cut by the umask, as for any new file.
void write_file_atomically(const std::filesystem::path& path, Span<const std::byte> bytes, unsigned permissions = 0666);
void write_file_atomically(const std::filesystem::path& path, std::string_view text, unsigned permissions = 0666);

// Throws what write_file_atomically would throw for a path that cannot be written, before the work whose result goes
// there. Passing is no promise: a disk can fill up meanwhile.
void check_writable(const std::filesystem::path& path);

// A new private folder under $TMPDIR or /tmp, removed with all it holds at the end.
class TempFolder {
 public:
  explicit TempFolder(std::string_view name = "toroid");
  TempFolder(TempFolder&& other) noexcept;
  TempFolder& operator=(TempFolder&&) = delete;
  ~TempFolder();

  const std::filesystem::path& path() const { return path_; }
  // Leaves the folder on disk, for a user to look at; returns its path.
  std::filesystem::path keep();

 private:
  std::filesystem::path path_;
  bool removed_at_end_ = true;
};

// The program's path: `name` itself when it holds a '/', else the first executable of that name in $PATH.
std::optional<std::filesystem::path> find_program(std::string_view name);

}  // namespace toroid
