// What a process knows of a server's health, shared by all that use the address: an outage costs the process once, not each
// session.
//
// The server has credit: 800 ms of waiting for nothing. A request that brings nothing uses some up, but for the first 10 ms, which
// are the usual price; a hit restores it. No request may take longer than what is left, and when little is left or a request fails,
// the outage begins: nobody waits for the server any more until a try beside the work has found it well.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

namespace toroid {

class RemoteHealth {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;

  explicit RemoteHealth(Milliseconds first_pause = std::chrono::seconds(30), Milliseconds full_credit = Milliseconds(800))
      : full_credit_(full_credit), credit_(full_credit), pause_(first_pause) {}

  bool is_up() const {
    std::lock_guard lock(mutex_);
    return !is_down_;
  }
  // How long a request may take before anything has moved.
  Milliseconds credit() const {
    std::lock_guard lock(mutex_);
    return credit_;
  }
  // A request took so long and brought something, or nothing. False: that was too long, and the outage may begin.
  bool spend(Milliseconds time, bool brought_something) {
    std::lock_guard lock(mutex_);
    credit_ = brought_something ? full_credit_ : std::max(credit_ - std::max(time - kUsual, Milliseconds(0)), Milliseconds(0));
    return credit_ > kLeastCredit;
  }
  // True for who began it and is to tell.
  bool begin_outage() {
    std::lock_guard lock(mutex_);
    if (is_down_) return false;
    postpone();
    return is_down_ = true;
  }
  // Whether it is time to try whether the server is back; true for one caller.
  bool take_turn_to_try() {
    std::lock_guard lock(mutex_);
    if (!is_down_ || Clock::now() < next_try_) return false;
    postpone();
    return true;
  }
  void end_outage() {
    std::lock_guard lock(mutex_);
    is_down_ = false;
    credit_ = full_credit_;
  }
  // Until the next try.
  Milliseconds pause() const {
    std::lock_guard lock(mutex_);
    return std::max(std::chrono::round<Milliseconds>(next_try_ - Clock::now()), Milliseconds(0));
  }

 private:
  static constexpr Milliseconds kLeastCredit{50}, kUsual{10}, kMostPause{3'600'000};

  void postpone() {
    next_try_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, kMostPause);
  }

  mutable std::mutex mutex_;
  const Milliseconds full_credit_;
  Milliseconds credit_;
  Milliseconds pause_;
  bool is_down_ = false;
  Clock::time_point next_try_{};
};

// This process's one for an address.
std::shared_ptr<RemoteHealth> process_health(const std::string& address);

}  // namespace toroid
