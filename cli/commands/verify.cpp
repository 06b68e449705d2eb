// toroid verify FILE.so...
#include <fmt/format.h>

#include "base/error.h"
#include "command.h"
#include "driver/package/provenance.h"
#include "flags/flags.h"
#include "runtime/pool/pool.h"
#include "runtime/program/package.h"
#include "support/signing.h"
#include "support/text/byte_size.h"

namespace toroid::cli {

int cmd_verify(int argc, const char* const* argv) {
  std::vector<std::string> paths;
  std::string trusted;
  Flags flags("toroid verify",
              "Checks that files that 'toroid compile' made are whole, each byte of them; exit status 1 where one is not.");
  flags.add_option("FILE", paths, "what to check; a file of weights behind its package").required();
  flags.add_option("--trusted", trusted, "a file of public keys (PEM): refuse what none of them signed");
  if (const auto status = flags.read(argc, argv)) return *status;
  RuntimePool pool(0);
  const std::vector<PublicKey> keys = trusted.empty() ? std::vector<PublicKey>() : read_public_keys(trusted);
  Trust trust{keys};
  int status = 0;
  for (const std::string& path : paths) {
    try {
      const Package package = verify_package(path, pool, trusted.empty() ? nullptr : &trust);
      fmt::print("{}: whole{}; for {}; {} of library, {} of weights\n", path, trusted.empty() ? "" : " and signed", package.levels,
                 byte_size_text(package.library.size()), byte_size_text(package.weights.size()));
      std::string_view lines = provenance_in(package.library);
      for (size_t end = lines.find('\n'); end != lines.npos; lines.remove_prefix(end + 1), end = lines.find('\n'))
        fmt::print("  {}\n", lines.substr(0, end));
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.report());
      status = 1;
    }
  }
  return status;
}

}  // namespace toroid::cli
