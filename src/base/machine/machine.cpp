#include "base/machine/machine.h"

#include <algorithm>
#include <cstdlib>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/error.h"
#include "base/format.h"

namespace toroid {
namespace {

constexpr std::string_view kEmulatedAmx = "+emulated-amx";

#if defined(__x86_64__) && defined(__linux__)
bool may_use_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kTiles = 1u << 24, kBFloat16 = 1u << 22, kInt8 = 1u << 25, kAll = kTiles | kBFloat16 | kInt8;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAll) != kAll) return false;
  // The registers' 8 KiB are part of a thread's state, which Linux wants to be asked for; also where a hypervisor hides them, or threads
  // have signal stacks too small for them, it says no.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool may_use_amx() { return false; }
#endif

Isa ask_processor() {
  Isa isa;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // By their parts: clang 14 does not know the levels' names here.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  if (avx2) isa.level = IsaLevel::Avx2;
  if (avx512) {
    isa.level = IsaLevel::Avx512;
    isa.vnni = __builtin_cpu_supports("avx512vnni");
    isa.bf16 = __builtin_cpu_supports("avx512bf16");
#if defined(__GNUC__) && !defined(__clang__)
    isa.fp16 = __builtin_cpu_supports("avx512fp16");
#endif
    isa.amx = may_use_amx();
  }
#endif
  return isa;
}

Machine from_environment() {
  const char* const variable = std::getenv("TOROID_MACHINE");
  const bool is_named = variable != nullptr && *variable != '\0';
  const Machine whole = is_named ? machine_named(variable, reported_isa()) : Machine{reported_isa()};
  return toroid_linked_code == nullptr ? whole : with_code_of(whole, toroid_linked_code);
}

}  // namespace

namespace machine_details {

constinit std::atomic<const Machine*> in_use{nullptr};

const Machine& find() {
  static const Machine found = from_environment();
  const Machine* expected = nullptr;
  return in_use.compare_exchange_strong(expected, &found) ? found : *expected;
}

}  // namespace machine_details

std::string Machine::name() const { return isa.name().append(emulates_amx ? kEmulatedAmx : ""); }

Machine parse_machine(std::string_view text) {
  const bool emulates_amx = text.ends_with(kEmulatedAmx);
  if (emulates_amx) text.remove_suffix(kEmulatedAmx.size());
  Machine named = {parse_isa(text), emulates_amx};
  if (named.isa.amx) named.emulates_amx = false;
  return named;
}

Machine machine_named(std::string_view text, const Isa& here) {
  ErrorContext context("reading TOROID_MACHINE");
  const Machine named = parse_machine(text);
  refuse_missing_instructions(named.isa, "TOROID_MACHINE", here,
                              formatted("name what this machine has, as in TOROID_MACHINE={}, or unset it", here.name()));
  return named;
}

Machine with_code_of(const Machine& machine, std::string_view linked) {
  Machine result;
  bool has_level = false;
  while (!linked.empty()) {
    const std::string_view name = linked.substr(0, linked.find(','));
    linked.remove_prefix(std::min(linked.size(), name.size() + 1));
    const Machine code = parse_machine(name);
    result.emulates_amx |= code.emulates_amx && machine.emulates_amx;
    if (code.isa.level > machine.isa.level) continue;
    has_level = true;
    result.isa.level = std::max(result.isa.level, code.isa.level);
    result.isa.vnni |= code.isa.vnni && machine.isa.vnni;
    result.isa.bf16 |= code.isa.bf16 && machine.isa.bf16;
    result.isa.fp16 |= code.isa.fp16 && machine.isa.fp16;
    result.isa.amx |= code.isa.amx && machine.isa.amx;
  }
  return has_level ? result : machine;  // whose program is refused
}

const Isa& reported_isa() {
  static const Isa isa = ask_processor();
  return isa;
}

void refuse_missing_instructions(const Isa& needed, std::string_view what) { refuse_missing_instructions(needed, what, machine().isa); }

}  // namespace toroid
