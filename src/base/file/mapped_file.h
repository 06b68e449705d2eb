// A file in memory, read-only, and what happens when somebody changes it meanwhile.
//
// A mapping shows what the file holds now. `cp new.so old.so` writes into the file that is mapped, and whoever cuts it short makes of the
// next access to what is gone the signal SIGBUS, which ends the process. (`mv new.so old.so` is safe: the mapping keeps the old file.) So:
//
//  - A small file is read, not mapped: nothing that happens to it later is seen.
//  - A process that owns its signals, as the command does, answers SIGBUS by answer_bus_errors: what is gone reads as zeros from then on.
//  - Whoever is about to give away what was computed from files asks refuse_changed_files first, which throws
//
//      error: p.so was changed while it was in use
//        help: write the new file beside it and rename it (mv): then what runs keeps the old one
//
// In a process that does not answer SIGBUS, as a host of toroid's libraries, a large file that is cut short while it is mapped ends the
// process: such files are to be replaced by renaming.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/machine/aligned_bytes.h"
#include "base/span.h"

namespace toroid {

class MappedFile {
 public:
  // Files of at most so many bytes are read.
  static constexpr size_t kCopiedBytes = size_t{256} << 10;

  // Pages of a large file are read when they are touched. Throws Error{Environment} as read_file does.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  Span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  size_t size_bytes() const { return bytes_.size(); }
  const std::string& path() const { return path_; }

  struct Mapping;  // what the signal's handler knows of it

 private:
  std::string path_;
  std::unique_ptr<AlignedBytes> copy_;  // of a small file
  Mapping* mapping_ = nullptr;          // of a large one
  Span<const std::byte> bytes_;
};

// Throws Error{Environment} that names the file, when one that is mapped now was written to or cut short since it was mapped. In a process
// that answers SIGBUS files count that are mapped no more, if that happened before their end: what was computed from them may still be
// there.
void refuse_changed_files();
// The same for the files in which some of this memory lies.
void refuse_changed_files(Span<const Span<const std::byte>> memory);

// From now on SIGBUS in a mapped file makes zeros of what the file has no more, and is remembered. In any other memory that is a file's (a
// library, the cache's index) it ends the process with status 1 and a message that names the file. For whole programs: it is the process's
// handler.
void answer_bus_errors();
// How often that happened in this process. Zeros were read if it grew.
uint64_t bus_errors_answered();
// The first file of which zeros were read, also when it is mapped no more.
std::optional<std::string> first_lost_file();
// "PATH was changed while it was in use".
class Error;
Error changed_file_error(const std::string& path);
[[noreturn]] void fail_changed_file(const std::string& path);  // throws it

}  // namespace toroid
