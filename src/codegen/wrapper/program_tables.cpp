#include "codegen/wrapper/program_tables.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "codegen/wrapper/abi_text.h"
#include "codegen/wrapper/checked_arithmetic.h"
#include "graph/builder.h"
#include "graph/text/text.h"
#include "signature/contract_tables.h"
#include "support/match.h"
#include "support/text/text_buffer.h"
#include "symbolic/symbol_map.h"
#include "toroid/gpu_abi.h"
#include "toroid/program_abi.h"

namespace toroid::codegen {
namespace {

static_assert(static_cast<int>(OutputKind::User) == TOROID_OUTPUT_USER &&
              static_cast<int>(OutputKind::BufferMutation) == TOROID_OUTPUT_BUFFER_MUTATION &&
              static_cast<int>(OutputKind::InputMutation) == TOROID_OUTPUT_INPUT_MUTATION &&
              static_cast<int>(OutputKind::ParameterMutation) == TOROID_OUTPUT_PARAMETER_MUTATION &&
              static_cast<int>(OutputKind::Gradient) == TOROID_OUTPUT_GRADIENT &&
              static_cast<int>(OutputKind::Loss) == TOROID_OUTPUT_LOSS && static_cast<int>(OutputKind::Token) == TOROID_OUTPUT_TOKEN);

// In several pieces where it is long.
std::string literal(std::string_view text) {
  constexpr size_t kLongestPiece = 100;
  std::string result = "\"";
  size_t column = 0;
  for (unsigned char c : text) {
    if (column++ == kLongestPiece) {
      result += "\"\n  \"";
      column = 1;
    }
    if (c == '"' || c == '\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7f || c == '?') {
      result += fmt::format("\\{:03o}", c);
    } else {
      result += static_cast<char>(c);
    }
  }
  return result + "\"";
}

// The program's inputs, symbols and guards, in a program of their own.
Program signature_of(const Program& program) {
  Program signature;
  const sym::SymbolMap map(*program.symbols, *signature.symbols);
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    TensorType type = program.graph.type(program.graph.inputs[i]);
    type.sizes = map.moved(std::move(type.sizes));
    type.strides = map.moved(std::move(type.strides));
    type.storage_offset = map.moved(type.storage_offset);
    const std::string& name = program.graph.value(program.graph.inputs[i]).name;
    const NodeId node = signature.graph.add_node(Input{static_cast<uint32_t>(i)}, {}, {type}, {}, {name});
    signature.graph.inputs.push_back(signature.graph.node(node).outputs[0]);
    signature.inputs.push_back(program.inputs[i]);
  }
  for (sym::Expr guard : program.guards) signature.guards.push_back(map.moved(guard));
  return signature;
}

// The tables of one variant. Each function that adds a table gives the initialiser of the member that points to it.
class VariantPrinter {
 public:
  VariantPrinter(const VariantTables& variant, std::string suffix)
      : variant_(variant),
        module_(variant.code.module),
        suffix_(std::move(suffix)),
        contract_(variant.program, plan_bindings(variant.program)) {
    for (sym::Expr bytes : tensor_bytes(variant.program)) contract_.bytes.push_back(contract_.position(bytes));
  }

  void print_declarations(TextBuffer& text) const {
    text.write(fmt::format("ENTRY int32_t toroid_run{}(const ToroidRuntime*, const ToroidCall*);", suffix_));
    text.write(fmt::format("ENTRY void toroid_sizes{}(const int64_t*, int64_t*, int64_t*);", suffix_));
    if (module_.prepared_bytes > 0)
      text.write(fmt::format("ENTRY int32_t toroid_prepare{}(const ToroidRuntime*, const ToroidCall*);", suffix_));
  }

  // Writes the tables; the row of the table of variants.
  std::string print(TextBuffer& text) {
    const program::Counts counts = program::counts(module_);
    // Expressions are numbered while the other tables are written.
    const std::string outputs = print_outputs(text), bindings = print_bindings(text), work = print_work(text);
    const std::string contract = print_contract(text);
    const std::string rest = fmt::format(
        "{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},\n  {}", print_conditions(text), outputs,
        print_constants(text), bindings, print_temporaries(text), print_steps(text), work, print_choices(text), variant_.conditions.size(),
        module_.outputs.size(), variant_.constants.size(), module_.bindings.size(), module_.temporaries.size(), module_.steps.size(),
        module_.step_work.size(), module_.choices.size(), variant_.code.kernels.size(), counts.kernel_calls, counts.kernel_steps,
        counts.library_calls, module_.prepared_bytes, literal(to_text(signature_of(variant_.program))));
    return fmt::format("{{{{{}}}, {}, toroid_run{}, {}, toroid_sizes{}}}", contract, rest, suffix_,
                       module_.prepared_bytes > 0 ? "toroid_prepare" + suffix_ : "nullptr", suffix_);
  }

  // Has it numbers that a call asks for? Once it is printed.
  bool evaluates() const { return !contract_.expressions.empty(); }

 private:
  // `const TYPE NAME[] = {rows};`, and how to refer to it.
  std::string table(TextBuffer& text, std::string_view type, std::string_view name, const std::vector<std::string>& rows) const {
    if (rows.empty()) return "nullptr";
    const std::string full_name = fmt::format("{}{}", name, suffix_);
    text.write(fmt::format("static const {} {}[] = {{", type, full_name));
    for (const std::string& row : rows) text.write("  " + row + ",");
    text.write("};");
    return full_name;
  }
  std::string numbers(TextBuffer& text, const std::string& name, std::span<const int32_t> values) const {
    if (values.empty()) return "nullptr";
    text.write(fmt::format("static const int32_t {}{}[] = {{{}}};", name, suffix_, fmt::join(values, ", ")));
    return name + suffix_;
  }

  // Of an output in place, its constant's number among the variant's.
  int64_t place_of(size_t output) const {
    if (!module_.outputs[output].is_in_place) return -1;
    const auto is_target = [&](ConstantId id) { return variant_.program.constant(id).name == variant_.program.outputs[output].target; };
    return std::find_if(module_.constants.begin(), module_.constants.end(), is_target) - module_.constants.begin();
  }

  std::string print_outputs(TextBuffer& text) const {
    const Program& program = variant_.program;
    const std::vector<std::string> names = output_names(program);
    std::vector<std::string> rows;
    for (size_t i = 0; i < program.graph.outputs.size(); ++i) {
      const TensorType& type = program.graph.type(program.graph.outputs[i]);
      rows.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}}}", literal(names[i]), literal(program.outputs[i].target),
                                 literal(shape_text(type)), static_cast<int>(type.dtype), type.rank(),
                                 static_cast<int>(program.outputs[i].kind), static_cast<int>(module_.outputs[i].is_late), place_of(i)));
    }
    return table(text, "ToroidOutputInfo", "outputs", rows);
  }

  std::string print_bindings(TextBuffer& text) {
    std::vector<std::string> rows;
    for (const program::Binding& binding : module_.bindings) {
      const int32_t symbol = binding.defines ? contract_.position_of_symbol(*binding.defines) : -1;
      const int32_t rest = binding.defines ? contract_.position(*rest_beside(binding.expr, *binding.defines)) : -1;
      rows.push_back(fmt::format("{{{}, {}, {}}}", contract_.position(binding.expr), symbol, rest));
    }
    return table(text, "ToroidBinding", "bindings", rows);
  }

  std::string print_work(TextBuffer& text) {
    std::vector<std::string> rows;
    for (const schedule::StepWork& work : module_.step_work) {
      rows.push_back(
          fmt::format("{{{}, {}, {}}}", contract_.position(work.bytes), contract_.position(work.flops), static_cast<int>(work.numbers)));
    }
    return table(text, "ToroidStepWork", "work", rows);
  }

  std::string print_contract(TextBuffer& text) const {
    std::vector<std::string> inputs, symbols, expressions, definitions, checks;
    for (size_t i = 0; i < contract_.inputs.size(); ++i) {
      const ContractTables::Input& input = contract_.inputs[i];
      inputs.push_back(fmt::format("{{{}, {}, {}, {}, {}}}", literal(input.name), literal(input.type), static_cast<int>(input.dtype),
                                   input.rank, numbers(text, fmt::format("strides{}", i), input.strides)));
    }
    for (sym::Expr symbol : contract_.symbols) {
      symbols.push_back(
          fmt::format("{{{}, {}, {}}}", literal(symbol.node()->name), number_text(symbol.range().min), number_text(symbol.range().max)));
    }
    for (size_t i = 0; i < contract_.expressions.size(); ++i) {
      const sym::Expr expression = contract_.expressions[i];
      const std::vector<int32_t> own = contract_.symbols_of(expression);
      expressions.push_back(fmt::format("{{{}, {}, {}}}", literal(sym::to_string(expression)),
                                        numbers(text, fmt::format("symbols_of{}", i), own), own.size()));
    }
    for (const ContractTables::Definition& each : contract_.definitions) {
      definitions.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}}}", each.row.symbol, each.row.input, each.row.dim, each.row.rest,
                                        number_text(each.row.coefficient), literal(each.form)));
    }
    for (const ToroidSizeCheck& check : contract_.checks)
      checks.push_back(fmt::format("{{{}, {}, {}}}", check.input, check.dim, check.expected));
    if (evaluates()) text.write(checked_evaluation("evaluate" + suffix_, contract_.expressions, contract_.symbols));
    return fmt::format(
        "{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}", table(text, "ToroidInputInfo", "inputs", inputs),
        table(text, "ToroidSymbol", "symbols", symbols), table(text, "ToroidExpression", "expressions", expressions),
        table(text, "ToroidDefinition", "definitions", definitions), table(text, "ToroidSizeCheck", "checks", checks),
        numbers(text, "guards", contract_.guards), numbers(text, "later_guards", contract_.later_guards),
        numbers(text, "bytes", contract_.bytes), inputs.size(), symbols.size(), expressions.size(), definitions.size(), checks.size(),
        contract_.guards.size(), contract_.later_guards.size(), contract_.bytes.size(), evaluates() ? "evaluate" + suffix_ : "nullptr");
  }

  std::string print_conditions(TextBuffer& text) const {
    std::vector<std::string> rows;
    for (const auto& [name, value] : variant_.conditions) rows.push_back(fmt::format("{{{}, {}}}", literal(name), number_text(value)));
    return table(text, "ToroidCondition", "conditions", rows);
  }

  std::string print_constants(TextBuffer& text) const {
    return numbers(text, "positions", std::vector<int32_t>(variant_.constants.begin(), variant_.constants.end()));
  }

  std::string print_temporaries(TextBuffer& text) const {
    std::vector<std::string> rows;
    for (const schedule::Lifetime& each : module_.temporaries) rows.push_back(fmt::format("{{{}, {}}}", each.first_step, each.last_step));
    return table(text, "ToroidTemporary", "temporaries", rows);
  }

  std::string print_steps(TextBuffer& text) const {
    std::vector<std::string> rows;
    for (const program::StepInfo& step : module_.steps) rows.push_back(fmt::format("{{{}, {}}}", literal(step.name), literal(step.origin)));
    return table(text, "ToroidStepInfo", "steps", rows);
  }

  std::string print_choices(TextBuffer& text) const {
    std::vector<std::string> rows;
    for (const program::Choice& choice : module_.choices) {
      std::vector<std::string> forms;
      for (const std::string& form : choice.forms) forms.push_back(literal(form));
      const std::string name = table(text, "char* const", fmt::format("forms{}", rows.size()), forms);
      rows.push_back(fmt::format("{{{}, {}, {}}}", choice.step, forms.size(), name));
    }
    return table(text, "ToroidChoice", "choices", rows);
  }

  const VariantTables& variant_;
  const program::Module& module_;
  std::string suffix_;
  ContractTables contract_;
};

}  // namespace

std::string variant_suffix(size_t variant, size_t num_variants) { return variant + 1 == num_variants ? "" : fmt::format("_v{}", variant); }

namespace {

// A buffer that no form of the program writes to is as good as a weight: contexts share it.
bool is_written(const ConstantData& data, std::span<const VariantTables> variants) {
  return data.is_buffer && std::ranges::any_of(variants, [&](const VariantTables& variant) {
           return std::ranges::any_of(variant.program.outputs, [&](const OutputSpec& output) {
             return output.kind == OutputKind::BufferMutation && output.target == data.name;
           });
         });
}

void write_constants(TextBuffer& text, std::span<const ConstantData* const> constants, std::span<const VariantTables> variants) {
  std::vector<std::string> rows;
  std::vector<int64_t> numbers;  // sizes and strides of all
  const auto place = [&](std::span<const sym::Expr> each) {
    const size_t first = numbers.size();
    for (sym::Expr number : each) numbers.push_back(number.value());
    return each.empty() ? "nullptr" : fmt::format("constant_layouts + {}", first);
  };
  for (const ConstantData* data : constants) {
    const TensorType& type = data->type;
    const std::string sizes = place(type.sizes), strides = place(type.strides);
    rows.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}}}", literal(data->name), literal(shape_text(type)), data->bytes.size(),
                               sizes, strides, static_cast<int>(type.dtype), type.rank(), static_cast<int>(is_written(*data, variants))));
  }
  if (!numbers.empty()) text.write(fmt::format("static const int64_t constant_layouts[] = {{{}}};", fmt::join(numbers, ", ")));
  text.write("static const ToroidConstantInfo constants[] = {");
  for (const std::string& row : rows) text.write("  " + row + ",");
  text.write("};");
}

}  // namespace

std::string program_tables(std::span<const VariantTables> variants, std::span<const ConstantData* const> constants,
                           const ProgramTexts& texts) {
  TextBuffer text;
  std::vector<std::string> rows;
  bool evaluates = false;
  for (size_t i = 0; i < variants.size(); ++i) {
    VariantPrinter variant(variants[i], variant_suffix(i, variants.size()));
    variant.print_declarations(text);
    text.write("namespace tables {");
    rows.push_back(variant.print(text));
    text.write("}  // namespace tables");
    evaluates = evaluates || variant.evaluates();
  }
  text.write("namespace tables {");
  text.write("static const ToroidVariant variants[] = {");
  for (const std::string& row : rows) text.write("  " + row + ",");
  text.write("};");
  if (!constants.empty()) {
    write_constants(text, constants, variants);
  }
  text.write("}  // namespace tables");
  text.write(fmt::format("EXPORT const ToroidProgram toroid_program = {{{}, {}, {}, tables::variants, {}, {}, toroid_bad_index, {}}};",
                         TOROID_ABI_VERSION, variants.size(), constants.size(), constants.empty() ? "nullptr" : "tables::constants",
                         literal(texts.training), literal(texts.call_tree)));
  std::string arithmetic = evaluates ? fmt::format("namespace tables {{{}}}\n", kCheckedArithmetic) : "";
  return std::string(kContractAbi) + arithmetic + text.str();
}

namespace {

constexpr std::string_view kLaunchFacts =
    "struct ToroidGpuKernel { int32_t threads, shared_bytes; int64_t scratch_bytes; int32_t scratch_alignment, more_pointers; };\n";

bool is_on_host(const program::PlacedBuffer& buffer) { return buffer.device == program::Device::Cpu; }

bool has_host_buffers(const program::Module& module) {
  return std::ranges::any_of(module.main.buffers, [](const program::PlacedBuffer& each) {
    return is_on_host(each) && !std::holds_alternative<program::InRandomState>(each.place);
  });
}

// Of each variant, ToroidGpuPlacement.
std::string placement_tables(std::span<const program::Module* const> modules) {
  std::string lists, rows;
  for (size_t v = 0; v < modules.size(); ++v) {
    const program::Module& module = *modules[v];
    std::map<std::string_view, std::vector<int>> places;
    const auto note = [&](std::string_view list, size_t position, bool on_host) {
      std::vector<int>& own = places[list];
      if (own.size() <= position) own.resize(position + 1);
      own[position] = on_host ? 1 : 0;
    };
    for (const program::PlacedBuffer& each : module.main.buffers) {
      match(
          each.place, [&](program::InArgument place) { note("inputs", place.position, is_on_host(each)); },
          [&](program::InResult place) { note("outputs", place.position, is_on_host(each)); },
          [&](program::InConstant place) { note("constants", place.slot, is_on_host(each)); },
          [&](program::InArena place) { note("temporaries", place.slot, is_on_host(each)); }, [](program::InPrepared) {},
          [](program::InRandomState) {}, [](program::Allocated) {});
    }
    const auto note_late = [&](const program::Instruction& instruction) {
      const auto* late = std::get_if<program::AllocateOutput>(&instruction);
      if (late == nullptr) return;
      const auto is_its = [&](const program::PlacedBuffer& each) { return each.id == late->buffer; };
      note("outputs", late->position, is_on_host(*std::ranges::find_if(module.main.buffers, is_its)));
    };
    for (const program::Step& step : module.main.steps) std::ranges::for_each(step.instructions, note_late);
    std::ranges::for_each(module.main.at_end, note_late);
    // Those of bodies and branches alone are the GPU's.
    if (const auto constants = places.find("constants"); constants != places.end()) constants->second.resize(module.constants.size());
    std::vector<std::string> names;
    for (const std::string_view list : {"inputs", "outputs", "constants", "temporaries"}) {
      const auto found = places.find(list);
      names.emplace_back("nullptr");
      if (found == places.end()) continue;
      names.back() = fmt::format("placed_{}{}", list, v);
      lists += fmt::format("static const int32_t {}[] = {{{}}};\n", names.back(), fmt::join(found->second, ", "));
    }
    rows += fmt::format("  {{{}}},\n", fmt::join(names, ", "));
  }
  return fmt::format(
      "struct ToroidGpuPlacement {{ const int32_t* inputs; const int32_t* outputs; const int32_t* constants; const int32_t* temporaries; "
      "}};\n{}static const ToroidGpuPlacement placements[] = {{\n{}}};\n",
      lists, rows);
}

}  // namespace

std::string gpu_tables(std::span<const GpuBinary> binaries, bool draws, std::span<const program::Module* const> modules) {
  std::string declarations, rows;
  for (size_t i = 0; i < binaries.size(); ++i) {
    const std::string_view architecture = binaries[i].architecture, number = architecture.substr(architecture.find('_') + 1);
    const bool is_amd = architecture.starts_with("gfx");
    const ToroidGpuKind kind = is_amd                                 ? TOROID_GPU_AMD
                               : architecture.starts_with("compute_") ? TOROID_GPU_PTX
                               : architecture.ends_with('a')          ? TOROID_GPU_EXACT
                                                                      : TOROID_GPU_FAMILY;
    declarations += fmt::format("extern \"C\" const unsigned char toroid_binary_{}[];\n", i);
    std::string launch = "nullptr, nullptr";
    if (binaries[i].tells_launch) {
      declarations +=
          fmt::format("extern \"C\" const char toroid_kernel_{0}[];\nextern \"C\" const ToroidGpuKernel toroid_launch_{0};\n", i);
      launch = fmt::format("toroid_kernel_{0}, &toroid_launch_{0}", i);
    }
    rows += fmt::format("  {{toroid_binary_{}, {}, {}, {}, {}}},\n", i, binaries[i].unit,
                        is_amd ? fmt::format("0x{}", architecture.substr(3)) : std::string(number.substr(0, number.find('a'))),
                        static_cast<int>(kind), launch);
  }
  const bool is_mixed = std::ranges::any_of(modules, [](const program::Module* module) { return has_host_buffers(*module); });
  const std::string placements = is_mixed ? placement_tables(modules) : "";
  return fmt::format(
      "{}"
      "struct ToroidGpuBinary {{ const void* data; int32_t unit, capability, kind; const char* kernel; const ToroidGpuKernel* launch; }};\n"
      "{}struct ToroidGpuProgram {{ const ToroidGpuBinary* binaries; int32_t num_binaries; int32_t facts;{} }};\n{}"
      "static const ToroidGpuBinary binaries[] = {{\n{}}};\n"
      "extern \"C\" {{ extern __attribute__((visibility(\"default\"))) const ToroidGpuProgram toroid_gpu_program = {{binaries, {}, {}{}}}; "
      "}}\n",
      kLaunchFacts, placements, is_mixed ? " const ToroidGpuPlacement* placements;" : "", declarations, rows, binaries.size(),
      (draws ? TOROID_GPU_DRAWS : 0) + (is_mixed ? TOROID_GPU_MIXED : 0), is_mixed ? ", placements" : "");
}

std::string binary_unit(size_t number, std::string_view binary, const std::optional<GpuLaunchFacts>& launch) {
  constexpr size_t kLine = 4000;  // bytes
  std::string text = fmt::format(
      "extern \"C\" const unsigned char toroid_binary_{}[];\nalignas(64) const unsigned char toroid_binary_{}[] =", number, number);
  for (size_t i = 0; i < binary.size(); ++i) {
    if (i % kLine == 0) text += i == 0 ? "\n\"" : "\"\n\"";
    const auto byte = static_cast<unsigned char>(binary[i]);
    const char digits[] = {'\\', static_cast<char>('0' + byte / 64), static_cast<char>('0' + byte / 8 % 8),
                           static_cast<char>('0' + byte % 8)};
    text.append(digits, 4);
  }
  text += binary.empty() ? "\"\";\n" : "\";\n";
  if (launch) {
    text += fmt::format(
        "#include <stdint.h>\n{0}extern \"C\" const char toroid_kernel_{1}[];\nextern \"C\" const ToroidGpuKernel toroid_launch_{1};\n"
        "const char toroid_kernel_{1}[] = \"{2}\";\nconst ToroidGpuKernel toroid_launch_{1} = {{{3}, {4}, {5}, {6}, {7}}};\n",
        kLaunchFacts, number, launch->kernel, launch->threads, launch->shared_bytes, launch->scratch_bytes, launch->scratch_alignment,
        launch->more_pointers);
  }
  return text;
}

}  // namespace toroid::codegen
