#include "tune/measure/message.h"

#include <bit>

#include "base/file/framing.h"

namespace toroid::tune {
namespace {

// Takes parts one after the other and remembers whether one was missing.
class Parts {
 public:
  explicit Parts(std::string_view bytes) : bytes_(bytes) {}
  uint64_t number() {
    const std::optional<uint64_t> taken = take_number(bytes_);
    whole_ = whole_ && taken;
    return taken.value_or(0);
  }
  std::string text() {
    const std::optional<std::string_view> taken = take_sized(bytes_);
    whole_ = whole_ && taken;
    return std::string(taken.value_or(""));
  }
  bool are_whole() const { return whole_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool whole_ = true;
};

std::string framed(const std::string& contents) {
  std::string frame;
  append_sized(frame, contents);
  return frame;
}

}  // namespace

std::string frame_of(const Request& request) {
  std::string contents;
  append_number(contents, static_cast<uint64_t>(request.action));
  append_number(contents, request.number);
  append_sized(contents, request.problem);
  append_sized(contents, request.choice);
  for (uint64_t number : {request.seed, request.threads, request.repetitions, request.cold}) append_number(contents, number);
  return framed(contents);
}

std::string frame_of(const Answer& answer) {
  std::string contents;
  append_number(contents, answer.number);
  append_number(contents, static_cast<uint64_t>(answer.verdict));
  append_sized(contents, answer.message);
  append_number(contents, std::bit_cast<uint64_t>(answer.seconds));
  return framed(contents);
}

std::optional<std::string> take_frame(std::string& received) {
  std::string_view rest = received;
  const std::optional<std::string_view> contents = take_sized(rest);
  if (!contents) return std::nullopt;
  std::string taken(*contents);
  received.erase(0, received.size() - rest.size());
  return taken;
}

std::optional<Request> request_of(std::string_view contents) {
  Parts parts(contents);
  Request request;
  request.action = static_cast<Action>(parts.number());
  request.number = parts.number();
  request.problem = parts.text();
  request.choice = parts.text();
  request.seed = parts.number();
  request.threads = parts.number();
  request.repetitions = parts.number();
  request.cold = parts.number();
  if (!parts.are_whole() || request.action > Action::Time) return std::nullopt;
  return request;
}

std::optional<Answer> answer_of(std::string_view contents) {
  Parts parts(contents);
  Answer answer;
  answer.number = parts.number();
  answer.verdict = static_cast<Verdict>(parts.number());
  answer.message = parts.text();
  answer.seconds = std::bit_cast<double>(parts.number());
  if (!parts.are_whole() || answer.verdict > Verdict::Refused) return std::nullopt;
  return answer;
}

}  // namespace toroid::tune
