// A server in the network that keeps bytes under names: what the remote tier (remote.h) asks of Redis and of HTTP. It knows nothing
// of keys and seals, and nothing that it says is trusted.
//
// An object has one connection, opened when it is first needed and again when it was lost. Not for several threads at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace toroid {

// The largest entry that goes over the network: more is not put, and a server that sends more is broken off.
constexpr uint64_t kMostRemoteBytes = uint64_t{256} << 20;

struct RemoteAddress {
  enum class Protocol { Redis, Http };
  Protocol protocol = Protocol::Redis;
  std::string user, password;  // Redis only; either may be empty
  std::string host;            // Redis only
  uint16_t port = 6379;        // Redis only
  int database = 0;            // Redis only
  std::string url;             // HTTP only, as given but for slashes at its end
  std::string shown;           // for people: without user and password
};

// "redis://[[user]:password@]host[:port][/database]" or "http[s]://[user:password@]host[:port][/path]"; in the former, %40 in user
// and password is '@', and so on. Throws Error{InvalidOption}; its text does not show the password.
RemoteAddress parse_remote_address(std::string_view text);

// When a request is given up. What moves pushes the end back, so that a large entry has its time and a trickle has not: a server
// slower than half this rate holds nobody up for more than twice the time until `end`.
struct RemoteDeadline {
  static constexpr uint64_t kBytesPerSecond = 16'000'000;
  std::chrono::steady_clock::time_point end;

  static std::chrono::milliseconds time_for(uint64_t bytes) { return std::chrono::milliseconds(bytes * 1000 / kBytesPerSecond); }
  // Milliseconds left when so many bytes have moved; 0 when there are none.
  std::chrono::milliseconds left(uint64_t bytes_moved) const;
};

// A request failed.
struct RemoteError : std::runtime_error {
  enum class Kind {
    Unreachable,  // no connection, no answer in time, or one that is no answer
    Refused,      // the server answers, and will not do it
  };
  RemoteError(Kind of, const std::string& text) : std::runtime_error(text), kind(of) {}
  Kind kind;
};

class RemoteServer {
 public:
  virtual ~RemoteServer() = default;

  // `name`: 64 hex digits. All throw RemoteError.
  virtual std::optional<std::string> get(const std::string& name, const RemoteDeadline& deadline) = 0;
  virtual void put(const std::string& name, std::string_view bytes, const RemoteDeadline& deadline) = 0;
  virtual void ping(const RemoteDeadline& deadline) = 0;

  // Leases that end by themselves after `life`. Who has none answers nothing useful and is not asked.
  virtual bool has_leases() const = 0;
  // False when another token holds it.
  virtual bool take_lease(const std::string& name, const std::string& token, std::chrono::milliseconds life,
                          const RemoteDeadline& deadline) = 0;
  // Both do nothing when another token holds it by now.
  virtual void renew_lease(const std::string& name, const std::string& token, std::chrono::milliseconds life,
                           const RemoteDeadline& deadline) = 0;
  virtual void release_lease(const std::string& name, const std::string& token, const RemoteDeadline& deadline) = 0;
};

// How long opening a connection may take, name lookup and authentication included.
constexpr std::chrono::milliseconds kConnectTime{300};

std::unique_ptr<RemoteServer> redis_server(const RemoteAddress& address);  // remote_redis.cpp
std::unique_ptr<RemoteServer> http_server(const RemoteAddress& address);   // remote_http.cpp

}  // namespace toroid
