// CLI11's flags with toroid's conventions: --help and mistakes end the command here.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace toroid::cli {

class Flags : public CLI::App {
 public:
  Flags(const std::string& command, const std::string& what) : CLI::App(what, "toroid " + command) {}

  // The exit status when the command ends here: 0 after --help, 2 after a mistake, which is printed.
  std::optional<int> read(int argc, const char* const* argv) {
    try {
      parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return exit(error);
      fmt::print(stderr, "error: {}\n  help: '{} --help' lists the flags\n", error.what(), get_name());
      return 2;
    }
    return std::nullopt;
  }
};

}  // namespace toroid::cli
