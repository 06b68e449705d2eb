// seal LIBRARY LEVEL...: writes what follows the library in a package, its levels and checksums (run_side/src/runtime/program/package.h).
#include <cstdio>
#include <exception>
#include <vector>

#include "base/file/file.h"
#include "runtime/program/package.h"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: seal LIBRARY LEVEL...\n");
    return 2;
  }
  std::vector<toroid::Isa> levels;
  for (int i = 2; i < argc; ++i) levels.push_back(toroid::parse_isa(argv[i]));
  const std::string library = toroid::read_file(argv[1]);
  toroid::write_package(argv[1], library, {}, levels);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
