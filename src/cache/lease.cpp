// The two files are as long as their highest cell: `leases` has no contents at all (a lock needs no byte under it), `heartbeats` is an
// array of 4096 counters of 64 bits, mapped by everyone. A folder on a file system without such locks gives unguarded leases.
#include "cache/lease.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/file/fd.h"
#include "support/log.h"

namespace toroid {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
namespace {

constexpr auto kBeat = 200ms;
constexpr auto kStandstill = 2000ms;  // ten beats: a busy machine may delay some
constexpr auto kLeastPause = 1ms;
constexpr auto kMostPause = 20ms;
constexpr uint64_t kCells = 4096;
constexpr size_t kHeartbeatBytes = kCells * sizeof(std::atomic<uint64_t>);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

uint64_t place_of(const CacheKey& key) {
  uint64_t place = 0;
  std::from_chars(key.hex.data(), key.hex.data() + std::min<size_t>(15, key.hex.size()), place, 16);
  return place;
}

// Locks of open file descriptions, so that threads exclude each other as processes do. An own descriptor per lease.
struct flock lock_of(uint64_t place, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(place);
  lock.l_len = 1;
  return lock;
}

void unlock(int fd, uint64_t place) {
  struct flock lock = lock_of(place, F_UNLCK);
  ::fcntl(fd, F_OFD_SETLK, &lock);
}

bool try_lock(int fd, uint64_t place, bool& is_unsupported) {
  struct flock lock = lock_of(place, F_WRLCK);
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  is_unsupported = errno != EAGAIN && errno != EACCES && errno != EINTR;
  return false;
}

}  // namespace

struct Leases::State {
  fs::path folder;
  std::atomic<uint64_t>* cells = nullptr;  // null: unguarded

  // One thread beats for all leases that this process holds.
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, int> held;  // cells, and by how many leases
  bool ending = false;
  std::thread beater;

  ~State() {
    if (cells != nullptr) ::munmap(static_cast<void*>(cells), kHeartbeatBytes);
  }

  void beat() {
    std::unique_lock lock(mutex);
    while (!ending) {
      for (const auto& [cell, count] : held) cells[cell].fetch_add(1, std::memory_order_relaxed);
      if (held.empty())
        changed.wait(lock);
      else
        changed.wait_for(lock, kBeat);
    }
  }

  void hold(uint64_t cell) {
    std::lock_guard lock(mutex);
    if (!beater.joinable()) beater = std::thread([this] { beat(); });
    ++held[cell];
    changed.notify_all();
  }

  void release(uint64_t cell) {
    std::lock_guard lock(mutex);
    if (--held[cell] == 0) held.erase(cell);
  }
};

struct Lease::Held {
  std::shared_ptr<Leases::State> state;
  Fd fd;
  uint64_t place, cell;
  pid_t process = ::getpid();
  Held(std::shared_ptr<Leases::State> of, Fd locked, uint64_t at)
      : state(std::move(of)), fd(std::move(locked)), place(at), cell(at % kCells) {
    state->hold(cell);
  }
  Held(const Held&) = delete;
  // A lock ends with its last descriptor, which a child of fork() that runs no other program keeps; and no child ends its parent's lease.
  ~Held() {
    state->release(cell);
    if (::getpid() == process) unlock(fd.get(), place);
  }
};

Lease::Lease(LeaseState state, std::chrono::milliseconds waited) : state_(state), waited_(waited) {}
Lease::Lease(Lease&&) noexcept = default;
Lease& Lease::operator=(Lease&&) noexcept = default;
Lease::~Lease() = default;

Leases::Leases(fs::path folder) : state_(std::make_shared<State>()) {
  state_->folder = std::move(folder);
  if (state_->folder.empty()) return;
  const Fd fd(::open((state_->folder / "heartbeats").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // Grows only, so no mapping of another process ever loses its pages.
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0) return;
  if (info.st_size < static_cast<off_t>(kHeartbeatBytes) && ::posix_fallocate(fd.get(), 0, kHeartbeatBytes) != 0) return;
  void* const map = ::mmap(nullptr, kHeartbeatBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (map != MAP_FAILED) state_->cells = static_cast<std::atomic<uint64_t>*>(map);
}

Leases::~Leases() {
  {
    std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  if (state_->beater.joinable()) state_->beater.join();
}

Lease Leases::acquire(const CacheKey& key, std::chrono::milliseconds patience, const std::function<bool()>& is_done) {
  const auto start = std::chrono::steady_clock::now();
  auto waited = [&] { return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start); };
  if (state_->cells == nullptr) return {LeaseState::Unguarded, 0ms};
  Fd fd(::open((state_->folder / "leases").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return {LeaseState::Unguarded, 0ms};
  const uint64_t place = place_of(key), cell = place % kCells;
  uint64_t last_beat = state_->cells[cell].load(std::memory_order_relaxed);
  auto last_change = start;
  std::chrono::milliseconds pause = kLeastPause;
  for (bool is_unsupported = false;;) {
    if (try_lock(fd.get(), place, is_unsupported)) {
      Lease lease(LeaseState::Owner, waited());
      try {
        lease.held_ = std::make_unique<Lease::Held>(state_, std::move(fd), place);
      } catch (const std::exception& error) {  // no more threads, or no memory: without signs of life it would only be overtaken
        log_info("no lease for {}: {}", key.kind, error.what());
        return {LeaseState::Unguarded, waited()};
      }
      return lease;
    }
    if (is_unsupported) return {LeaseState::Unguarded, waited()};
    const auto now = std::chrono::steady_clock::now();
    if (const uint64_t beat = state_->cells[cell].load(std::memory_order_relaxed); beat != last_beat) {
      last_beat = beat;
      last_change = now;
    }
    if (now - last_change > kStandstill) {
      log_info("another process that builds {} shows no sign of life: going ahead without it", key.kind);
      return {LeaseState::Overtaken, waited()};
    }
    if (now - start > patience || (is_done && is_done())) return {LeaseState::Overtaken, waited()};
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(kMostPause));
  }
}

}  // namespace toroid
