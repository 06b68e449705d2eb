// Redis: hiredis writes and reads the protocol, and the socket is ours, since hiredis's own calls bound each read but not the
// whole.
//
//   toroid:1:HEX         an entry
//   toroid:1:lease:HEX   the token of who builds it; expires
//
// Entries get no expiry: the server's maxmemory-policy (allkeys-lru) bounds it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/fd.h"
#include "cache/remote/remote_server.h"

namespace toroid {
namespace {

using Kind = RemoteError::Kind;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kOverheadBytes = 4096;  // of an answer, around an entry

// A lease is renewed or given back by who holds it only: another may have taken it after it expired.
constexpr const char* kRenew =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";
constexpr const char* kRelease = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

std::string system_text(int error) { return std::error_code(error, std::generic_category()).message(); }

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// A lookup cannot be interrupted, so one that may ask a name server runs in a thread of its own, left behind when it takes too
// long.
Addresses look_up(const std::string& host, uint16_t port, const RemoteDeadline& deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  const std::string service = std::to_string(port);
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), service.c_str(), &hints, &found) == 0) return Addresses(found);
  struct Lookup {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    int failure = 0;
    Addresses addresses;
  };
  hints.ai_flags = AI_NUMERICSERV;
  const auto lookup = std::make_shared<Lookup>();
  std::thread([lookup, host, service, hints] {
    addrinfo* list = nullptr;
    const int failure = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list);
    std::lock_guard lock(lookup->mutex);
    lookup->failure = failure;
    if (failure == 0) lookup->addresses.reset(list);
    lookup->is_done = true;
    lookup->changed.notify_all();
  }).detach();
  std::unique_lock lock(lookup->mutex);
  if (!lookup->changed.wait_for(lock, deadline.left(0), [&] { return lookup->is_done; }))
    throw RemoteError(Kind::Unreachable, fmt::format("looking up {} takes too long", host));
  if (lookup->failure != 0) throw RemoteError(Kind::Unreachable, fmt::format("{}: {}", host, ::gai_strerror(lookup->failure)));
  return std::move(lookup->addresses);
}

struct FreeReply {
  void operator()(redisReply* reply) const { ::freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

// The connection broke, and the request may be tried again on a new one.
struct ConnectionLost : RemoteError {
  using RemoteError::RemoteError;
};

class RedisServer final : public RemoteServer {
 public:
  explicit RedisServer(const RemoteAddress& address) : address_(address) {}

  std::optional<std::string> get(const std::string& name, const RemoteDeadline& deadline) override {
    const Reply reply = command({"GET", entry(name)}, deadline);
    if (reply->type == REDIS_REPLY_NIL) return std::nullopt;
    expect(reply, REDIS_REPLY_STRING);
    return std::string(reply->str, reply->len);
  }
  void put(const std::string& name, std::string_view bytes, const RemoteDeadline& deadline) override {
    expect(command({"SET", entry(name), bytes}, deadline), REDIS_REPLY_STATUS);
  }
  void ping(const RemoteDeadline& deadline) override { expect(command({"PING"}, deadline), REDIS_REPLY_STATUS); }

  bool has_leases() const override { return true; }
  bool take_lease(const std::string& name, const std::string& token, std::chrono::milliseconds life,
                  const RemoteDeadline& deadline) override {
    const Reply reply = command({"SET", lease(name), token, "NX", "PX", std::to_string(life.count())}, deadline);
    if (reply->type == REDIS_REPLY_NIL) return false;
    expect(reply, REDIS_REPLY_STATUS);
    return true;
  }
  void renew_lease(const std::string& name, const std::string& token, std::chrono::milliseconds life,
                   const RemoteDeadline& deadline) override {
    expect(command({"EVAL", kRenew, "1", lease(name), token, std::to_string(life.count())}, deadline), REDIS_REPLY_INTEGER);
  }
  void release_lease(const std::string& name, const std::string& token, const RemoteDeadline& deadline) override {
    expect(command({"EVAL", kRelease, "1", lease(name), token}, deadline), REDIS_REPLY_INTEGER);
  }

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const { ::redisReaderFree(reader); }
  };

  static std::string entry(const std::string& name) { return "toroid:1:" + name; }
  static std::string lease(const std::string& name) { return "toroid:1:lease:" + name; }

  static void expect(const Reply& reply, int type) {
    if (reply->type != type) throw RemoteError(Kind::Unreachable, "an answer of a kind that no Redis server gives");
  }

  Reply command(const std::vector<std::string_view>& words, const RemoteDeadline& deadline) {
    if (socket_) {
      try {
        return round_trip(words, deadline);
      } catch (const ConnectionLost&) {  // servers end idle connections
      }
    }
    connect(deadline);
    return round_trip(words, deadline);
  }

  void connect(const RemoteDeadline& request) {
    const RemoteDeadline deadline{std::min(request.end, Clock::now() + kConnectTime)};
    std::string why = "no address";
    const Addresses addresses = look_up(address_.host, address_.port, deadline);
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      Fd fd(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, each->ai_protocol));
      if (!fd) continue;
      int failure = ::connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
      if (failure == EINPROGRESS) {
        wait(fd, POLLOUT, deadline, 0, "connecting");
        socklen_t size = sizeof failure;
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
      }
      why = system_text(failure);
      if (failure != 0) continue;
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      socket_ = std::move(fd);
      break;
    }
    if (!socket_) throw RemoteError(Kind::Unreachable, "cannot connect: " + why);
    reader_.reset(::redisReaderCreate());
    // Only plain answers are awaited: nobody shall have us allocate a list by announcing one.
    functions_ = *reader_->fn;
    functions_.createArray = [](const redisReadTask*, auto) -> void* { return nullptr; };
    reader_->fn = &functions_;
    if (!address_.password.empty()) {
      std::vector<std::string_view> words = {"AUTH"};
      if (!address_.user.empty()) words.push_back(address_.user);
      words.push_back(address_.password);
      introduce(words, deadline);
    }
    if (address_.database != 0) introduce({"SELECT", std::to_string(address_.database)}, deadline);
  }

  // Whoever is refused here has no connection to go on with.
  void introduce(const std::vector<std::string_view>& words, const RemoteDeadline& deadline) {
    try {
      expect(round_trip(words, deadline), REDIS_REPLY_STATUS);
    } catch (const RemoteError&) {
      socket_.close();
      throw;
    }
  }

  Reply round_trip(const std::vector<std::string_view>& words, const RemoteDeadline& deadline) {
    try {
      Reply reply = exchange(words, deadline);
      if (reply->type == REDIS_REPLY_ERROR)
        throw RemoteError(Kind::Refused, "it answers '" + std::string(reply->str, std::min<size_t>(reply->len, 200)) + "'");
      return reply;
    } catch (const RemoteError& error) {
      if (error.kind == Kind::Unreachable) socket_.close();  // what arrives later belongs to no request
      throw;
    }
  }

  Reply exchange(const std::vector<std::string_view>& words, const RemoteDeadline& deadline) {
    std::string sent = fmt::format("*{}\r\n", words.size());
    for (std::string_view word : words) {
      sent += fmt::format("${}\r\n", word.size());
      sent += word;
      sent += "\r\n";
    }
    for (uint64_t done = 0; done < sent.size();) {
      const ssize_t count = ::send(socket_.get(), sent.data() + done, sent.size() - done, MSG_NOSIGNAL);
      if (count >= 0)
        done += static_cast<uint64_t>(count);
      else if (errno == EAGAIN)
        wait(socket_, POLLOUT, deadline, done, "sending");
      else if (errno != EINTR)
        throw ConnectionLost(Kind::Unreachable, system_text(errno));
    }
    std::vector<char> buffer(1 << 16);
    for (uint64_t received = 0;;) {
      void* reply = nullptr;
      if (::redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
        throw RemoteError(Kind::Unreachable, fmt::format("what answers is no Redis server: {}", reader_->errstr));
      if (reply != nullptr) return Reply(static_cast<redisReply*>(reply));
      const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (count > 0) {
        received += static_cast<uint64_t>(count);
        if (received > kMostRemoteBytes + kOverheadBytes) throw RemoteError(Kind::Unreachable, "an answer of more than 256 MiB");
        ::redisReaderFeed(reader_.get(), buffer.data(), static_cast<size_t>(count));
        if (deadline.left(sent.size() + received).count() == 0) throw RemoteError(Kind::Unreachable, "receiving takes too long");
      } else if (count == 0) {
        if (received == 0) throw ConnectionLost(Kind::Unreachable, "the server ended the connection");
        throw RemoteError(Kind::Unreachable, "the connection ended within an answer");
      } else if (errno == EAGAIN) {
        wait(socket_, POLLIN, deadline, sent.size() + received, "waiting for an answer");
      } else if (errno != EINTR) {
        throw ConnectionLost(Kind::Unreachable, system_text(errno));
      }
    }
  }

  static void wait(const Fd& fd, short events, const RemoteDeadline& deadline, uint64_t moved, const char* what) {
    for (;;) {
      const auto left = deadline.left(moved);
      pollfd poll = {fd.get(), events, 0};
      const int ready = left.count() == 0 ? 0 : ::poll(&poll, 1, static_cast<int>(left.count()));
      if (ready > 0) return;
      if (ready == 0) throw RemoteError(Kind::Unreachable, fmt::format("{} takes too long", what));
      if (errno != EINTR) throw RemoteError(Kind::Unreachable, system_text(errno));
    }
  }

  RemoteAddress address_;
  Fd socket_;
  redisReplyObjectFunctions functions_{};
  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace

std::unique_ptr<RemoteServer> redis_server(const RemoteAddress& address) { return std::make_unique<RedisServer>(address); }

}  // namespace toroid
