#include "cache/base.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/scratch_cache_for_test.h"
#include "cache/transfer.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

CacheKey key_of_kind(const std::string& kind, const std::string& source) {
  return KeyBuilder(kind, 1).add_source("source", source).finish();
}

class BaseTest : public testing::Test {
 protected:
  BaseTest() {
    Store from({.folder = scratch_.files() / "administrator"});
    from.put(key_of_kind("library", "one"), "first");
    from.put(key_of_kind("tuning", "matmul 128"), "12x32 tiles");
    export_entries(from, file_);
  }
  CacheOptions options() {
    auto warn = [this](const std::string& text) { warnings_.push_back(text); };
    return {.store = {.folder = scratch_.folder(), .warn = warn}, .remote = {}, .base = file_};
  }
  std::optional<std::string> get(const CacheKey& key) { return Cache(options()).get(key); }

  ScratchCache scratch_;
  fs::path file_ = scratch_.files() / "base";
  std::vector<std::string> warnings_;
};

TEST_F(BaseTest, IsAskedAfterTheLocalStore) {
  const CacheKey shared = key_of_kind("tuning", "matmul 128");
  {
    Cache cache(options());
    EXPECT_EQ(cache.get(shared), "12x32 tiles");
    EXPECT_EQ(cache.get(shared, Tier::Local), std::nullopt) << "nothing is copied";
    EXPECT_EQ(cache.get(key_of_kind("tuning", "matmul 256")), std::nullopt);
    EXPECT_EQ(cache.get({"library", shared.hex, ""}), std::nullopt) << "the kind belongs to the key";
    cache.put(shared, "6x16 tiles");
    EXPECT_EQ(cache.get(shared), "6x16 tiles") << "what was found here comes first";
    EXPECT_EQ(cache.get(shared, Tier::Base), "12x32 tiles");
  }
  EXPECT_EQ(Store({.folder = scratch_.folder()}).counters().at("base hits"), 2);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(BaseTest, IsNeverWritten) {
  const std::string before = read_file(file_);
  ::chmod(file_.c_str(), 0400);
  {
    Cache cache(options());
    cache.get(key_of_kind("library", "one"));
    cache.put(key_of_kind("library", "two"), "second");
  }
  EXPECT_EQ(read_file(file_), before);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(BaseTest, TheEnvironmentNamesIt) {
  const ScopedVariable variable("TOROID_CACHE_BASE", file_.string());
  Cache cache;
  EXPECT_EQ(cache.get(key_of_kind("library", "one")), "first");
  EXPECT_EQ(Cache(StoreOptions{.enabled = false}).base(), nullptr) << "without a cache there is no base either";
  variable.set("");
  EXPECT_EQ(Cache().base(), nullptr);
}

TEST_F(BaseTest, OneKindMayBeExportedAlone) {
  Store from({.folder = scratch_.files() / "administrator"});
  EXPECT_EQ(export_entries(from, file_, "tuning"), 1u);
  EXPECT_EQ(get(key_of_kind("tuning", "matmul 128")), "12x32 tiles");
  EXPECT_EQ(get(key_of_kind("library", "one")), std::nullopt);
  const BaseContents contents = ReadOnlyBase(file_).contents();
  EXPECT_EQ(contents.entries, 1u);
  EXPECT_EQ(contents.bytes, 11u);
  EXPECT_EQ(contents.kinds.at("tuning").entries, 1u);
}

TEST_F(BaseTest, OneThatIsMissingIsWarnedOfOnce) {
  fs::remove(file_);
  Cache cache(options());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache.get(key_of_kind("library", "one")), std::nullopt);
  EXPECT_EQ(warnings_, (std::vector<std::string>{"compiling without the read-only base: cannot read " + file_.string() +
                                                 ": No such file or directory; check the path"}));
}

// Cut anywhere it is as if it were not there; a flipped bit costs at most the entry.
TEST_F(BaseTest, DamageIsAMissAndOneWarning) {
  const std::string good = read_file(file_);
  auto found_in = [&](std::string_view bytes) {
    warnings_.clear();
    std::ofstream(file_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));  // without waiting for the disk
    ReadOnlyBase base(file_, options().store.warn);
    int found = 0;
    for (const auto& [kind, source, entry] : {std::tuple("library", "one", "first"), {"tuning", "matmul 128", "12x32 tiles"}}) {
      const std::optional<std::string> got = base.get(key_of_kind(kind, source));
      EXPECT_TRUE(!got || *got == entry);
      found += got ? 1 : 0;
    }
    return found;
  };
  EXPECT_EQ(found_in(good), 2);
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(found_in(std::string_view(good).substr(0, length)), 0) << length;
    EXPECT_EQ(warnings_.size(), 1u) << length;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    EXPECT_LE(found_in(bad), 1) << at;
    EXPECT_LE(warnings_.size(), 1u) << at;
  }
  std::string bad = good;
  bad[good.find("first")] = 'F';
  write_file_atomically(file_, std::string_view(bad));
  warnings_.clear();
  EXPECT_EQ(get(key_of_kind("library", "one")), std::nullopt);
  EXPECT_EQ(warnings_, (std::vector<std::string>{"an entry of the read-only base " + file_.string() +
                                                 " is damaged; 'toroid cache verify' counts them"}));
  EXPECT_EQ(ReadOnlyBase(file_).verify(), 1u);
}

TEST_F(BaseTest, OneThatOthersCouldWriteIsNotTrusted) {
  ::chmod(file_.c_str(), 0664);
  EXPECT_EQ(get(key_of_kind("library", "one")), std::nullopt);
  EXPECT_EQ(warnings_, (std::vector<std::string>{"compiling without the read-only base: the read-only base " + file_.string() +
                                                 " can be written by other users, who could plant code in it; run 'chmod go-w " +
                                                 file_.string() + "'"}));
  ::chmod(file_.c_str(), 0644);
  EXPECT_EQ(get(key_of_kind("library", "one")), "first");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away: owners are not tested";
  ASSERT_EQ(::chown(file_.c_str(), 12345, 12345), 0);
  warnings_.clear();
  EXPECT_EQ(get(key_of_kind("library", "one")), std::nullopt);
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("belongs to user 12345, neither to root nor to you; run 'chown root "), std::string::npos) << warnings_[0];
}

}  // namespace
}  // namespace toroid
