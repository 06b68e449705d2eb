// A command of the command line, and what commands share.
#pragma once

#include <string_view>

namespace toroid::cli {

struct Command {
  std::string_view name;
  std::string_view summary;
  // argv[0] is the command's name. Returns the exit status; throws Error.
  int (*run)(int argc, const char* const* argv);
};

int cmd_compile(int argc, const char* const* argv);
int cmd_bench(int argc, const char* const* argv);
int cmd_explain(int argc, const char* const* argv);
int cmd_opt(int argc, const char* const* argv);
int cmd_run(int argc, const char* const* argv);
int cmd_compare(int argc, const char* const* argv);
int cmd_conform(int argc, const char* const* argv);
int cmd_ops(int argc, const char* const* argv);
int cmd_cache(int argc, const char* const* argv);
int cmd_shard(int argc, const char* const* argv);
int cmd_tune(int argc, const char* const* argv);
int cmd_tuning_worker(int argc, const char* const* argv);
int cmd_verify(int argc, const char* const* argv);
int cmd_doctor(int argc, const char* const* argv);
int cmd_version(int argc, const char* const* argv);

}  // namespace toroid::cli
