#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "cache/remote/remote_server.h"

namespace toroid {
namespace {

[[noreturn]] void refuse(std::string_view why) {
  throw Error(ErrorKind::InvalidOption, fmt::format("the address of the remote cache {}", why))
      .help("write redis://:password@host:port/database or https://host:port/path, or unset TOROID_REMOTE_CACHE");
}

int number(std::string_view text, int most, const char* what) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
    refuse(fmt::format("has no {} in '{}'", what, text));
  return value;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
      refuse("has a '%' in its password that two hex digits do not follow");
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

}  // namespace

std::chrono::milliseconds RemoteDeadline::left(uint64_t bytes_moved) const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()) + time_for(bytes_moved);
  return std::max(left, std::chrono::milliseconds(0));
}

RemoteAddress parse_remote_address(std::string_view text) {
  const bool has_space =
      std::any_of(text.begin(), text.end(), [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '\0'; });
  if (has_space) refuse("has white space in it");
  const size_t colon = text.find("://");
  if (colon == text.npos) refuse("has no scheme");
  const std::string_view scheme = text.substr(0, colon);
  if (scheme != "redis" && scheme != "http" && scheme != "https")
    refuse(fmt::format("has the scheme '{}', which is neither redis, http nor https", scheme));
  std::string_view rest = text.substr(colon + 3);
  std::string_view path = rest.substr(std::min(rest.find('/'), rest.size()));
  rest.remove_suffix(path.size());
  while (path.ends_with('/')) path.remove_suffix(1);
  const size_t at = rest.rfind('@');
  const std::string_view login = at == rest.npos ? "" : rest.substr(0, at);
  const std::string_view place = at == rest.npos ? rest : rest.substr(at + 1);
  if (place.empty() || place.starts_with(':')) refuse("names no host");

  RemoteAddress address;
  address.shown = fmt::format("{}://{}{}", scheme, place, path);
  if (scheme != "redis") {
    if (path.find_first_of("?#") != path.npos) refuse("has a query or a fragment");
    address.protocol = RemoteAddress::Protocol::Http;
    address.url = fmt::format("{}://{}{}{}", scheme, at == rest.npos ? "" : rest.substr(0, at + 1), place, path);
    return address;
  }
  const size_t separator = login.find(':');
  if (!login.empty() && separator == login.npos) refuse("has a name before the '@' but no ':' and password");
  address.user = percent_decoded(login.substr(0, std::min(separator, login.size())));
  if (separator != login.npos) address.password = percent_decoded(login.substr(separator + 1));
  const size_t bracket = place.starts_with('[') ? place.find(']') : 0;  // [::1]:6379
  if (bracket == place.npos) refuse("has a '[' without ']'");
  const size_t port = place.find(':', bracket);
  address.host = bracket != 0 ? place.substr(1, bracket - 1) : place.substr(0, port);
  if (port != place.npos) address.port = static_cast<uint16_t>(number(place.substr(port + 1), 65535, "port"));
  if (!path.empty()) address.database = number(path.substr(1), 65535, "number of a database");
  return address;
}

}  // namespace toroid
