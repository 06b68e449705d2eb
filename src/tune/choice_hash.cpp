#include "tune/choice_hash.h"

#include <fmt/format.h>

#include "support/hash.h"

namespace toroid::tune {

std::string choice_hash(std::string_view family, const Choice& choice) {
  std::string text = fmt::format("{}\n{}\n{}\n", family, choice.name, choice.version);
  for (const auto& [name, value] : choice.parameters) text += fmt::format("{} = {}\n", name, value);
  return sha256(text).hex().substr(0, 16);
}

}  // namespace toroid::tune
