// One libFuzzer program for all parsers: the first argument that names one picks it, as in `fuzz_parsers --parser=json corpus/json`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "parsers.h"

namespace {
const toroid::parsers::Parser* chosen = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::string argument = (*argv)[i];
    for (const auto& parser : toroid::parsers::all()) {
      if (argument == "--parser=" + std::string(parser.name)) chosen = &parser;
    }
  }
  if (chosen != nullptr) return 0;
  for (const auto& parser : toroid::parsers::all())
    std::fprintf(stderr, "--parser=%.*s\n", static_cast<int>(parser.name.size()), parser.name.data());
  std::fputs("name one of these\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  toroid::parsers::feed(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
