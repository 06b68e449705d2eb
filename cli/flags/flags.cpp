#include "flags/flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <fmt/format.h>

namespace toroid::cli {

Option& Option::required() { return option_.required(), *this; }
Option& Option::shows_default() { return option_.capture_default_str(), *this; }
Option& Option::one_of(const std::vector<std::string>& values) { return option_.check(CLI::IsMember(values)), *this; }
Option& Option::between(int64_t least, int64_t most) { return option_.check(CLI::Range(least, most)), *this; }
Option& Option::positive() { return option_.check(CLI::PositiveNumber), *this; }
Option& Option::splits_at(char separator) { return option_.delimiter(separator), *this; }

Flags::Flags(const std::string& command, const std::string& what) : owned_(std::make_unique<CLI::App>(what, command)), app_(*owned_) {}
Flags::Flags(CLI::App& app) : app_(app) {}
Flags::~Flags() = default;

Option Flags::add_option(const std::string& name, std::string& value, const std::string& what) {
  return Option(*app_.add_option(name, value, what));
}
Option Flags::add_option(const std::string& name, int& value, const std::string& what) {
  return Option(*app_.add_option(name, value, what));
}
Option Flags::add_option(const std::string& name, int64_t& value, const std::string& what) {
  return Option(*app_.add_option(name, value, what));
}
Option Flags::add_option(const std::string& name, uint64_t& value, const std::string& what) {
  return Option(*app_.add_option(name, value, what));
}
Option Flags::add_option(const std::string& name, double& value, const std::string& what) {
  return Option(*app_.add_option(name, value, what));
}
Option Flags::add_option(const std::string& name, std::vector<std::string>& values, const std::string& what) {
  return Option(*app_.add_option(name, values, what));
}
void Flags::add_flag(const std::string& name, bool& value, const std::string& what) { app_.add_flag(name, value, what); }

Flags& Flags::add_command(const std::string& name, const std::string& what) {
  app_.require_subcommand(1);
  commands_.push_back(std::unique_ptr<Flags>(new Flags(*app_.add_subcommand(name, what))));
  return *commands_.back();
}
bool Flags::is_given() const { return app_.parsed(); }

std::optional<int> Flags::read(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view text = error.what();  // "--missing: 1 required TEXT missing"
    fmt::print(stderr, "error: {} needs a value\n  help: '{} --help' lists the flags\n", text.substr(0, text.find(':')), app_.get_name());
    return 2;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_.exit(error);
    fmt::print(stderr, "error: {}\n  help: '{} --help' lists the flags\n", error.what(), app_.get_name());
    return 2;
  }
  return std::nullopt;
}

}  // namespace toroid::cli
