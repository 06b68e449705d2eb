// toroid run MODEL --inputs IN.safetensors --outputs OUT.safetensors
#include "arrays.h"
#include "backend.h"
#include "build_flags.h"
#include "command.h"
#include "flags.h"
#include "support/file.h"
#include "support/mapped_file.h"

namespace toroid::cli {

int cmd_run(int argc, const char* const* argv) {
  std::string model, inputs_path, outputs_path;
  std::string device = "cpu";
  LoadOptions options;
  Flags flags("run", "Runs a model on tensors from a file and writes its results.");
  flags.add_option("MODEL", model, "a .pt2 file, or a program that 'toroid compile' made").required();
  flags.add_option("--inputs", inputs_path, "safetensors with the inputs, by name or as in0, in1, …").required();
  flags.add_option("--outputs", outputs_path, "safetensors to write, out0, out1, …").required();
  flags.add_option("--device", device, "where to run").one_of({"cpu"}).shows_default();
  flags.add_option("--threads", options.threads, "threads to use (default: all)").between(1, 1024);
  flags.add_option("--backend", options.backend, "what computes: " + backend_list()).shows_default();
  flags.add_flag("--explain-cache", options.compile.explain_cache,
                 "say what the cache was asked, and after a miss how the nearest entry differs");
  add_build_flags(flags, options.compile);
  flags.add_option("--seed", options.seed, "of random operators").shows_default();
  if (const auto status = flags.read(argc, argv)) return *status;

  check_writable(outputs_path);
  const std::unique_ptr<Callable> callable = load_model(model, options);
  const std::vector<HostTensor> results = callable->call(read_inputs(inputs_path, callable->program()));
  std::vector<HostTensor> returned;
  for (size_t position : user_outputs(callable->program())) returned.push_back(results[position]);
  refuse_changed_files();   // the model's or the inputs'
  write_outputs(outputs_path, returned);
  return 0;
}

}  // namespace toroid::cli
