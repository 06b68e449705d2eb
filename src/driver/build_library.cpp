#include "driver/build_library.h"

#include <algorithm>
#include <future>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "codegen/cpp/origin.h"
#include "codegen/wrapper/package_entry.h"
#include "support/process/thread_pool.h"
#include "support/progress.h"
#include "toolchain/amdgcn.h"

namespace toroid {
namespace {

// Files' objects, made by so many compilers at a time.
std::vector<std::string> compiled_side_by_side(size_t count, int threads, const std::function<std::string(size_t)>& compile) {
  Progress progress("compiling kernels", count);
  ThreadPool pool(static_cast<size_t>(std::max(1, threads)));
  std::vector<std::future<std::string>> objects;
  for (size_t i = 0; i < count; ++i) {
    objects.push_back(pool.submit([&, i] {
      std::string object = compile(i);
      progress.advance();
      return object;
    }));
  }
  std::vector<std::string> built;
  for (auto& object : objects) built.push_back(object.get());
  return built;
}

CompileOptions linking_of(CompileOptions how) {
  how.name = "program";
  return how;
}

// Of a user's kernel, whose errors name its own file.
CompileOptions options_of_custom(CompileOptions how, size_t unit) {
  how.name = fmt::format("custom{}", unit);
  return how;
}

// The binaries of all kernels in Triton: one run of Python for each architecture, on a thread of its own, while others are compiled.
class TritonBinaries {
 public:
  TritonBinaries(const GpuSources& gpu, int threads) {
    if (gpu.triton.empty()) return;
    made_ = std::async(std::launch::async, [&gpu, threads] {
      std::map<std::string, std::vector<TritonBinary>> made;
      for (const codegen::GpuBinary& each : gpu.binaries) {
        if (made.contains(each.architecture)) continue;
        made.emplace(each.architecture, gpu.compile_triton ? gpu.compile_triton(gpu.triton, each.architecture)
                                                           : compile_triton(gpu.triton, each.architecture, threads));
      }
      return made;
    });
  }
  // Of the unit of this number among those in Triton. Waits, and throws what the compilation does.
  const TritonBinary& at(const std::string& architecture, size_t unit) const { return made_.get().at(architecture).at(unit); }

 private:
  std::shared_future<std::map<std::string, std::vector<TritonBinary>>> made_;
};

// The binary of a unit as a unit in C++.
std::string binary_unit(const GpuSources& gpu, size_t number, const TritonBinaries& triton, const ResourcesTold& told) {
  const codegen::GpuBinary& place = gpu.binaries[number];
  const size_t unit = place.unit;
  if (unit >= gpu.units.size()) {
    const TritonBinary& made = triton.at(place.architecture, unit - gpu.units.size());
    return codegen::binary_unit(number, made.bytes,
                                codegen::GpuLaunchFacts{.kernel = made.kernel,
                                                        .threads = made.threads,
                                                        .shared_bytes = made.shared_bytes,
                                                        .scratch_bytes = made.scratch_bytes,
                                                        .scratch_alignment = made.scratch_alignment,
                                                        .more_pointers = made.more_pointers});
  }
  const CudaBinary binary =
      compile_for_gpu(gpu.units[unit], place.architecture, gpu.units.size() == 1 ? "kernels" : fmt::format("kernels{}", unit));
  for (const KernelResources& kernel : binary.kernels) {
    if (told) told(kernel);
  }
  return codegen::binary_unit(number, binary.bytes);
}

// The wrapper of a program for a GPU is not optimised: it starts kernels, and compiles in half the time.
CompileOptions plain(CompileOptions how) {
  how.optimization = 0;
  return how;
}

// The numbers of binaries, those of the longest texts first: products on tensor cores take several times as long as others. Those in Triton
// are last, since all of them are compiled by one process.
std::vector<size_t> longest_first(const GpuSources& gpu) {
  std::vector<size_t> order(gpu.binaries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) {
    const size_t unit = gpu.binaries[i].unit;
    return unit < gpu.units.size() ? gpu.units[unit].size() + 1 : 0;
  });
  return order;
}

// The objects of `count` units in C++ and, beside them, of the GPU's binaries.
std::vector<std::string> compiled_with_binaries(size_t count, const GpuSources& gpu, const Toolchain& tools, int threads,
                                                const CompileOptions& how, const ResourcesTold& told,
                                                const std::function<std::string(size_t)>& compile) {
  const std::vector<size_t> order = longest_first(gpu);
  const TritonBinaries triton(gpu, threads);
  return compiled_side_by_side(count + order.size(), threads, [&](size_t i) {
    return i < count ? compile(i) : tools.compile_object(binary_unit(gpu, order[i - count], triton, told), plain(how));
  });
}

// The objects of all Halide pipelines: one run of Python, on a thread of its own, while others are compiled.
class HalideLibrary {
 public:
  HalideLibrary(const HalideSources& halide, const Isa& isa, int threads) {
    if (halide.pipelines.empty()) return;
    made_ = std::async(std::launch::async, [&halide, isa, threads] {
      const std::string target = halide_target(isa);
      return halide.compile ? halide.compile(halide.pipelines, target) : compile_halide(halide.pipelines, target, threads);
    });
  }
  // Waits, and throws what the compilation does.
  void append_to(std::vector<std::string>& objects) {
    if (!made_.valid()) return;
    std::ranges::move(made_.get(), std::back_inserter(objects));
  }

 private:
  std::future<std::vector<std::string>> made_;
};

std::string build_of_cpp(const std::vector<std::string>& units, const std::vector<std::string>& custom, const HalideSources& halide,
                         const Toolchain& tools, int threads, const CompileOptions& how) {
  auto options = [&](size_t unit) {
    CompileOptions result = how;
    result.name = name_of_unit(units, unit);
    result.origin_of_line = [&units, unit](size_t line) { return codegen::origin_of_line(units[unit], line); };
    return result;
  };
  if (units.size() + custom.size() + halide.pipelines.size() == 1) return tools.compile_shared(units[0], options(0));
  HalideLibrary others(halide, how.isa.value_or(tools.isa()), threads);
  const auto compile = [&](size_t i) {
    if (i < custom.size()) return tools.compile_object(custom[i], options_of_custom(how, i));
    return tools.compile_object(units[i - custom.size()], options(i - custom.size()));
  };
  std::vector<std::string> objects = compiled_side_by_side(units.size() + custom.size(), threads, compile);
  others.append_to(objects);
  return tools.link_shared(objects, linking_of(how));
}

}  // namespace

std::string build_package(const PackageSources& sources, const Toolchain& tools, int threads, const CompileOptions& asked,
                          const ResourcesTold& told) {
  KeptSources kept;
  CompileOptions how = sources.use.gpu ? plain(asked) : asked;
  if (how.kept == nullptr) how.kept = &kept;
  const std::vector<std::string>&units = sources.units, &custom = sources.custom_units;
  const auto compile = [&](size_t i) {
    if (i < custom.size()) {
      CompileOptions options = options_of_custom(how, i);
      options.isa = sources.levels.back();
      return tools.compile_object(custom[i], options);
    }
    i -= custom.size();
    const size_t level = i / units.size(), unit = i % units.size();
    CompileOptions options = how;
    options.name = name_of_unit(units, unit);
    options.isa = sources.levels[level];
    options.origin_of_line = [&](size_t line) {
      return line <= codegen::kLinesBeforeUnit ? "" : codegen::origin_of_line(units[unit], line - codegen::kLinesBeforeUnit);
    };
    std::string text = codegen::unit_of_level(units[unit], fmt::format("level{}", level));
    if (level == 0 && unit + 1 == units.size()) text += sources.entry;  // a compiler less to start
    return tools.compile_object(text, options);
  };
  HalideLibrary others(sources.halide, sources.levels.back(), threads);
  std::vector<std::string> objects =
      compiled_with_binaries(custom.size() + units.size() * sources.levels.size(), sources.gpu, tools, threads, how, told, compile);
  others.append_to(objects);
  if (!sources.prefix.empty()) return tools.link_object(objects, sources.run_side, sources.use, sources.prefix, linking_of(how));
  return tools.link_package(objects, sources.run_side, sources.use, linking_of(how));
}

std::string name_of_unit(const std::vector<std::string>& units, size_t unit) {
  return units.size() == 1 ? "program" : fmt::format("unit{}", unit);
}

std::vector<std::string> binary_units(const GpuSources& gpu, int threads) {
  const std::vector<size_t> order = longest_first(gpu);
  const TritonBinaries triton(gpu, threads);
  std::vector<std::string> made =
      compiled_side_by_side(order.size(), threads, [&](size_t i) { return binary_unit(gpu, order[i], triton, {}); });
  std::vector<std::string> units(made.size());
  for (size_t i = 0; i < made.size(); ++i) units[order[i]] = std::move(made[i]);
  return units;
}

std::string build_library(const LibrarySources& sources, const Toolchain& tools, int threads, const CompileOptions& asked,
                          const ResourcesTold& told) {
  KeptSources kept;
  CompileOptions how = asked;
  if (how.kept == nullptr) how.kept = &kept;
  const auto& [units, custom_units, gpu, halide] = sources;
  if (gpu.units.empty()) return build_of_cpp(units, custom_units, halide, tools, threads, how);
  const auto compile = [&](size_t i) { return tools.compile_object(units[i], plain(how)); };
  return tools.link_shared(compiled_with_binaries(units.size(), gpu, tools, threads, how, told, compile), linking_of(how));
}

}  // namespace toroid
