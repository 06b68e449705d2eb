#include "driver/build_library.h"

#include <algorithm>
#include <future>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "codegen/cpp/origin.h"
#include "codegen/wrapper/package_entry.h"
#include "driver/graph_cache.h"
#include "support/process/thread_pool.h"
#include "support/progress.h"
#include "toolchain/amdgcn.h"

namespace toroid {
namespace {

// How long another process may take for an object, and for linking.
constexpr auto kPatienceWithParts = std::chrono::minutes(3);

// Objects by their numbers. The key is asked for where several processes make them.
struct Objects {
  size_t count;
  std::function<std::string(size_t)> make;
  std::function<CacheKey(size_t)> key;
};

std::vector<std::string> found_or_made(const Objects& objects, int threads, SharedBuild& shared) {
  Progress progress("compiling kernels", objects.count);
  std::vector<std::string> built(objects.count);
  SharedWork work{.patience = kPatienceWithParts};
  for (size_t i = 0; i < objects.count; ++i) work.keys.push_back(objects.key(i));
  work.find = [&](size_t i) {
    std::optional<std::string> found = shared.cache.get(work.keys[i]);
    if (!found) return false;
    built[i] = std::move(*found);
    progress.advance();
    return true;
  };
  work.make = [&](size_t i, size_t) {
    built[i] = objects.make(i);
    shared.cache.put(work.keys[i], built[i]);
    ++shared.made;
    progress.advance();
  };
  do_shared(shared.cache, work, shared.part, static_cast<size_t>(std::max(1, threads)));
  shared.objects += static_cast<int>(objects.count);
  return built;
}

// Made by so many compilers at a time.
std::vector<std::string> compiled(const Objects& objects, int threads, SharedBuild* shared) {
  if (shared != nullptr) return found_or_made(objects, threads, *shared);
  Progress progress("compiling kernels", objects.count);
  ThreadPool pool(static_cast<size_t>(std::max(1, threads)));
  std::vector<std::future<std::string>> futures;
  for (size_t i = 0; i < objects.count; ++i) {
    futures.push_back(pool.submit([&, i] {
      std::string object = objects.make(i);
      progress.advance();
      return object;
    }));
  }
  std::vector<std::string> built;
  for (auto& object : futures) built.push_back(object.get());
  return built;
}

// A unit and how it is compiled.
struct Unit {
  std::string text;
  CompileOptions how;
};
Objects objects_of(size_t count, const Toolchain& tools, std::function<Unit(size_t)> unit_at) {
  return {.count = count,
          .make =
              [&tools, unit_at](size_t i) {
                const Unit unit = unit_at(i);
                return tools.compile_object(unit.text, unit.how);
              },
          .key =
              [&tools, unit_at](size_t i) {
                const Unit unit = unit_at(i);
                return object_key(unit.text, unit.how, tools);
              }};
}

// The library of these objects, linked by one process where several make it.
std::string linked(SharedBuild* shared, const std::function<std::string()>& link) {
  if (shared == nullptr) return link();
  const CacheLease lease = shared->cache.acquire(shared->library, kPatienceWithParts);
  if (std::optional<std::string> found = shared->cache.get(shared->library)) return *found;
  std::string library = link();
  shared->cache.put(shared->library, library);
  return library;
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

// Those of units in C++ and, behind them, of the GPU's binaries.
std::vector<std::string> compiled_with_binaries(const Objects& host, const GpuSources& gpu, const Toolchain& tools, int threads,
                                                const CompileOptions& how, const ResourcesTold& told, SharedBuild* shared) {
  const std::vector<size_t> order = longest_first(gpu);
  const TritonBinaries triton(gpu, threads);
  const auto make = [&](size_t i) { return tools.compile_object(binary_unit(gpu, order[i], triton, told), plain(how)); };
  // By its source: what it becomes is not known before it was compiled.
  const auto key = [&](size_t i) {
    const codegen::GpuBinary& place = gpu.binaries[order[i]];
    const size_t unit = place.unit;
    const std::string& source = unit < gpu.units.size() ? gpu.units[unit] : gpu.triton[unit - gpu.units.size()];
    return object_key(source, plain(how), tools, fmt::format("binary {}, {}, {}", order[i], place.architecture, shared->gpu_target));
  };
  return compiled({.count = host.count + order.size(),
                   .make = [&](size_t i) { return i < host.count ? host.make(i) : make(i - host.count); },
                   .key = [&](size_t i) { return i < host.count ? host.key(i) : key(i - host.count); }},
                  threads, shared);
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
                         const Toolchain& tools, int threads, const CompileOptions& how, SharedBuild* shared) {
  auto options = [&](size_t unit) {
    CompileOptions result = how;
    result.name = name_of_unit(units, unit);
    result.origin_of_line = [&units, unit](size_t line) { return codegen::origin_of_line(units[unit], line); };
    return result;
  };
  if (units.size() + custom.size() + halide.pipelines.size() == 1)
    return linked(shared, [&] { return tools.compile_shared(units[0], options(0)); });
  HalideLibrary others(halide, how.isa.value_or(tools.isa()), threads);
  const auto unit_at = [&](size_t i) -> Unit {
    if (i < custom.size()) return {custom[i], options_of_custom(how, i)};
    return {units[i - custom.size()], options(i - custom.size())};
  };
  std::vector<std::string> objects = compiled(objects_of(units.size() + custom.size(), tools, unit_at), threads, shared);
  others.append_to(objects);
  return linked(shared, [&] { return tools.link_shared(objects, linking_of(how)); });
}

}  // namespace

std::string build_package(const PackageSources& sources, const Toolchain& tools, int threads, const CompileOptions& asked,
                          const ResourcesTold& told, SharedBuild* shared) {
  KeptSources kept;
  CompileOptions how = sources.use.gpu ? plain(asked) : asked;
  if (how.kept == nullptr) how.kept = &kept;
  const std::vector<std::string>&units = sources.units, &custom = sources.custom_units;
  const auto unit_at = [&](size_t i) -> Unit {
    if (i < custom.size()) {
      CompileOptions options = options_of_custom(how, i);
      options.isa = sources.levels.back();
      return {custom[i], std::move(options)};
    }
    i -= custom.size();
    const size_t level = i / units.size(), unit = i % units.size();
    CompileOptions options = how;
    if (unit < sources.is_optimised.size() && sources.is_optimised[unit]) options.optimization = asked.optimization;
    options.name = name_of_unit(units, unit);
    options.isa = sources.levels[level];
    options.origin_of_line = [&units, unit](size_t line) {
      return line <= codegen::kLinesBeforeUnit ? "" : codegen::origin_of_line(units[unit], line - codegen::kLinesBeforeUnit);
    };
    std::string text = codegen::unit_of_level(units[unit], fmt::format("level{}", level));
    if (level == 0 && unit + 1 == units.size()) text += sources.entry;  // a compiler less to start
    return {std::move(text), std::move(options)};
  };
  HalideLibrary others(sources.halide, sources.levels.back(), threads);
  const Objects host = objects_of(custom.size() + units.size() * sources.levels.size(), tools, unit_at);
  std::vector<std::string> objects = compiled_with_binaries(host, sources.gpu, tools, threads, how, told, shared);
  others.append_to(objects);
  return linked(shared, [&] {
    if (!sources.prefix.empty()) return tools.link_object(objects, sources.run_side, sources.use, sources.prefix, linking_of(how));
    return tools.link_package(objects, sources.run_side, sources.use, linking_of(how));
  });
}

std::string name_of_unit(const std::vector<std::string>& units, size_t unit) {
  return units.size() == 1 ? "program" : fmt::format("unit{}", unit);
}

std::vector<std::string> binary_units(const GpuSources& gpu, int threads) {
  const std::vector<size_t> order = longest_first(gpu);
  const TritonBinaries triton(gpu, threads);
  const Objects objects{.count = order.size(), .make = [&](size_t i) { return binary_unit(gpu, order[i], triton, {}); }, .key = {}};
  std::vector<std::string> made = compiled(objects, threads, nullptr);
  std::vector<std::string> units(made.size());
  for (size_t i = 0; i < made.size(); ++i) units[order[i]] = std::move(made[i]);
  return units;
}

std::string build_library(const LibrarySources& sources, const Toolchain& tools, int threads, const CompileOptions& asked,
                          const ResourcesTold& told, SharedBuild* shared) {
  KeptSources kept;
  CompileOptions how = asked;
  if (how.kept == nullptr) how.kept = &kept;
  const auto& [units, is_optimised, custom_units, gpu, halide] = sources;
  if (gpu.units.empty()) return build_of_cpp(units, custom_units, halide, tools, threads, how, shared);
  const Objects host = objects_of(units.size(), tools, [&](size_t i) -> Unit {
    return {units[i], i < is_optimised.size() && is_optimised[i] ? how : plain(how)};
  });
  const std::vector<std::string> objects = compiled_with_binaries(host, gpu, tools, threads, how, told, shared);
  return linked(shared, [&] { return tools.link_shared(objects, linking_of(how)); });
}

}  // namespace toroid
