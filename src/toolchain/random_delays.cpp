#include "toolchain/random_delays.h"

#include <algorithm>
#include <cstdlib>

namespace toroid {
namespace {

// What a statement of PTX has that threads meet at, or that makes something visible to others.
constexpr std::string_view kMeetings[] = {"mbarrier.",      "bar.sync",      "bar.arrive", "barrier.cluster",
                                          "cp.async.bulk.", "cp.async.wait", "wgmma.wait", "griddepcontrol"};

// A warp waits as one: its lanes read one clock. Only in statements with operands a register of the processor is written with %%.
constexpr std::string_view kDelay = R"text(#define DELAY_BY(clock, warp_number) \
  "{\n.reg .u32 time, warp;\nmov.u32 time, " clock ";\nmov.u32 warp, " warp_number ";\nmad.lo.u32 time, warp, 40503, time;\n" \
  "mul.lo.u32 time, time, 0x9e3779b1;\nshr.u32 time, time, 21;\nnanosleep.u32 time;\n}\n"
#define DELAY DELAY_BY("%clock", "%warpid")
#define DELAY_WITH_OPERANDS DELAY_BY("%%clock", "%%warpid")
static __device__ __forceinline__ void meet_block_late() {
  asm volatile(DELAY ::: "memory");
  __syncthreads();
}
#define __syncthreads() meet_block_late()
)text";

// A statement with operands has a colon behind its instructions; one that only says what it spoils has three, and some have none.
bool has_operands(std::string_view statement) {
  bool is_text = false;
  for (size_t i = 0; i < statement.size(); ++i) {
    if (statement[i] == '"' && (i == 0 || statement[i - 1] != '\\')) is_text = !is_text;
    if (!is_text && statement[i] == ':') return !statement.substr(i).starts_with(":::");
  }
  return false;
}

}  // namespace

bool has_random_delays() {
  const char* const variable = std::getenv("TOROID_CUDA_DELAYS");
  return variable != nullptr && *variable != '\0' && std::string_view(variable) != "0";
}

std::string with_random_delays(std::string_view source) {
  constexpr std::string_view kStart = "asm volatile(";
  std::string result(kDelay);
  while (!source.empty()) {
    const size_t at = source.find(kStart);
    if (at == source.npos) break;
    const size_t begin = at + kStart.size(), end = std::min(source.find(';', source.find(')', begin)), source.size());
    result += source.substr(0, begin);
    // To the statement's end: instructions in the text have semicolons too, but no closing parenthesis before them.
    const std::string_view statement = source.substr(begin, end - begin);
    const auto is_in = [&](std::string_view each) { return statement.find(each) != statement.npos; };
    if (std::ranges::any_of(kMeetings, is_in)) result += has_operands(statement) ? "DELAY_WITH_OPERANDS " : "DELAY ";
    source.remove_prefix(begin);
  }
  return result.append(source);
}

}  // namespace toroid
