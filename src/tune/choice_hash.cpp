#include "tune/choice_hash.h"

#include <fmt/format.h>

#include "support/hash.h"

namespace toroid::tune {

std::string choice_hash(std::string_view family, const Choice& choice) {
  return sha256(fmt::format("{}\n{}\n{}\n", family, choice.name, choice.version)).hex().substr(0, 16);
}

}  // namespace toroid::tune
