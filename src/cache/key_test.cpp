#include "cache/key.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace toroid {
namespace {

KeyBuilder kernel() { return KeyBuilder("kernel", 1); }

TEST(CacheKey, KeepsItsPartsAsText) {
  const CacheKey key = kernel()
                           .add_source("source", "\n  int f;\n")
                           .add("flags", std::vector<std::string>{"-O3", "-w"})
                           .add("options", std::map<std::string, std::string>{{"mode", "max"}, {"device", "cpu"}})
                           .add("threads", int64_t{2})
                           .finish();
  EXPECT_EQ(key.kind, "kernel");
  EXPECT_EQ(key.hex.size(), 64u);
  EXPECT_EQ(key.parts, "kernel 1\nsource: int f;\nflags: -O3 -w\noptions: device=cpu mode=max\nthreads: 2\n");
}

TEST(CacheKey, EveryPartCounts) {
  std::set<std::string> keys;
  auto expect_new = [&](KeyBuilder builder) { EXPECT_TRUE(keys.insert(builder.finish().hex).second); };
  expect_new(kernel());
  expect_new(KeyBuilder("kernel", 2));
  expect_new(KeyBuilder("graph", 1));
  expect_new(std::move(kernel().add("a", "")));
  expect_new(std::move(kernel().add("a", "x")));
  expect_new(std::move(kernel().add("b", "x")));
  expect_new(std::move(kernel().add("a", "x").add("b", "x")));
  expect_new(std::move(kernel().add("b", "x").add("a", "x")));
  // Boundaries between values are part of the key.
  expect_new(std::move(kernel().add("l", std::vector<std::string>{"ab", "c"})));
  expect_new(std::move(kernel().add("l", std::vector<std::string>{"a", "bc"})));
  expect_new(std::move(kernel().add("l", std::vector<std::string>{"ab c"})));
}

TEST(CacheKey, SpaceAroundASourceDoesNotCountButSpaceInsideDoes) {
  const std::string plain = kernel().add_source("source", "a b").finish().hex;
  EXPECT_EQ(kernel().add_source("source", "\n\t a b \r\n").finish().hex, plain);
  EXPECT_NE(kernel().add_source("source", "a  b").finish().hex, plain);
  EXPECT_EQ(kernel().add_source("source", " \n").finish(), kernel().add_source("source", "").finish());
}

TEST(CacheKey, LongPartsAreShownByTheirHash) {
  const CacheKey key = kernel().add("source", std::string(1000, 'x')).finish();
  EXPECT_EQ(key.parts, "kernel 1\nsource: sha256 " + sha256(std::string(1000, 'x')).hex() + ", 1000 bytes\n");
}

TEST(CacheKey, DifferencesNameTheLabels) {
  const CacheKey one = kernel().add("source", "line\nline").add("flags", "-O3").add("isa", "avx2").finish();
  const CacheKey two = kernel().add("source", "line\nline").add("flags", "-O2").add("gpu", "sm_90a").finish();
  EXPECT_EQ(differing_labels(one.parts, two.parts), (std::vector<std::string>{"flags", "isa", "gpu"}));
  EXPECT_TRUE(differing_labels(one.parts, one.parts).empty());
  EXPECT_EQ(differing_labels(one.parts, KeyBuilder("kernel", 2).finish().parts)[2], "kind");
}

TEST(CacheKey, ALabelCannotComeTwice) { EXPECT_THROW(kernel().add("a", "x").add("a", "y"), Error); }

}  // namespace
}  // namespace toroid
