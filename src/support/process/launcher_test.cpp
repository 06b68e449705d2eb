#include "support/process/launcher.h"

#include <deque>

#include <gtest/gtest.h>

#include "base/environment_for_test.h"

namespace toroid {
namespace {

// No launcher of whoever runs the tests, but these variables.
class Environment {
 public:
  explicit Environment(std::initializer_list<std::pair<const char*, const char*>> set) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_RANK",
                             "MV2_COMM_WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "RANK", "WORLD_SIZE", "SLURM_ARRAY_TASK_ID",
                             "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"}) {
      variables_.emplace_back(name, std::nullopt);
    }
    for (const auto& [name, value] : set) variables_.emplace_back(name, value);
  }

 private:
  struct Reversed : std::deque<ScopedVariable> {
    ~Reversed() {
      while (!empty()) pop_back();
    }
  } variables_;
};

std::string text(const std::optional<Launched>& launched) {
  return launched ? launched->by + " " + std::to_string(launched->rank) + " of " + std::to_string(launched->processes) : "none";
}

TEST(Launcher, SaysItsRankAndTheirNumber) {
  EXPECT_EQ(text((Environment({}), launched_together())), "none");
  EXPECT_EQ(text((Environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), launched_together())), "Open MPI 2 of 4");
  EXPECT_EQ(text((Environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}), launched_together())), "MPICH 0 of 3");
  EXPECT_EQ(text((Environment({{"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "8"}}), launched_anywhere())), "Slurm 7 of 8");
  EXPECT_EQ(text((Environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), launched_anywhere())), "torchrun 1 of 2");
  EXPECT_EQ(text((Environment({{"PMI_RANK", "3"}, {"PMI_SIZE", "3"}}), launched_together())), "none");
  EXPECT_EQ(text((Environment({{"PMI_RANK", "-1"}, {"PMI_SIZE", "3"}}), launched_together())), "none");
  const Environment rank_alone({{"PMI_RANK", "5"}});
  EXPECT_EQ(text(launched_together()), "none");
  EXPECT_EQ(launched_rank(), 5);
}

TEST(Launcher, CountsTheTasksOfASlurmArray) {
  EXPECT_EQ(text((Environment({{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_ARRAY_TASK_COUNT", "4"}, {"SLURM_ARRAY_TASK_MIN", "1"}}),
                  launched_anywhere())),
            "a Slurm array 2 of 4");
  EXPECT_EQ(text((Environment({{"SLURM_ARRAY_TASK_ID", "16"},
                               {"SLURM_ARRAY_TASK_COUNT", "4"},
                               {"SLURM_ARRAY_TASK_MIN", "10"},
                               {"SLURM_ARRAY_TASK_STEP", "2"}}),
                  launched_anywhere())),
            "a Slurm array 3 of 4");
  EXPECT_EQ(
      text((Environment({{"SLURM_ARRAY_TASK_ID", "2"}, {"SLURM_ARRAY_TASK_COUNT", "4"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "3"}}),
            launched_anywhere())),
      "a Slurm array of Slurm 7 of 12");
  EXPECT_EQ(text((Environment({{"SLURM_ARRAY_TASK_ID", "90"}, {"SLURM_ARRAY_TASK_COUNT", "4"}}), launched_anywhere())), "none");
}

}  // namespace
}  // namespace toroid
