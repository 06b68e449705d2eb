// Every parser of bytes that may come from somebody else, as one function each. It may refuse with an Error; anything else that leaves
// it, a crash, a hang or a leak is a bug.
#pragma once

#include <span>
#include <string_view>

namespace toroid::parsers {

struct Parser {
  std::string_view name;  // also the folder of its corpus
  void (*parse)(std::string_view bytes);
};

std::span<const Parser> all();
// Runs a parser on the bytes; an Error is a fine answer.
void feed(const Parser& parser, std::string_view bytes);

}  // namespace toroid::parsers
