// The remote tier: a cache that many machines share, on a Redis or an HTTP server.
//
// Two promises. Nothing is taken from it that was not sealed with the common secret (seal.h), so whoever else can write to the
// server can at most cause misses. And it never costs much: a request has its deadline (remote_server.h), and a server that does
// not answer, or so slowly that requests which brought nothing have cost most of a second, is left alone, at first for 30 seconds,
// then for twice as long each time. Whether it is back is tried beside the work, never by it. Each such outage is warned of once.
//
// What is put is sent by a thread of its own; the destructor waits for it, as long as the server's credit allows.
//
// Safe to use from several threads; not across fork().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cache/key.h"
#include "cache/lease.h"
#include "cache/remote/remote_server.h"

namespace toroid {

class RemoteHealth;

struct RemoteOptions {
  RemoteAddress address;
  bool read_only = false;                             // nothing is put, and no lease is taken
  std::string secret;                                 // what entries are sealed with
  std::function<void(const std::string&)> warn = {};  // empty: the log
  std::shared_ptr<RemoteHealth> health = {};          // null: what this process knows of the address
  std::chrono::milliseconds request_time{500};        // what a request may take, and more for what moves
  size_t most_queued_bytes = size_t{512} << 20;       // entries that wait to be sent; what comes beside is dropped
};

// From TOROID_REMOTE_CACHE (an address), TOROID_REMOTE_CACHE_MODE (rw, the default, or ro) and TOROID_REMOTE_CACHE_KEY (a file);
// nullopt when the first is unset or empty. Throws Error: InvalidOption for what cannot be understood, Environment for a missing or
// unsafe key.
std::optional<RemoteOptions> remote_options_from_environment();

// The same, but a missing or unsafe key is warned of, once a process, and means nullopt: a cache is never a reason for not
// compiling.
std::optional<RemoteOptions> usable_remote_options(const std::function<void(const std::string&)>& warn = {});

struct RemoteCounters {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t rejected = 0;  // entries whose seal was not right; each is also a miss
  uint64_t stored = 0;
  uint64_t dropped = 0;  // entries that were to be stored and were not
  uint64_t outages = 0;
  uint64_t bytes_read = 0, bytes_written = 0;
  std::chrono::milliseconds waited{};  // for answers, while work stood still

  std::map<std::string, int64_t> by_name() const;  // those that are not 0, as "remote hits" and so on
};

class RemoteLease;

class Remote {
 public:
  explicit Remote(RemoteOptions options);
  Remote(const Remote&) = delete;
  ~Remote();

  // nullopt as well when the server cannot be asked or the entry is not to be trusted.
  std::optional<std::string> get(const CacheKey& key);
  // Sent later.
  void put(const CacheKey& key, std::string bytes);

  // Waits while another machine holds the key, for `patience` at most. Unguarded without a lease to be had: the server has none, is
  // not to be reached or may only be read. Never Overtaken by silence: a lease whose owner is gone or stopped ends by itself in two
  // seconds.
  RemoteLease acquire(const CacheKey& key, std::chrono::milliseconds patience);

  // Sends what is to be sent, or gives it up, as the destructor does. Nothing is sent afterwards.
  void finish();

  // Does what is done in a session: writes an entry, unless read-only, and reads it. Throws Error{Environment} when that does not
  // work.
  void check();

  const std::string& address() const;  // for people
  bool is_read_only() const;
  RemoteCounters counters() const;

 private:
  friend class RemoteLease;
  struct State;
  std::shared_ptr<State> state_;
};

// Given back after what was put before has been sent. Must not outlive the Remote by more than its own destructor.
class RemoteLease {
 public:
  RemoteLease(RemoteLease&&) noexcept;
  RemoteLease& operator=(RemoteLease&&) noexcept;
  ~RemoteLease();
  LeaseState state() const { return state_; }
  std::chrono::milliseconds waited() const { return waited_; }

 private:
  friend class Remote;
  struct Held;
  RemoteLease(LeaseState state, std::chrono::milliseconds waited, std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;
  LeaseState state_;
  std::chrono::milliseconds waited_;
};

}  // namespace toroid
