// Feeds the parsers what fuzzing found worth keeping, and simple damages of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file/file.h"
#include "parsers/parsers.h"

namespace toroid {
namespace {

class Parsers : public testing::TestWithParam<parsers::Parser> {
 protected:
  std::vector<std::string> corpus() const {
    std::vector<std::string> inputs;
    const std::filesystem::path folder = std::filesystem::path(TOROID_SOURCE_DIR) / "tests/parsers/corpus" / GetParam().name;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) inputs.push_back(read_file(entry.path()));
    return inputs;
  }
};

TEST_P(Parsers, EndWellOnTheirCorpus) {
  const std::vector<std::string> inputs = corpus();
  ASSERT_FALSE(inputs.empty());
  for (const std::string& input : inputs) EXPECT_NO_THROW(parsers::feed(GetParam(), input)) << input.substr(0, 2000);
}

TEST_P(Parsers, EndWellOnDamagedInput) {
  std::mt19937 random(1);
  for (const std::string& input : corpus()) {
    const int rounds = input.size() < 4000 ? 100 : 10;
    for (int round = 0; round < rounds && !input.empty(); ++round) {
      std::string damaged = input;
      switch (random() % 4) {
        case 0: damaged[random() % damaged.size()] ^= static_cast<char>(1 << (random() % 8)); break;
        case 1: damaged.resize(random() % damaged.size()); break;
        case 2: damaged.insert(random() % damaged.size(), damaged.substr(random() % damaged.size(), 20)); break;
        case 3: damaged.erase(random() % damaged.size(), 1 + random() % 8); break;
      }
      EXPECT_NO_THROW(parsers::feed(GetParam(), damaged)) << damaged.substr(0, 2000);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Parsers, testing::ValuesIn(parsers::all().begin(), parsers::all().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace toroid
