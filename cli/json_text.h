// JSON as commands print and write it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace toroid::cli {

// `indent`: spaces a level; -1 puts all on one line. Bytes that are no UTF-8, as names and messages may quote from a broken file,
// become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json, int indent = 1);

}  // namespace toroid::cli
