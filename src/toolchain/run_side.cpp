#include "toolchain/run_side.h"

#include <dlfcn.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "support/files/embedded_files.h"
#include "support/process/subprocess.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

// Of the command, or of the library that the compiler is in.
fs::path own_folder() {
  Dl_info info = {};
  std::error_code ignored;
  const bool is_known = ::dladdr(reinterpret_cast<void*>(&own_folder), &info) != 0 && info.dli_fname != nullptr;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  // The program itself has the name that it was started by, which need not be a path.
  const std::string_view name = is_known ? info.dli_fname : "";
  if (name.find(".so") == name.npos) return program.parent_path();
  return fs::canonical(name, ignored).parent_path();
}

// The folder beside the command, or where an installation puts it (`installed` in its lib), that has `file`. Throws Error{Environment}
// where there is none.
fs::path find_folder(std::string_view what, std::string_view name, const fs::path& installed, std::string_view file) {
  const fs::path own = own_folder();
  const fs::path above = own.parent_path();
  const fs::path places[] = {own / name, above / name, above / "lib" / installed, own / installed, above / installed};
  for (const fs::path& folder : places) {
    if (fs::exists(folder / file)) return folder;
  }
  throw Error(ErrorKind::Environment,
              fmt::format("{} not in {}, {} or {}", what, places[0].string(), places[1].string(), places[2].string()))
      .help(fmt::format("build toroid anew (./run build), or copy the folder {} beside the command", name));
}

}  // namespace

std::optional<RunSide> find_run_side(Whole whole) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(whole);
  return std::nullopt;
#else
  if (const auto files = embedded_files()) {
    const fs::path folder = embedded_folder(*files);
    if (whole == Whole::Checked) mend(*files, folder, "run_side/");
    return RunSide{folder / "run_side", read_file(folder / "run_side" / "fingerprint")};
  }
  const fs::path folder = find_folder("the run side of packages is", "run_side", "toroid", "fingerprint");
  return RunSide{folder, read_file(folder / "fingerprint")};
#endif
}

fs::path find_run_source() {
  if (const auto files = embedded_files()) {
    const fs::path folder = embedded_folder(*files);
    mend(*files, folder, "run_source/");
    return folder / "run_source";
  }
  return find_folder("the sources of the run side are", "run_source", "toroid/source", "CMakeLists.txt");
}

namespace {

std::string file_of(const RunSide& run_side, std::string_view name) { return (run_side.folder / name).string(); }

// `c_library`: what stands between the run side and the C library.
void append_archives(const RunSide& run_side, const RunSideUse& use, std::string_view c_library, std::vector<std::string>& arguments) {
  const auto file = [&](std::string_view name) { return file_of(run_side, name); };
  // These come first and whole, so that what they define is not taken from the run side.
  arguments.emplace_back("-Wl,--whole-archive");
  arguments.push_back(file(c_library));
  if (!use.gpu) arguments.push_back(file("libtoroid_without_gpu.a"));
  arguments.push_back(file("libtoroid_without_loader.a"));
  arguments.push_back(file("libtoroid_without_measuring.a"));
  arguments.push_back(file("libtoroid_without_signatures.a"));
  if (!use.special_functions) arguments.push_back(file("libtoroid_without_special_functions.a"));
  if (!use.onednn) arguments.push_back(file("libtoroid_without_onednn.a"));
  arguments.emplace_back("-Wl,--no-whole-archive");
  arguments.emplace_back("-Wl,--start-group");
  for (const char* archive : {"libtoroid_run.a", "libtoroid_vector_math.a", "libmvec.a"}) {
    if (fs::exists(run_side.folder / archive)) arguments.push_back(file(archive));
  }
  arguments.emplace_back("-Wl,--end-group");
}

}  // namespace

std::vector<std::string> link_arguments(const RunSide& run_side, const RunSideUse& use) {
  const auto file = [&](std::string_view name) { return file_of(run_side, name); };
  std::vector<std::string> arguments = {"-shared", "-nodefaultlibs"};
  // Functions of the same code become one.
  if (find_program("mold")) arguments.insert(arguments.end(), {"-fuse-ld=mold", "-Wl,--icf=all"});
  // Of two definitions the first is taken: what a package leaves out its own objects define.
  arguments.insert(arguments.end(), {"-Wl,-z,muldefs", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,-z,relro",
                                     "-Wl,-z,now", "-Wl,-u,toroid_api", fmt::format("-Wl,--version-script={}", file("exports.map"))});
  append_archives(run_side, use, "libtoroid_glibc.a", arguments);
  for (const char* library : {"libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}) {
    if (fs::exists(run_side.folder / library)) arguments.push_back(file(library));
  }
  // Where something is opened when it runs. Newer glibcs have the library too, without code. Whether it is needed mold does not find out:
  // it goes by what --gc-sections removes, too.
  if (use.gpu || use.mpi || use.onednn) arguments.push_back(file("libdl.so.2"));
  return arguments;
}

// By GNU ld: mold leaves out nothing of what it links to an object.
std::vector<std::string> object_link_arguments(const RunSide& run_side, const RunSideUse& use) {
  std::vector<std::string> arguments = {"-r",
                                        "-nostdlib",
                                        "-fuse-ld=bfd",
                                        "-Wl,-z,muldefs",
                                        "-Wl,--gc-sections",
                                        "-Wl,-u,toroid_api",
                                        "-Wl,--force-group-allocation",
                                        "-Wl,--build-id=none"};
  append_archives(run_side, use, "libtoroid_in_program.a", arguments);
  return arguments;
}

}  // namespace toroid
