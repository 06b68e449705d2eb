#include "cache/remote/remote.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/environment_for_test.h"
#include "base/error.h"
#include "cache/cache.h"
#include "cache/remote/remote_for_test.h"
#include "cache/remote/remote_health.h"
#include "cache/remote/seal.h"

namespace toroid {
namespace {
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Fault = Proxy::Fault;

CacheKey key_of(const std::string& source) { return KeyBuilder("library", 1).add("source", source).finish(); }

std::chrono::milliseconds since(Clock::time_point start) { return std::chrono::round<std::chrono::milliseconds>(Clock::now() - start); }

#define NEEDS_REDIS() \
  if (!RedisProcess::is_installed()) GTEST_SKIP() << "redis-server is not installed: nothing of this was tested"

class RemoteTest : public testing::Test {
 protected:
  // Each with a health of its own, as if in a process of its own. Patient, so that a busy machine makes no difference …
  RemoteOptions options(const std::string& address, std::chrono::milliseconds first_pause = 30s) {
    RemoteOptions patient = real_options(address);
    patient.health = std::make_shared<RemoteHealth>(first_pause, 20s);
    patient.request_time = 20s;
    return patient;
  }
  // … or as they are where nobody says otherwise.
  RemoteOptions real_options(const std::string& address) {
    return {.address = parse_remote_address(address),
            .secret = secret_,
            .warn =
                [this](const std::string& text) {
                  std::lock_guard lock(mutex_);
                  warnings_.push_back(text);
                },
            .health = std::make_shared<RemoteHealth>()};
  }
  void put(const std::string& address, const CacheKey& key, const std::string& bytes) {
    Remote remote(options(address));
    remote.put(key, bytes);
    remote.finish();
    EXPECT_EQ(remote.counters().stored, 1u);
  }
  std::optional<std::string> get(const std::string& address, const CacheKey& key) { return Remote(options(address)).get(key); }
  std::optional<std::string> get_in_time(const std::string& address, const CacheKey& key) { return Remote(real_options(address)).get(key); }
  static std::string at(uint16_t port) { return "redis://127.0.0.1:" + std::to_string(port); }
  static std::string http_at(uint16_t port) { return "http://127.0.0.1:" + std::to_string(port) + "/cache"; }
  std::vector<std::string> warnings() {
    std::lock_guard lock(mutex_);
    return warnings_;
  }

  std::string secret_ = std::string(32, 's');
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

std::string refusal_of_address(const std::string& address) {
  try {
    parse_remote_address(address);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidOption);
    EXPECT_EQ(error.help_text(), "write redis://:password@host:port/database or https://host:port/path, or unset TOROID_REMOTE_CACHE");
    return error.message();
  }
  return "not refused";
}

TEST_F(RemoteTest, ReadsAddresses) {
  const RemoteAddress full = parse_remote_address("redis://me:p%40ss@cache.example:7000/3");
  EXPECT_EQ(full.user, "me");
  EXPECT_EQ(full.password, "p@ss");
  EXPECT_EQ(full.host, "cache.example");
  EXPECT_EQ(full.port, 7000);
  EXPECT_EQ(full.database, 3);
  EXPECT_EQ(full.shown, "redis://cache.example:7000/3");
  EXPECT_EQ(parse_remote_address("redis://[::1]").host, "::1");
  EXPECT_EQ(parse_remote_address("redis://h").port, 6379);
  const RemoteAddress http = parse_remote_address("https://me:secret@h:8080/a/b//");
  EXPECT_EQ(http.url, "https://me:secret@h:8080/a/b");
  EXPECT_EQ(http.shown, "https://h:8080/a/b");
  EXPECT_EQ(refusal_of_address("host:6379"), "the address of the remote cache has no scheme");
  EXPECT_EQ(refusal_of_address("ftp://host"),
            "the address of the remote cache has the scheme 'ftp', which is neither redis, http nor https");
  EXPECT_EQ(refusal_of_address("redis://:secret@"), "the address of the remote cache names no host");
  EXPECT_EQ(refusal_of_address("redis://:s@h:99999"), "the address of the remote cache has no port in '99999'");
  EXPECT_EQ(refusal_of_address("redis://h/first"), "the address of the remote cache has no number of a database in 'first'");
  EXPECT_EQ(refusal_of_address("http://h/?a"), "the address of the remote cache has a query or a fragment");
  EXPECT_EQ(refusal_of_address("redis://:%zz@h"),
            "the address of the remote cache has a '%' in its password that two hex digits do not follow");
}

TEST_F(RemoteTest, WithoutAKeyItIsNotUsedAndThatIsSaidOnce) {
  const std::string address = at(free_port());  // not said before in this process
  const ScopedVariable variable("TOROID_REMOTE_CACHE", address);
  std::vector<std::string> said;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(usable_remote_options([&](const std::string& text) { said.push_back(text); }));
  {
    const ScopedVariable mode("TOROID_REMOTE_CACHE_MODE", "r");
    EXPECT_THROW(usable_remote_options(), Error);
  }
  EXPECT_EQ(said, std::vector<std::string>{
                      "the remote cache is not used: there is no key to tell whether what " + address +
                      " holds is ours; "
                      "set TOROID_REMOTE_CACHE_KEY to a file with at least 32 secret bytes, the same for all who share the cache"});
  const ScopedVariable none("TOROID_REMOTE_CACHE", "");
  EXPECT_FALSE(usable_remote_options());
}

TEST_F(RemoteTest, RedisKeepsEntries) {
  NEEDS_REDIS();
  const RedisProcess redis("pass word");
  const std::string address = "redis://:pass%20word@127.0.0.1:" + std::to_string(redis.port) + "/2";
  std::string large(5'000'000, 'x');
  for (size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i / 1000);
  EXPECT_EQ(get(address, key_of("a")), std::nullopt);
  put(address, key_of("a"), std::string("\0\r\n\xff", 4));
  put(address, key_of("b"), large);
  EXPECT_EQ(get(address, key_of("a")), std::string("\0\r\n\xff", 4));
  EXPECT_EQ(get(address, key_of("b")), large);
  EXPECT_EQ(get(redis.address(), key_of("a")), std::nullopt);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_EQ(warnings()[0], "the remote cache " + redis.address() + " is left alone for 30 s: it answers 'NOAUTH Authentication required.'");
}

TEST_F(RemoteTest, HttpKeepsEntriesAsBazelDoes) {
  BazelServer server;
  const std::string large(5'000'000, 'x');
  EXPECT_EQ(get(server.address(), key_of("a")), std::nullopt);
  put(server.address(), key_of("a"), "bytes");
  put(server.address(), key_of("b"), large);
  EXPECT_EQ(get(server.address(), key_of("a")), "bytes");
  EXPECT_EQ(get(server.address(), key_of("b")), large);
  const std::string sealed = seal(key_of("a"), "bytes", secret_);
  EXPECT_EQ(server.files()["/cache/cas/" + sha256(sealed).hex()], sealed);
  EXPECT_TRUE(server.files().contains("/cache/ac/" + key_of("a").hex));
  EXPECT_EQ(warnings(), std::vector<std::string>{});
}

TEST_F(RemoteTest, HttpServersMayWantAPasswordAndForbidWriting) {
  BazelServer closed({.authorization = "Basic bWU6c2VjcmV0"});
  EXPECT_EQ(get(closed.address(), key_of("a")), std::nullopt);
  const std::string address = "http://me:secret@127.0.0.1:" + std::to_string(closed.port()) + "/cache";
  put(address, key_of("a"), "bytes");
  EXPECT_EQ(get(address, key_of("a")), "bytes");
  BazelServer read_only({.is_read_only = true});
  Remote remote(options(read_only.address()));
  remote.put(key_of("a"), "bytes");
  remote.put(key_of("b"), "bytes");
  remote.finish();
  EXPECT_EQ(remote.counters().dropped, 2u);
  EXPECT_EQ(remote.get(key_of("a")), std::nullopt);
  EXPECT_EQ(remote.counters().misses, 1u);
  BazelServer broken({.status = 503});
  EXPECT_EQ(get(broken.address(), key_of("a")), std::nullopt);
  const std::string refused = " it answers with status ", password = " (it wants a user and a password, or other ones)";
  EXPECT_EQ(warnings(),
            (std::vector<std::string>{"the remote cache " + closed.address() + " is left alone for 30 s:" + refused + "401" + password,
                                      "the remote cache " + read_only.address() + " is only read from now on:" + refused + "403" + password,
                                      "the remote cache " + broken.address() + " is left alone for 30 s:" + refused + "503"}));
}

TEST_F(RemoteTest, ReadOnlyNeverWrites) {
  BazelServer server;
  RemoteOptions read_only = options(server.address());
  read_only.read_only = true;
  Remote remote(read_only);
  remote.put(key_of("a"), "bytes");
  EXPECT_EQ(remote.acquire(key_of("a"), 1s).state(), LeaseState::Unguarded);
  remote.check();
  remote.finish();
  EXPECT_TRUE(server.files().empty());
}

// What others could do who can write to the server.
TEST_F(RemoteTest, NothingIsTakenThatWasExchangedChangedOrSealedByOthers) {
  BazelServer server;
  put(server.address(), key_of("a"), "bytes of a");
  put(server.address(), key_of("b"), "bytes of b");
  const std::string sealed = seal(key_of("a"), "bytes of a", secret_), cas = "/cache/cas/" + sha256(sealed).hex();
  const std::string ac = "/cache/ac/" + key_of("a").hex, right = server.files()[ac];
  Remote remote(options(server.address()));
  server.set_file(ac, server.files()["/cache/ac/" + key_of("b").hex]);
  EXPECT_EQ(remote.get(key_of("a")), std::nullopt);
  server.set_file(ac, "<html>not what you look for</html>");
  EXPECT_EQ(remote.get(key_of("a")), std::nullopt);
  server.set_file(ac, right);
  for (const std::string& bad : {sealed.substr(0, sealed.size() - 1), sealed.substr(0, 20), std::string(), sealed + "x",
                                 std::string("bytes of a"), seal(key_of("a"), "bytes of a", std::string(32, 't'))}) {
    server.set_file(cas, bad);
    EXPECT_EQ(remote.get(key_of("a")), std::nullopt);
  }
  EXPECT_EQ(remote.counters().rejected, 8u);
  server.set_file(cas, sealed);
  EXPECT_EQ(remote.get(key_of("a")), "bytes of a");
  EXPECT_EQ(warnings(), std::vector<std::string>{fmt::format(
                            "the remote cache {} holds an entry that was not sealed with our key, or was changed since (library {}); "
                            "it is not used, nor will others like it",
                            server.address(), key_of("a").hex)});
}

// Every byte that Redis answers is flipped once, and every place is once the last: never anything but the entry or a miss.
TEST_F(RemoteTest, NoDamageOnTheWayGivesOtherBytes) {
  NEEDS_REDIS();
  const RedisProcess redis;
  put(redis.address(), key_of("a"), "bytes");
  Proxy proxy(redis.port);
  ASSERT_EQ(get(at(proxy.port()), key_of("a")), "bytes");
  const size_t size = proxy.passed();
  ASSERT_GT(size, 45u);
  for (size_t i = 0; i < size; ++i) {
    for (const Fault fault : {Fault::Flip, Fault::Cut}) {
      proxy.set(fault, i);
      // The two bytes at the end of a string are not looked at by hiredis.
      EXPECT_TRUE(get_in_time(at(proxy.port()), key_of("a")).value_or("none") == (fault == Fault::Flip && i + 2 >= size ? "bytes" : "none"))
          << i;
    }
  }
  proxy.set(Fault::None);
  EXPECT_EQ(get(at(proxy.port()), key_of("a")), "bytes");
}

TEST_F(RemoteTest, NoDamageOfHttpGivesOtherBytes) {
  BazelServer server;
  put(server.address(), key_of("a"), "bytes");
  Proxy proxy(server.port());
  const std::string address = http_at(proxy.port());
  ASSERT_EQ(get(address, key_of("a")), "bytes");
  const size_t size = proxy.passed();
  size_t taken = 0;
  for (size_t i = 0; i < size; i += 5) {  // not all: some make the client wait for what never comes
    for (const Fault fault : {Fault::Flip, Fault::Cut}) {
      proxy.set(fault, i);
      const std::optional<std::string> found = get_in_time(address, key_of("a"));
      EXPECT_EQ(found.value_or("bytes"), "bytes") << i;
      taken += found.has_value();
    }
  }
  EXPECT_LT(taken, size / 10);  // words of the status line and the size in the ActionResult do not matter
  proxy.set(Fault::None);
  EXPECT_EQ(get(address, key_of("a")), "bytes");
}

// What a compilation asks, and its time. Fewer than a second may be lost, and one warning come.
std::chrono::milliseconds time_of_a_session(const RemoteOptions& options) {
  const auto start = Clock::now();
  {
    Remote remote(options);
    EXPECT_EQ(remote.get(key_of("model")), std::nullopt);
    EXPECT_EQ(remote.get(key_of("graph")), std::nullopt);
    const RemoteLease lease = remote.acquire(key_of("graph"), 10s);
    EXPECT_EQ(remote.get(key_of("graph")), std::nullopt);
    for (int i = 0; i < 20; ++i) remote.put(key_of(std::to_string(i)), std::string(1000, 'x'));
  }
  return since(start);
}

TEST_F(RemoteTest, AnOutageCostsLessThanASecondOnceAndIsWarnedOfOnce) {
  NEEDS_REDIS();
  const RedisProcess redis;
  BazelServer http;
  put(redis.address(), key_of("model"), std::string(1000, 'x'));
  put(http.address(), key_of("model"), std::string(1000, 'x'));
  Proxy redis_proxy(redis.port), http_proxy(http.port());
  // A server that does not even accept: its queue is full.
  auto [deaf, deaf_port] = bound_socket();
  ::listen(deaf.get(), 0);
  std::vector<Fd> filling;
  for (int i = 0; i < 3; ++i) {
    filling.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(deaf_port);
    ::connect(filling.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  struct Case {
    const char* name;
    uint16_t redis_port, http_port;
    Fault fault;
    size_t at;
    std::chrono::milliseconds late;
  };
  const uint16_t down = free_port();
  const Case cases[] = {{"down", down, down, Fault::None, 0, 0ms},
                        {"deaf", deaf_port, deaf_port, Fault::None, 0, 0ms},
                        {"silent", redis_proxy.port(), http_proxy.port(), Fault::Silent, 0, 0ms},
                        {"trickle", redis_proxy.port(), http_proxy.port(), Fault::Trickle, 0, 0ms},
                        {"hangs within an answer", redis_proxy.port(), http_proxy.port(), Fault::Hang, 45, 0ms},
                        {"ends within an answer", redis_proxy.port(), http_proxy.port(), Fault::Cut, 45, 0ms},
                        {"very slow", redis_proxy.port(), http_proxy.port(), Fault::Slow, 0, 2000ms}};
  for (const Case& each : cases) {
    for (const bool is_http : {false, true}) {
      warnings_.clear();
      Proxy& proxy = is_http ? http_proxy : redis_proxy;
      proxy.set(each.fault, each.at, each.late);
      const RemoteOptions shared = real_options(is_http ? http_at(each.http_port) : at(each.redis_port));
      EXPECT_LT(time_of_a_session(shared), 1000ms) << each.name << (is_http ? " http" : " redis");
      EXPECT_EQ(warnings().size(), 1u) << each.name << (is_http ? " http " : " redis ") << testing::PrintToString(warnings());
      time_of_a_session(shared);
      EXPECT_EQ(warnings().size(), 1u) << each.name << ", asked again by the second session of the process";
    }
  }
}

TEST_F(RemoteTest, ASlowServerIsLeftAloneBeforeItCostsASecond) {
  NEEDS_REDIS();
  const RedisProcess redis;
  Proxy proxy(redis.port);
  for (const auto late : {100ms, 200ms, 300ms, 400ms}) {
    warnings_.clear();
    proxy.set(Fault::Slow, 0, late);
    EXPECT_LT(time_of_a_session(real_options(at(proxy.port()))), 1000ms) << late.count();
  }
}

TEST_F(RemoteTest, TheEndDoesNotWaitForAllThatIsToBeSent) {
  BazelServer server;
  Proxy proxy(server.port());
  proxy.set(Fault::Slow, 0, 200ms);
  const auto start = Clock::now();
  {
    Remote remote(real_options(http_at(proxy.port())));
    for (int i = 0; i < 20; ++i) remote.put(key_of(std::to_string(i)), "bytes");
    remote.finish();
    EXPECT_GT(remote.counters().stored, 0u);
    EXPECT_EQ(remote.counters().stored + remote.counters().dropped, 20u);
    EXPECT_EQ(remote.counters().outages, 0u);
  }
  EXPECT_LT(since(start), 1000ms);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_TRUE(warnings()[0].ends_with("entries were not sent to the remote cache http://127.0.0.1:" + std::to_string(proxy.port()) +
                                      "/cache in time"))
      << warnings()[0];
}

TEST_F(RemoteTest, AServerThatIsBackIsUsedAgain) {
  NEEDS_REDIS();
  const uint16_t port = free_port();
  Remote remote(options(at(port), 100ms));
  EXPECT_EQ(remote.get(key_of("a")), std::nullopt);
  const RedisProcess redis("", port);
  put(redis.address(), key_of("a"), "bytes");
  std::optional<std::string> found;
  for (const auto start = Clock::now(); !found && since(start) < 10s; std::this_thread::sleep_for(10ms)) found = remote.get(key_of("a"));
  EXPECT_EQ(found, "bytes");
  EXPECT_EQ(warnings().size(), 1u);
  EXPECT_EQ(remote.counters().outages, 1u);
}

TEST_F(RemoteTest, AConnectionThatTheServerEndedIsOpenedAgain) {
  NEEDS_REDIS();
  const uint16_t port = free_port();
  auto redis = std::make_unique<RedisProcess>("", port);
  Remote remote(options(at(port)));
  EXPECT_EQ(remote.get(key_of("a")), std::nullopt);
  redis.reset();
  redis = std::make_unique<RedisProcess>("", port);
  EXPECT_EQ(remote.get(key_of("a")), std::nullopt);
  EXPECT_EQ(remote.counters().misses, 2u);
  EXPECT_EQ(warnings(), std::vector<std::string>{});
}

// As many machines, each with a store of its own.
TEST_F(RemoteTest, OfAllMachinesOneBuilds) {
  NEEDS_REDIS();
  const RedisProcess redis;
  constexpr int kMachines = 8;
  for (int round = 0; round < 3; ++round) {
    const TempFolder folder;
    const CacheKey key = key_of(std::to_string(round));
    std::atomic<int> built = 0;
    std::vector<std::thread> machines;
    for (int i = 0; i < kMachines; ++i) {
      machines.emplace_back([&, i] {
        Cache cache({.store = {.folder = folder.path() / std::to_string(i)}, .remote = options(redis.address())});
        std::optional<std::string> found = cache.get(key);
        if (!found) {
          const CacheLease lease = cache.acquire(key, 30s);
          found = cache.get(key);
          if (!found) {
            ++built;
            std::this_thread::sleep_for(200ms);
            cache.put(key, "built");
            found = "built";
          }
        }
        EXPECT_EQ(found, "built");
        EXPECT_EQ(cache.get(key, Tier::Local), "built");
      });
    }
    for (std::thread& each : machines) each.join();
    EXPECT_EQ(built, 1);
  }
  EXPECT_EQ(warnings(), std::vector<std::string>{});
}

TEST_F(RemoteTest, ALeaseLastsAsLongAsItsOwnerAndEndsSoonAfter) {
  NEEDS_REDIS();
  const RedisProcess redis;
  const CacheKey key = key_of("a");
  const RemoteDeadline soon{Clock::now() + 10s};
  const auto gone = redis_server(parse_remote_address(redis.address()));  // takes a lease and is never heard of again
  ASSERT_TRUE(gone->take_lease(key.hex, "gone", 2s, soon));
  Remote first(options(redis.address())), second(options(redis.address()));
  std::optional<RemoteLease> lease = first.acquire(key, 10s);
  EXPECT_EQ(lease->state(), LeaseState::Owner);
  EXPECT_GT(lease->waited(), 1500ms);
  EXPECT_LT(lease->waited(), 3000ms);
  gone->release_lease(key.hex, "gone", soon);  // too late: it is another's
  EXPECT_EQ(second.acquire(key, 3s).state(), LeaseState::Overtaken);
  lease.reset();
  const RemoteLease next = second.acquire(key, 10s);
  EXPECT_EQ(next.state(), LeaseState::Owner);
  EXPECT_LT(next.waited(), 1000ms);
}

TEST_F(RemoteTest, ALeaseIsGivenBackAlthoughNoMoreEntriesMayWait) {
  NEEDS_REDIS();
  const RedisProcess redis;
  RemoteOptions full = options(redis.address());
  full.most_queued_bytes = 1;
  Remote first(full), second(options(redis.address()));
  {
    const RemoteLease lease = first.acquire(key_of("a"), 10s);
    ASSERT_EQ(lease.state(), LeaseState::Owner);
    first.put(key_of("a"), "bytes");
  }
  const RemoteLease next = second.acquire(key_of("a"), 5s);
  EXPECT_EQ(next.state(), LeaseState::Owner);
  EXPECT_LT(next.waited(), 1000ms);
  EXPECT_EQ(first.counters().dropped, 1u);
}

TEST_F(RemoteTest, CheckSaysWhatIsWrong) {
  BazelServer server, closed({.authorization = "Basic x"});
  Remote(options(server.address())).check();
  auto complaint = [&](const std::string& address) {
    try {
      Remote(options(address)).check();
    } catch (const Error& error) {
      return error.message() + "; " + error.help_text();
    }
    return std::string("none");
  };
  EXPECT_EQ(complaint(closed.address()),
            closed.address() +
                " cannot be used: it answers with status 401 (it wants a user and a password, or other ones); "
                "give it the right user and password, or set TOROID_REMOTE_CACHE_MODE to ro if it may only be read");
  const std::string down = at(free_port());
  EXPECT_EQ(complaint(down),
            down + " cannot be used: cannot connect: Connection refused; check its address and that it runs, or unset TOROID_REMOTE_CACHE");
}

}  // namespace
}  // namespace toroid
