// In the place of src/base/file/loaded_library.cpp in packages: each runs its own program, and opens no other.
#include "base/error.h"
#include "base/file/loaded_library.h"

namespace toroid {

LoadedLibrary::LoadedLibrary(std::string_view, std::string) {
  throw Error(ErrorKind::Unsupported, "a package runs no program but its own")
      .help("open the other one by its own toroid_api, or by that of libtoroid.so");
}
void* LoadedLibrary::find(const std::string&) const { return nullptr; }

}  // namespace toroid
