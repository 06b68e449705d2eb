#include "driver/manifest.h"

#include <map>

#include <nlohmann/json.hpp>

#include "graph/builder.h"
#include "graph/text.h"
#include "interp/bind_symbols.h"
#include "support/error.h"
#include "symbolic/symbol_map.h"

namespace toroid {
namespace {

constexpr int kVersion = 4;
constexpr std::string_view kOutputKinds[] = {"user", "buffer_mutation", "input_mutation", "parameter_mutation",
                                             "gradient", "loss", "token"};

// The program's inputs, symbols and guards, in a program of their own.
Program signature_of(const Program& program) {
  Program signature;
  signature.name = program.name;
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

nlohmann::json variant_json(const GeneratedVariant& variant, const std::vector<size_t>& constants) {
  nlohmann::json json;
  json["when"] = nlohmann::json::array();
  for (const auto& [name, value] : variant.when) json["when"].push_back({name, value});
  json["signature"] = to_text(signature_of(variant.program));
  for (size_t i = 0; i < variant.program.graph.outputs.size(); ++i) {
    const TensorType& type = variant.program.graph.type(variant.program.graph.outputs[i]);
    json["outputs"].push_back({{"dtype", to_string(type.dtype)},
                               {"rank", type.rank()},
                               {"late", static_cast<bool>(variant.code.late_outputs[i])},
                               {"kind", kOutputKinds[static_cast<size_t>(variant.program.outputs[i].kind)]},
                               {"target", variant.program.outputs[i].target}});
  }
  for (sym::Expr symbol : variant.code.symbols) json["symbols"].push_back(symbol.node()->name);
  for (sym::Expr bytes : tensor_bytes(variant.program)) json["bytes"].push_back(sym::to_string(bytes));
  for (const codegen::GeneratedBinding& binding : variant.code.bindings) {
    json["bindings"].push_back(sym::to_string(binding.expr));
    json["defines"].push_back(binding.defines ? binding.defines->node()->name : "");
  }
  json["constants"] = constants;
  for (const schedule::Lifetime& each : variant.code.temporaries) json["temporaries"].push_back({each.first_step, each.last_step});
  json["prepared_bytes"] = variant.code.prepared_bytes;
  json["steps"] = variant.code.step_names;
  for (const schedule::StepWork& work : variant.code.step_work) json["work"].push_back({sym::to_string(work.bytes), sym::to_string(work.flops)});
  json["kernels"] = variant.code.kernels.size();
  json["kernel_calls"] = variant.code.kernel_calls;
  json["library_calls"] = variant.code.library_calls;
  return json;
}

ManifestVariant parse_variant(const nlohmann::json& json) {
  ManifestVariant variant;
  for (const auto& each : json.at("when")) variant.when.emplace_back(each.at(0).get<std::string>(), each.at(1).get<int64_t>());
  variant.signature = parse_text(json.at("signature").get<std::string>());
  for (const auto& output : json.value("outputs", nlohmann::json::array())) {
    ManifestOutput out{*parse_dtype(output.at("dtype").get<std::string>()), output.at("rank").get<int64_t>(), OutputKind::User,
                       output.at("target").get<std::string>(), output.at("late").get<bool>()};
    for (size_t kind = 0; kind < std::size(kOutputKinds); ++kind) {
      if (output.at("kind") == kOutputKinds[kind]) out.kind = static_cast<OutputKind>(kind);
    }
    variant.signature.outputs.push_back({out.kind, out.target});
    variant.outputs.push_back(std::move(out));
  }
  for (const auto& name : json.value("symbols", nlohmann::json::array())) variant.symbols.push_back(name.get<std::string>());
  for (const auto& text : json.value("bytes", nlohmann::json::array())) {
    variant.bytes.push_back(parsed(text.get<std::string>(), variant.signature));
  }
  const auto defines = json.value("defines", nlohmann::json::array());
  for (const auto& text : json.value("bindings", nlohmann::json::array())) {
    const auto defined = defines.at(variant.bindings.size()).get<std::string>();
    variant.bindings.push_back({parsed(text.get<std::string>(), variant.signature),
                                defined.empty() ? std::nullopt : variant.signature.symbols->find_symbol(defined)});
  }
  variant.constants = json.at("constants").get<std::vector<size_t>>();
  for (const auto& each : json.value("temporaries", nlohmann::json::array())) {
    variant.temporaries.push_back({each.at(0).get<int64_t>(), each.at(1).get<int64_t>()});
  }
  for (const auto& name : json.value("steps", nlohmann::json::array())) variant.steps.push_back(name.get<std::string>());
  for (const auto& each : json.value("work", nlohmann::json::array())) {
    variant.work.push_back({parsed(each.at(0).get<std::string>(), variant.signature), parsed(each.at(1).get<std::string>(), variant.signature)});
  }
  variant.prepared_bytes = json.value("prepared_bytes", int64_t{0});
  variant.kernels = json.value("kernels", 0);
  variant.kernel_calls = json.value("kernel_calls", 0);
  variant.library_calls = json.value("library_calls", 0);
  return variant;
}

}  // namespace

ConstantTable::ConstantTable(const std::vector<GeneratedVariant>& variants) {
  std::map<std::pair<const std::byte*, size_t>, size_t> positions;
  for (const GeneratedVariant& variant : variants) {
    by_variant.emplace_back();
    for (ConstantId id : variant.code.constants) {
      const ConstantData& data = variant.program.constant(id);
      const auto [found, is_new] = positions.try_emplace({data.bytes.data(), data.bytes.size()}, all.size());
      if (is_new) all.push_back(&data);
      by_variant.back().push_back(found->second);
    }
  }
}

std::string manifest_text(const std::vector<GeneratedVariant>& variants, const ConstantTable& constants) {
  nlohmann::json json;
  json["toroid"] = kVersion;
  for (const ConstantData* data : constants.all) {
    json["constants"].push_back({{"name", data->name}, {"bytes", data->bytes.size()}, {"mutable", data->is_buffer}});
  }
  for (size_t i = 0; i < variants.size(); ++i) json["variants"].push_back(variant_json(variants[i], constants.by_variant[i]));
  return json.dump();
}

Manifest parse_manifest(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("toroid", 0) != kVersion) {
    throw Error(ErrorKind::InvalidInput, "the library was not made by this version of toroid")
        .help("compile the model again with 'toroid compile'");
  }
  Manifest manifest;
  for (const auto& constant : json.value("constants", nlohmann::json::array())) {
    manifest.constants.push_back({constant.at("name").get<std::string>(), constant.at("bytes").get<int64_t>(),
                                  constant.at("mutable").get<bool>()});
  }
  for (const auto& variant : json.at("variants")) manifest.variants.push_back(parse_variant(variant));
  return manifest;
}

}  // namespace toroid
