#include "toolchain/random_delays.h"

#include <gtest/gtest.h>

#include "base/environment_for_test.h"

namespace toroid {
namespace {

size_t delays_in(const std::string& text) {
  size_t count = 0;
  const std::string_view body = std::string_view(text).substr(text.find("#define __syncthreads()"));
  for (size_t at = body.find("(DELAY"); at != body.npos; at = body.find("(DELAY", at + 1)) ++count;
  return count;
}

TEST(RandomDelays, StandBeforeWhatThreadsMeetAt) {
  const std::string text = with_random_delays(R"text(
INLINE void arrive(uint32_t b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
INLINE void wait(uint32_t b) {
  asm volatile("{\n.reg .pred done;\nagain:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@done bra over;\nbra again;\nover:\n}" ::"r"(b));
}
INLINE void meet() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
)text");
  EXPECT_EQ(delays_in(text), 3u);
  EXPECT_NE(text.find("asm volatile(DELAY \"bar.sync 1, 256;\" ::: \"memory\");"), text.npos);
}

// PTX's registers are written with %% in statements with operands, and with % in all others.
TEST(RandomDelays, AreWrittenAsTheStatementsOperandsAsk) {
  const std::string text = with_random_delays(R"text(
INLINE void plain() { asm volatile("griddepcontrol.wait;"); }
INLINE void spoiling() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
INLINE void reading(uint32_t b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b)); }
INLINE void writing(uint32_t& x) { asm volatile("again:\ncp.async.wait_all;\nmov.u32 %0, 0;" : "=r"(x)); }
)text");
  EXPECT_NE(text.find("asm volatile(DELAY \"griddepcontrol.wait;\");"), text.npos);
  EXPECT_NE(text.find("asm volatile(DELAY \"griddepcontrol.wait;\" :::"), text.npos);
  EXPECT_NE(text.find("asm volatile(DELAY_WITH_OPERANDS \"mbarrier"), text.npos);
  EXPECT_NE(text.find("asm volatile(DELAY_WITH_OPERANDS \"again"), text.npos);
}

TEST(RandomDelays, LeaveOtherInstructionsAndTheRestOfTheTextAlone) {
  const std::string plain =
      "INLINE void f(float& y, float x) { asm volatile(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); }\n"
      "INLINE void g() { asm volatile(\"bar.sync 1, 32;\" ::: \"memory\"); }\n// end";
  const std::string text = with_random_delays(plain);
  EXPECT_EQ(delays_in(text), 1u);
  std::string again = text.substr(text.find("INLINE"));
  again.erase(again.find("DELAY "), std::string_view("DELAY ").size());
  EXPECT_EQ(again, plain);
}

TEST(RandomDelays, AreAskedForByTheEnvironment) {
  const ScopedVariable unset("TOROID_CUDA_DELAYS", std::nullopt);
  EXPECT_FALSE(has_random_delays());
  const ScopedVariable set("TOROID_CUDA_DELAYS", "1");
  EXPECT_TRUE(has_random_delays());
}

}  // namespace
}  // namespace toroid
