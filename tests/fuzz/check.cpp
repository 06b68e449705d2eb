#include "fuzz/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/machine/out_of_memory.h"
#include "fuzz/eager.h"
#include "fuzz/form_check.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"

namespace toroid::fuzz {
namespace {

constexpr int kNoisePairs = 2;
constexpr double kSpreadFactor = 8;  // noise of a few units stands for all the roundings of an operator

struct Reference {
  Run run;
  std::vector<HostTensor> inputs;
  EagerResult plain;
  std::vector<EagerResult> varied;  // with noise, or widened
};

bool has_narrow_floats(const Program& program) {
  const std::string text = to_text(program);
  return text.find("f16") != std::string::npos;  // bf16 too
}

// The same elements at an address that is no multiple of a vector's size.
HostTensor misaligned(const HostTensor& tensor) {
  const auto width = static_cast<size_t>(size_bytes(tensor.dtype()));
  auto bytes = std::make_shared<std::vector<std::byte>>(tensor.bytes().size() + 3 * width);
  std::memcpy(bytes->data() + 3 * width, tensor.bytes().data(), tensor.bytes().size());
  const std::span<const std::byte> elements(bytes->data() + 3 * width, tensor.bytes().size());
  return HostTensor(tensor.dtype(), tensor.sizes(), elements, bytes);
}

// The ways in which the reference runs; the first is the plain one.
std::vector<EagerOptions> variations(bool narrow) {
  std::vector<EagerOptions> list = {{}};
  for (uint64_t pair = 1; pair <= kNoisePairs; ++pair) {
    for (bool mirrored : {false, true}) list.push_back({.noise = pair, .mirrored = mirrored});
  }
  if (narrow) {
    list.push_back({.widen = true});
    for (bool mirrored : {false, true}) list.push_back({.noise = 7, .mirrored = mirrored, .widen = true});
  }
  return list;
}

// Of the runs that the reference takes; why it refused the last other one is in `refusal`.
std::vector<Reference> references(const Program& program, std::string& refusal) {
  std::vector<Reference> list;
  std::vector<EagerOptions> ways = variations(has_narrow_floats(program));
  std::vector<Buffers> buffers(ways.size());
  OperatorCache operators;
  std::optional<StreamStarts> starts;
  for (const Run& run : program.runs) {
    std::vector<Buffers> kept = buffers;
    try {
      if (!starts) starts = stream_starts(program);
      Reference reference;
      reference.run = run;
      for (const Input& input : program.inputs) {
        if (input.kind != InputKind::Argument) continue;
        HostTensor elements = elements_of(input, run);
        reference.inputs.push_back(list.size() % 2 == 1 ? misaligned(elements) : elements);
      }
      for (size_t i = 0; i < ways.size(); ++i) {
        ways[i].call = list.size();
        EagerResult result = with_typed_memory("running the reference", [&] {
          return run_eagerly(program, run, ways[i], {&operators, &*starts}, kept[i]);
        });
        if (i == 0)
          reference.plain = std::move(result);
        else
          reference.varied.push_back(std::move(result));
      }
      list.push_back(std::move(reference));
      buffers = std::move(kept);
    } catch (const Error& error) {  // not a run that says anything
      refusal = error.message();
    }
  }
  return list;
}

// Two draws of the program, in one call or in two, that gave the same numbers.
std::optional<std::string> repeated_draw(const std::vector<Reference>& references) {
  std::vector<const Draw*> all;
  for (const Reference& reference : references) {
    for (const Draw& draw : reference.plain.draws) {
      for (const Draw* other : all) {
        if (draw.first != other->first ||
            std::memcmp(draw.second.bytes().data(), other->second.bytes().data(), draw.second.bytes().size()) != 0)
          continue;
        return fmt::format("two draws of {} are equal", draw.first);
      }
      all.push_back(&draw);
    }
  }
  return std::nullopt;
}

std::string run_text(const Run& run) {
  std::string text;
  for (const auto& [name, value] : run) text += fmt::format(" {}={}", name, value);
  return text.empty() ? "" : " at" + text;
}

struct Comparison {
  std::optional<std::string> difference;
  int64_t skipped = 0;
};

std::string element(const HostTensor& tensor, int64_t i) {
  return is_floating(tensor.dtype()) ? fmt::format("{:.9g}", tensor.double_at(i)) : std::to_string(tensor.int_at(i));
}

bool same_class(double a, double b) { return std::isnan(a) ? std::isnan(b) : std::isinf(a) ? a == b : std::isfinite(b); }

Comparison compare(const HostTensor& actual, const HostTensor& expected, const std::vector<const HostTensor*>& varied, bool sums) {
  Comparison result;
  if (actual.dtype() != expected.dtype() || actual.sizes() != expected.sizes()) {
    result.difference = fmt::format("is {}, expected {}", to_string(actual), to_string(expected));
    return result;
  }
  // Rounding decides how many there are.
  if (std::any_of(varied.begin(), varied.end(), [&](const HostTensor* v) { return v->sizes() != expected.sizes(); })) {
    result.skipped = expected.numel();
    return result;
  }
  int64_t wrong = 0;
  auto report = [&](int64_t i, double allowed) {
    if (wrong++ > 0) return;
    result.difference = fmt::format("element {} of {} is {}, expected {} (allowed {:.3g})", i, to_string(expected), element(actual, i),
                                    element(expected, i), allowed);
  };
  const int64_t count = expected.numel();
  if (!is_floating(expected.dtype())) {
    for (int64_t i = 0; i < count; ++i) {
      if (actual.int_at(i) == expected.int_at(i)) continue;
      const bool sure = std::all_of(varied.begin(), varied.end(), [&](const HostTensor* v) { return v->int_at(i) == expected.int_at(i); });
      if (sure)
        report(i, 0);
      else
        ++result.skipped;
    }
  } else {
    const Tolerance tolerance = tolerance_of(expected.dtype());
    const int64_t row = expected.sizes().empty() || expected.sizes().back() == 0 ? 1 : expected.sizes().back();
    const std::vector<double> e = expected.to_doubles();
    const std::vector<double> a = actual.to_doubles();
    std::vector<std::vector<double>> others;
    for (const HostTensor* v : varied) others.push_back(v->to_doubles());
    for (int64_t begin = 0; begin < count; begin += row) {
      double scale = 0;
      double row_spread = 0;
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(begin + row); ++i) {
        if (!std::isfinite(e[i])) continue;
        scale = std::max(scale, std::fabs(e[i]));
        for (const auto& other : others) {
          if (std::isfinite(other[i])) row_spread = std::max(row_spread, std::fabs(other[i] - e[i]));
        }
      }
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(begin + row); ++i) {
        const bool sure = std::all_of(others.begin(), others.end(), [&](const auto& other) { return same_class(other[i], e[i]); });
        if (!sure) {
          ++result.skipped;
          continue;
        }
        // The sign of a zero is kept too, where rounding had no say in it.
        if (a[i] == 0 && e[i] == 0 && std::signbit(a[i]) != std::signbit(e[i])) {
          const bool is_certain = std::all_of(others.begin(), others.end(), [&](const auto& other) {
            return other[i] == 0 && std::signbit(other[i]) == std::signbit(e[i]);
          });
          if (is_certain) report(static_cast<int64_t>(i), 0);
        }
        if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
        double spread = 0;
        for (const auto& other : others) spread = std::max(spread, std::fabs(other[i] - e[i]));
        const double magnitude = sums ? scale : std::fabs(e[i]);
        const double allowed = tolerance.absolute + tolerance.relative * magnitude + kSpreadFactor * spread + (sums ? row_spread : 0);
        if (!std::isfinite(e[i]) || !(std::fabs(a[i] - e[i]) <= allowed)) report(static_cast<int64_t>(i), allowed);
      }
    }
  }
  if (wrong > 1) *result.difference += fmt::format("; {} of {} elements differ", wrong, count);
  return result;
}

// The first output that differs. `specs` says what the outputs of the compiled program are: its own, then written inputs.
std::optional<std::string> first_difference(const Program& program, const Reference& reference, const toroid::Program& compiled,
                                            const std::vector<HostTensor>& outputs, CheckResult& result) {
  const std::vector<bool> sums = made_of_sums_or_products(compiled.graph);
  const size_t own = program.outputs.size();
  if (outputs.size() != own + reference.plain.written_inputs.size()) {
    return fmt::format("{} outputs, expected {} and {} written inputs", outputs.size(), own, reference.plain.written_inputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const HostTensor* expected = nullptr;
    std::vector<const HostTensor*> varied;
    std::string name;
    if (i < own) {
      name = program.outputs[i];
      expected = &reference.plain.outputs[i];
      for (const EagerResult& each : reference.varied) varied.push_back(&each.outputs[i]);
    } else {
      name = compiled.outputs[i].target;
      auto find = [&](const EagerResult& each) -> const HostTensor* {
        for (const auto& [input, value] : each.written_inputs) {
          if (input == name) return &value;
        }
        return nullptr;
      };
      expected = find(reference.plain);
      if (expected == nullptr) return fmt::format("writes to '{}', which the program does not", name);
      for (const EagerResult& each : reference.varied) {
        if (const HostTensor* value = find(each)) varied.push_back(value);
      }
    }
    const Comparison comparison = compare(outputs[i], *expected, varied, sums[i]);
    result.compared += expected->numel();
    result.skipped += comparison.skipped;
    if (comparison.difference) return fmt::format("{}{}: {}", name, run_text(reference.run), *comparison.difference);
  }
  return std::nullopt;
}

// An error's message without the names and numbers that shrinking changes.
std::string error_kind(std::string_view where, const Error& error) {
  std::string message(to_string(error.kind()));
  message += ": " + error.message().substr(0, 60);
  std::string words;
  for (char c : message) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) words += c;
  }
  return fmt::format("error in {}: {}", where, words);
}

FindConstant constants_of(const Program& program) {
  return [&program](ConstantData& data) {
    for (const Input& input : program.inputs) {
      if (input.name != data.name) continue;
      auto memory = std::make_shared<HostTensor>(memory_of(input, {}));
      data.bytes = memory->bytes();
      data.owner = memory;
    }
  };
}

// What the program wrote to its buffers is what they hold when the evaluator runs next.
void keep_buffers(toroid::Program& program, const std::vector<HostTensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (program.outputs[i].kind != OutputKind::BufferMutation) continue;
    for (ConstantData& data : program.constants) {
      if (data.name != program.outputs[i].target) continue;
      auto value = std::make_shared<HostTensor>(outputs[i]);
      data.bytes = value->bytes();
      data.owner = value;
      data.type.strides.clear();
    }
  }
}

// Of sizes with which the program can run: an element of a tensor without any is refused.
std::vector<SizeValues> variants_for(const Program& program, const Run& first, const Run& last) {
  SizeValues all;
  for (const Symbol& symbol : program.symbols) {
    if (!symbol.from_data) all.emplace_back(symbol.name, size_in(symbol.name, first));
  }
  if (all.empty()) return {};
  const SizeValues other = {{all.back().first, size_in(all.back().first, last)}};
  return other == all ? std::vector<SizeValues>{all} : std::vector<SizeValues>{all, other};
}

}  // namespace

CheckResult check(CompileSession& session, const Program& program, const CheckOptions& options) {
  CheckResult result;
  const std::vector<Reference> list = references(program, result.refusal);
  if (list.empty()) return result;
  if (auto found = repeated_draw(list)) {
    result.failure = Failure{"draws", *found};
    return result;
  }
  const std::string text = to_text(program);
  for (const bool optimise : {true, false}) {
    if (!optimise && !options.plain) break;
    const std::string_view how = optimise ? "optimised" : "plain";
    try {
      toroid::Program parsed = parse_text(text, constants_of(program));
      verify(parsed, Level::Import);
      CompiledModel model = session.compile(
          std::move(parsed),
          {.compile_threads = 1,
           .variants = optimise && options.variants ? variants_for(program, list.front().run, list.back().run) : std::vector<SizeValues>{},
           .save_source = {},
           .dump_ir = {},
           .optimise = optimise,
           .optimization = optimise ? options.optimization : 1,
           .keep_program = true});
      if (optimise) {
        result.kernels = model.kernels;
        for (size_t call = 0; call < list.size(); ++call) {
          const Reference& reference = list[call];
          const std::vector<HostTensor> outputs = evaluate(*model.program, reference.inputs, {.after_node = {}, .random = {0, call}});
          if (auto found = first_difference(program, reference, *model.program, outputs, result)) {
            result.failure = Failure{"evaluator", *found};
            return result;
          }
          keep_buffers(*model.program, outputs);
        }
      }
      Executable executable = model.load(options.threads);
      for (const Reference& reference : list) {
        const std::vector<HostTensor> outputs = executable.run(reference.inputs);
        if (auto found = first_difference(program, reference, *model.program, outputs, result)) {
          result.failure = Failure{std::string(how), *found};
          return result;
        }
      }
    } catch (const Error& error) {
      result.failure = Failure{error_kind(how, error), error.report()};
      return result;
    }
  }
  if (!options.forms) return result;
  try {
    std::vector<std::vector<HostTensor>> calls;
    for (const Reference& reference : list) calls.push_back(reference.inputs);
    const auto parse = [&] { return parse_text(text, constants_of(program)); };
    if (auto found = difference_between_forms(session, parse, options.threads, calls)) result.failure = Failure{"forms", *found};
  } catch (const Error& error) {
    result.failure = Failure{error_kind("forms", error), error.report()};
  }
  return result;
}

std::optional<std::string> difference_from_reference(const Program& program, const Run& run, const std::vector<HostTensor>& arguments,
                                                     const toroid::Program& compiled, const std::vector<HostTensor>& outputs) {
  Reference reference;
  reference.run = run;
  reference.inputs = arguments;
  OperatorCache operators;
  const StreamStarts starts = stream_starts(program);
  for (const EagerOptions& way : variations(has_narrow_floats(program))) {
    Buffers held;  // by what inputs start with, whichever kind they are
    size_t argument = 0;
    for (const Input& input : program.inputs) {
      const bool is_argument = input.kind == InputKind::Argument;
      if (is_argument && argument == arguments.size()) throw Error(ErrorKind::InvalidInput, "the program takes more inputs");
      const HostTensor value = is_argument ? arguments[argument++] : HostTensor(input.dtype, sizes_in(input.sizes, run));
      held.insert_or_assign(input.name, way.widen ? widened(value) : value);
    }
    EagerResult result = run_eagerly(program, run, way, {&operators, &starts}, held);
    if (way.noise == 0 && !way.widen) {
      reference.plain = std::move(result);
    } else {
      reference.varied.push_back(std::move(result));
    }
  }
  CheckResult counts;
  return first_difference(program, reference, compiled, outputs, counts);
}

}  // namespace toroid::fuzz
