#include "codegen/wrapper/generate.h"

#include <algorithm>
#include <set>

#include "codegen/cpp/kernel.h"
#include "codegen/cpp/names.h"
#include "codegen/cpp/prelude.h"
#include "codegen/cpp/scalar_text.h"
#include "graph/builder.h"
#include "support/error.h"
#include "support/match.h"
#include "support/text_buffer.h"

namespace toroid::codegen {
namespace {

// What the wrapper and the runtime agree on: include/toroid/program_abi.h without its includes.
constexpr std::string_view kAbi = R"abi(
struct ToroidOperand { void* data; const int64_t* sizes; const int64_t* strides; int32_t rank; int32_t dtype; };
struct ToroidRuntime {
  void* host;
  void (*parallel_for)(const ToroidRuntime*, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* argument);
  double (*special_function)(const ToroidRuntime*, int32_t op, double x, double y);
  int32_t (*call)(const ToroidRuntime*, const char* name, const ToroidOperand* inputs, int32_t num_inputs,
                  const ToroidOperand* outputs, int32_t num_outputs, const int64_t* integers, int32_t num_integers,
                  const double* numbers, int32_t num_numbers);
};
struct ToroidCall {
  const void* const* inputs; const void* const* constants; void* const* outputs; char* arena;
  const int64_t* offsets; const int64_t* symbols; const int64_t* random;
};
template <class F> INLINE void parallel(const ToroidRuntime* runtime, int64_t n, int64_t grain, F f) {
  runtime->parallel_for(runtime, n, grain, [](void* p, int64_t begin, int64_t end) { (*(F*)p)(begin, end); }, &f);
}
#define EXPORT extern "C" __attribute__((visibility("default")))
#pragma GCC visibility push(hidden)
)abi";

// Work below this many elements is not worth waking another thread for.
constexpr int64_t kGrainElements = 16384;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The kernel's text with its local names replaced by their order of appearance, so that equal kernels of different layers
// compare equal.
std::string canonical_text(const KernelSource& source, const loop::LoopProgram& program) {
  std::set<std::string, std::less<>> buffers;
  for (const KernelParameter& parameter : source.parameters) buffers.insert(identifier(program.buffer(parameter.buffer).name));
  std::unordered_map<std::string, std::string> names;
  auto rename = [&](const std::string& name) {
    return names.try_emplace(name, fmt::format("${}", names.size())).first->second;
  };
  std::string result;
  const std::string& text = source.text;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      while (i < text.size() && text[i] != '\n') ++i;
      continue;
    }
    if (!is_name_character(text[i])) {
      result += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_name_character(text[end])) ++end;
    const std::string word = text.substr(i, end - i);
    i = end;
    if (word == source.name) {
      result += "$kernel";
    } else if (buffers.count(word)) {
      result += rename(word);
    } else if (const size_t mark = word.rfind("_v"); mark != std::string::npos && buffers.count(word.substr(0, mark))) {
      result += rename(word.substr(0, mark)) + word.substr(mark);  // a value loaded from that buffer
    } else if (word.size() > 1 && std::string_view("abirv").find(word[0]) != std::string_view::npos &&
               std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      result += rename(word);                                       // an axis or a value symbol
    } else {
      result += word;
    }
  }
  return result;
}

class Generator {
 public:
  Generator(const schedule::Schedule& schedule, const std::vector<OutputBinding>& outputs, const Program& program, int max_units)
      : schedule_(schedule), loops_(*schedule.loops), outputs_(outputs), program_(program), max_units_(max_units) {}

  GeneratedProgram run() {
    result_.temporaries = schedule_.lifetimes;
    for (const sym::Expr symbol : program_.symbols->symbols()) {
      const sym::SymbolKind kind = symbol.node()->symbol_kind;
      if (kind == sym::SymbolKind::Size || kind == sym::SymbolKind::DataDependent) result_.symbols.push_back(symbol);
    }
    for (size_t b = 0; b < loops_.buffers.size(); ++b) {
      if (loops_.buffers[b].kind == loop::BufferKind::Constant) result_.constants.push_back(loop::BufferId{static_cast<uint32_t>(b)});
    }
    make_names_unique();
    for (const schedule::Step& step : schedule_.steps) print_step(step);
    assemble();
    return std::move(result_);
  }

 private:
  const loop::Buffer& buffer(loop::BufferId id) const { return loops_.buffer(id); }
  std::string index(sym::Expr e) const { return print_index(loops_.exprs, e); }

  // Buffers, axes, sizes and temporaries share scopes with each other and with the prelude's functions.
  void make_names_unique() {
    std::set<std::string> taken;
    for (sym::Expr symbol : program_.symbols->symbols()) taken.insert(identifier(symbol.node()->name));
    for (loop::Buffer& each : schedule_.loops->buffers) {
      std::string name = identifier(each.name);
      if (const size_t mark = name.rfind("_v"); mark != std::string::npos && mark + 2 < name.size() &&
                                                 name.find_first_not_of("0123456789", mark + 2) == std::string::npos) {
        name += "_b";
      }
      for (int i = 1; !taken.insert(name).second; ++i) name = fmt::format("{}_b{}", identifier(each.name), i);
      each.name = name;
    }
  }

  void print_step(const schedule::Step& step) {
    const size_t number = result_.step_names.size();
    result_.step_names.push_back(schedule::name_of(step));
    if (const auto* call = std::get_if<schedule::CallStep>(&step)) {
      ++result_.library_calls;
      print_call(*call, number);
      return;
    }
    ++result_.kernel_calls;
    std::string name = identifier(schedule::name_of(step)) + "_kernel";
    if (const int count = kernel_names_[name]++; count > 0) name += fmt::format("_{}", count);
    KernelSource source = print_kernel(loops_, step, program_.graph, name);
    auto [slot, is_new] = distinct_.try_emplace(canonical_text(source, loops_), source.name);
    if (is_new) {
      declarations_.push_back(source.text.substr(source.text.rfind("extern \"C\"")));
      declarations_.back().resize(declarations_.back().find(" {\n"));
      declarations_.back() += ";";
      result_.kernels.push_back({source.name, source.text});
    }
    std::string arguments;
    for (const KernelParameter& parameter : source.parameters) arguments += identifier(buffer(parameter.buffer).name) + ", ";
    for (sym::Expr size : source.sizes) arguments += identifier(size.node()->name) + ", ";
    if (source.uses_runtime) arguments += "runtime, ";
    if (source.reports_errors) arguments += "&error, ";
    const sym::Expr tasks = source.tasks;
    std::optional<TextBuffer::Scope> counted;
    if (source.counts_tasks) {
      counted.emplace(body_.block("{"));
      body_.write(fmt::format("int64_t remaining = {};", index(tasks)));
      arguments += "&remaining, ";
      // Without a task nobody would run the finish.
      if (!sym::known_lt(0, tasks)) body_.write(fmt::format("if (remaining == 0) {}({}0, 0);", slot->second, arguments));
    }
    const bool serial = tasks.is_const(1);
    if (serial) {
      body_.write(fmt::format("{}({}0, 1);", slot->second, arguments));
    } else {
      const sym::Expr work = source.work_per_task;
      const std::string grain = work.is_const() ? fmt::format("{}", std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, work.value())))
                                                : fmt::format("max64(1, {} / max64(1, {}))", kGrainElements, index(work));
      body_.write(fmt::format("parallel(runtime, {}, {}, [&](int64_t begin, int64_t end) {{ {}({}begin, end); }});", index(tasks), grain,
                              slot->second, arguments));
    }
    counted.reset();
    if (source.reports_errors) body_.write(fmt::format("if (error) return {} | error << 28;", number + 1));
  }

  std::string integer_array(const std::vector<sym::Expr>& values) const {
    std::string text = "(const int64_t[]){";
    for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + index(values[i]);
    return values.empty() ? "nullptr" : text + "}";
  }

  std::string operand(loop::BufferId id, const std::vector<sym::Expr>& sizes, const std::vector<sym::Expr>& strides, sym::Expr offset) {
    const std::string pointer = fmt::format("(void*)({} + {})", identifier(buffer(id).name), index(offset));
    std::string size_name = "nullptr";
    std::string stride_name = "nullptr";
    if (!sizes.empty()) {
      size_name = fmt::format("sizes{}", ++arrays_);
      stride_name = fmt::format("strides{}", arrays_);
      body_.write(fmt::format("const int64_t {}[] = {{{}}};", size_name, list(sizes)));
      body_.write(fmt::format("const int64_t {}[] = {{{}}};", stride_name, list(strides)));
    }
    return fmt::format("{{{}, {}, {}, {}, {}}}", pointer, size_name, stride_name, sizes.size(), static_cast<int>(buffer(id).dtype));
  }

  std::string list(const std::vector<sym::Expr>& values) const {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + index(values[i]);
    return text;
  }

  void print_call(const schedule::CallStep& step, size_t number) {
    std::string name;
    std::vector<std::string> integers;
    std::vector<std::string> numbers;
    auto add = [&](const std::vector<sym::Expr>& values) {
      for (sym::Expr e : values) integers.push_back(index(e));
    };
    if (std::holds_alternative<Matmul>(step.call.op)) {
      name = "matmul";
    } else if (const auto* conv = std::get_if<Convolution>(&step.call.op)) {
      name = "convolution";
      integers = {conv->transposed ? "1" : "0", index(conv->groups)};
      add(conv->stride);
      add(conv->padding);
      add(conv->dilation);
      add(conv->output_padding);
    } else if (const auto* attention = std::get_if<Attention>(&step.call.op)) {
      name = "attention";
      integers = {attention->causal ? "1" : "0"};
      numbers = {literal_text(DType::F64, attention->scale)};
    } else if (const auto* sort = std::get_if<Sort>(&step.call.op)) {
      name = "sort";
      integers = {fmt::format("{}", sort->dim), sort->descending ? "1" : "0", sort->stable ? "1" : "0"};
    } else {
      const auto& library = std::get<Library>(step.call.op);
      name = "library." + library.name;
      // Every attribute in both forms: the kernel knows which it is.
      for (const Scalar& attribute : library.attributes) {
        match(
            attribute,
            [&](bool v) {
              integers.push_back(v ? "1" : "0");
              numbers.push_back(v ? "1.0" : "0.0");
            },
            [&](const sym::Expr& e) {
              integers.push_back(index(e));
              numbers.push_back(fmt::format("double({})", index(e)));
            },
            [&](double v) {
              integers.push_back("0");
              numbers.push_back(literal_text(DType::F64, v));
            });
      }
    }
    auto block = body_.block(fmt::format("{{  // {}", comment_text(to_string(step.call.op))));
    std::string inputs;
    for (const loop::Operand& each : step.call.operands) {
      inputs += (inputs.empty() ? "" : ", ") + operand(each.buffer, each.sizes, each.strides, each.offset);
    }
    std::string outputs;
    for (loop::BufferId out : step.outputs) {
      outputs += (outputs.empty() ? "" : ", ") + operand(out, buffer(out).sizes, buffer(out).strides, 0);
    }
    if (step.call.operands.empty()) inputs = "{}";
    body_.write(fmt::format("const ToroidOperand inputs[] = {{{}}};", inputs));
    body_.write(fmt::format("const ToroidOperand outputs[] = {{{}}};", outputs));
    body_.write(fmt::format("const int64_t integers[] = {{{}}};", integers.empty() ? "0" : fmt::format("{}", fmt::join(integers, ", "))));
    body_.write(fmt::format("const double numbers[] = {{{}}};", numbers.empty() ? "0" : fmt::format("{}", fmt::join(numbers, ", "))));
    body_.write(fmt::format("if (runtime->call(runtime, \"{}\", inputs, {}, outputs, {}, integers, {}, numbers, {})) return {};", name,
                            step.call.operands.size(), step.outputs.size(), integers.size(), numbers.size(), number + 1));
  }

  std::string wrapper() {
    TextBuffer text;
    for (const std::string& declaration : declarations_) text.write(declaration);
    text.write("");
    auto read_symbols = [&] {
      for (size_t i = 0; i < result_.symbols.size(); ++i) {
        text.write(fmt::format("const int64_t {} = symbols[{}]; (void){};", identifier(result_.symbols[i].node()->name), i,
                               identifier(result_.symbols[i].node()->name)));
      }
    };
    {
      auto function = text.block("EXPORT int32_t toroid_run(const ToroidRuntime* runtime, const ToroidCall* call) {");
      text.write("const int64_t* symbols = call->symbols; (void)symbols;");
      read_symbols();
      auto declare = [&](loop::BufferId id, std::string_view constness, std::string_view from) {
        const std::string name = identifier(buffer(id).name);
        text.write(fmt::format("{0}{1}* {2} = ({0}{1}*){3}; (void){2};", constness, storage_type(buffer(id).dtype), name, from));
      };
      for (size_t b = 0; b < loops_.buffers.size(); ++b) {
        const loop::BufferId id{static_cast<uint32_t>(b)};
        const loop::Buffer& each = buffer(id);
        if (each.kind == loop::BufferKind::Input) declare(id, "const ", fmt::format("call->inputs[{}]", each.position));
        if (each.kind == loop::BufferKind::RandomState) declare(id, "const ", "call->random");
        if (each.kind == loop::BufferKind::Output) declare(id, "", fmt::format("call->outputs[{}]", each.position));
      }
      for (size_t i = 0; i < result_.constants.size(); ++i) declare(result_.constants[i], "const ", fmt::format("call->constants[{}]", i));
      for (size_t i = 0; i < result_.temporaries.size(); ++i) {
        declare(result_.temporaries[i].buffer, "", fmt::format("(call->arena + call->offsets[{}])", i));
      }
      text.write("int32_t error = 0; (void)error;");
      text.splice(body_);
      text.write("return 0;");
    }
    text.write("");
    {
      auto function = text.block("EXPORT void toroid_sizes(const int64_t* symbols, int64_t* temporary_bytes, int64_t* output_sizes) {");
      text.write("(void)symbols, (void)temporary_bytes, (void)output_sizes;");
      read_symbols();
      for (size_t i = 0; i < result_.temporaries.size(); ++i) {
        const loop::Buffer& each = buffer(result_.temporaries[i].buffer);
        text.write(fmt::format("temporary_bytes[{}] = ({}) * {};", i, index(sym::product(each.sizes)), size_bytes(each.dtype)));
      }
      size_t next = 0;
      for (const OutputBinding& output : outputs_) {
        for (sym::Expr size : output.sizes) text.write(fmt::format("output_sizes[{}] = {};", next++, index(size)));
      }
    }
    return text.finish().text;
  }

  // Few units, each with the whole prelude: a second compiler pays off only when there is enough for it to do.
  void assemble() {
    const bool draws = std::any_of(result_.kernels.begin(), result_.kernels.end(), [](const GeneratedKernel& kernel) {
      return kernel.text.find("op_philox_") != std::string::npos;
    });
    const std::string start = std::string(kPrelude) + std::string(draws ? kRandomPrelude : "") + std::string(kAbi);
    std::string wrapper_text = wrapper();
    size_t total = 0;
    for (const GeneratedKernel& kernel : result_.kernels) total += kernel.text.size();
    const size_t count = total < kWorthAnotherUnit ? 1 : std::min<size_t>(static_cast<size_t>(std::max(1, max_units_)), result_.kernels.size());
    std::vector<std::string> units(std::max<size_t>(1, count), start);
    std::vector<size_t> load(units.size());
    std::vector<const GeneratedKernel*> order;
    for (const GeneratedKernel& kernel : result_.kernels) order.push_back(&kernel);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->text.size() > b->text.size(); });
    load[0] = wrapper_text.size() / 4;  // straight-line code compiles faster than loops
    for (const GeneratedKernel* kernel : order) {
      const size_t unit = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
      units[unit] += kernel->text + "\n";
      load[unit] += kernel->text.size();
    }
    units[0] += wrapper_text;
    result_.units = std::move(units);
  }

  static constexpr size_t kWorthAnotherUnit = 6000;

  const schedule::Schedule& schedule_;
  const loop::LoopProgram& loops_;
  const std::vector<OutputBinding>& outputs_;
  const Program& program_;
  int max_units_;
  GeneratedProgram result_;
  TextBuffer body_;
  std::vector<std::string> declarations_;
  std::unordered_map<std::string, std::string> distinct_;   // canonical text -> name
  std::unordered_map<std::string, int> kernel_names_;
  int arrays_ = 0;
};

}  // namespace

GeneratedProgram generate(const schedule::Schedule& schedule, const std::vector<OutputBinding>& outputs, const Program& program,
                          int max_units) {
  return Generator(schedule, outputs, program, max_units).run();
}

std::string manifest_unit(std::string_view manifest) {
  std::string text = "extern \"C\" __attribute__((visibility(\"default\"))) const char toroid_manifest[] =\n  \"";
  size_t column = 0;
  for (unsigned char c : manifest) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7f || c == '?') {
      text += fmt::format("\\{:03o}", c);
    } else {
      text += static_cast<char>(c);
    }
    if (++column == 100) {
      text += "\"\n  \"";
      column = 0;
    }
  }
  return text + "\";\n";
}

}  // namespace toroid::codegen
