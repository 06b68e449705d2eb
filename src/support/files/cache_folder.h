// The folder in which toroid keeps what later processes take: the cache's file (cache/store.h), and files that came in the program itself.
#pragma once

#include <filesystem>

namespace toroid {

// $TOROID_CACHE_DIR, else $XDG_CACHE_HOME/toroid, else ~/.cache/toroid; empty when there is no home.
std::filesystem::path default_cache_folder();

// Throws Error{Environment} for one that others could plant code in. One that is not there passes.
void check_cache_folder(const std::filesystem::path& folder);

}  // namespace toroid
