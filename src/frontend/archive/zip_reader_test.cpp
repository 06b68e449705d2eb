#include "frontend/archive/zip_reader.h"

#include <gtest/gtest.h>
#include <minizip/unzip.h>

#include "base/error.h"
#include "frontend/archive/zip_for_test.h"

namespace toroid {
namespace {

ZipReader reader_of(const std::string& bytes) { return ZipReader(std::as_bytes(std::span(bytes)), nullptr, "test.pt2"); }

// The first line of the error that reading all entries ends with.
std::string outcome(const std::string& bytes) {
  try {
    const ZipReader zip = reader_of(bytes);
    for (const ZipEntry& entry : zip.entries()) zip.read(entry);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
    EXPECT_NE(error.report().find("of test.pt2"), std::string::npos) << error.report();
    return error.message();
  }
  return "accepted";
}

ZipForTest two_entries() {
  ZipForTest zip;
  zip.add("m/a", "hello");
  zip.add("m/b", "world!");
  return zip;
}

TEST(ZipReader, ReadsEntriesInPlace) {
  const std::string bytes = two_entries().build();
  const ZipReader zip = reader_of(bytes);
  ASSERT_EQ(zip.entries().size(), 2u);
  ASSERT_NE(zip.find("m/b"), nullptr);
  EXPECT_EQ(zip.find("m/c"), nullptr);
  const std::string_view text = zip.read_text(*zip.find("m/b"));
  EXPECT_EQ(text, "world!");
  EXPECT_GE(text.data(), bytes.data());
  EXPECT_LT(text.data(), bytes.data() + bytes.size());
}

TEST(ZipReader, ReadsCommentsDirectoriesAndZip64) {
  ZipForTest zip = two_entries();
  zip.comment = "exported";
  zip.add("m/folder/", "");
  EXPECT_EQ(outcome(zip.build()), "accepted");
  zip.wide_end = true;
  for (ZipForTest::Entry& entry : zip.entries) entry.wide = true;
  EXPECT_EQ(outcome(zip.build()), "accepted");
  EXPECT_EQ(reader_of(zip.build()).find("m/b")->size_bytes, 6u);
}

TEST(ZipReader, AgreesWithMinizipOnPyTorchsArchives) {
  const std::filesystem::path folder = std::filesystem::path(TOROID_CONFORMANCE_DIR) / "models";
  for (const char* model : {"mlp.pt2", "cond.pt2", "hf_bert.pt2"}) {
    const ZipReader ours = ZipReader::open(folder / model);
    const unzFile theirs = unzOpen64((folder / model).c_str());
    ASSERT_NE(theirs, nullptr);
    size_t entries = 0;
    for (int status = unzGoToFirstFile(theirs); status == UNZ_OK; status = unzGoToNextFile(theirs), ++entries) {
      char name[256];
      unz_file_info64 info;
      ASSERT_EQ(unzGetCurrentFileInfo64(theirs, &info, name, sizeof(name), nullptr, 0, nullptr, 0), UNZ_OK);
      const ZipEntry* entry = ours.find(name);
      ASSERT_NE(entry, nullptr) << name;
      ASSERT_EQ(entry->size_bytes, info.uncompressed_size);
      std::string data(entry->size_bytes, '\0');
      ASSERT_EQ(unzOpenCurrentFile(theirs), UNZ_OK);
      ASSERT_EQ(unzReadCurrentFile(theirs, data.data(), static_cast<unsigned>(data.size())), static_cast<int>(data.size()));
      ASSERT_EQ(unzCloseCurrentFile(theirs), UNZ_OK);
      EXPECT_TRUE(ours.read_text(*entry) == data) << name;
    }
    unzClose(theirs);
    EXPECT_EQ(entries, ours.entries().size());
  }
}

TEST(ZipReader, RejectsEveryTruncation) {
  const std::string bytes = two_entries().build();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(outcome(bytes.substr(0, length)).starts_with("archive rejected: ")) << length;
  }
  EXPECT_EQ(outcome("not a zip"), "archive rejected: no end record: this is not a ZIP file, or it was cut short");
}

TEST(ZipReader, SaysThatACompiledProgramIsNoModel) {
  EXPECT_EQ(outcome("\x7f"
                    "ELF and whatever follows"),
            "this is a compiled program, not a model");
}

TEST(ZipReader, RejectsOrSurvivesEveryBitFlip) {
  ZipForTest zip = two_entries();
  zip.wide_end = true;
  zip.entries[0].wide = true;
  const std::string bytes = zip.build();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const std::string result = outcome(damaged);
    EXPECT_TRUE(result == "accepted" || result.starts_with("archive rejected: ")) << bit << ": " << result;
  }
}

TEST(ZipReader, RejectsPrependedAndAppendedBytes) {
  const std::string bytes = two_entries().build();
  EXPECT_EQ(outcome("junk" + bytes), "archive rejected: the directory does not end where the end record begins");
  EXPECT_EQ(outcome(bytes + "junk"), "archive rejected: no end record: this is not a ZIP file, or it was cut short");
}

TEST(ZipReader, RejectsBadCrc) {
  ZipForTest zip = two_entries();
  zip.entries[1].crc = 0x12345678;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/b' is damaged: its CRC is 718498e8, not 12345678");
}

TEST(ZipReader, RejectsCompressedAndEncryptedEntries) {
  ZipForTest zip = two_entries();
  zip.entries[0].method = 8;
  EXPECT_EQ(outcome(zip.build()),
            "archive rejected: entry 'm/a' is compressed (method 8); toroid maps weights and needs "
            "them stored");
  zip = two_entries();
  zip.entries[0].flags = 1;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/a' is encrypted");
}

TEST(ZipReader, RejectsLyingSizesWithoutAllocating) {
  ZipForTest zip = two_entries();
  zip.entries[1].declared_size = 2'200'000'000;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/b' declares 2200000000 bytes, more than the file holds");
  zip.entries[1].wide = true;
  zip.entries[1].declared_size = ~uint64_t{0} - 10;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/b' declares 18446744073709551605 bytes, more than the file holds");
  zip = two_entries();
  zip.entries[1].declared_stored_size = 2;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/b' declares 6 bytes stored as 2");
}

TEST(ZipReader, RejectsOverlapsAndStrayHeaders) {
  ZipForTest zip = two_entries();
  zip.entries[1] = zip.entries[0];
  zip.entries[1].name = "m/c";
  zip.entries[1].header_offset = 0;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/c' has another name in its local header");
  // One file's data hides the header of another.
  ZipForTest inner;
  inner.add("m/b", "inner");
  const std::string hidden = inner.build().substr(0, 30 + 3 + 5);
  zip = two_entries();
  zip.entries[0].data = hidden;
  zip.entries[1].data = "inner";
  zip.entries[1].header_offset = 30 + 3;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entries 'm/a' and 'm/b' overlap");
  zip = two_entries();
  zip.entries[1].header_offset = 7;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/b' has no local header where the directory says");
  zip.entries[1].header_offset = 0xfffffff0;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/b' has no local header where the directory says");
}

TEST(ZipReader, RejectsUnsafeNames) {
  const auto with_name = [](std::string name) {
    ZipForTest zip;
    zip.add(std::move(name), "x");
    return outcome(zip.build());
  };
  EXPECT_EQ(with_name("m/../../etc/passwd"), "archive rejected: the name 'm/../../etc/passwd' leaves the archive through '..'");
  EXPECT_EQ(with_name("/etc/passwd"), "archive rejected: the name '/etc/passwd' is absolute");
  EXPECT_EQ(with_name("C:/x"), "archive rejected: the name 'C:/x' is absolute");
  EXPECT_EQ(with_name("a\\b"), "archive rejected: the name 'a\\b' holds a backslash");
  EXPECT_EQ(with_name(std::string("a\0b", 3)), "archive rejected: the name 'a?b' holds a control character");
  EXPECT_EQ(with_name(""), "archive rejected: the name '' is empty");
  EXPECT_EQ(with_name("a//b"), "archive rejected: the name 'a//b' has an empty or '.' part");
  EXPECT_EQ(with_name("a..b/..c"), "accepted");
  ZipForTest zip = two_entries();
  zip.entries[0].unix_mode = 0120777;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: entry 'm/a' is a symbolic link");
  zip = two_entries();
  zip.entries[1].name = "m/a";
  EXPECT_EQ(outcome(zip.build()), "archive rejected: two entries are named 'm/a'");
}

TEST(ZipReader, LimitsTheNumberOfEntries) {
  ZipForTest zip;
  for (int i = 0; i < 65536; ++i) zip.add("m/" + std::to_string(i), "");
  zip.wide_end = true;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: it has 65536 entries, and the limit is 65535");
  zip.wide_end = false;  // the count wraps to 0
  EXPECT_EQ(outcome(zip.build()), "archive rejected: the directory holds more than the declared entries");
  zip.entries.pop_back();
  EXPECT_EQ(outcome(zip.build()), "accepted");
  zip = two_entries();
  zip.declared_entries = 3;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: 3 entries do not fit in a directory of 98 bytes");
  zip.declared_entries = 1;
  EXPECT_EQ(outcome(zip.build()), "archive rejected: the directory holds more than the declared entries");
}

}  // namespace
}  // namespace toroid
