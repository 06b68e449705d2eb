#include "support/list.h"

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {

void throw_missing_position(size_t position, size_t size) {
  const auto number = static_cast<ptrdiff_t>(position);  // of what was counted from the end of too short a list
  constexpr std::string_view kWhat = "a tensor has too few dims, or an argument too few entries";
  throw Error(ErrorKind::InvalidModel,
              number < 0 ? fmt::format("{}: {}", kWhat, size) : fmt::format("{}: {}, at least {} are needed", kWhat, size, position + 1));
}

}  // namespace toroid
