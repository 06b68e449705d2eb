// What a compilation and its tuning worker say to each other: one request, one answer, over the socket that is the worker's
// standard input.
//
//   frame  = sized text (base/file/framing.h) of the parts of a Request or an Answer in their order, texts sized, all else as numbers
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace toroid::tune {

enum class Action : uint64_t {
  Ping,     // says that the worker is there
  Prepare,  // makes the problem's tensors, computes the reference's result; needed before the others
  Check,    // computes the choice's result and compares it
  Provide,  // makes what only timing needs, when all choices were checked
  Time,     // runs the choice
};

struct Request {
  Action action = Action::Ping;
  uint64_t number = 0;       // comes back in the answer
  std::string problem = {};  // as text; of Prepare
  std::string choice = {};   // of Prepare: the reference
  uint64_t seed = 0;         // of Prepare: of the inputs' elements
  uint64_t threads = 1;      // of Prepare
  uint64_t repetitions = 1;  // of Time
  uint64_t cold = 0;         // of Time: 1 to empty the caches before each run
};

enum class Verdict : uint64_t {
  Done,
  Wrong,    // another result than the reference, or something written beside the tensors
  Refused,  // the kernel, or making the tensors, threw an Error
};

struct Answer {
  uint64_t number = 0;
  Verdict verdict = Verdict::Done;
  std::string message = {};  // unless Done
  double seconds = 0;        // of one run, of Time and Check
};

std::string frame_of(const Request& request);
std::string frame_of(const Answer& answer);

// Takes a whole frame's contents from the front of what was received; nullopt when it has not come yet.
std::optional<std::string> take_frame(std::string& received);
// A frame's contents; nullopt when they are none.
std::optional<Request> request_of(std::string_view contents);
std::optional<Answer> answer_of(std::string_view contents);

}  // namespace toroid::tune
