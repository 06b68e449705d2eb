// The file is store-v2.db, a SQLite database in WAL mode:
//
//   entries   key (64 hex digits), kind, parts, size, checksum, created and last_use (Unix seconds), sequence, blob
//   totals    one row: bytes in entries (kept by triggers), the sequence of the latest use, lifetime counters
//   counters  name, value: what users of the store count over its lifetime
//
// `checksum` is the SHA-256 of the key and the blob, so that neither a flipped bit nor an exchanged row goes unnoticed.
// `sequence` orders entries by use without trusting any clock. The blob is the last column: SQLite then reads the
// others without touching its pages. A new layout gets a new file name.
//
// Uses are recorded in memory and written with the next put or at the end, so that a hit writes nothing.
#include "cache/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/fd.h"
#include "base/file/write_signals.h"
#include "base/machine/out_of_memory.h"
#include "cache/sqlite.h"
#include "support/files/cache_folder.h"
#include "support/hash.h"
#include "support/log.h"
#include "support/text/byte_size.h"

namespace toroid {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFileName = "store-v2.db";
constexpr uint64_t kDefaultLimitBytes = uint64_t{4} << 30;
constexpr uint64_t kEntryOverheadBytes = 512;  // the row besides its blob and parts, and its share of the indices
constexpr size_t kPendingUses = 256;

constexpr int64_t kLayoutVersion = 2;

constexpr auto kImpatience = std::chrono::milliseconds(100);  // after somebody was waited for in vain

constexpr const char* kConnect = R"(
PRAGMA synchronous = NORMAL;
PRAGMA journal_size_limit = 67108864;
)";

// auto_vacuum can be chosen only while there is no table, and the version is written last: all or nothing. Nothing is
// lost if the power fails meanwhile, so nothing waits for the disk.
constexpr const char* kCreate = R"(
PRAGMA synchronous = OFF;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entries(
  key TEXT PRIMARY KEY NOT NULL, kind TEXT NOT NULL, parts TEXT NOT NULL, size INTEGER NOT NULL, checksum TEXT NOT NULL,
  created INTEGER NOT NULL, last_use INTEGER NOT NULL, sequence INTEGER NOT NULL, blob BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS entries_by_use ON entries(sequence);
CREATE INDEX IF NOT EXISTS entries_by_kind ON entries(kind, sequence);
CREATE TABLE IF NOT EXISTS totals(
  id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL, sequence INTEGER NOT NULL, hits INTEGER NOT NULL,
  misses INTEGER NOT NULL, corrupt INTEGER NOT NULL, evicted INTEGER NOT NULL, write_errors INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS counters(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL);
INSERT OR IGNORE INTO totals VALUES(1, 0, 0, 0, 0, 0, 0, 0);
CREATE TRIGGER IF NOT EXISTS entry_added AFTER INSERT ON entries
  BEGIN UPDATE totals SET bytes = bytes + new.size; END;
CREATE TRIGGER IF NOT EXISTS entry_removed AFTER DELETE ON entries
  BEGIN UPDATE totals SET bytes = bytes - old.size; END;
PRAGMA user_version = 2;
COMMIT;
PRAGMA synchronous = NORMAL;
)";

std::string checksum_of(std::string_view key, std::string_view blob) { return Sha256().update(key).update(blob).finish().hex(); }

int64_t unix_seconds() { return static_cast<int64_t>(std::time(nullptr)); }

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// SQLite only reads a file whose header asks for a later SQLite to write it; ours never do.
bool forbids_writing(const fs::path& path) {
  constexpr off_t kWriteVersion = 18;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  unsigned char version = 0;
  return fd && ::pread(fd.get(), &version, 1, kWriteVersion) == 1 && version > 2;
}

// Waits for the lock that whoever opens the file holds; the error's number, 0 when it is ours.
int lock_for_opening(int fd, std::chrono::milliseconds patience) {
  const auto start = std::chrono::steady_clock::now();
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(20))) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK && errno != EINTR) return errno;
    if (std::chrono::steady_clock::now() - start > patience) return EWOULDBLOCK;
    std::this_thread::sleep_for(pause);
  }
}

FileIdentity identity_of(const fs::path& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

}  // namespace

struct Store::State {
  std::function<void(const std::string&)> warn;
  fs::path file;
  uint64_t limit_bytes = kDefaultLimitBytes;
  std::chrono::milliseconds patience;

  std::mutex mutex;  // guards all below
  std::optional<Database> database;
  FileIdentity identity;
  bool warned = false;
  StoreCounters session;
  StoreCounters unwritten;                              // the part of `session` that totals lack
  std::set<std::string> used;                           // keys hit since the last write
  std::map<std::string, int64_t, std::less<>> counted;  // since the last write

  template <class... Args>
  void warn_once(fmt::format_string<Args...> format, Args&&... args) {
    if (warned) return;
    try {
      warn(fmt::format(format, std::forward<Args>(args)...));
      warned = true;
    } catch (const std::bad_alloc&) {  // nothing can be said; perhaps the next time
    }
  }

  void count(uint64_t StoreCounters::*counter, uint64_t number = 1) {
    session.*counter += number;
    unwritten.*counter += number;
  }

  // Opens the file. When it is damaged, here or as `damage` tells, moves it aside and begins a new one. Leaves the
  // store closed, with a warning, when it cannot be had.
  //
  // All this happens under a lock of the folder: otherwise two processes that notice the same damage could move each
  // other's new file away, and one that opens between two renames would join a new file with the old one's log.
  void open(const SqliteError* damage = nullptr) {
    const WriteSignalsBlock block;
    const FileIdentity damaged = identity;
    database.reset();
    try {
      const Fd lock(::open((file.parent_path() / "open.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      if (const int failure = lock ? lock_for_opening(lock.get(), patience) : errno; failure != 0) {
        give_up(failure == EWOULDBLOCK ? "another process has been opening it for too long; is one stopped?"
                                       : std::error_code(failure, std::generic_category()).message());
        return;
      }
      if (damage != nullptr && identity_of(file) == damaged) move_aside(*damage);
      try {
        connect();
      } catch (const SqliteError& error) {
        if (!error.is_corruption()) throw;
        database.reset();
        move_aside(error);
        connect();
      }
    } catch (const SqliteError& error) {
      give_up(error.what());
    } catch (const std::bad_alloc&) {
      give_up("out of memory");
    }
  }

  void connect() {
    database.emplace(file);
    identity = identity_of(file);
    sqlite3_busy_timeout(database->handle(), static_cast<int>(patience.count()));
    database->execute(kConnect);
    // A short run must not wait for the disk at its end: the log stays until it is long enough.
    sqlite3_db_config(database->handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    Statement version(*database, "PRAGMA user_version");
    const int64_t layout = version.step() ? version.integer(0) : 0;
    version.run();
    const bool is_ready = layout == kLayoutVersion;
    // Later layouts have other file names.
    if (!is_ready && layout != 0) {
      throw SqliteError(SQLITE_CORRUPT, fmt::format("it says that its layout is {}, and this toroid knows {}", layout, kLayoutVersion));
    }
    if (sqlite3_db_readonly(database->handle(), "main") == 1 && forbids_writing(file)) {
      throw SqliteError(SQLITE_CORRUPT, "its header forbids writing");
    }
    if (!is_ready) database->execute(kCreate);
  }

  void move_aside(const SqliteError& damage) {
    const std::string aside = file.string() + ".damaged";
    // The log goes with its database; left behind, it would be taken for the new one's.
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::error_code ignored;
      fs::remove(aside + suffix, ignored);
      fs::rename(file.string() + suffix, aside + suffix, ignored);
    }
    warn_once("the cache was damaged ({}) and is begun anew; the old file is {}", damage.what(), aside);
  }

  void give_up(std::string_view why) {
    database.reset();
    warn_once("compiling without a cache: cannot use {}: {} (TOROID_CACHE_DIR moves it)", file.c_str(), why);
  }

  // Runs `action` on the open database; on failure says so once and returns false.
  template <class Action>
  bool attempt(std::string_view what, Action&& action) {
    if (!database) return false;
    const WriteSignalsBlock block;
    try {
      try {
        action(*database);
        return true;
      } catch (const SqliteError& error) {
        recover(what, error);
      }
    } catch (const std::bad_alloc&) {  // of the action or of the recovery
      warn_once("cannot {} the cache {}: out of memory; going on without", what, file.c_str());
      if (database && sqlite3_get_autocommit(database->handle()) == 0) database.reset();
    }
    return false;
  }

  void recover(std::string_view what, const SqliteError& error) {
    if (error.is_corruption()) return open(&error);
    if (error.is_moved()) return open();
    warn_once("cannot {} the cache {}: {}; going on without", what, file.c_str(), error.what());
    if (error.is_without_locks()) return database.reset();
    if (error.is_busy()) {
      patience = kImpatience;
      sqlite3_busy_timeout(database->handle(), static_cast<int>(patience.count()));
    }
    // What failed so badly that it could not even be undone would keep everybody else from writing.
    if (sqlite3_get_autocommit(database->handle()) == 0) open();
  }

  // Inside a transaction: the next number in the order of uses.
  static int64_t next_sequence(const Database& db) {
    Statement statement(db, "UPDATE totals SET sequence = sequence + 1 RETURNING sequence");
    if (!statement.step()) throw SqliteError(SQLITE_CORRUPT, "the totals are gone");
    const int64_t sequence = statement.integer(0);
    statement.run();
    return sequence;
  }

  // Inside a transaction: writes down the uses and counts that are only in memory.
  void write_uses(const Database& db) {
    const int64_t now = unix_seconds();
    for (const std::string& key : used) {
      Statement(db, "UPDATE entries SET last_use = ?, sequence = ? WHERE key = ?").bind(now, next_sequence(db), key).run();
    }
    for (const auto& [name, number] : counted) {
      Statement(db, "INSERT INTO counters VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET value = value + excluded.value")
          .bind(std::string_view(name), number)
          .run();
    }
    auto signed_count = [](uint64_t number) { return static_cast<int64_t>(number); };
    Statement(db,
              "UPDATE totals SET hits = hits + ?, misses = misses + ?, corrupt = corrupt + ?, evicted = evicted + ?, "
              "write_errors = write_errors + ?")
        .bind(signed_count(unwritten.hits), signed_count(unwritten.misses), signed_count(unwritten.corrupt),
              signed_count(unwritten.evicted), signed_count(unwritten.write_errors))
        .run();
  }

  void forget_uses() {
    used.clear();
    counted.clear();
    unwritten = {};
  }

  static uint64_t total_bytes(const Database& db) {
    Statement statement(db, "SELECT bytes FROM totals");
    return statement.step() ? static_cast<uint64_t>(statement.integer(0)) : 0;
  }

  // Inside a transaction: counts the bytes anew, whatever the totals and the sizes beside the entries say.
  static uint64_t recount(const Database& db) {
    Statement statement(
        db, "UPDATE totals SET bytes = (SELECT coalesce(sum(length(blob) + length(parts) + ?), 0) FROM entries) RETURNING bytes");
    statement.bind(static_cast<int64_t>(kEntryOverheadBytes));
    if (!statement.step()) throw SqliteError(SQLITE_CORRUPT, "the totals are gone");
    const auto bytes = static_cast<uint64_t>(statement.integer(0));
    statement.run();
    return bytes;
  }

  // Inside a transaction: removes the least recently used until at most `limit` bytes are left. A total that is higher than what was
  // `added` explains may be a damaged one, which would empty the store again and again.
  static uint64_t evict(const Database& db, uint64_t limit, uint64_t added) {
    uint64_t removed = 0, bytes = total_bytes(db);
    if (bytes > limit && bytes - limit > added) bytes = recount(db);
    for (; bytes > limit; ++removed) {
      Statement oldest(db, "DELETE FROM entries WHERE key = (SELECT key FROM entries ORDER BY sequence LIMIT 1) RETURNING size");
      if (!oldest.step()) break;
      bytes -= std::min(bytes, static_cast<uint64_t>(oldest.integer(0)));
      oldest.run();
    }
    return removed;
  }

  void remove(const std::string& key) {
    attempt("write to", [&](Database& db) {
      Transaction transaction(db);
      Statement(db, "DELETE FROM entries WHERE key = ?").bind(key).run();
      transaction.commit();
    });
  }

  void flush() {
    const bool anything_new = unwritten.hits + unwritten.misses + unwritten.corrupt + unwritten.evicted + unwritten.write_errors != 0;
    if (used.empty() && counted.empty() && !anything_new) return;
    const bool written = attempt("write to", [&](Database& db) {
      Transaction transaction(db);
      write_uses(db);
      transaction.commit();
    });
    if (written) forget_uses();
  }
};

Store::Store(StoreOptions options) {
  with_typed_memory("opening the cache", [&] {
    state_ = std::make_unique<State>();
    open(options);
  });
}

void Store::open(const StoreOptions& options) {
  State& state = *state_;
  state.patience = options.patience;
  state.warn = options.warn ? options.warn : [](const std::string& text) { log_warn("{}", text); };
  if (!options.enabled) return;
  const char* limit = std::getenv("TOROID_CACHE_SIZE");
  if (options.size_limit_bytes != 0) {
    state.limit_bytes = options.size_limit_bytes;
  } else if (limit != nullptr && *limit != '\0') {
    ErrorContext context("reading TOROID_CACHE_SIZE");
    state.limit_bytes = parse_byte_size(limit);
  }
  fs::path folder = options.folder.empty() ? default_cache_folder() : options.folder;
  if (folder.empty()) {
    state.warn_once("compiling without a cache: there is no home folder (set TOROID_CACHE_DIR)");
    return;
  }
  folder = fs::absolute(folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "cache/" names the folder, not something in it
  state.file = folder / kFileName;
  std::error_code failure;
  fs::create_directories(folder.parent_path(), failure);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    state.give_up(std::error_code(errno, std::generic_category()).message());
    return;
  }
  check_cache_folder(folder);
  state.open();
}

Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() {
  try {
    if (state_ != nullptr) state_->flush();
  } catch (const std::exception&) {  // out of memory even for the warning: some uses stay uncounted
  }
}

std::optional<std::string> Store::get(const CacheKey& key) {
  std::lock_guard lock(state_->mutex);
  State& state = *state_;
  std::optional<std::string> found;
  bool damaged = false;
  state.attempt("read", [&](Database& db) {
    Statement statement(db, "SELECT checksum, blob FROM entries WHERE key = ? AND kind = ?");
    if (!statement.bind(std::string_view(key.hex), std::string_view(key.kind)).step()) return;
    const std::string_view blob = statement.bytes(1);
    damaged = statement.bytes(0) != checksum_of(key.hex, blob);
    if (damaged) return;
    std::string bytes(blob);
    state.used.insert(key.hex);
    found = std::move(bytes);
  });
  if (damaged) {
    state.count(&StoreCounters::corrupt);
    state.remove(key.hex);
  }
  state.count(found ? &StoreCounters::hits : &StoreCounters::misses);
  if (found && state.used.size() >= kPendingUses) state.flush();
  return found;
}

void Store::put(const CacheKey& key, std::string_view bytes) {
  std::lock_guard lock(state_->mutex);
  State& state = *state_;
  const uint64_t size = bytes.size() + key.parts.size() + kEntryOverheadBytes;
  if (!state.database || size > state.limit_bytes) return;
  uint64_t evicted = 0;
  const bool written = state.attempt("write to", [&](Database& db) {
    const std::string checksum = checksum_of(key.hex, bytes);
    Transaction transaction(db);
    state.write_uses(db);
    Statement(db, "DELETE FROM entries WHERE key = ?").bind(std::string_view(key.hex)).run();
    const int64_t now = unix_seconds();
    Statement(db, "INSERT INTO entries VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(std::string_view(key.hex), std::string_view(key.kind), std::string_view(key.parts), static_cast<int64_t>(size),
              std::string_view(checksum), now, now, State::next_sequence(db), BlobView{bytes})
        .run();
    // A damaged index may lose what is put under it again and again; nothing else would ever notice.
    Statement written(db, "SELECT 1 FROM entries WHERE key = ?");
    if (!written.bind(std::string_view(key.hex)).step()) throw SqliteError(SQLITE_CORRUPT, "its index is damaged");
    written.run();
    evicted = State::evict(db, state.limit_bytes, size);
    transaction.commit();
    if (evicted != 0) db.execute("PRAGMA incremental_vacuum(1000)");
  });
  if (written) state.forget_uses();
  if (!written) state.count(&StoreCounters::write_errors);
  if (evicted != 0) state.count(&StoreCounters::evicted, evicted);
}

StoreStats Store::stats() {
  std::lock_guard lock(state_->mutex);
  State& state = *state_;
  state.flush();
  StoreStats stats;
  stats.limit_bytes = state.limit_bytes;
  stats.session = state.session;
  stats.lifetime = state.session;
  state.attempt("read", [&](Database& db) {
    Statement statement(db,
                        "SELECT bytes, hits, misses, corrupt, evicted, write_errors, (SELECT count(*) FROM entries) "
                        "FROM totals");
    if (!statement.step()) return;
    auto column = [&](int index) { return static_cast<uint64_t>(statement.integer(index)); };
    stats.bytes = column(0);
    stats.lifetime = {column(1), column(2), column(3), column(4), column(5)};
    stats.entries = column(6);
    Statement kinds(db, "SELECT kind, count(*), sum(size) FROM entries GROUP BY kind");
    while (kinds.step()) {
      stats.kinds[std::string(kinds.bytes(0))] = {static_cast<uint64_t>(kinds.integer(1)), static_cast<uint64_t>(kinds.integer(2))};
    }
  });
  return stats;
}

void Store::count(std::string_view name, int64_t number) {
  std::lock_guard lock(state_->mutex);
  try {
    state_->counted[std::string(name)] += number;
  } catch (const std::bad_alloc&) {  // then it is not counted
  }
}

std::map<std::string, int64_t> Store::counters() {
  std::lock_guard lock(state_->mutex);
  State& state = *state_;
  state.flush();
  std::map<std::string, int64_t> counters;
  state.attempt("read", [&](Database& db) {
    Statement statement(db, "SELECT name, value FROM counters");
    while (statement.step()) counters.emplace(statement.bytes(0), statement.integer(1));
  });
  return counters;
}

void Store::for_each(const std::function<void(const StoreEntry&)>& visit) {
  std::lock_guard lock(state_->mutex);
  state_->flush();
  state_->attempt("read", [&](Database& db) {
    Statement statement(db, "SELECT key, kind, parts, checksum, blob FROM entries ORDER BY sequence");
    while (statement.step()) {
      const std::string_view key = statement.bytes(0), blob = statement.bytes(4);
      if (statement.bytes(3) != checksum_of(key, blob)) continue;
      visit({{std::string(statement.bytes(1)), std::string(key), std::string(statement.bytes(2))}, blob});
    }
  });
}

void Store::clear() {
  std::lock_guard lock(state_->mutex);
  state_->used.clear();
  state_->attempt("clear", [&](Database& db) {
    Transaction transaction(db);
    Statement(db, "DELETE FROM entries").run();
    transaction.commit();
    db.execute("PRAGMA incremental_vacuum");
  });
}

uint64_t Store::verify() {
  std::lock_guard lock(state_->mutex);
  std::vector<std::string> damaged;
  state_->attempt("read", [&](Database& db) {
    Statement statement(db, "SELECT key, checksum, blob FROM entries");
    while (statement.step()) {
      if (statement.bytes(1) != checksum_of(statement.bytes(0), statement.bytes(2))) {
        damaged.emplace_back(statement.bytes(0));
      }
    }
  });
  for (const std::string& key : damaged) state_->remove(key);
  state_->attempt("write to", [](Database& db) {
    Transaction transaction(db);
    State::recount(db);
    transaction.commit();
  });
  if (!damaged.empty()) state_->count(&StoreCounters::corrupt, damaged.size());
  return damaged.size();
}

uint64_t Store::shrink_to(uint64_t limit_bytes) {
  std::lock_guard lock(state_->mutex);
  State& state = *state_;
  uint64_t removed = 0;
  const bool written = state.attempt("write to", [&](Database& db) {
    Transaction transaction(db);
    state.write_uses(db);
    removed = State::evict(db, limit_bytes, 0);
    transaction.commit();
    db.execute("PRAGMA incremental_vacuum");
  });
  if (!written) return 0;
  state.forget_uses();
  if (removed != 0) state.count(&StoreCounters::evicted, removed);
  return removed;
}

std::optional<std::string> Store::nearest_parts(const CacheKey& key) {
  constexpr int64_t kCandidates = 1000;  // the most recently used
  std::lock_guard lock(state_->mutex);
  std::optional<std::string> nearest;
  size_t fewest = SIZE_MAX;
  state_->attempt("read", [&](Database& db) {
    Statement statement(db, "SELECT parts FROM entries WHERE kind = ? AND key != ? ORDER BY sequence DESC LIMIT ?");
    statement.bind(std::string_view(key.kind), std::string_view(key.hex), kCandidates);
    while (statement.step()) {
      const size_t differing = differing_labels(key.parts, statement.bytes(0)).size();
      if (differing >= fewest) continue;
      fewest = differing;
      nearest = statement.bytes(0);
    }
  });
  return nearest;
}

ProbeCache Store::probe_cache() {
  auto key_of = [](const std::string& key) { return KeyBuilder("probe", 1).add("probe", key).finish(); };
  return {.get = [this, key_of](const std::string& key) { return get(key_of(key)); },
          .put = [this, key_of](const std::string& key, const std::string& value) { put(key_of(key), value); }};
}

bool Store::is_open() const {
  std::lock_guard lock(state_->mutex);
  return state_->database.has_value();
}

fs::path Store::file() const { return state_->file; }

fs::path Store::folder() const { return is_open() ? state_->file.parent_path() : fs::path(); }

}  // namespace toroid
