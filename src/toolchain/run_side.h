// The run side of packages: what compiled programs need while they run, as archives to link, and the C library as packages may use it. The
// build puts them into a folder beside the command (package/run_side.sh); installed, they lie in lib/toroid. A portable toroid brings them
// along (support/files/embedded_files.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace toroid {

struct RunSide {
  std::filesystem::path folder;
  std::string fingerprint;  // of all its files
};
// Checked: files that came in the program are compared with their digests, and written anew where they differ. Who links them asks for
// that.
enum class Whole { Unchecked, Checked };
// None in builds with sanitizers, whose code needs more than the C library. Throws Error{Environment} where it is missing.
std::optional<RunSide> find_run_side(Whole whole = Whole::Unchecked);

// The same as sources (package/run_source.sh), for packages that others compile. Throws Error{Environment} where they are missing.
std::filesystem::path find_run_source();

// What a program needs beyond kernels that its own list names (codegen/wrapper/package_entry.h).
struct RunSideUse {
  bool special_functions = false;
  bool onednn = false;
  bool gpu = false;
  bool mpi = false;
};
// What the compiler is given besides the program's objects.
std::vector<std::string> link_arguments(const RunSide& run_side, const RunSideUse& use);
// The same for one object of all, which a program links with its own C library.
std::vector<std::string> object_link_arguments(const RunSide& run_side, const RunSideUse& use);

}  // namespace toroid
