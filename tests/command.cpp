// main() of a command beside the tests. What it does is compiled with the library that it shares with a test, which takes half the time.
#include <cstdio>

#include "base/error.h"

int TOROID_RUN(int argc, char** argv);

int main(int argc, char** argv) {
  try {
    return TOROID_RUN(argc, argv);
  } catch (const toroid::Error& error) {
    std::fprintf(stderr, "%s\n", error.report().c_str());
    return 2;
  }
}
