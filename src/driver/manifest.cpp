#include "driver/manifest.h"

#include <nlohmann/json.hpp>

#include "graph/builder.h"
#include "graph/text.h"
#include "support/error.h"

namespace toroid {
namespace {

constexpr int kVersion = 2;
constexpr std::string_view kOutputKinds[] = {"user", "buffer_mutation", "input_mutation", "parameter_mutation",
                                             "gradient", "loss", "token"};

// The program's inputs, symbols and guards, in a program of their own.
Program signature_of(const Program& program) {
  Program signature;
  signature.name = program.name;
  for (sym::Expr symbol : program.symbols->symbols()) {
    const sym::Node& node = *symbol.node();
    if (node.symbol_kind != sym::SymbolKind::Size && node.symbol_kind != sym::SymbolKind::DataDependent) continue;
    signature.symbols->symbol(node.name, node.symbol_kind, node.range, node.hint);
  }
  auto moved = [&](sym::Expr e) {
    if (e.is_const()) return e;
    return sym::substitute(e, [&](sym::Expr symbol) -> std::optional<sym::Expr> {
      return signature.symbols->find_symbol(symbol.node()->name);
    });
  };
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    TensorType type = program.graph.type(program.graph.inputs[i]);
    for (sym::Expr& e : type.sizes) e = moved(e);
    for (sym::Expr& e : type.strides) e = moved(e);
    type.storage_offset = moved(type.storage_offset);
    const std::string& name = program.graph.value(program.graph.inputs[i]).name;
    const NodeId node = signature.graph.add_node(Input{static_cast<uint32_t>(i)}, {}, {type}, {}, {name});
    signature.graph.inputs.push_back(signature.graph.node(node).outputs[0]);
    signature.inputs.push_back(program.inputs[i]);
  }
  for (sym::Expr guard : program.guards) signature.guards.push_back(moved(guard));
  return signature;
}

sym::Expr parsed(std::string_view text, const Program& signature) {
  return sym::parse(text, *signature.symbols, [&](std::string_view name) -> sym::Expr {
    const std::optional<sym::Expr> symbol = signature.symbols->find_symbol(name);
    if (!symbol) throw Error(ErrorKind::InvalidInput, fmt::format("the library names a symbol '{}' that it does not have", name));
    return *symbol;
  });
}

}  // namespace

std::string manifest_text(const Program& program, const codegen::GeneratedProgram& generated) {
  nlohmann::json json;
  json["toroid"] = kVersion;
  json["signature"] = to_text(signature_of(program));
  for (size_t i = 0; i < program.graph.outputs.size(); ++i) {
    const TensorType& type = program.graph.type(program.graph.outputs[i]);
    json["outputs"].push_back({{"dtype", to_string(type.dtype)},
                               {"rank", type.rank()},
                               {"late", static_cast<bool>(generated.late_outputs[i])},
                               {"kind", kOutputKinds[static_cast<size_t>(program.outputs[i].kind)]},
                               {"target", program.outputs[i].target}});
  }
  for (sym::Expr symbol : generated.symbols) json["symbols"].push_back(symbol.node()->name);
  for (const codegen::GeneratedBinding& binding : generated.bindings) {
    json["bindings"].push_back(sym::to_string(binding.expr));
    json["defines"].push_back(binding.defines ? binding.defines->node()->name : "");
  }
  for (ConstantId id : generated.constants) {
    const ConstantData& data = program.constant(id);
    json["constants"].push_back({{"name", data.name}, {"bytes", data.bytes.size()}, {"mutable", data.is_buffer}});
  }
  for (const schedule::Lifetime& each : generated.temporaries) json["temporaries"].push_back({each.first_step, each.last_step});
  json["steps"] = generated.step_names;
  json["kernels"] = generated.kernels.size();
  json["kernel_calls"] = generated.kernel_calls;
  json["library_calls"] = generated.library_calls;
  return json.dump();
}

Manifest parse_manifest(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("toroid", 0) != kVersion) {
    throw Error(ErrorKind::InvalidInput, "the library was not made by this version of toroid")
        .help("compile the model again with 'toroid compile'");
  }
  Manifest manifest;
  manifest.signature = parse_text(json.at("signature").get<std::string>());
  for (const auto& output : json.value("outputs", nlohmann::json::array())) {
    ManifestOutput out{*parse_dtype(output.at("dtype").get<std::string>()), output.at("rank").get<int64_t>(), OutputKind::User,
                       output.at("target").get<std::string>(), output.at("late").get<bool>()};
    for (size_t kind = 0; kind < std::size(kOutputKinds); ++kind) {
      if (output.at("kind") == kOutputKinds[kind]) out.kind = static_cast<OutputKind>(kind);
    }
    manifest.signature.outputs.push_back({out.kind, out.target});
    manifest.outputs.push_back(std::move(out));
  }
  for (const auto& name : json.value("symbols", nlohmann::json::array())) manifest.symbols.push_back(name.get<std::string>());
  const auto defines = json.value("defines", nlohmann::json::array());
  for (const auto& text : json.value("bindings", nlohmann::json::array())) {
    const auto defined = defines.at(manifest.bindings.size()).get<std::string>();
    manifest.bindings.push_back({parsed(text.get<std::string>(), manifest.signature),
                                 defined.empty() ? std::nullopt : manifest.signature.symbols->find_symbol(defined)});
  }
  for (const auto& constant : json.value("constants", nlohmann::json::array())) {
    manifest.constants.push_back({constant.at("name").get<std::string>(), constant.at("bytes").get<int64_t>(),
                                  constant.at("mutable").get<bool>()});
  }
  for (const auto& each : json.value("temporaries", nlohmann::json::array())) {
    manifest.temporaries.push_back({each.at(0).get<int64_t>(), each.at(1).get<int64_t>()});
  }
  for (const auto& name : json.value("steps", nlohmann::json::array())) manifest.steps.push_back(name.get<std::string>());
  manifest.kernels = json.value("kernels", 0);
  manifest.kernel_calls = json.value("kernel_calls", 0);
  manifest.library_calls = json.value("library_calls", 0);
  return manifest;
}

}  // namespace toroid
