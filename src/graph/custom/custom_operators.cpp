#include "graph/custom/custom_operators.h"

#include <dlfcn.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "support/hash.h"

namespace toroid {
namespace {

constexpr std::string_view kExtension = ".op";
constexpr uint64_t kMaxLibraryBytes = uint64_t{4} << 30;

// With the bytes of its library noted. `folder`: the file's.
CustomOperator read_file_of_operator(const std::filesystem::path& path) {
  ErrorContext context("reading {}", path.string());
  CustomOperator op = read_custom_operator(read_file(path, kMaxOperatorFileBytes), path.filename().string());
  for (CustomKernel& kernel : op.kernels) {
    if (kernel.kind != CustomKernel::Kind::Library) continue;
    kernel.library = std::filesystem::absolute(path.parent_path() / kernel.library).lexically_normal();
    kernel.digest = sha256(read_file(kernel.library, kMaxLibraryBytes)).hex();
  }
  return op;
}

// Its function is there, so that the program finds it when it is loaded. The library stays open.
void open_library(const CustomOperator& op, const CustomKernel& kernel) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::Environment, fmt::format("{} takes {} from {}, which cannot be used: {}", op.where(kernel.place),
                                                    kernel.function, kernel.library.string(), why))
        .help("build the library for this machine, or correct its path in the file");
  };
  void* const handle = dlopen(kernel.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    refuse(reason == nullptr ? "it cannot be opened" : reason);
  }
  if (dlsym(handle, kernel.function.c_str()) == nullptr) refuse(fmt::format("it has no function '{}'", kernel.function));
}

}  // namespace

std::string operator_file_name(std::string_view op) {
  constexpr size_t kMaxBytes = 200;
  const size_t colons = op.find("::");
  const auto is_plain = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), [](char c) {
      return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
  };
  if (colons == op.npos || op.size() > kMaxBytes || !is_plain(op.substr(0, colons)) || !is_plain(op.substr(colons + 2))) return "";
  return fmt::format("{}.{}{}", op.substr(0, colons), op.substr(colons + 2), kExtension);
}

const CustomOperator* CustomOperators::find(std::string_view op) {
  constexpr std::string_view kDefault = ".default";
  if (op.ends_with(kDefault)) op.remove_suffix(kDefault.size());
  if (const auto known = found_.find(op); known != found_.end()) return known->second.get();
  const std::string name = operator_file_name(op);
  if (name.empty()) return nullptr;
  std::vector<std::filesystem::path> places = folders_.trusted;
  if (!folders_.beside_model.empty()) places.push_back(folders_.beside_model);
  for (size_t i = 0; i < places.size(); ++i) {
    const std::filesystem::path path = places[i] / name;
    std::error_code missing;
    if (!std::filesystem::exists(path, missing)) continue;
    auto read = std::make_unique<const CustomOperator>(read_file_of_operator(path));
    if (read->schema.name != op) {
      throw Error(ErrorKind::InvalidModel, fmt::format("{} describes '{}', not '{}'", path.string(), read->schema.name, op))
          .help("name the file after its operator");
    }
    if (i == folders_.trusted.size() && read->holds_code()) {
      throw Error(ErrorKind::InvalidOption, fmt::format("{} holds code, which is not taken from beside a model", path.string()))
          .help(fmt::format("if you trust it, give its folder: --operators {}", places[i].empty() ? "." : places[i].string()));
    }
    for (const CustomKernel& kernel : read->kernels) {
      if (kernel.kind == CustomKernel::Kind::Library && !folders_.for_gpu) open_library(*read, kernel);
    }
    return found_.emplace(op, std::move(read)).first->second.get();
  }
  return nullptr;
}

const CustomOperator* CustomOperators::of(const Schema& schema) const {
  const auto found = found_.find(schema.name);
  return found != found_.end() && &found->second->schema == &schema ? found->second.get() : nullptr;
}

const CustomOperator* CustomOperators::of_library(std::string_view library_name) const {
  if (!library_name.starts_with(kCustomPrefix)) return nullptr;
  const auto found =
      found_.find(library_name.substr(library_name.starts_with(kTritonPrefix) ? kTritonPrefix.size() : kCustomPrefix.size()));
  return found == found_.end() ? nullptr : found->second.get();
}

bool CustomOperators::takes_triton(const CustomOperator& op) const {
  return folders_.for_gpu && !folders_.for_amd && !folders_.is_emulated && op.kernel(CustomKernel::Kind::Cuda) == nullptr &&
         op.kernel(CustomKernel::Kind::Triton) != nullptr;
}

const CustomKernel* CustomOperators::kernel_of(const CustomOperator& op) const {
  using Kind = CustomKernel::Kind;
  const CustomKernel* kernel = folders_.for_amd ? nullptr : op.kernel(folders_.for_gpu ? Kind::Cuda : Kind::Cpp);
  const CustomKernel* const triton = op.kernel(Kind::Triton);
  if (takes_triton(op)) return triton;
  if (kernel == nullptr && !folders_.for_gpu) kernel = op.kernel(Kind::Library);
  if (kernel == nullptr && !folders_.for_gpu) kernel = op.kernel(Kind::Halide);
  if (kernel != nullptr || op.formula) return kernel;
  if (folders_.for_amd)
    throw Error(ErrorKind::Unsupported, fmt::format("{} has no body for a GPU of AMD's", op.file)).help("give it a formula");
  if (folders_.is_emulated && triton != nullptr)
    throw Error(ErrorKind::Unsupported, fmt::format("{} is in Triton, which a processor does not emulate", op.file))
        .help("compile for a GPU with --device cuda, or give the operator a formula or a kernel in CUDA too");
  throw Error(ErrorKind::Unsupported, fmt::format("{} has no body for a {}", op.file, folders_.for_gpu ? "GPU" : "processor"))
      .help(fmt::format("give it a formula, or a kernel in {}", folders_.for_gpu ? "CUDA or Triton" : "C++ or Halide"));
}

std::vector<std::pair<std::filesystem::path, bool>> CustomOperators::files() const {
  std::vector<std::filesystem::path> places = folders_.trusted;
  if (!folders_.beside_model.empty()) places.push_back(folders_.beside_model);
  std::vector<std::pair<std::filesystem::path, bool>> result;
  for (size_t i = 0; i < places.size(); ++i) {
    std::vector<std::filesystem::path> files;
    std::error_code missing;
    for (std::filesystem::directory_iterator entry(places[i], missing), end; !missing && entry != end; entry.increment(missing)) {
      if (entry->path().extension() == kExtension) files.push_back(entry->path());
    }
    std::sort(files.begin(), files.end());
    for (std::filesystem::path& file : files) result.emplace_back(std::move(file), i < folders_.trusted.size());
  }
  return result;
}

std::string CustomOperators::fingerprint() const {
  std::string text;
  for (const auto& [file, is_trusted] : files()) {
    std::string content;
    try {
      const CustomOperator op = read_file_of_operator(file);
      content = op.text;
      for (const CustomKernel& kernel : op.kernels) content += kernel.digest;
    } catch (const Error& error) {  // it matters only where the model uses it, and then it is an error
      content = error.what();
    }
    text += fmt::format("{} {} {}\n", is_trusted ? "trusted" : "beside", file.filename().string(), sha256(content).hex());
  }
  return text;
}

bool CustomOperators::has_file(const std::function<bool(const CustomOperator&)>& wanted) const {
  const auto all = files();
  return std::any_of(all.begin(), all.end(), [&](const auto& file) {
    try {
      return file.second && wanted(read_file_of_operator(file.first));
    } catch (const Error&) {
      return false;
    }
  });
}

bool CustomOperators::may_take_triton() const {
  if (!folders_.for_gpu || folders_.is_emulated) return false;
  return has_file([&](const CustomOperator& op) { return takes_triton(op); });
}

bool CustomOperators::may_take_halide() const {
  if (folders_.for_gpu) return false;
  return has_file([&](const CustomOperator& op) { return kernel_of(op) != nullptr && kernel_of(op)->kind == CustomKernel::Kind::Halide; });
}

}  // namespace toroid
