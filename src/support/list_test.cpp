#include "support/list.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"

namespace toroid {
namespace {

TEST(List, APositionThatItLacksIsAnErrorOfTheModel) {
  const List<int> list = {1, 2, 3};
  EXPECT_EQ(list[2], 3);
  const Error error = error_of([&] { static_cast<void>(list[3]); });
  EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
  EXPECT_EQ(error.message(), "a tensor has too few dims, or an argument too few entries: 3, at least 4 are needed");
  EXPECT_EQ(error_of([&] { static_cast<void>(list[static_cast<size_t>(-2)]); }).message(),
            "a tensor has too few dims, or an argument too few entries: 3");
  EXPECT_EQ(error_of([] { static_cast<void>(List<int>().back()); }).kind(), ErrorKind::InvalidModel);
}

TEST(List, PartsAreChecked) {
  const List<int> list = {1, 2, 3};
  EXPECT_EQ(list.first(1), (List<int>{1}));
  EXPECT_EQ(list.last(2), (List<int>{2, 3}));
  EXPECT_EQ(list.without_first(1), (List<int>{2, 3}));
  EXPECT_EQ(list.without_last(3), (List<int>{}));
  EXPECT_EQ(error_of([&] { static_cast<void>(list.without_last(4)); }).kind(), ErrorKind::InvalidModel);
  EXPECT_EQ(error_of([&] { static_cast<void>(list.last(4)); }).kind(), ErrorKind::InvalidModel);
}

}  // namespace
}  // namespace toroid
