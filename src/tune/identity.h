// What results of tuning depend on besides the problem. Times and faults of another machine, or of another build of the kernels,
// say nothing about these.
#pragma once

#include <string>
#include <string_view>

#include "cache/key.h"

namespace toroid::tune {

struct Identity {
  std::string machine;    // "AMD EPYC, family 25, model 17, stepping 1; 2 processors; caches 32768, 1048576, 33554432 bytes"
  std::string isa;        // as Machine::name: what the kernels go by
  std::string toolchain;  // what built the kernels

  // Adds its parts, each with its label.
  void add_to(KeyBuilder& key) const;
};

// Of this machine and this build of toroid (cache/code_identity.h).
Identity identity_of_this_machine();

// The processor as /proc/cpuinfo describes its first one: name, family, model, stepping, or on ARM implementer and part.
std::string processor_in(std::string_view cpuinfo);

}  // namespace toroid::tune
