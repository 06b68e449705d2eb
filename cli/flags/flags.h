// Flags of a command, with toroid's conventions: --help and mistakes end the command here.
//
//   Flags flags("toroid run", "Runs a model.");
//   flags.add_option("--threads", threads, "threads to use").between(1, 1024);
//   if (const auto status = flags.read(argc, argv)) return *status;
//
// Only flags.cpp sees CLI11, whose header costs each file that includes it some seconds of compiling.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace toroid::cli {

// What an option demands of its value, and how --help shows it.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(option) {}
  Option& required();
  Option& shows_default();
  Option& one_of(const std::vector<std::string>& values);
  Option& between(int64_t least, int64_t most);
  Option& positive();
  Option& splits_at(char separator);  // one argument may hold several values

 private:
  CLI::Option& option_;
};

// Values live with the caller; they change only while read() runs, and keep what they hold where a flag is not given.
class Flags {
 public:
  Flags(const std::string& command, const std::string& what);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // "--name", "-n,--name", or "NAME" for what is given by its position.
  Option add_option(const std::string& name, std::string& value, const std::string& what);
  Option add_option(const std::string& name, int& value, const std::string& what);
  Option add_option(const std::string& name, int64_t& value, const std::string& what);
  Option add_option(const std::string& name, uint64_t& value, const std::string& what);
  Option add_option(const std::string& name, double& value, const std::string& what);
  Option add_option(const std::string& name, std::vector<std::string>& values, const std::string& what);
  // "!--no-name" sets it to false.
  void add_flag(const std::string& name, bool& value, const std::string& what);

  // A command within this one, which has flags of its own. Where there are some, one of them must be given.
  Flags& add_command(const std::string& name, const std::string& what);
  bool is_given() const;  // of such a command, after read()

  // The exit status when the command ends here: 0 after --help, 2 after a mistake, which is printed.
  std::optional<int> read(int argc, const char* const* argv);

 private:
  explicit Flags(CLI::App& app);

  std::unique_ptr<CLI::App> owned_;  // null for commands within another, which that one owns
  CLI::App& app_;
  std::vector<std::unique_ptr<Flags>> commands_;
};

}  // namespace toroid::cli
