#include "driver/pipeline/save_sources.h"

#include <map>

#include <fmt/format.h>

#include "base/file/file.h"
#include "base/file/kept_files.h"
#include "driver/build_library.h"

namespace toroid {

void save_kernels(const std::filesystem::path& folder, const codegen::GeneratedProgram& code, std::string_view suffix) {
  std::filesystem::create_directories(folder);
  const std::string prelude = fmt::format("prelude{}.h", suffix);
  write_file_atomically(folder / prelude, std::string_view(code.prelude));
  std::map<std::string, std::string> steps_of;
  std::string steps;
  for (size_t i = 0; i < code.module.steps.size(); ++i) {
    std::string files;
    for (const std::string& kernel : code.step_kernels[i]) {
      std::string& list = steps_of[kernel];
      list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", i, code.module.steps[i].name);
      files += " " + kernel + ".cpp";
    }
    steps += fmt::format("{} {}:{}\n", i, code.module.steps[i].name, files.empty() ? " no generated kernel" : files);
  }
  write_file_atomically(folder / fmt::format("steps{}.txt", suffix), std::string_view(steps));
  for (const codegen::GeneratedKernel& kernel : code.kernels) {
    const size_t end = kernel.text.find('\n') + 1;
    write_file_atomically(folder / (kernel.name + ".cpp"),
                          fmt::format("// toroid: {}// of {} {}\n#include \"{}\"\n{}", kernel.text.substr(3, end - 3),
                                      steps_of[kernel.name].find(", ") == std::string::npos ? "step" : "steps", steps_of[kernel.name],
                                      prelude, kernel.text.substr(end)));
  }
}

void save_units(const std::filesystem::path& folder, std::string_view name, std::span<const std::string> units,
                std::string_view extension) {
  for (size_t i = 0; i < units.size(); ++i)
    write_file_atomically(folder / fmt::format("{}{}.{}", name, i, extension), std::string_view(units[i]));
}

void keep_sources(const std::vector<std::string>& units) {
  for (size_t i = 0; i < units.size(); ++i) keep_file(sources_folder(), name_of_unit(units, i), "cpp", units[i]);
}

}  // namespace toroid
