#include "fuzz/form_check.h"

#include <cmath>

#include <fmt/format.h>

#include "driver/pipeline/generate.h"

namespace toroid::fuzz {
namespace {

// NaN is NaN, whatever its bits.
bool is_same(const HostTensor& a, const HostTensor& b, int64_t i) {
  if (!is_floating(a.dtype())) return a.int_at(i) == b.int_at(i);
  const double x = a.double_at(i), y = b.double_at(i);
  return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
}

}  // namespace

std::optional<std::string> difference_between_forms(CompileSession& session, const std::function<toroid::Program()>& parse, int threads,
                                                    const std::vector<std::vector<HostTensor>>& calls) {
  const auto options = [](schedule::Forms forms) { return CompileModelOptions{.compile_threads = 1, .forms = forms}; };
  const CompileModelOptions persistent = options(schedule::Forms::Persistent), looped = options(schedule::Forms::Looped);
  if (generate_code(parse(), persistent).units == generate_code(parse(), looped).units) return std::nullopt;
  Executable one = session.compile(parse(), persistent).load(threads), other = session.compile(parse(), looped).load(threads);
  for (size_t call = 0; call < calls.size(); ++call) {
    const std::vector<HostTensor> a = one.run(calls[call]), b = other.run(calls[call]);
    for (size_t output = 0; output < a.size(); ++output) {
      if (a[output].sizes() != b[output].sizes()) return fmt::format("output {} of call {} has other sizes", output, call);
      for (int64_t i = 0; i < a[output].numel(); ++i) {
        if (is_same(a[output], b[output], i)) continue;
        const auto text = [&](const HostTensor& t) {
          return is_floating(t.dtype()) ? fmt::format("{:.17g}", t.double_at(i)) : std::to_string(t.int_at(i));
        };
        return fmt::format("output {} of call {}, element {} of {}: persistent {}, looped {}", output, call, i, to_string(a[output]),
                           text(a[output]), text(b[output]));
      }
    }
  }
  return std::nullopt;
}

}  // namespace toroid::fuzz
