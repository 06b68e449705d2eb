// The command `toroid`: finds the command in the table and runs it. Errors go to stderr with their next step; the exit
// status is then 1, and 2 for a command line that cannot be understood.
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/mapped_file.h"
#include "base/machine/out_of_memory.h"
#include "command.h"
#include "runtime/cuda/driver_api.h"
#include "streams.h"
#include "support/progress.h"

namespace {

using namespace toroid;
using namespace toroid::cli;

constexpr Command kCommands[] = {
    {"compile", "compile a model into a shared library", cmd_compile},
    {"run", "run a model on tensors from files", cmd_run},
    {"compare", "compare the tensors of two files", cmd_compare},
    {"conform", "compare models with recorded results", cmd_conform},
    {"bench", "time a model", cmd_bench},
    {"explain", "say why operators of a model are one step or two", cmd_explain},
    {"opt", "run chosen passes over the text form of a program", cmd_opt},
    {"ops", "list supported or missing operators", cmd_ops},
    {"cache", "look at and tend the cache of compiled programs", cmd_cache},
    {"shard", "cut a model for several processes", cmd_shard},
    {"tune", "measure implementations of library kernels", cmd_tune},
    {"tuning-worker", "try kernels for another toroid process, which starts it", cmd_tuning_worker},
    {"verify", "check that compiled programs are whole", cmd_verify},
    {"doctor", "check the machine: compilers, instructions, cache, memory", cmd_doctor},
    {"version", "say which toroid this is, and the licences of its parts", cmd_version},
};

void print_help(FILE* to) {
  fmt::print(to, "usage: toroid COMMAND ...\n\n");
  for (const Command& command : kCommands) fmt::print(to, "  {:<14} {}\n", command.name, command.summary);
  fmt::print(to, "\n'toroid COMMAND --help' lists a command's flags.\n");
}

// The exit status; throws what the command throws.
int run_command(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "help" || name == "--help" || name == "-h") {
    print_help(stdout);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (command.name == (name == "--version" ? "version" : name))
      return with_typed_memory("running the command", [&] { return command.run(argc - 1, argv + 1); });
  }
  if (!name.empty()) fmt::print(stderr, "error: '{}' is no command of toroid\n\n", name);
  print_help(stderr);
  return 2;
}

// The same, but of what went wrong the cause: the output that could not be written, or the file that was cut short meanwhile.
int run_to_the_end(int argc, char** argv) {
  int status = 1;
  std::exception_ptr thrown;
  try {
    status = run_command(argc, argv);
  } catch (const std::exception&) {
    thrown = std::current_exception();
  }
  end_children();
  finish_output(thrown);
  if (const auto lost = first_lost_file()) throw changed_file_error(*lost);
  if (thrown) std::rethrow_exception(thrown);
  return status;
}

}  // namespace

// Of the Python package too (package/portable, portable_python): a process calls it once and ends.
extern "C" __attribute__((visibility("default"))) int toroid_main(int argc, char** argv) {
  prepare_process();
  show_progress(true);
  try {
    const int status = run_to_the_end(argc, argv);
    // A GPU's driver takes a tenth of a second to leave in good order, for nothing: the system takes back what the process had.
    if (cuda::is_open()) std::_Exit(status);
    return status;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.report());
  } catch (const std::filesystem::filesystem_error& error) {
    fmt::print(stderr, "error: {} cannot be used: {}\n  help: check the path\n", error.path1().string(), error.code().message());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n  help: this is a bug in toroid; please report it\n", error.what());
  }
  return 1;
}

int main(int argc, char** argv) { return toroid_main(argc, argv); }
