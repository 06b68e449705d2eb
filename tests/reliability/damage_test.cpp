// Flipped bits and lost ends: of the store's file and its log, of exports, of entries from a server, of model archives, of packages. What
// is damaged is never taken for something else: it is a miss, or refused, or means what it meant before; and the next sessions mend it.
#include <fcntl.h>
#include <unistd.h>

#include <random>

#include <fmt/format.h>

#include "base/environment_for_test.h"
#include "base/error.h"
#include "base/file/fd.h"
#include "cache/remote/seal.h"
#include "cache/sqlite.h"
#include "cache/transfer.h"
#include "driver/compile.h"
#include "driver/compiled_graph.h"
#include "frontend/pt2/pt2_for_test.h"
#include "graph/text/text.h"
#include "reliability.h"
#include "runtime/program/package.h"

namespace toroid::reliability {
namespace {
namespace fs = std::filesystem;

constexpr int64_t kEntries = 14;

// Of a few bytes up to some pages.
const std::string& entry(int64_t number) {
  static const std::vector<std::string> entries = [] {
    std::vector<std::string> all;
    for (int64_t i = 0; i < kEntries; ++i) all.push_back(entry_of(i, static_cast<size_t>(40 + i * i * 60)));
    return all;
  }();
  return entries[static_cast<size_t>(number)];
}

const CacheKey& key(int64_t number) {
  static const std::vector<CacheKey> keys = [] {
    std::vector<CacheKey> all;
    for (int64_t i = 0; i < kEntries; ++i) all.push_back(key_of(i));
    return all;
  }();
  return keys[static_cast<size_t>(number)];
}

// One to a few flips in one place or all over, or another length; never none.
std::string damaged(const std::string& good, std::mt19937_64& random) {
  for (std::string bad = good;; bad = good) {
    const size_t kind = random() % 10, size = bad.size();
    auto flip = [&](size_t at) { bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8)); };
    if (kind < 5) {
      flip(random() % size);
    } else if (kind == 5) {  // where the format's own numbers are
      const size_t start = random() % 3 == 0 ? 0 : random() % size / 4096 * 4096;
      for (size_t i = 0; i < 1 + random() % 4; ++i) flip(std::min(size - 1, start + random() % 128));
    } else if (kind == 6) {
      for (size_t i = 0; i < 2 + random() % 60; ++i) flip(random() % size);
    } else if (kind == 7) {  // a lost or a foreign page
      const size_t start = random() % size / 512 * 512, end = std::min(size, start + 512 * (1 + random() % 8));
      const size_t from = random() % 2 == 0 ? size : random() % size / 512 * 512;
      for (size_t i = start; i < end; ++i) bad[i] = from == size || from + i - start >= size ? '\0' : good[from + i - start];
    } else if (kind == 8) {
      bad.resize(random() % 2 == 0 ? random() % size : size - 1 - random() % std::min<size_t>(size, 600));
    } else {
      bad.resize(random() % size / 512 * 512);
    }
    if (bad != good) return bad;
  }
}

void write_plainly(const fs::path& path, std::string_view bytes) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (count <= 0) throw std::runtime_error("cannot write " + path.string());
    done += static_cast<size_t>(count);
  }
}

// What a session saw.
struct Session {
  int64_t hits = 0, wrong = 0;
  std::vector<std::string> warnings;
};

// Looks for all entries and puts what is missing, as compilations do.
Session session(const fs::path& folder) {
  Session seen;
  Store store({.folder = folder, .warn = [&](const std::string& text) { seen.warnings.push_back(text); }});
  for (int64_t i = 0; i < kEntries; ++i) {
    const std::optional<std::string> found = store.get(key(i));
    if (found) {
      ++seen.hits;
      seen.wrong += *found != entry(i);
    } else {
      store.put(key(i), entry(i));
    }
  }
  return seen;
}

struct StoreFiles {
  std::string file, log;
};

// A store whose entries are all in its file, or all in its log.
StoreFiles sound_store(const fs::path& folder, bool in_log) {
  fs::remove_all(folder);
  if (!in_log) session(folder);
  if (!in_log) Database(folder / "store-v2.db").execute("PRAGMA wal_checkpoint(TRUNCATE)");
  session(folder);
  return {read_file(folder / "store-v2.db"), read_file(folder / "store-v2.db-wal")};
}

TEST(Damage, OfTheStoreIsNeverLoadedAndMendsItself) {
  const Result result;
  const TempFolder root = quick_folder();
  const fs::path folder = root.path() / "cache";
  std::mt19937_64 random(5);
  const StoreFiles in_file = sound_store(folder, false), in_log = sound_store(folder, true);
  ASSERT_GT(in_file.file.size(), 40'000u);
  ASSERT_GT(in_log.log.size(), 40'000u);
  const int64_t rounds = times(300, 100'000);
  int64_t hits = 0, warned = 0, late = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    StoreFiles files = round % 4 == 0 ? in_log : in_file;
    const bool is_log = round % 4 == 0 && round % 16 != 0;
    std::string& victim = is_log ? files.log : files.file;
    victim = damaged(victim, random);
    for (const char* left : {"store-v2.db-shm", "store-v2.db.damaged", "store-v2.db.damaged-wal", "store-v2.db.damaged-shm"}) {
      ::unlink((folder / left).c_str());
    }
    write_plainly(folder / "store-v2.db", files.file);
    write_plainly(folder / "store-v2.db-wal", files.log);
    const Session first = session(folder);
    ASSERT_EQ(first.wrong, 0) << "round " << round;
    ASSERT_LE(first.warnings.size(), 1u) << "round " << round << ": " << testing::PrintToString(first.warnings);
    hits += first.hits;
    warned += static_cast<int64_t>(first.warnings.size());
    if (first.hits == kEntries && round % 4 != 1) continue;
    // What the first did not come across, such as a damaged index, shows when it is written to.
    const Session second = session(folder);
    ASSERT_EQ(second.wrong, 0) << "round " << round;
    ASSERT_LE(second.warnings.size(), 1u) << "round " << round;
    if (second.hits == kEntries) continue;
    // By the third all is there again, but where an index was damaged so that the second noticed it only at its end, and began anew.
    Session later = session(folder);
    if (later.hits < kEntries) {
      ++late;
      later = session(folder);
    }
    ASSERT_EQ(later.hits, kEntries) << "round " << round << ": not mended; first " << testing::PrintToString(first.warnings) << ", second "
                                    << testing::PrintToString(second.warnings) << ", later " << testing::PrintToString(later.warnings);
    ASSERT_EQ(later.wrong, 0) << "round " << round;
    ASSERT_TRUE(later.warnings.empty()) << "round " << round << ": " << later.warnings[0];
  }
  EXPECT_GT(hits, rounds) << "most entries survive one flip";
  result.say(
      "{} damaged stores (a quarter of them in the log): 0 of {} loaded entries wrong, all full again by the third session ({} by the "
      "fourth), {} files begun anew",
      rounds, hits, late, warned);
}

TEST(Damage, OfEntriesIsCountedAsRebuilds) {
  const TempFolder root = quick_folder();
  const fs::path folder = root.path() / "cache";
  const StoreFiles sound = sound_store(folder, false);
  std::string bad = sound.file;
  int64_t spoilt = 0;
  for (int64_t i = 1; i < kEntries; i += 3, ++spoilt) {  // a byte of each blob's start, which lies beside its key
    const size_t at = bad.find(fmt::format("entry {} of", i));
    ASSERT_NE(at, bad.npos);
    bad[at] = static_cast<char>(bad[at] ^ 4);
  }
  write_plainly(folder / "store-v2.db", bad);
  write_plainly(folder / "store-v2.db-wal", "");
  ::unlink((folder / "store-v2.db-shm").c_str());
  EXPECT_EQ(session(folder).hits, kEntries - spoilt);
  Store store({.folder = folder});
  EXPECT_EQ(store.stats().lifetime.corrupt, static_cast<uint64_t>(spoilt));
}

TEST(Damage, OfExportsIsRefused) {
  const Result result;
  const TempFolder root = quick_folder();
  const fs::path path = root.path() / "export";
  {
    Store store({.folder = root.path() / "cache"});
    for (int64_t i = 0; i < 5; ++i) store.put(key_of(i), entry_of(i, 50 + 300 * static_cast<size_t>(i)));
    export_entries(store, path);
  }
  const std::string good = read_file(path);
  Store nowhere({.enabled = false});
  std::mt19937_64 random(6);
  const int64_t rounds = times(2000, 100'000);
  for (int64_t round = 0; round < rounds; ++round) {
    write_plainly(path, damaged(good, random));
    ASSERT_THROW(import_entries(nowhere, path), Error) << "round " << round;
  }
  result.say("{} damaged exports: all refused", rounds);
}

TEST(Damage, OfWhatAServerSendsIsRefused) {
  const Result result;
  const std::string secret(32, 's'), good = seal(key_of(1), entry_of(1, 3000), secret);
  std::mt19937_64 random(7);
  const int64_t rounds = times(3000, 100'000);
  for (int64_t round = 0; round < rounds; ++round) {
    ASSERT_EQ(unseal(key_of(1), damaged(good, random), secret), std::nullopt) << "round " << round;
  }
  ASSERT_EQ(unseal(key_of(1), good, secret), entry_of(1, 3000));
  result.say("{} damaged entries of a server: all refused", rounds);
}

// Never run, and never a crash: the checks come before any of its code. Beside what damages other files: weights that are swapped, bytes
// that are appended.
TEST(Damage, OfPackagesIsRefused) {
  const Result result;
  const TempFolder root = quick_folder();
  const ScopedVariable cache("TOROID_CACHE_DIR", (root.path() / "cache").string());
  const fs::path path = root.path() / "package.so";
  std::string weights;
  for (int i = 0; i < 64; ++i) weights += fmt::format("{}{}", i == 0 ? "" : ", ", i + 1);
  const std::string text = fmt::format(
      "constant 0 \"v\": f32[64] = [{0}]\nconstant 1 \"w\": f32[64] = [-{0}]\ngraph(x: f32[64]) {{\n  v: f32[64] = constant(0)\n"
      "  w: f32[64] = constant(1)\n  z = mul(x, v)\n  y = add(z, w)\n  return y\n}}\n",
      weights);
  const CompiledModel model = CompileSession().compile(parse_text(text));
  write_package(path, model.library, model.constants, model.isa);
  Executable::load(path, 1);
  const std::string good = read_file(path);
  const size_t first_weight = (model.library.size() + 63) / 64 * 64;
  std::mt19937_64 random(9);
  const int64_t rounds = times(500, 100'000);
  for (int64_t round = 0; round < rounds; ++round) {
    std::string bad = good;
    if (round % 16 == 0) {
      std::swap_ranges(bad.begin() + static_cast<std::ptrdiff_t>(first_weight),
                       bad.begin() + static_cast<std::ptrdiff_t>(first_weight + 256),
                       bad.begin() + static_cast<std::ptrdiff_t>(first_weight + 256));
      const size_t end = 1 + random() % 255;  // whole, or the rest of each where it was
      std::copy_n(good.begin() + static_cast<std::ptrdiff_t>(first_weight + end), 256 - end,
                  bad.begin() + static_cast<std::ptrdiff_t>(first_weight + end));
    } else if (round % 16 == 1) {
      bad.append(1 + random() % 5000, static_cast<char>(random()));
    } else {
      bad = damaged(good, random);
    }
    if (bad == good) continue;
    write_plainly(path, bad);
    try {
      Executable::load(path, 1);
      FAIL() << "round " << round;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::InvalidInput) << "round " << round << ": " << error.report();
      ASSERT_FALSE(error.help_text().empty()) << "round " << round;
    }
  }
  write_plainly(path, good);
  Executable::load(path, 1);
  result.say("{} damaged packages: all refused, 0 run, 0 crashes", rounds);
}

// The program and the values of its constants.
std::string meaning_of(const Program& program) {
  std::string text = to_text(program);
  for (const ConstantData& constant : program.constants) {
    text.append(reinterpret_cast<const char*>(constant.bytes.data()), constant.bytes.size());
  }
  return text;
}

TEST(Damage, OfModelsIsRefusedOrChangesNothing) {
  const Result result;
  const std::string good = Pt2ForTest().zip().build(), meaning = meaning_of(Pt2ForTest::import_bytes(good));
  std::mt19937_64 random(8);
  int64_t refused = 0;
  const int64_t rounds = times(1000, 100'000);
  for (int64_t round = 0; round < rounds; ++round) {
    const std::string bad = damaged(good, random);
    try {
      ASSERT_EQ(meaning_of(Pt2ForTest::import_bytes(bad)), meaning) << "round " << round;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::InvalidModel) << "round " << round << ": " << error.report();
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds * 4 / 5);
  result.say("{} damaged archives: {} refused, the others mean the same", rounds, refused);
}

}  // namespace
}  // namespace toroid::reliability
