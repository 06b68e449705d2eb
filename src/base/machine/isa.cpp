#include "base/machine/isa.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/fail.h"
#include "base/format.h"

namespace toroid {
namespace {

struct Extra {
  std::string_view name;
  bool Isa::*member;
};
constexpr Extra kExtras[] = {{"vnni", &Isa::vnni}, {"bf16", &Isa::bf16}, {"fp16", &Isa::fp16}, {"amx", &Isa::amx}};

std::string_view level_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::Baseline: return "baseline";
    case IsaLevel::Avx2: return "avx2";
    case IsaLevel::Avx512: return "avx512";
  }
  return "";
}

}  // namespace

std::string Isa::name() const {
  std::string text(level_name(level));
  for (const Extra& extra : kExtras) {
    if (this->*extra.member) text.append("+").append(extra.name);
  }
  return text;
}

std::vector<std::string> Isa::compiler_flags() const {
  std::vector<std::string> flags;
#if defined(__x86_64__)
  switch (level) {
    case IsaLevel::Baseline: flags = {"-march=x86-64"}; break;
    case IsaLevel::Avx2: flags = {"-march=x86-64-v3", "-mprfchw"}; break;
    case IsaLevel::Avx512: flags = {"-march=x86-64-v4", "-mprfchw", "-mprefer-vector-width=512"}; break;
  }
#endif
  for (const Extra& extra : kExtras) {
    if (!(this->*extra.member)) continue;
    if (extra.name == "amx") {
      flags.insert(flags.end(), {"-mamx-tile", "-mamx-int8", "-mamx-bf16"});
    } else {
      flags.push_back("-mavx512" + std::string(extra.name));
    }
  }
  return flags;
}

Isa parse_isa(std::string_view text) {
  auto fail = [&](std::string_view word) {
    return Error(ErrorKind::InvalidOption, formatted("unknown instruction set '{}' in '{}'", word, text))
        .help("known are baseline, avx2 and avx512, the last with +vnni, +bf16, +fp16 and +amx");
  };
  Isa isa;
  size_t start = 0;
  for (bool first = true; start != std::string_view::npos; first = false) {
    const size_t end = text.find('+', start);
    const std::string_view word = text.substr(start, end == std::string_view::npos ? end : end - start);
    start = end == std::string_view::npos ? end : end + 1;
    bool known = false;
    if (first) {
      for (IsaLevel level : {IsaLevel::Baseline, IsaLevel::Avx2, IsaLevel::Avx512}) {
        if (word != level_name(level)) continue;
        isa.level = level;
        known = true;
      }
    } else if (isa.level == IsaLevel::Avx512) {
      for (const Extra& extra : kExtras) {
        if (word != extra.name) continue;
        isa.*extra.member = true;
        known = true;
      }
    }
    if (!known) throw fail(word);
  }
  return isa;
}

bool has_instructions(const Isa& needed, const Isa& here) {
  return needed.level <= here.level && std::all_of(std::begin(kExtras), std::end(kExtras),
                                                   [&](const Extra& extra) { return !(needed.*extra.member) || here.*extra.member; });
}

void refuse_missing_instructions(const Isa& needed, std::string_view what, const Isa& here, std::string help) {
  std::vector<std::string_view> missing;
  if (needed.level > here.level) missing.push_back(level_name(needed.level));
  for (const Extra& extra : kExtras) {
    if (needed.*extra.member && !(here.*extra.member)) missing.push_back(extra.name);
  }
  if (missing.empty()) return;
  if (help.empty()) help = formatted("for this machine compile with TOROID_ISA={}, or without TOROID_ISA on it", here.name());
  fail(ErrorKind::Environment, Help{help}, "{} needs the instruction set {}; this machine has {}, and lacks {}", what, needed.name(),
       here.name(), joined(missing, ", "));
}

std::vector<Isa> fallbacks_of(Isa best) {
  std::vector<Isa> order = {best};
  auto add = [&](const Isa& isa) {
    if (isa != order.back()) order.push_back(isa);
  };
  Isa isa = best;
  for (auto extra = std::rbegin(kExtras); extra != std::rend(kExtras); ++extra) {
    isa.*extra->member = false;
    add(isa);
  }
  Isa avx2;
  avx2.level = IsaLevel::Avx2;
  if (best.level >= IsaLevel::Avx2) add(avx2);
  add(Isa{});
  return order;
}

std::string_view isa_probe_source() {
  // Operands are volatile and instructions are assembly text, so that no compiler can compute the answer itself.
  return R"(#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64)));
#elif defined(__AVX2__)
typedef float vec __attribute__((vector_size(32)));
#else
typedef float vec __attribute__((vector_size(16)));
#endif
volatile vec x;
int main() {
  vec a = x + 2.0f;
  x = a * a + a;
  a = x;
  for (unsigned i = 0; i < sizeof(vec) / sizeof(float); ++i) {
    if (a[i] != 6.0f) return 1;
  }
#if defined(__AVX512VNNI__)
  asm volatile("vpdpbusd %%zmm1, %%zmm2, %%zmm0" ::: "xmm0");
#endif
#if defined(__AVX512BF16__)
  asm volatile("vdpbf16ps %%zmm1, %%zmm2, %%zmm0" ::: "xmm0");
#endif
#if defined(__AVX512FP16__)
  asm volatile("vaddph %%zmm1, %%zmm2, %%zmm0" ::: "xmm0");
#endif
#if defined(__AMX_TILE__)
  long result = 158;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  asm volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  if (result != 0) return 2;
  asm volatile("tilerelease");
#endif
  return 0;
}
)";
}

}  // namespace toroid
