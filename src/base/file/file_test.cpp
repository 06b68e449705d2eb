#include "base/file/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/file/mapped_file.h"
#include "base/format.h"

namespace toroid {
namespace {
namespace fs = std::filesystem;

template <class Action>
std::string report_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.report();
  }
  return "no error";
}

size_t entries_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Files, NamesAndExtensionsAreThoseOfTheLibrarysPaths) {
  for (const std::string path : {"m.so", "/a.b/m", "/a/m.tar.so", "a/.hidden", "a/..", "a/.", "a/", "", "/", "m.", "..so"}) {
    EXPECT_EQ(file_name_of(path), std::filesystem::path(path).filename().string()) << path;
    EXPECT_EQ(extension_of(path), std::filesystem::path(path).extension().string()) << path;
  }
}

TEST(Files, ErrorsNameTheFolder) {
  for (const std::string path : {"/m.so", "/a/m.so", "/a//m.so", "a/b/m.so", "//m.so"}) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    EXPECT_NE(file_error("read", path, EACCES).help_text().find("permissions of " + folder + ","), std::string::npos) << path;
  }
  EXPECT_NE(file_error("read", "m.so", EACCES).help_text().find("permissions of the current folder,"), std::string::npos);
}

TEST(File, WritesReadsAndMapsTheSameBytes) {
  const TempFolder folder;
  const fs::path path = folder.path() / "data.bin";
  const std::string data("a\0b\n", 4);
  write_file_atomically(path, data);
  EXPECT_EQ(read_file(path), data);
  const MappedFile mapped(path);
  EXPECT_EQ(mapped.text(), data);
  EXPECT_EQ(mapped.size_bytes(), 4u);
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(MappedFile(path).size_bytes(), 0u);
  EXPECT_EQ(mapped.text(), data) << "a mapping keeps the contents that it opened";
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(File, ReplacesThroughALinkAndKeepsTheLink) {
  const TempFolder folder;
  write_file_atomically(folder.path() / "real", "old");
  fs::create_symlink("real", folder.path() / "link");
  write_file_atomically(folder.path() / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(read_file(folder.path() / "real"), "new");
}

TEST(File, MakesTheFileToWhichALinkLeads) {
  const TempFolder folder;
  fs::create_directory(folder.path() / "inner");
  fs::create_symlink("inner/next", folder.path() / "link");
  fs::create_symlink("made", folder.path() / "inner/next");
  EXPECT_NO_THROW(check_writable(folder.path() / "link"));
  write_file_atomically(folder.path() / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(read_file(folder.path() / "inner/made"), "new");
  fs::create_symlink("round", folder.path() / "round");
  EXPECT_NE(report_of([&] { write_file_atomically(folder.path() / "round", "x"); }).find("Too many levels of symbolic links"),
            std::string::npos);
}

TEST(File, WritesIntoAPipeThatIsRead) {
  const TempFolder folder;
  const fs::path fifo = folder.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NO_THROW(check_writable(fifo));
  const std::string bytes(200'000, 'p');  // more than a pipe holds
  std::string got;
  std::thread reader([&] {
    ::usleep(100'000);  // it comes late, and is slow
    std::ifstream file(fifo);
    ::usleep(50'000);
    got.assign(std::istreambuf_iterator<char>(file), {});
  });
  write_file_atomically(fifo, bytes);
  reader.join();
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(report_of([&] { write_file_atomically(fifo, bytes); }),
            "error: cannot write " + fifo.string() + ": it is a pipe that nobody reads\n  help: start what reads it first, or within 5 s");
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST(File, WritesIntoADevice) { EXPECT_NO_THROW(write_file_atomically("/dev/null", "text")); }

TEST(File, ErrorsNameThePathTheReasonAndANextStep) {
  const TempFolder folder;
  const std::string base = folder.path().string();
  EXPECT_EQ(report_of([&] { read_file(base + "/none"); }),
            "error: cannot read " + base + "/none: No such file or directory\n  help: check the path");
  EXPECT_EQ(report_of([&] { write_file_atomically(base + "/none/a.so", "x"); }),
            "error: cannot write " + base + "/none/a.so: No such file or directory\n  help: create the folder first: " + base + "/none");
  EXPECT_EQ(report_of([&] { MappedFile mapped(base); }),
            "error: cannot read " + base + ": Is a directory\n  help: give the path of a file, not of a folder");
  EXPECT_EQ(report_of([&] { write_file_atomically(base, "x"); }),
            "error: cannot write " + base + ": Is a directory\n  help: give the path of a file, not of a folder");
  EXPECT_EQ(file_error("write", "/opt/a.so", EACCES).report(),
            "error: cannot write /opt/a.so: Permission denied\n  help: check the permissions of /opt, or choose "
            "another place");
}

TEST(File, SaysBeforehandWhatCannotBeWritten) {
  const TempFolder folder;
  EXPECT_NO_THROW(check_writable(folder.path() / "new"));
  EXPECT_NO_THROW(check_writable("name_alone"));
  EXPECT_NO_THROW(check_writable("/dev/null"));
  EXPECT_THROW(check_writable(folder.path()), Error);
  EXPECT_THROW(check_writable(folder.path() / "missing" / "new"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "new"));
}

TEST(File, RefusesAFifoWithoutWaitingForIt) {
  const TempFolder folder;
  const std::string fifo = (folder.path() / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(report_of([&] { read_file(fifo); }),
            "error: cannot read " + fifo + ": not a regular file\n  help: copy the data into a file first");
}

TEST(File, RefusesMoreThanTheLimit) {
  const TempFolder folder;
  write_file_atomically(folder.path() / "a", "12345");
  EXPECT_EQ(read_file(folder.path() / "a", 5), "12345");
  EXPECT_THROW(read_file(folder.path() / "a", 4), Error);
}

TEST(File, ReadsFilesThatReportNoSize) { EXPECT_NE(read_file("/proc/self/status").find("Pid:"), std::string::npos); }

TEST(File, TempFolderIsRemovedUnlessKept) {
  fs::path removed, kept;
  {
    TempFolder folder("toroid-test");
    removed = folder.path();
    write_file_atomically(removed / "file", "x");
    TempFolder other;
    kept = other.keep();
    const TempFolder moved = std::move(folder);
  }
  EXPECT_FALSE(fs::exists(removed));
  EXPECT_TRUE(fs::exists(kept));
  fs::remove(kept);
}

TEST(File, TempFolderGoesWithAllThatIsInItAndNothingElse) {
  const TempFolder other;
  write_file_atomically(other.path() / "stays", "x");
  fs::path removed;
  {
    const TempFolder folder;
    removed = folder.path();
    fs::create_directories(removed / "a" / "b" / "c");
    for (int i = 0; i < 500; ++i) write_file_atomically(removed / "a" / formatted("file with a long name, number {}", i), "x");
    write_file_atomically(removed / "a" / "b" / "c" / ".hidden", "x");
    fs::create_directory_symlink(other.path(), removed / "link");
  }
  EXPECT_FALSE(fs::exists(removed));
  EXPECT_TRUE(fs::exists(other.path() / "stays"));
}

TEST(File, FindsProgramsInThePath) {
  EXPECT_TRUE(find_program("sh").has_value());
  EXPECT_TRUE(find_program("/bin/sh").has_value());
  EXPECT_FALSE(find_program("no-such-program-here").has_value());
  EXPECT_FALSE(find_program("/tmp").has_value());
  EXPECT_FALSE(find_program("").has_value());
}

}  // namespace
}  // namespace toroid
