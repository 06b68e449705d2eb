#include "base/file/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "base/error_for_test.h"
#include "base/file/fd.h"
#include "base/file/file.h"
#include "base/format.h"

namespace toroid {
namespace {
namespace fs = std::filesystem;

constexpr size_t kLarge = 3 * MappedFile::kCopiedBytes + 100;

class MappedFiles : public testing::Test {
 protected:
  MappedFiles() { write_file_atomically(path_, std::string(kLarge, 'a')); }
  // As `: > FILE` and `cp NEW FILE` do, into the file that is mapped.
  void cut_to(off_t bytes) const { ASSERT_EQ(::truncate(path_.c_str(), bytes), 0); }
  void overwrite(const std::string& bytes) const {
    const Fd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // What the body says in a process of its own, which answers SIGBUS.
  std::string in_a_process(const std::function<std::string()>& body) const {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      answer_bus_errors();
      const std::string text = body();
      (void)!::write(ends[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string text(2000, '\0');
    const ssize_t count = ::read(ends[0], text.data(), text.size());
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return status == 0 ? text : formatted("{}, ended with {}", text, status);
  }
  TempFolder folder_;
  fs::path path_ = folder_.path() / "file";
  const std::string changed_ = formatted(
      "error: {} was changed while it was in use\n"
      "  help: write the new file beside it and rename it (mv): then what runs keeps the old one",
      path_.string());
};

int64_t sum(const MappedFile& file) {
  const std::string_view text = file.text();
  return std::accumulate(text.begin(), text.end(), int64_t{0});
}

TEST_F(MappedFiles, OfWhichSomeWasCutOffReadAsZerosAndAreRefused) {
  EXPECT_EQ(in_a_process([&] {
              const MappedFile file(path_);
              cut_to(4096 * 10);
              const bool some = sum(file) == 4096 * 10 * int64_t{'a'};
              const std::string refusal = error_of([&] { refuse_changed_files(); }).report();
              return refusal == changed_ && some && bus_errors_answered() == 1 && first_lost_file() == path_ ? "well" : refusal;
            }),
            "well");
}

TEST_F(MappedFiles, AreRefusedFromManyThreadsAndAfterTheirEnd) {
  EXPECT_EQ(in_a_process([&] {
              {
                const MappedFile file(path_);
                cut_to(0);
                std::atomic<int64_t> total{0};  // used, so that the file is read
                std::vector<std::thread> threads;
                for (int i = 0; i < 8; ++i) threads.emplace_back([&] { total += sum(file); });
                for (std::thread& thread : threads) thread.join();
                if (total != 0) return "not zeros";
              }
              if (first_lost_file() != path_) return "forgotten";
              return error_of([] { refuse_changed_files(); }).report() == changed_ ? "well" : "not refused";
            }),
            "well");
}

// Inputs are released as soon as the call that read them has ended.
TEST_F(MappedFiles, ThatWereWrittenToAreRefusedAfterTheirEnd) {
  EXPECT_EQ(in_a_process([&] {
              {
                const MappedFile replaced(path_);
                write_file_atomically(path_, std::string(kLarge, 'n'));
              }
              refuse_changed_files();
              {
                const MappedFile file(path_);
                ::usleep(20'000);  // a tick of the clock of files
                overwrite("bbb");
              }
              return error_of([] { refuse_changed_files(); }).report();
            }),
            changed_);
}

TEST_F(MappedFiles, ThatWereWrittenToAreRefused) {
  const MappedFile file(path_);
  EXPECT_NO_THROW(refuse_changed_files());
  ::usleep(20'000);  // a tick of the clock of files
  overwrite("bbb");
  EXPECT_EQ(error_of([] { refuse_changed_files(); }).report(), changed_);
  const Span<const std::byte> inside = file.bytes().subspan(500, 1), outside = as_bytes(Span("text"));
  EXPECT_NO_THROW(refuse_changed_files({&outside, 1}));
  EXPECT_THROW(refuse_changed_files({&inside, 1}), Error);
}

TEST_F(MappedFiles, ThatWereReplacedByNameOrRemovedStay) {
  const MappedFile file(path_);
  write_file_atomically(path_, "new");
  EXPECT_NO_THROW(refuse_changed_files());
  fs::remove(path_);
  EXPECT_NO_THROW(refuse_changed_files());
  EXPECT_EQ(sum(file), static_cast<int64_t>(kLarge) * 'a');
}

TEST_F(MappedFiles, OfSmallSizeAreCopies) {
  write_file_atomically(path_, std::string(MappedFile::kCopiedBytes, 's'));
  const MappedFile file(path_);
  cut_to(0);
  EXPECT_NO_THROW(refuse_changed_files());
  EXPECT_EQ(sum(file), static_cast<int64_t>(MappedFile::kCopiedBytes) * 's');
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.bytes().data()) % 64, 0u);
}

// SQLite's and the loader's.
TEST_F(MappedFiles, OfOthersEndTheProcessWithWords) {
  const std::string said = in_a_process([&] {
    const Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    const auto* bytes = static_cast<const char*>(::mmap(nullptr, kLarge, PROT_READ, MAP_SHARED, fd.get(), 0));
    cut_to(0);
    return std::string(1, bytes[5]);
  });
  EXPECT_EQ(said, formatted(", ended with {}", 1 << 8));
}

}  // namespace
}  // namespace toroid
