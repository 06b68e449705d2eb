// toroid verify FILE.so...
#include <fmt/format.h>

#include "base/error.h"
#include "command.h"
#include "flags.h"
#include "runtime/pool/pool.h"
#include "runtime/program/package.h"
#include "support/byte_size.h"

namespace toroid::cli {

int cmd_verify(int argc, const char* const* argv) {
  std::vector<std::string> paths;
  Flags flags("verify", "Checks that files that 'toroid compile' made are whole, each byte of them; exit status 1 where one is not.");
  flags.add_option("FILE", paths, "what to check").required();
  if (const auto status = flags.read(argc, argv)) return *status;
  RuntimePool pool(0);
  int status = 0;
  for (const std::string& path : paths) {
    try {
      const Package package = verify_package(path, pool);
      fmt::print("{}: whole; for {}; {} of library, {} of weights\n", path, package.levels, byte_size_text(package.library.size()),
                 byte_size_text(package.weights.size()));
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.report());
      status = 1;
    }
  }
  return status;
}

}  // namespace toroid::cli
