// For tests: processes that are forked for a test, with an MPI of the tests' own (shared_mpi.c).
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {

inline constexpr int kRanks = 4;

// Runs body(rank) in processes of their own, which say what is wrong, and checks that all of them end well.
inline void expect_in_all_ranks(const std::function<void(int rank)>& body, int ranks = kRanks) {
  TempFolder folder;
  const std::string file = folder.path() / "shared";
  constexpr int64_t kFileBytes = 16 << 20;
  write_file_atomically(file, std::string_view(""));
  std::filesystem::resize_file(file, kFileBytes);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    std::fflush(stdout);
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      setenv("TOROID_MPI", SHARED_MPI, 1);
      setenv("SHARED_MPI_FILE", file.c_str(), 1);
      setenv("SHARED_MPI_SIZE", std::to_string(ranks).c_str(), 1);
      setenv("SHARED_MPI_RANK", std::to_string(rank).c_str(), 1);
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      std::fflush(stdout);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    processes.push_back(process);
  }
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    int status = 0;
    waitpid(processes[rank], &status, 0);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
}

// What an error says, and its help.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message() + (error.help_text().empty() ? "" : "\n" + error.help_text());
  }
  return "no error";
}

}  // namespace toroid
