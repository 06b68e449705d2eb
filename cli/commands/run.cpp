// toroid run MODEL --inputs IN.safetensors --outputs OUT.safetensors
#include <algorithm>

#include <fmt/format.h>

#include "arrays.h"
#include "backend.h"
#include "base/error.h"
#include "base/file/file.h"
#include "base/file/mapped_file.h"
#include "build_flags.h"
#include "command.h"
#include "compare.h"
#include "describe.h"
#include "driver/gpu_binaries.h"
#include "flags/flags.h"
#include "runtime/cuda/early_start.h"

namespace toroid::cli {
namespace {

struct Results {
  std::vector<HostTensor> tensors;
  std::vector<std::string> file_names;   // out0, out1, …
  std::vector<std::string> model_names;  // logits, past.0.key, …

  std::vector<NamedTensor> named(const std::vector<std::string>& names) const {
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < tensors.size(); ++i) named.push_back({names[i], tensors[i]});
    return named;
  }
};

Results returned(const Program& program, const std::vector<HostTensor>& all) {
  Results results;
  const std::vector<std::string> names = output_names(program);
  for (size_t position : user_outputs(program)) {
    results.file_names.push_back(fmt::format("out{}", results.tensors.size()));
    results.model_names.push_back(names[position]);
    results.tensors.push_back(all[position]);
  }
  return results;
}

// "wrote out.safetensors: out0 logits f32[2, 10], out1 prob f32[2, 10]; variant for s40=1"
void report_results(const std::string& path, const Results& results, const std::string& variant) {
  std::string text;
  for (size_t i = 0; i < results.tensors.size(); ++i) {
    const std::string& name = results.model_names[i];
    text += fmt::format("{}{}{} {}", i > 0 ? ", " : "", results.file_names[i], name == results.file_names[i] ? "" : " " + name,
                        to_string(results.tensors[i]));
  }
  fmt::print(stderr, "{}{}{}\n", path.empty() ? "" : "wrote " + path + ": ", text, variant.empty() ? "" : "; variant for " + variant);
}

// By the model's names where the file has one of them, else as out0, out1, …. A model may itself call an output out0: then by those names
// of which the file has more.
Comparison compare_with(const std::string& path, const Results& results, const AskedTolerance& tolerance) {
  const std::vector<NamedTensor> expected = read_tensors(path);
  const auto known = [&](const std::vector<std::string>& names) {
    return std::count_if(expected.begin(), expected.end(),
                         [&](const NamedTensor& each) { return std::find(names.begin(), names.end(), each.name) != names.end(); });
  };
  const bool by_model = known(results.model_names) > 0 && known(results.model_names) >= known(results.file_names);
  return compare_tensors(results.named(by_model ? results.model_names : results.file_names), expected, tolerance);
}

}  // namespace

int cmd_run(int argc, const char* const* argv) {
  std::string model, inputs_path, outputs_path, expected_path, output_names = "numbers";
  std::string device = "cpu", mode = "default", lock_path;
  LoadOptions options;
  AskedTolerance tolerance;
  Flags flags("toroid run", "Runs a model on tensors from a file and writes its results, or compares them with expected ones.");
  flags.add_option("MODEL", model, "a .pt2 file, a program in text form (.txt), or one that 'toroid compile' made").required();
  flags.add_option("--inputs", inputs_path, "safetensors with the inputs, by name or as in0, in1, …").required();
  flags.add_option("--outputs", outputs_path, "safetensors to write, out0, out1, …");
  flags
      .add_option("--output-names", output_names,
                  "what to call the outputs: numbers (out0, out1, …), or as the model does (logits, past.0.key)")
      .one_of({"numbers", "model"})
      .shows_default();
  flags.add_option("--expect", expected_path,
                   "safetensors with what the outputs should be, by either name; exit status 1 where they differ");
  tolerance.add_flags(flags);
  add_device_flag(flags, device, "where to run");
  flags.add_option("--threads", options.threads, "threads to use (default: all)").between(1, 1024);
  flags.add_option("--mode", mode, "max: as compile --mode max, where the model is compiled").one_of({"default", "max"}).shows_default();
  add_tune_limit(flags, options.compile.choose);
  flags.add_option("--lock", lock_path, "take the choices of implementations from this file, where the model is compiled");
  flags.add_option("--backend", options.backend, "what computes: " + backend_list()).shows_default();
  flags.add_flag("--explain-cache", options.compile.explain_cache,
                 "say what the cache was asked, and after a miss how the nearest entry differs");
  add_build_flags(flags, options.compile);
  flags.add_option("--seed", options.seed, "of random operators").shows_default();
  if (const auto status = flags.read(argc, argv)) return *status;
  if (outputs_path.empty() && expected_path.empty()) {
    throw Error(ErrorKind::InvalidOption, "one of --outputs and --expect is needed, or both")
        .help("add --outputs OUT.safetensors to keep the results, --expect FILE to compare them");
  }

  set_device(options.compile, device);
  const bool is_compiled = !model.ends_with(".so") && options.backend == "cpu";
  if (!is_compiled && (mode == "max" || !lock_path.empty()))
    throw Error(ErrorKind::InvalidOption, "--mode max and --lock mean nothing where nothing is compiled")
        .help("give the .pt2, and no backend");
  options.compile.choose = {.measure = mode == "max", .threads = options.threads};
  if (!lock_path.empty()) options.compile.choose.lock = tune::ChoiceLock::read(lock_path);
  std::optional<cuda::EarlyStart> early;
  if (is_device(options.compile.target)) early.emplace(options.compile.gpu, vendor_of(options.compile));
  if (!outputs_path.empty()) check_writable(outputs_path);
  const std::unique_ptr<Callable> callable = load_model(model, options);
  const Results results = returned(callable->program(), callable->call(read_inputs(inputs_path, callable->program())));
  refuse_changed_files();  // the model's or the inputs'
  if (!outputs_path.empty())
    write_outputs(outputs_path, results.tensors, output_names == "model" ? results.model_names : results.file_names);
  report_results(outputs_path, results, callable->variant());
  for (const std::string& note : callable->notes()) fmt::print(stderr, "note: {}\n", note);
  if (expected_path.empty()) return 0;
  const Comparison comparison = compare_with(expected_path, results, tolerance);
  refuse_changed_files();  // what is expected
  fmt::print("{}", comparison.text);
  return comparison.is_equal ? 0 : 1;
}

}  // namespace toroid::cli
