#include "support/files/cache_folder.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {
namespace fs = std::filesystem;

fs::path default_cache_folder() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value != nullptr ? value : "");
  };
  if (fs::path folder = variable("TOROID_CACHE_DIR"); !folder.empty()) return folder;
  // The XDG specification says to ignore relative paths.
  if (fs::path folder = variable("XDG_CACHE_HOME"); folder.is_absolute()) return folder / "toroid";
  if (fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "toroid";
  passwd entry;
  passwd* found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr) {
    if (fs::path home = entry.pw_dir; home.is_absolute()) return home / ".cache" / "toroid";
  }
  return {};
}

void check_cache_folder(const fs::path& folder) {
  struct stat info;
  if (::lstat(folder.c_str(), &info) != 0) return;  // who opens it will tell
  auto refuse = [&](const std::string& why, const std::string& mend) {
    throw Error(ErrorKind::Environment, fmt::format("the cache folder {} {}", folder.string(), why))
        .help((mend.empty() ? "" : mend + ", or ") + "set TOROID_CACHE_DIR to a folder of your own");
  };
  if (S_ISLNK(info.st_mode)) {
    std::error_code ignored;
    refuse("is a symbolic link, which others may be able to redirect",
           fmt::format("set TOROID_CACHE_DIR to {}, or remove the link", fs::read_symlink(folder, ignored).string()));
  }
  if (!S_ISDIR(info.st_mode)) refuse("is not a folder", "remove the file");
  if (info.st_uid != ::geteuid()) {
    refuse(fmt::format("belongs to user {}, not to you (user {})", info.st_uid, ::geteuid()),
           ::geteuid() == 0 ? fmt::format("run 'chown -R 0 {}'", folder.string()) : "");  // others cannot take what is not theirs
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse("can be written by other users, who could plant code in it", fmt::format("run 'chmod 700 {}'", folder.string()));
  }
}

}  // namespace toroid
