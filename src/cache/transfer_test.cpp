#include "cache/transfer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file/file.h"
#include "cache/key_for_test.h"

namespace toroid {
namespace {

class TransferTest : public testing::Test {
 protected:
  TempFolder folder_;
  std::filesystem::path file_ = folder_.path() / "export";
};

TEST_F(TransferTest, EntriesMoveToAnotherStore) {
  Store from({.folder = folder_.path() / "from"});
  from.put(key_of("one"), "first");
  from.put(key_of("two"), std::string("\0binary", 7));
  from.probe_cache().put("machine", "of here");
  EXPECT_EQ(export_entries(from, file_), 2u);
  Store to({.folder = folder_.path() / "to"});
  EXPECT_EQ(import_entries(to, file_), 2u);
  EXPECT_EQ(to.get(key_of("one")), "first");
  EXPECT_EQ(to.get(key_of("two")), std::string("\0binary", 7));
  EXPECT_EQ(to.nearest_parts(key_of("three")).has_value(), true);
  EXPECT_EQ(to.probe_cache().get("machine"), std::nullopt);
  EXPECT_EQ(import_entries(to, file_), 2u);  // again does no harm
  EXPECT_EQ(to.stats().entries, 2u);
}

TEST_F(TransferTest, AnythingDamagedIsRefused) {
  Store from({.folder = folder_.path() / "from"});
  from.put(key_of("one"), "first");
  export_entries(from, file_);
  const std::string good = read_file(file_);
  Store to({.folder = folder_.path() / "to"});
  for (size_t length = 0; length < good.size(); ++length) {
    write_file_atomically(file_, std::string_view(good).substr(0, length));
    EXPECT_THROW(import_entries(to, file_), Error) << length;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write_file_atomically(file_, std::string_view(bad));
    EXPECT_THROW(import_entries(to, file_), Error) << at;
  }
  try {
    write_file_atomically(file_, std::string_view("hello"));
    import_entries(to, file_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "not a whole export of a cache: it does not start as one");
  }
}

}  // namespace
}  // namespace toroid
