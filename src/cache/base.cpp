#include "cache/base.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/fd.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "cache/transfer.h"
#include "support/log.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

// What is checked is what is mapped, whatever happens to the path meanwhile.
MappedFile trusted_file(const fs::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw file_error("read", path, errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) throw file_error("read", path, errno);
  auto refuse = [&](const std::string& why, const std::string& mend) {
    throw Error(ErrorKind::Environment, fmt::format("the read-only base {} {}", path.string(), why)).help(mend);
  };
  if (!S_ISREG(info.st_mode)) refuse("is no regular file", "name a file that 'toroid cache export' wrote");
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    refuse(fmt::format("belongs to user {}, neither to root nor to you", info.st_uid), fmt::format("run 'chown root {}'", path.string()));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse("can be written by other users, who could plant code in it", fmt::format("run 'chmod go-w {}'", path.string()));
  }
  return MappedFile(fmt::format("/proc/self/fd/{}", fd.get()));
}

}  // namespace

struct ReadOnlyBase::State {
  State(fs::path path, std::function<void(const std::string&)> warn)
      : path(std::move(path)), warn(warn ? std::move(warn) : [](const std::string& text) { log_warn("{}", text); }) {}

  // Throws what is wrong with the file, each time.
  void open() {
    if (file) return;
    MappedFile mapped = trusted_file(path);
    std::unordered_map<std::string_view, ExportedEntry> found;
    ErrorContext context("reading the read-only base {}", path.string());
    ExportReader reader(mapped.text());
    while (const std::optional<ExportedEntry> entry = reader.next()) found.insert_or_assign(entry->hex, *entry);
    file.emplace(std::move(mapped));
    entries = std::move(found);
  }

  void warn_once(const std::string& text) {
    if (!std::exchange(warned, true)) warn(text);
  }

  const fs::path path;
  std::function<void(const std::string&)> warn;
  std::mutex mutex;  // guards all below
  bool is_tried = false;
  bool warned = false;
  uint64_t hits = 0;
  std::optional<MappedFile> file;
  std::unordered_map<std::string_view, ExportedEntry> entries;  // by their keys' hashes; views of the file
};

ReadOnlyBase::ReadOnlyBase(fs::path file, std::function<void(const std::string&)> warn)
    : state_(std::make_unique<State>(std::move(file), std::move(warn))) {}
ReadOnlyBase::ReadOnlyBase(ReadOnlyBase&&) noexcept = default;
ReadOnlyBase::~ReadOnlyBase() = default;

std::optional<std::string> ReadOnlyBase::get(const CacheKey& key) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (!std::exchange(state.is_tried, true)) {
    try {
      state.open();
    } catch (const Error& error) {
      state.warn_once(fmt::format("compiling without the read-only base: {}; {}", error.message(), error.help_text()));
    }
  }
  const auto found = state.entries.find(key.hex);
  if (found == state.entries.end() || found->second.kind != key.kind) return std::nullopt;
  if (!found->second.is_whole()) {
    state.warn_once(fmt::format("an entry of the read-only base {} is damaged; 'toroid cache verify' counts them", state.path.string()));
    return std::nullopt;
  }
  ++state.hits;
  return std::string(found->second.bytes);
}

uint64_t ReadOnlyBase::hits() const {
  const std::lock_guard lock(state_->mutex);
  return state_->hits;
}

BaseContents ReadOnlyBase::contents() {
  const std::lock_guard lock(state_->mutex);
  state_->open();
  BaseContents contents;
  for (const auto& [hex, entry] : state_->entries) {
    KindStats& kind = contents.kinds[std::string(entry.kind)];
    ++kind.entries;
    kind.bytes += entry.bytes.size();
    ++contents.entries;
    contents.bytes += entry.bytes.size();
  }
  return contents;
}

uint64_t ReadOnlyBase::verify() {
  const std::lock_guard lock(state_->mutex);
  state_->open();
  uint64_t damaged = 0;
  for (const auto& [hex, entry] : state_->entries) damaged += entry.is_whole() ? 0 : 1;
  return damaged;
}

const fs::path& ReadOnlyBase::file() const { return state_->path; }

std::optional<fs::path> base_from_environment() {
  const char* const value = std::getenv("TOROID_CACHE_BASE");
  return value != nullptr && *value != '\0' ? std::optional<fs::path>(value) : std::nullopt;
}

}  // namespace toroid
