#include "tune/measure/message.h"

#include <gtest/gtest.h>

namespace toroid::tune {
namespace {

TEST(Message, RequestsAndAnswersArriveWhole) {
  const Request request = {.action = Action::Time,
                           .number = 7,
                           .problem = "m() -> f32[2]",
                           .choice = "packed",
                           .seed = 3,
                           .threads = 2,
                           .repetitions = 100,
                           .cold = 1};
  std::string received = frame_of(request) + frame_of(Answer{.number = 8, .verdict = Verdict::Wrong, .message = "no", .seconds = 0.25});
  const std::optional<Request> taken = request_of(*take_frame(received));
  ASSERT_TRUE(taken);
  EXPECT_EQ(frame_of(*taken), frame_of(request));
  EXPECT_EQ(taken->choice, "packed");
  EXPECT_EQ(taken->repetitions, 100u);
  const std::optional<Answer> answer = answer_of(*take_frame(received));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->number, 8u);
  EXPECT_EQ(answer->verdict, Verdict::Wrong);
  EXPECT_EQ(answer->message, "no");
  EXPECT_EQ(answer->seconds, 0.25);
  EXPECT_TRUE(received.empty());
}

TEST(Message, PartsOfAFrameAreWaitedFor) {
  const std::string frame = frame_of(Answer{.number = 1, .message = "text"});
  for (size_t size = 0; size < frame.size(); ++size) {
    std::string received = frame.substr(0, size);
    EXPECT_EQ(take_frame(received), std::nullopt);
    EXPECT_EQ(received.size(), size);
  }
}

TEST(Message, WhatIsNoneIsRefused) {
  std::string received = frame_of(Answer{.message = "text"});
  const std::string contents = *take_frame(received);
  for (size_t size = 0; size < contents.size(); ++size) EXPECT_FALSE(answer_of(std::string_view(contents).substr(0, size)));
  EXPECT_FALSE(answer_of(contents + "x"));
  EXPECT_FALSE(request_of(contents));
  std::string unknown = contents;
  unknown[8] = 77;  // the verdict
  EXPECT_FALSE(answer_of(unknown));
}

}  // namespace
}  // namespace toroid::tune
