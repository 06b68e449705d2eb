// Linked into every test binary: each pass over a graph is checked there (src/passes/pipeline.h), and in the commands that tests start.
#include <cstdlib>

namespace {
[[maybe_unused]] const int kIsSet = ::setenv("TOROID_VERIFY", "1", 0);
}
