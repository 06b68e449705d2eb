// Servers for tests of the remote tier, all on loopback ports of their own: a real redis-server, a small HTTP server that checks
// what Bazel's cache servers check, and a proxy that spoils what passes through it.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file/fd.h"
#include "base/file/file.h"
#include "cache/remote/action_result.h"
#include "support/hash.h"
#include "support/process/subprocess.h"
#include "toolchain/toolchain.h"

namespace toroid {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// A socket bound to a free port of loopback.
inline std::pair<Fd, uint16_t> bound_socket() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  return {std::move(fd), ntohs(address.sin_port)};
}

inline uint16_t free_port() { return bound_socket().second; }

inline Fd connected_socket(uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Fd();
  return fd;
}

inline bool send_all(const Fd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// A redis-server of its own, ended with the object.
class RedisProcess {
 public:
  static bool is_installed() { return find_program("redis-server").has_value(); }

  explicit RedisProcess(const std::string& password = "", uint16_t at = free_port()) : port(at) {
    std::vector<std::string> words = {find_program("redis-server")->string(),
                                      "--port",
                                      std::to_string(port),
                                      "--bind",
                                      "127.0.0.1",
                                      "--save",
                                      "",
                                      "--dir",
                                      folder_.path().string(),
                                      "--logfile",
                                      (folder_.path() / "log").string()};
    if (!password.empty()) words.insert(words.end(), {"--requirepass", password});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    for (int i = 0; i < 1000 && !connected_socket(port); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  RedisProcess(const RedisProcess&) = delete;
  ~RedisProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string address() const { return "redis://127.0.0.1:" + std::to_string(port); }
  const uint16_t port;

 private:
  TempFolder folder_;
  pid_t pid_ = -1;
};

// Accepts connections and gives each a thread. A handler must return when `is_over` is set or its peer leaves.
class LoopbackServer {
 public:
  using Handler = std::function<void(const Fd& peer, const std::atomic<bool>& is_over)>;
  explicit LoopbackServer(Handler handler) : handler_(std::move(handler)) {
    std::tie(listener_, port_) = bound_socket();
    ::listen(listener_.get(), 64);
    acceptor_ = std::thread([this] { accept(); });
  }
  LoopbackServer(const LoopbackServer&) = delete;
  ~LoopbackServer() {
    is_over_ = true;
    acceptor_.join();
    for (std::thread& each : handlers_) each.join();
  }
  uint16_t port() const { return port_; }

 private:
  void accept() {
    while (!is_over_) {
      pollfd poll = {listener_.get(), POLLIN, 0};
      if (::poll(&poll, 1, 10) <= 0) continue;
      auto peer = std::make_shared<Fd>(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!*peer) continue;
      const int on = 1;
      ::setsockopt(peer->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      handlers_.emplace_back([this, peer] { handler_(*peer, is_over_); });
    }
  }

  Handler handler_;
  Fd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> is_over_ = false;
  std::thread acceptor_;
  std::vector<std::thread> handlers_;
};

// Receives what is there; empty when the peer left or it is over.
inline std::string receive_some(const Fd& from, const std::atomic<bool>& is_over) {
  while (!is_over) {
    pollfd poll = {from.get(), POLLIN, 0};
    if (::poll(&poll, 1, 10) <= 0) continue;
    std::string bytes(1 << 16, '\0');
    const ssize_t count = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return bytes;
  }
  return "";
}

// Keeps /cas/ and /ac/ as Bazel's servers do: bytes must match their hash, and an ActionResult must be one and name bytes that are
// there.
class BazelServer {
 public:
  struct Options {
    std::string authorization = "";  // what this header must say; empty: nothing
    bool is_read_only = false;
    int status = 0;  // answers all requests so, unless 0
  };
  BazelServer() : BazelServer(Options{}) {}
  explicit BazelServer(Options options)
      : options_(std::move(options)), server_([this](const Fd& peer, const std::atomic<bool>& is_over) { serve(peer, is_over); }) {}
  uint16_t port() const { return server_.port(); }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(port()) + "/cache"; }

  std::map<std::string, std::string> files() {
    std::lock_guard lock(mutex_);
    return files_;
  }
  void set_file(const std::string& path, std::string bytes) {
    std::lock_guard lock(mutex_);
    files_[path] = std::move(bytes);
  }

 private:
  void serve(const Fd& peer, const std::atomic<bool>& is_over) {
    for (std::string input;;) {
      size_t head = 0, length = 0;
      for (;;) {
        head = input.find("\r\n\r\n");
        if (head != input.npos) {
          const size_t field = input.find("Content-Length: ");
          length = field < head ? std::stoul(input.substr(field + 16)) : 0;
          if (input.size() >= head + 4 + length) break;
        }
        const std::string more = receive_some(peer, is_over);
        if (more.empty()) return;
        input += more;
      }
      const auto [status, body] = answer(input.substr(0, head + 2), input.substr(head + 4, length));
      input.erase(0, head + 4 + length);
      if (!send_all(peer,
                    "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body))
        return;
    }
  }

  std::pair<int, std::string> answer(const std::string& head, const std::string& body) {
    std::lock_guard lock(mutex_);
    if (options_.status != 0) return {options_.status, ""};
    if (!options_.authorization.empty() && head.find("\r\nAuthorization: " + options_.authorization + "\r\n") == head.npos)
      return {401, ""};
    const bool is_put = head.starts_with("PUT ");
    const std::string path = head.substr(4, head.find(' ', 4) - 4);
    if (!is_put) return files_.contains(path) ? std::pair(200, files_[path]) : std::pair(404, std::string("not found"));
    if (options_.is_read_only) return {403, ""};
    if (path.starts_with("/cache/cas/")) {
      if (path != "/cache/cas/" + sha256(body).hex()) return {400, "the hash is another"};
    } else if (path.starts_with("/cache/ac/") && path.size() == 10 + 64) {
      const std::optional<BlobName> blob = parse_action_result(body);
      if (!blob || !files_.contains("/cache/cas/" + blob->hash) || files_["/cache/cas/" + blob->hash].size() != blob->size)
        return {400, "no ActionResult"};
    } else {
      return {400, "no such place"};
    }
    files_[path] = body;
    return {200, ""};
  }

  Options options_;
  std::mutex mutex_;
  std::map<std::string, std::string> files_;
  LoopbackServer server_;  // last: its threads use the others
};

// Passes everything on, and spoils what the server answers.
class Proxy {
 public:
  enum class Fault { None, Silent, Slow, Trickle, Flip, Cut, Hang };
  explicit Proxy(uint16_t server)
      : server_([this, server](const Fd& peer, const std::atomic<bool>& is_over) { serve(peer, server, is_over); }) {}
  uint16_t port() const { return server_.port(); }

  // Silent: no answer. Slow: each a while late. Trickle: a byte every 50 ms. The others count the answers' bytes from here on, and
  // at byte `at` flip a bit, end the connection, or stop sending.
  void set(Fault fault, size_t at = 0, std::chrono::milliseconds late = {}) {
    at_ = at;
    late_ = late;
    passed_ = 0;
    fault_ = fault;
  }
  size_t passed() const { return passed_; }

 private:
  void serve(const Fd& peer, uint16_t server, const std::atomic<bool>& is_over) {
    const Fd upstream = connected_socket(server);
    while (upstream && !is_over) {
      pollfd polls[] = {{peer.get(), POLLIN, 0}, {upstream.get(), POLLIN, 0}};
      if (::poll(polls, 2, 10) <= 0) continue;
      if (polls[0].revents != 0) {
        const std::string bytes = receive_some(peer, is_over);
        if (bytes.empty() || !send_all(upstream, bytes)) return;
      }
      if (polls[1].revents == 0) continue;
      std::string bytes = receive_some(upstream, is_over);
      if (bytes.empty()) return;
      const size_t before = passed_.fetch_add(bytes.size());
      const bool is_here = at_ >= before && at_ < before + bytes.size();
      switch (fault_.load()) {
        case Fault::None: break;
        case Fault::Silent: bytes.clear(); break;
        case Fault::Slow: std::this_thread::sleep_for(late_.load()); break;
        case Fault::Trickle:
          for (size_t i = 0; i < bytes.size() && !is_over && send_all(peer, bytes.substr(i, 1)); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          bytes.clear();
          break;
        case Fault::Flip:
          if (is_here) bytes[at_ - before] = static_cast<char>(bytes[at_ - before] ^ 1);
          break;
        case Fault::Cut:
          if (is_here) {
            send_all(peer, bytes.substr(0, at_ - before));
            ::shutdown(peer.get(), SHUT_RDWR);
            return;
          }
          break;
        case Fault::Hang:
          if (at_ < before) bytes.clear();
          if (is_here) bytes.resize(at_ - before);
          break;
      }
      if (!send_all(peer, bytes)) return;
    }
  }

  std::atomic<Fault> fault_ = Fault::None;
  std::atomic<size_t> at_ = 0, passed_ = 0;
  std::atomic<std::chrono::milliseconds> late_{};
  LoopbackServer server_;
};

}  // namespace toroid
