// HTTP, in the layout of Bazel's remote caches (action_result.h): an entry is {url}/cas/{SHA-256 of its bytes}, and {url}/ac/{name}
// names it. A miss is one request, a hit two. A plain folder of a web server that takes PUT serves as well.
//
// libcurl is opened by name when it is needed: it brings some thirty libraries along, and every start of toroid would pay for them.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "cache/remote/action_result.h"
#include "cache/remote/remote_server.h"
#include "support/hash.h"

namespace toroid {
namespace {

using Kind = RemoteError::Kind;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostResultBytes = 1 << 16;  // of an ActionResult, with whatever the server adds

// The functions of libcurl that are used here.
class Curl {
 public:
  // Throws RemoteError when the library is not there.
  static const Curl& get() {
    static const Curl curl;
    return curl;
  }
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_setopt) easy_set;
  decltype(&::curl_easy_getinfo) easy_get;
  decltype(&::curl_easy_strerror) easy_text;
  decltype(&::curl_slist_append) list_append;
  decltype(&::curl_slist_free_all) list_free;
  decltype(&::curl_multi_init) multi_init;
  decltype(&::curl_multi_cleanup) multi_cleanup;
  decltype(&::curl_multi_add_handle) multi_add;
  decltype(&::curl_multi_remove_handle) multi_remove;
  decltype(&::curl_multi_perform) multi_perform;
  decltype(&::curl_multi_poll) multi_poll;
  decltype(&::curl_multi_info_read) multi_read;

 private:
  Curl() {
    void* const library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw RemoteError(Kind::Unreachable, "libcurl.so.4 cannot be opened (it is in the package libcurl4)");
    auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (function == nullptr) throw RemoteError(Kind::Unreachable, fmt::format("libcurl.so.4 has no {}", name));
    };
    decltype(&::curl_global_init) global_init;
    find(global_init, "curl_global_init");
    find(easy_init, "curl_easy_init");
    find(easy_reset, "curl_easy_reset");
    find(easy_cleanup, "curl_easy_cleanup");
    find(easy_set, "curl_easy_setopt");
    find(easy_get, "curl_easy_getinfo");
    find(easy_text, "curl_easy_strerror");
    find(list_append, "curl_slist_append");
    find(list_free, "curl_slist_free_all");
    find(multi_init, "curl_multi_init");
    find(multi_cleanup, "curl_multi_cleanup");
    find(multi_add, "curl_multi_add_handle");
    find(multi_remove, "curl_multi_remove_handle");
    find(multi_perform, "curl_multi_perform");
    find(multi_poll, "curl_multi_poll");
    find(multi_read, "curl_multi_info_read");
    if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw RemoteError(Kind::Unreachable, "libcurl does not start");
  }
};

struct Transfer {
  std::string_view sent = {};
  uint64_t done = 0;  // bytes of `sent`
  std::string received = {};
  uint64_t most = 0;  // bytes that may be received
};

size_t on_send(char* to, size_t size, size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = std::min(size * count, transfer.sent.size() - transfer.done);
  std::memcpy(to, transfer.sent.data() + transfer.done, bytes);
  transfer.done += bytes;
  return bytes;
}

int on_rewind(void* user, curl_off_t offset, int origin) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<uint64_t>(offset) > transfer.sent.size()) return CURL_SEEKFUNC_FAIL;
  transfer.done = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

size_t on_receive(char* from, size_t size, size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  if (transfer.received.size() + size * count > transfer.most) return 0;
  transfer.received.append(from, size * count);
  return size * count;
}

class HttpServer final : public RemoteServer {
 public:
  explicit HttpServer(const RemoteAddress& address) : url_(address.url) {}
  ~HttpServer() override {
    if (easy_ != nullptr) curl_->easy_cleanup(easy_);
    if (multi_ != nullptr) curl_->multi_cleanup(multi_);
    if (headers_ != nullptr) curl_->list_free(headers_);
  }

  std::optional<std::string> get(const std::string& name, const RemoteDeadline& deadline) override {
    std::optional<std::string> result = fetch("/ac/" + name, kMostResultBytes, deadline, 0);
    if (!result) return std::nullopt;
    const std::optional<BlobName> blob = parse_action_result(*result);
    if (!blob) return result;  // what is no entry's name is no entry: the seal will tell
    return fetch("/cas/" + blob->hash, kMostRemoteBytes, deadline, result->size());
  }

  void put(const std::string& name, std::string_view bytes, const RemoteDeadline& deadline) override {
    const std::string hash = sha256(bytes).hex();
    store("/cas/" + hash, bytes, deadline, 0);
    store("/ac/" + name, action_result({.hash = hash, .size = bytes.size()}), deadline, bytes.size());
  }

  // Every server that allows us to read answers this one: there or not there.
  void ping(const RemoteDeadline& deadline) override { fetch("/ac/" + sha256("toroid").hex(), kMostResultBytes, deadline, 0); }

  bool has_leases() const override { return false; }
  bool take_lease(const std::string&, const std::string&, std::chrono::milliseconds, const RemoteDeadline&) override { return true; }
  void renew_lease(const std::string&, const std::string&, std::chrono::milliseconds, const RemoteDeadline&) override {}
  void release_lease(const std::string&, const std::string&, const RemoteDeadline&) override {}

 private:
  // `before`: what this deadline's earlier requests moved.
  std::optional<std::string> fetch(const std::string& path, uint64_t most, const RemoteDeadline& deadline, uint64_t before) {
    Transfer transfer{.most = most};
    const long status = request(path, false, transfer, deadline, before);
    if (status == 404 || status == 410) return std::nullopt;
    if (status != 200) throw refusal(status);
    return std::move(transfer.received);
  }

  void store(const std::string& path, std::string_view bytes, const RemoteDeadline& deadline, uint64_t before) {
    Transfer transfer{.sent = bytes, .most = kMostResultBytes};
    const long status = request(path, true, transfer, deadline, before);
    if (status < 200 || status > 299) throw refusal(status);
  }

  static RemoteError refusal(long status) {
    const char* const words = status == 401 || status == 403 ? " (it wants a user and a password, or other ones)" : "";
    return {status >= 500 ? Kind::Unreachable : Kind::Refused, fmt::format("it answers with status {}{}", status, words)};
  }

  // The status of the answer.
  long request(const std::string& path, bool is_put, Transfer& transfer, const RemoteDeadline& deadline, uint64_t before) {
    open();
    const std::string url = url_ + path;
    const Curl& curl = *curl_;
    curl.easy_reset(easy_);
    auto set = [&](CURLoption option, auto value) {
      const CURLcode code = curl.easy_set(easy_, option, value);
      if (code != CURLE_OK) throw RemoteError(Kind::Unreachable, fmt::format("libcurl: {}", curl.easy_text(code)));
    };
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);  // a lookup that hangs is left behind
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(kConnectTime.count()));
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_WRITEFUNCTION, &on_receive);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    if (is_put) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(transfer.sent.size()));
      set(CURLOPT_READFUNCTION, &on_send);
      set(CURLOPT_READDATA, static_cast<void*>(&transfer));
      set(CURLOPT_SEEKFUNCTION, &on_rewind);
      set(CURLOPT_SEEKDATA, static_cast<void*>(&transfer));
    }
    curl.multi_add(multi_, easy_);
    struct Removal {
      HttpServer& server;
      ~Removal() { server.curl_->multi_remove(server.multi_, server.easy_); }
    } removal{*this};
    for (;;) {
      int running = 0;
      curl.multi_perform(multi_, &running);
      if (running == 0) break;
      const auto left = deadline.left(before + transfer.done + transfer.received.size());
      if (left.count() == 0) throw RemoteError(Kind::Unreachable, "the answer takes too long");
      curl.multi_poll(multi_, nullptr, 0, static_cast<int>(left.count()), nullptr);
    }
    int pending = 0;
    const CURLMsg* const message = curl.multi_read(multi_, &pending);
    if (message == nullptr) throw RemoteError(Kind::Unreachable, "libcurl: no result");
    if (message->data.result != CURLE_OK) throw RemoteError(Kind::Unreachable, curl.easy_text(message->data.result));
    long status = 0;
    curl.easy_get(easy_, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  void open() {
    if (easy_ != nullptr) return;
    curl_ = &Curl::get();
    for (const char* header : {"Expect:", "Content-Type: application/octet-stream", "User-Agent: toroid"})
      headers_ = curl_->list_append(headers_, header);
    multi_ = curl_->multi_init();
    easy_ = multi_ == nullptr ? nullptr : curl_->easy_init();
    if (easy_ == nullptr) throw RemoteError(Kind::Unreachable, "libcurl does not start");
  }

  std::string url_;
  const Curl* curl_ = nullptr;
  CURLM* multi_ = nullptr;
  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
};

}  // namespace

std::unique_ptr<RemoteServer> http_server(const RemoteAddress& address) { return std::make_unique<HttpServer>(address); }

}  // namespace toroid
