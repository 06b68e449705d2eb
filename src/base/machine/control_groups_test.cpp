#include "base/machine/control_groups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/machine/memory.h"
#include "base/machine/processors.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

// A folder that looks like mounted control groups.
class ControlGroups : public testing::Test {
 protected:
  ~ControlGroups() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    const fs::path file = fs::path(root_) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string root_ = testing::TempDir() + "control_groups_" + std::to_string(::getpid());
};

TEST_F(ControlGroups, NoLimitIsNone) {
  EXPECT_EQ(processors_of_groups("", root_), INT_MAX);
  EXPECT_EQ(processors_of_groups("0::/\n", root_), INT_MAX);
  write("a/cpu.max", "max 100000\n");
  write("cpu/b/cpu.cfs_quota_us", "-1\n");
  write("cpu/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors_of_groups("0::/a\n", root_), INT_MAX);
  EXPECT_EQ(processors_of_groups("4:cpu,cpuacct:/b\n", root_), INT_MAX);
  EXPECT_EQ(processors_of_groups("no line of the system's", root_), INT_MAX);
}

TEST_F(ControlGroups, WholeProcessorsOfTheTime) {
  write("cpu.max", "350000 100000\n");
  EXPECT_EQ(processors_of_groups("0::/\n", root_), 3);
  write("cpu.max", "50000 100000\n");
  EXPECT_EQ(processors_of_groups("0::/\n", root_), 1);
}

TEST_F(ControlGroups, TheLeastOfAGroupAndThoseAroundIt) {
  write("pods/cpu.max", "200000 100000\n");
  write("pods/one/cpu.max", "800000 100000\n");
  EXPECT_EQ(processors_of_groups("0::/pods/one\n", root_), 2);
  EXPECT_EQ(processors_of_groups("0::/pods/one/not/mounted/here\n", root_), 2);
}

TEST_F(ControlGroups, BothVersionsAtOnce) {
  write("cpu/service/cpu.cfs_quota_us", "400000\n");
  write("cpu/service/cpu.cfs_period_us", "100000\n");
  write("cpu.max", "600000 100000\n");
  EXPECT_EQ(processors_of_groups("12:cpuset:/\n5:cpu,cpuacct:/service\n0::/\n", root_), 4);
  EXPECT_EQ(processors_of_groups("5:cpuset,cpuacct:/service\n", root_), INT_MAX) << "the limit is that of another controller";
}

TEST_F(ControlGroups, MemoryOfAGroupAndThoseAroundIt) {
  EXPECT_EQ(memory_of_groups("0::/\n", root_).limit, UINT64_MAX);
  write("pods/memory.max", "5000\n");
  write("pods/memory.current", "4500\n");
  write("pods/one/memory.max", "4000\n");
  write("pods/one/memory.current", "1000\n");
  write("pods/two/memory.max", "max\n");
  write("pods/two/memory.current", "3500\n");
  EXPECT_EQ(memory_of_groups("0::/pods/one\n", root_).limit, 4000u);
  EXPECT_EQ(memory_of_groups("0::/pods/one\n", root_).left, 500u) << "the group around it has no more";
  EXPECT_EQ(memory_of_groups("0::/pods/two\n", root_).limit, 5000u);
  write("memory/service/memory.limit_in_bytes", "3000\n");
  write("memory/service/memory.usage_in_bytes", "3100\n");
  EXPECT_EQ(memory_of_groups("9:memory:/service\n0::/pods/one\n", root_).limit, 3000u);
  EXPECT_EQ(memory_of_groups("9:memory:/service\n", root_).left, 0u);
  EXPECT_EQ(memory_of_groups("9:cpu:/service\n", root_).limit, UINT64_MAX) << "the limit is that of another controller";
}

TEST(Processors, AreThoseThatTheThreadMayRunOn) {
  const std::vector<int> all = allowed_processors();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    ASSERT_TRUE(stay_on_processor(all.back()));
    EXPECT_EQ(allowed_processors(), std::vector{all.back()});
    EXPECT_EQ(usable_processors(), 1);
  }).join();
  EXPECT_EQ(allowed_processors(), all);
  EXPECT_FALSE(stay_on_processor(-1));
  EXPECT_FALSE(stay_on_processor(60000)) << "no machine of today has so many";
  EXPECT_GE(usable_processors(), 1);
}

}  // namespace
}  // namespace toroid
