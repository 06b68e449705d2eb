#include "driver/manifest.h"

#include <array>
#include <map>

#include "frontend/json_reader.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "interp/bind_symbols.h"
#include "support/error.h"
#include "support/json_writer.h"
#include "symbolic/symbol_map.h"
#include "toroid/program_abi.h"

namespace toroid {
namespace {

constexpr int kVersion = 6;
constexpr std::string_view kOutputKinds[] = {"user", "buffer_mutation", "input_mutation", "parameter_mutation", "gradient", "loss",
                                             "token"};

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

sym::Expr parsed(std::string_view text, const Program& signature) {
  return sym::parse(text, *signature.symbols, [&](std::string_view name) -> sym::Expr {
    const std::optional<sym::Expr> symbol = signature.symbols->find_symbol(name);
    if (!symbol) throw Error(ErrorKind::InvalidInput, fmt::format("the library names a symbol '{}' that it does not have", name));
    return *symbol;
  });
}

void write_variant(JsonWriter& json, const GeneratedVariant& variant, const std::vector<size_t>& constants) {
  json.begin_object();
  json.begin_array("when");
  for (const auto& [name, value] : variant.when) {
    json.begin_array();
    json.add(name);
    json.add(value);
    json.end();
  }
  json.end();
  json.add("signature", to_text(signature_of(variant.program)));
  json.begin_array("outputs");
  const std::vector<std::string> names = output_names(variant.program);
  for (size_t i = 0; i < variant.program.graph.outputs.size(); ++i) {
    const TensorType& type = variant.program.graph.type(variant.program.graph.outputs[i]);
    json.begin_object();
    json.add("name", names[i]);
    json.add("dtype", to_string(type.dtype));
    json.add("rank", type.rank());
    json.begin_array("sizes");
    for (sym::Expr size : type.sizes) json.add(sym::to_string(size));
    json.end();
    json.add("late", variant.code.module.outputs[i].is_late);
    json.add("kind", kOutputKinds[static_cast<size_t>(variant.program.outputs[i].kind)]);
    json.add("target", variant.program.outputs[i].target);
    json.end();
  }
  json.end();
  json.begin_array("symbols");
  for (sym::Expr symbol : variant.code.module.symbols) json.add(symbol.node()->name);
  json.end();
  json.begin_array("bytes");
  for (sym::Expr bytes : tensor_bytes(variant.program)) json.add(sym::to_string(bytes));
  json.end();
  json.begin_array("bindings");
  for (const program::Binding& binding : variant.code.module.bindings) json.add(sym::to_string(binding.expr));
  json.end();
  json.begin_array("defines");
  for (const program::Binding& binding : variant.code.module.bindings)
    json.add(binding.defines ? binding.defines->node()->name : std::string());
  json.end();
  json.add_all("constants", constants);
  json.begin_array("temporaries");
  for (const schedule::Lifetime& each : variant.code.module.temporaries) json.add_all(std::array{each.first_step, each.last_step});
  json.end();
  json.add("prepared_bytes", variant.code.module.prepared_bytes);
  json.begin_array("steps");
  for (const program::StepInfo& step : variant.code.module.steps) json.add(step.name);
  json.end();
  json.begin_array("origins");
  for (const program::StepInfo& step : variant.code.module.steps) json.add(step.origin);
  json.end();
  json.begin_array("forms");
  for (const program::Choice& choice : variant.code.module.choices) {
    json.begin_array();
    json.add(choice.step);
    for (const std::string& form : choice.forms) json.add(form);
    json.end();
  }
  json.end();
  json.begin_array("work");
  for (const schedule::StepWork& work : variant.code.module.step_work)
    json.add_all(std::array{sym::to_string(work.bytes), sym::to_string(work.flops), std::string(to_string(work.numbers))});
  json.end();
  json.add("kernels", variant.code.kernels.size());
  const program::Counts counts = program::counts(variant.code.module);
  json.add("kernel_calls", counts.kernel_calls);
  json.add("kernel_steps", counts.kernel_steps);
  json.add("library_calls", counts.library_calls);
  json.end();
}

// None where there is no such list.
std::span<const JsonValue> list(const JsonValue& json, std::string_view key) {
  const JsonValue* const found = json.find(key);
  return found != nullptr ? found->elements() : std::span<const JsonValue>();
}

const JsonValue& element(const JsonValue& json, size_t position) {
  if (position >= json.elements().size()) json.fail("the list is too short");
  return json.elements()[position];
}

ManifestVariant parse_variant(const JsonValue& json) {
  ManifestVariant variant;
  for (const JsonValue& each : json.at("when").elements()) {
    variant.when.emplace_back(element(each, 0).as_string(), element(each, 1).as_integer());
  }
  variant.signature = parse_text(json.at("signature").as_string());
  for (const JsonValue& output : list(json, "outputs")) {
    const std::optional<DType> dtype = parse_dtype(output.at("dtype").as_string());
    if (!dtype) output.fail("no dtype");
    if (output.at("rank").as_integer() < 0 || output.at("rank").as_integer() > 64) output.fail("no rank");
    ManifestOutput out{.name = std::string(output.at("name").as_string()),
                       .dtype = *dtype,
                       .rank = output.at("rank").as_integer(),
                       .kind = OutputKind::User,
                       .target = std::string(output.at("target").as_string()),
                       .late = output.at("late").as_bool()};
    for (const JsonValue& size : output.at("sizes").elements()) out.sizes.emplace_back(size.as_string());
    for (size_t kind = 0; kind < std::size(kOutputKinds); ++kind) {
      if (output.at("kind").as_string() == kOutputKinds[kind]) out.kind = static_cast<OutputKind>(kind);
    }
    variant.signature.outputs.push_back({out.kind, out.target, out.name});
    variant.outputs.push_back(std::move(out));
  }
  for (const JsonValue& name : list(json, "symbols")) variant.symbols.emplace_back(name.as_string());
  for (const JsonValue& text : list(json, "bytes")) variant.bytes.push_back(parsed(text.as_string(), variant.signature));
  for (const JsonValue& text : list(json, "bindings")) {
    const std::string_view defined = element(json.at("defines"), variant.bindings.size()).as_string();
    variant.bindings.push_back(
        {parsed(text.as_string(), variant.signature), defined.empty() ? std::nullopt : variant.signature.symbols->find_symbol(defined)});
  }
  for (const JsonValue& constant : list(json, "constants")) variant.constants.push_back(static_cast<size_t>(constant.as_integer()));
  for (const JsonValue& each : list(json, "temporaries")) {
    variant.temporaries.push_back({element(each, 0).as_integer(), element(each, 1).as_integer()});
  }
  for (const JsonValue& name : list(json, "steps")) variant.steps.emplace_back(name.as_string());
  for (const JsonValue& text : list(json, "origins")) variant.origins.emplace_back(text.as_string());
  for (const JsonValue& each : list(json, "forms")) {
    program::Choice choice = {static_cast<size_t>(element(each, 0).as_integer()), {}};
    for (const JsonValue& form : each.elements().subspan(1)) choice.forms.emplace_back(form.as_string());
    variant.choices.push_back(std::move(choice));
  }
  for (const JsonValue& each : list(json, "work")) {
    const std::optional<DType> numbers = parse_dtype(element(each, 2).as_string());
    if (!numbers) each.fail("no dtype");
    variant.work.push_back(
        {parsed(element(each, 0).as_string(), variant.signature), parsed(element(each, 1).as_string(), variant.signature), *numbers});
  }
  variant.prepared_bytes = json.at("prepared_bytes").as_integer();
  variant.kernels = static_cast<int>(json.at("kernels").as_integer());
  variant.kernel_calls = static_cast<int>(json.at("kernel_calls").as_integer());
  variant.kernel_steps = static_cast<int>(json.at("kernel_steps").as_integer());
  variant.library_calls = static_cast<int>(json.at("library_calls").as_integer());
  return variant;
}

}  // namespace

ConstantTable::ConstantTable(const std::vector<GeneratedVariant>& variants) {
  std::map<std::pair<const std::byte*, size_t>, size_t> positions;
  for (const GeneratedVariant& variant : variants) {
    by_variant.emplace_back();
    for (ConstantId id : variant.code.module.constants) {
      const ConstantData& data = variant.program.constant(id);
      const auto [found, is_new] = positions.try_emplace({data.bytes.data(), data.bytes.size()}, all.size());
      if (is_new) all.push_back(&data);
      by_variant.back().push_back(found->second);
    }
  }
}

std::string manifest_text(const std::vector<GeneratedVariant>& variants, const ConstantTable& constants, std::string_view training) {
  JsonWriter json;
  json.begin_object();
  json.add("toroid", kVersion);
  json.add("abi", TOROID_ABI_VERSION);
  json.add("training", training);
  json.begin_array("constants");
  for (const ConstantData* data : constants.all) {
    json.begin_object();
    json.add("name", data->name);
    json.add("bytes", data->bytes.size());
    json.add("mutable", data->is_buffer);
    json.end();
  }
  json.end();
  json.begin_array("variants");
  for (size_t i = 0; i < variants.size(); ++i) write_variant(json, variants[i], constants.by_variant[i]);
  json.end();
  json.end();
  return json.take();
}

Manifest parse_manifest(std::string_view text) {
  const JsonDocument document = [&] {
    try {
      JsonDocument parsed = parse_json(text, "the manifest");
      const JsonValue* const version = parsed.root().find("toroid");
      const JsonValue* const abi = parsed.root().find("abi");
      if (version != nullptr && version->as_integer() == kVersion && abi != nullptr && abi->as_integer() == TOROID_ABI_VERSION)
        return parsed;
    } catch (const Error&) {  // it is none of ours either
    }
    throw Error(ErrorKind::InvalidInput, "the library was not made by this version of toroid")
        .help("compile the model again with 'toroid compile'");
  }();
  const JsonValue& json = document.root();
  Manifest manifest;
  manifest.training = json.at("training").as_string();
  for (const JsonValue& constant : list(json, "constants")) {
    manifest.constants.push_back(
        {std::string(constant.at("name").as_string()), constant.at("bytes").as_integer(), constant.at("mutable").as_bool()});
  }
  for (const JsonValue& variant : json.at("variants").elements()) {
    manifest.variants.push_back(parse_variant(variant));
    for (size_t position : manifest.variants.back().constants) {
      if (position >= manifest.constants.size()) variant.fail("it names a constant that there is not");
    }
  }
  if (manifest.variants.empty()) json.fail("no variants");
  return manifest;
}

}  // namespace toroid
