#include "base/machine/machine.h"

#include <algorithm>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#ifdef TOROID_KNOWS_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/affixes.h"
#include "base/error.h"
#include "base/format.h"
#include "base/language.h"

namespace toroid {
namespace {

constexpr std::string_view kEmulatedAmx = "+emulated-amx";

#if defined(__x86_64__)
struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
CpuidLeaf cpuid(unsigned leaf, unsigned subleaf = 0) {
  CpuidLeaf result;
  __get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx);
  return result;
}
bool has_bits(uint64_t bits, std::initializer_list<int> places) {
  return std::all_of(places.begin(), places.end(), [&](int place) { return (bits >> place & 1) != 0; });
}
#endif

#ifdef TOROID_KNOWS_AMX
bool may_use_amx() {
  constexpr int kTiles = 24, kBFloat16 = 22, kInt8 = 25;
  if (!has_bits(cpuid(7).edx, {kTiles, kBFloat16, kInt8})) return false;
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
  // Not by __builtin_cpu_supports, whose tables of all processors are 5 KB of each package.
  constexpr int kFma = 12, kOsxsave = 27, kAvx = 28;
  if (!has_bits(cpuid(1).ecx, {kFma, kOsxsave, kAvx})) return isa;
  // The registers that the system keeps for a thread.
  constexpr int kXmm = 1, kYmm = 2, kMasks = 5, kUpperHalves = 6, kUpperRegisters = 7;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const CpuidLeaf leaf = cpuid(7);
  constexpr int kAvx2 = 5, kBmi2 = 8;
  if (!has_bits(low, {kXmm, kYmm}) || !has_bits(leaf.ebx, {kAvx2, kBmi2})) return isa;
  isa.level = IsaLevel::Avx2;
  constexpr int kFoundation = 16, kDq = 17, kCd = 28, kBw = 30, kVl = 31;
  if (!has_bits(low, {kMasks, kUpperHalves, kUpperRegisters}) || !has_bits(leaf.ebx, {kFoundation, kDq, kCd, kBw, kVl})) return isa;
  isa.level = IsaLevel::Avx512;
  constexpr int kVnni = 11, kFp16 = 23, kBf16OfSubleaf1 = 5;
  isa.vnni = has_bits(leaf.ecx, {kVnni});
  isa.fp16 = has_bits(leaf.edx, {kFp16});
#ifdef TOROID_KNOWS_BF16
  isa.bf16 = leaf.eax >= 1 && has_bits(cpuid(7, 1).eax, {kBf16OfSubleaf1});
#endif
  isa.amx = may_use_amx();
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

TOROID_CONSTINIT std::atomic<const Machine*> machine_details::in_use{nullptr};

const Machine& machine() {
  if (const Machine* const known = machine_details::in_use.load(std::memory_order_acquire)) return *known;
  static const Machine found = from_environment();
  const Machine* expected = nullptr;
  return machine_details::in_use.compare_exchange_strong(expected, &found) ? found : *expected;
}

std::string Machine::name() const { return isa.name().append(emulates_amx ? kEmulatedAmx : ""); }

Machine parse_machine(std::string_view text) {
  const bool emulates_amx = ends_with(text, kEmulatedAmx);
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

bool is_intel() {
#if defined(__x86_64__)
  return cpuid(0).ebx == signature_INTEL_ebx;
#else
  return false;
#endif
}

const Isa& reported_isa() {
  static const Isa isa = ask_processor();
  return isa;
}

void refuse_missing_instructions(const Isa& needed, std::string_view what) { refuse_missing_instructions(needed, what, machine().isa); }

}  // namespace toroid
