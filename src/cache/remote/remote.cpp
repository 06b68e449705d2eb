#include "cache/remote/remote.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "cache/remote/remote_health.h"
#include "cache/remote/seal.h"
#include "support/log.h"

namespace toroid {
using namespace std::chrono_literals;
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kLeastFarewell = 100ms;  // for what is left to be sent at the end, even without credit
constexpr Milliseconds kLeaseLife = 2000ms;
constexpr Milliseconds kRenewEvery = 500ms;
constexpr Milliseconds kLeastLook = 10ms, kMostLook = 50ms;  // between two looks at somebody else's lease

Milliseconds since(Clock::time_point start) { return std::chrono::round<Milliseconds>(Clock::now() - start); }

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string new_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

std::unique_ptr<RemoteServer> server_at(const RemoteAddress& address) {
  return address.protocol == RemoteAddress::Protocol::Redis ? redis_server(address) : http_server(address);
}

}  // namespace

std::shared_ptr<RemoteHealth> process_health(const std::string& address) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<RemoteHealth>> all;
  std::lock_guard lock(mutex);
  std::shared_ptr<RemoteHealth>& health = all[address];
  if (!health) health = std::make_shared<RemoteHealth>();
  return health;
}

std::optional<RemoteOptions> remote_options_from_environment() {
  const std::string address = variable("TOROID_REMOTE_CACHE"), mode = variable("TOROID_REMOTE_CACHE_MODE"),
                    key = variable("TOROID_REMOTE_CACHE_KEY");
  if (address.empty()) return std::nullopt;
  RemoteOptions options;
  ErrorContext context("reading TOROID_REMOTE_CACHE");
  options.address = parse_remote_address(address);
  if (!mode.empty() && mode != "rw" && mode != "ro") {
    throw Error(ErrorKind::InvalidOption, fmt::format("TOROID_REMOTE_CACHE_MODE is '{}'", mode)).help("write rw, or ro to read only");
  }
  options.read_only = mode == "ro";
  if (key.empty()) {
    throw Error(ErrorKind::Environment, fmt::format("there is no key to tell whether what {} holds is ours", options.address.shown))
        .help("set TOROID_REMOTE_CACHE_KEY to a file with at least 32 secret bytes, the same for all who share the cache");
  }
  options.secret = read_secret(key);
  return options;
}

std::optional<RemoteOptions> usable_remote_options(const std::function<void(const std::string&)>& warn) {
  try {
    return remote_options_from_environment();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Environment) throw;
    static std::mutex mutex;
    static std::set<std::string> said;
    std::lock_guard lock(mutex);
    const std::string text = fmt::format("the remote cache is not used: {}; {}", error.message(), error.help_text());
    if (!said.insert(text).second) return std::nullopt;
    if (warn) {
      warn(text);
    } else {
      log_warn("{}", text);
    }
    return std::nullopt;
  }
}

std::map<std::string, int64_t> RemoteCounters::by_name() const {
  std::map<std::string, int64_t> all = {{"remote hits", hits},
                                        {"remote misses", misses},
                                        {"remote entries rejected", rejected},
                                        {"remote entries stored", stored},
                                        {"remote entries not stored", dropped},
                                        {"remote outages", outages},
                                        {"remote bytes read", bytes_read},
                                        {"remote bytes written", bytes_written},
                                        {"remote milliseconds waited", waited.count()}};
  std::erase_if(all, [](const auto& each) { return each.second == 0; });
  return all;
}

struct Remote::State {
  // What the sending thread does, in this order.
  struct Job {
    enum class Kind { Put, Release, Try } kind;
    CacheKey key = {};
    std::string text = {};  // the bytes, or the lease's token
  };

  explicit State(RemoteOptions given) : options(std::move(given)), front(server_at(options.address)), back(server_at(options.address)) {
    health = options.health ? options.health : process_health(options.address.shown);
    if (!options.warn) options.warn = [](const std::string& text) { log_warn("{}", text); };
  }

  RemoteOptions options;
  std::shared_ptr<RemoteHealth> health;

  std::mutex front_mutex;               // one request at a time
  std::unique_ptr<RemoteServer> front;  // for those who wait
  std::unique_ptr<RemoteServer> back;   // of the sending thread alone

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::deque<Job> jobs;
  size_t queued_bytes = 0;
  std::map<std::string, std::string> leases;  // keys' hashes to tokens: to be renewed
  bool is_ending = false;
  bool is_writable = true;                                // until the server says that it is not
  Clock::time_point last_end = Clock::time_point::max();  // when even the last request is given up
  uint64_t late = 0;                                      // entries that it was too late for
  RemoteCounters counters;
  bool warned_of_seal = false;
  std::thread sender;

  bool may_write() {
    std::lock_guard lock(mutex);
    return !options.read_only && is_writable && !is_ending;
  }

  // Whether requests may be made; arranges for a try when it is time.
  bool is_up() {
    if (health->is_up()) return true;
    if (health->take_turn_to_try()) add({.kind = Job::Kind::Try});
    return false;
  }

  void begin_outage(const std::string& why) {
    if (!health->begin_outage()) return;
    {
      std::lock_guard lock(mutex);
      ++counters.outages;
    }
    options.warn(
        fmt::format("the remote cache {} is left alone for {} s: {}", options.address.shown, (health->pause().count() + 500) / 1000, why));
  }

  void stop_writing(const std::string& why) {
    {
      std::lock_guard lock(mutex);
      if (!is_writable) return;
      is_writable = false;
    }
    options.warn(fmt::format("the remote cache {} is only read from now on: {}", options.address.shown, why));
  }

  // Makes a request that somebody waits for. `request` returns whether it brought something. False when it was not made or failed.
  template <class Request>
  bool ask(Request request) {
    std::lock_guard lock(front_mutex);
    if (!is_up()) return false;  // perhaps only since we waited for the lock
    const auto start = Clock::now();
    bool brought_something = false;
    std::string failure;
    try {
      brought_something = request(*front, RemoteDeadline{start + std::min(options.request_time, health->credit())});
    } catch (const RemoteError& error) {
      failure = error.what();
    }
    const Milliseconds time = since(start);
    {
      std::lock_guard counting(mutex);
      counters.waited += time;
    }
    const bool has_credit = health->spend(time, brought_something);
    if (!failure.empty()) {
      begin_outage(failure);
    } else if (!has_credit) {
      begin_outage("it is too slow");
    }
    return failure.empty();
  }

  void add(Job job) {
    std::lock_guard lock(mutex);
    if (is_ending) return;
    const bool is_bounded = job.kind == Job::Kind::Put;
    if ((is_bounded && queued_bytes + job.text.size() > options.most_queued_bytes) || !start_sender()) {
      counters.dropped += is_bounded ? 1 : 0;
      return;
    }
    queued_bytes += job.text.size();
    jobs.push_back(std::move(job));
    changed.notify_all();
  }

  // False when the machine has no thread left for it: nothing is sent then.
  bool start_sender() {
    try {
      if (!sender.joinable() && !is_ending) sender = std::thread([this] { send(); });
    } catch (const std::system_error& error) {
      log_info("nothing is sent to the remote cache: {}", error.what());
    }
    return sender.joinable();
  }

  void send() {
    auto next_renewal = Clock::now() + kRenewEvery;
    std::unique_lock lock(mutex);
    while (!is_ending || !jobs.empty()) {
      if (!leases.empty() && Clock::now() >= next_renewal) {
        const auto held = leases;
        lock.unlock();
        for (const auto& lease : held)  // clang 14 captures no parts of a structured binding
          request([&](const RemoteDeadline& deadline) { back->renew_lease(lease.first, lease.second, kLeaseLife, deadline); });
        next_renewal = Clock::now() + kRenewEvery;
        lock.lock();
      } else if (!jobs.empty()) {
        const Job job = std::move(jobs.front());
        jobs.pop_front();
        queued_bytes -= job.text.size();
        lock.unlock();
        run(job);
        lock.lock();
      } else if (leases.empty()) {
        changed.wait(lock);
        next_renewal = Clock::now() + kRenewEvery;
      } else {
        changed.wait_until(lock, next_renewal);
      }
    }
  }

  // Makes a request of the sending thread; false when it was not made or failed.
  template <class Request>
  bool request(Request request) {
    if (!health->is_up()) return false;
    const auto now = Clock::now();
    std::unique_lock lock(mutex);
    const auto last_end = this->last_end;
    lock.unlock();
    if (now >= last_end) return false;
    const auto end = std::min(now + options.request_time, last_end);
    try {
      request(RemoteDeadline{end});
      return true;
    } catch (const RemoteError& error) {
      if (error.kind == RemoteError::Kind::Refused) {
        stop_writing(error.what());
      } else if (Clock::now() < last_end) {
        begin_outage(error.what());
      }
      return false;
    }
  }

  void run(const Job& job) {
    if (job.kind == Job::Kind::Try) {
      if (!may_try()) return;
      try {
        back->ping(RemoteDeadline{Clock::now() + options.request_time});
        health->end_outage();
        log_info("the remote cache {} is back", options.address.shown);
      } catch (const RemoteError&) {  // then later
      }
    } else if (job.kind == Job::Kind::Release) {
      request([&](const RemoteDeadline& deadline) { back->release_lease(job.key.hex, job.text, deadline); });
    } else {
      const std::string sealed = seal(job.key, job.text, options.secret);
      const bool is_stored = may_send() && request([&](const RemoteDeadline& deadline) { back->put(job.key.hex, sealed, deadline); });
      std::lock_guard lock(mutex);
      ++(is_stored ? counters.stored : counters.dropped);
      if (is_stored) counters.bytes_written += sealed.size();
      if (!is_stored && Clock::now() >= last_end) ++late;
    }
  }

  bool may_try() {
    std::lock_guard lock(mutex);
    return !is_ending;
  }

  bool may_send() {
    std::lock_guard lock(mutex);
    return is_writable;
  }

  void finish() {
    {
      std::lock_guard lock(mutex);
      if (!is_ending) last_end = Clock::now() + std::max(kLeastFarewell, health->credit()) + RemoteDeadline::time_for(queued_bytes);
      is_ending = true;
    }
    changed.notify_all();
    if (sender.joinable()) sender.join();
    if (late > 0)
      options.warn(fmt::format("{} entries were not sent to the remote cache {} in time", std::exchange(late, 0), options.address.shown));
  }
};

struct RemoteLease::Held {
  std::shared_ptr<Remote::State> state;
  CacheKey key;
  std::string token;
  Held(std::shared_ptr<Remote::State> of, const CacheKey& held, const std::string& by) : state(std::move(of)), key(held), token(by) {}
  Held(const Held&) = delete;
  // It is renewed no more, whether or not its end can be told: then it ends by itself.
  ~Held() {
    try {
      {
        std::lock_guard lock(state->mutex);
        state->leases.erase(key.hex);
      }
      state->add({.kind = Remote::State::Job::Kind::Release, .key = key, .text = token});
    } catch (const std::bad_alloc&) {
    }
  }
};

RemoteLease::RemoteLease(LeaseState state, std::chrono::milliseconds waited, std::unique_ptr<Held> held)
    : held_(std::move(held)), state_(state), waited_(waited) {}

RemoteLease::RemoteLease(RemoteLease&&) noexcept = default;
RemoteLease& RemoteLease::operator=(RemoteLease&&) noexcept = default;
RemoteLease::~RemoteLease() = default;

Remote::Remote(RemoteOptions options) : state_(std::make_shared<State>(std::move(options))) {}
Remote::~Remote() { finish(); }
void Remote::finish() { state_->finish(); }
const std::string& Remote::address() const { return state_->options.address.shown; }
bool Remote::is_read_only() const { return state_->options.read_only; }

RemoteCounters Remote::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

std::optional<std::string> Remote::get(const CacheKey& key) {
  State& state = *state_;
  std::optional<std::string> bytes;
  bool is_rejected = false;
  uint64_t size = 0;
  const bool is_answered = state.ask([&](RemoteServer& server, const RemoteDeadline& deadline) {
    const std::optional<std::string> sealed = server.get(key.hex, deadline);
    if (!sealed) return false;
    size = sealed->size();
    bytes = unseal(key, *sealed, state.options.secret);
    is_rejected = !bytes;
    return bytes.has_value();
  });
  if (!is_answered) return std::nullopt;
  std::unique_lock lock(state.mutex);
  ++(bytes ? state.counters.hits : state.counters.misses);
  state.counters.bytes_read += size;
  if (!is_rejected) return bytes;
  ++state.counters.rejected;
  if (std::exchange(state.warned_of_seal, true)) return std::nullopt;
  lock.unlock();
  state.options.warn(
      fmt::format("the remote cache {} holds an entry that was not sealed with our key, or was changed since ({} {}); it is not "
                  "used, nor will others like it",
                  state.options.address.shown, key.kind, key.hex));
  return std::nullopt;
}

void Remote::put(const CacheKey& key, std::string bytes) {
  if (!state_->may_write() || bytes.size() > kMostRemoteBytes - 1024 || !state_->is_up()) return;
  state_->add({.kind = State::Job::Kind::Put, .key = key, .text = std::move(bytes)});
}

RemoteLease Remote::acquire(const CacheKey& key, std::chrono::milliseconds patience) {
  const auto start = Clock::now();
  State& state = *state_;
  const std::string token = new_token();
  for (Milliseconds pause = kLeastLook;; pause = std::min(2 * pause, kMostLook)) {
    if (!state.front->has_leases() || !state.may_write()) return {LeaseState::Unguarded, since(start), nullptr};
    bool is_ours = false;
    std::string refusal;
    const bool is_answered = state.ask([&](RemoteServer& server, const RemoteDeadline& deadline) {
      try {
        is_ours = server.take_lease(key.hex, token, kLeaseLife, deadline);
      } catch (const RemoteError& error) {  // it may still be read
        if (error.kind != RemoteError::Kind::Refused) throw;
        refusal = error.what();
      }
      return false;
    });
    if (!refusal.empty()) state.stop_writing(refusal);
    if (!is_answered || !refusal.empty()) return {LeaseState::Unguarded, since(start), nullptr};
    if (is_ours) {
      {
        std::lock_guard lock(state.mutex);
        state.leases[key.hex] = token;
        state.start_sender();
      }
      state.changed.notify_all();
      return {LeaseState::Owner, since(start), std::make_unique<RemoteLease::Held>(state_, key, token)};
    }
    if (since(start) > patience) return {LeaseState::Overtaken, since(start), nullptr};
    std::this_thread::sleep_for(pause);
  }
}

void Remote::check() {
  State& state = *state_;
  const CacheKey key = KeyBuilder("probe", 1).add("remote", "is it there?").finish();
  const std::string bytes = new_token();
  std::lock_guard lock(state.front_mutex);
  bool is_right = true;
  ErrorContext context("trying the remote cache {}", state.options.address.shown);
  try {
    auto deadline = [&] { return RemoteDeadline{Clock::now() + state.options.request_time}; };
    state.front->ping(deadline());
    if (state.options.read_only) return;
    state.front->put(key.hex, seal(key, bytes, state.options.secret), deadline());
    const std::optional<std::string> sealed = state.front->get(key.hex, deadline());
    is_right = sealed && unseal(key, *sealed, state.options.secret) == bytes;
  } catch (const RemoteError& error) {
    throw Error(ErrorKind::Environment, fmt::format("{} cannot be used: {}", state.options.address.shown, error.what()))
        .help(error.kind == RemoteError::Kind::Refused
                  ? "give it the right user and password, or set TOROID_REMOTE_CACHE_MODE to ro if it may only be read"
                  : "check its address and that it runs, or unset TOROID_REMOTE_CACHE");
  }
  if (!is_right) {
    throw Error(ErrorKind::Environment, fmt::format("{} does not give back what is put there", state.options.address.shown))
        .help("look at its limit of memory, and at what else writes to it");
  }
}

}  // namespace toroid
