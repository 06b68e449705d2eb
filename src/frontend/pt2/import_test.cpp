#include "frontend/pt2/import.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error_for_test.h"
#include "base/file/file.h"
#include "frontend/pt2/pt2_for_test.h"
#include "graph/builder.h"
#include "graph/custom/custom_operators.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace toroid {
namespace {

const std::filesystem::path kConformance(TOROID_CONFORMANCE_DIR);

std::string text_of(const Program& program, const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph.value(node.outputs[i]);
      text += fmt::format("{}{}: {}", i > 0 ? ", " : "", value.name, to_string(value.type));
    }
    text += fmt::format("{}{}", node.outputs.empty() ? "" : " = ", to_string(node.op));
    for (ValueId input : node.inputs) text += fmt::format(" {}", graph.value(input).name);
    text += '\n';
  }
  text += "return";
  for (ValueId output : graph.outputs) text += fmt::format(" {}", graph.value(output).name);
  for (const sym::Expr& guard : program.guards) text += fmt::format("\nguard {}", sym::to_string(guard));
  return text;
}
std::string text_of(const Program& program) { return text_of(program, program.graph); }

std::string report_of(const Pt2ForTest& model, const Pt2Options& options = {}) {
  try {
    model.import(options);
  } catch (const Error& error) {
    EXPECT_NE(error.report().find("while importing net.pt2"), std::string::npos) << error.report();
    return error.report();
  }
  return "accepted";
}

// The report of a model with one text replaced.
std::string report_with(std::string_view from, std::string_view to) {
  Pt2ForTest model;
  replace(model.model_json, from, to);
  return report_of(model);
}

#define EXPECT_STARTS_WITH(text, start) EXPECT_EQ(std::string(text).substr(0, std::string_view(start).size()), start)

TEST(ImportPt2, TakesEveryRecordedModel) {
  for (const char* folder : {"models", "opinfo"}) {
    size_t models = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kConformance / folder)) {
      if (entry.path().extension() != ".pt2") continue;
      ++models;
      try {
        verify(import_pt2(entry.path()), Level::Import);
      } catch (const Error& error) {
        ADD_FAILURE() << error.report();
      }
    }
    EXPECT_GT(models, 10u) << folder;
  }
}

TEST(ImportPt2, MakesNodesInSchemaOrder) {
  const Program program = Pt2ForTest().import();
  EXPECT_EQ(text_of(program),
            "p_w: f32[2, 2] = constant(0)\n"
            "x: f32[3, 2] = input(0)\n"
            "mm: f32[3, 2] = aten::mm(%0, %1) x p_w\n"
            "add: f32[3, 2] = aten::add.Tensor(%0, 1, 1) mm\n"
            "return add");
  ASSERT_EQ(program.inputs.size(), 1u);
  EXPECT_EQ(program.inputs[0].name, "x");
  ASSERT_EQ(program.outputs.size(), 1u);
  EXPECT_EQ(program.outputs[0].kind, OutputKind::User);
  EXPECT_EQ(program.name, "net.pt2");
  const std::string bytes = Pt2ForTest().zip().build();
  EXPECT_EQ(import_pt2(std::as_bytes(std::span(bytes)), nullptr, "some/folder/net.pt2").name, "net.pt2");
}

TEST(ImportPt2, KeepsWhereNodesComeFrom) {
  const Program program = Pt2ForTest().import();
  const Provenance& place = program.graph.provenance(program.graph.nodes()[2].provenance);
  EXPECT_EQ(place.op, "aten::mm");
  EXPECT_EQ(place.name, "mm");
  EXPECT_EQ(place.module, "body (Body)");
  EXPECT_EQ(place.source, "net.py:7, in forward: y = x @ self.w");
}

TEST(ImportPt2, UsesWeightsInPlace) {
  const std::string bytes = Pt2ForTest().zip().build();
  // 30 bytes of header and 25 of name leave the weight unaligned; torch.export.save would pad it.
  auto owner = std::make_shared<std::string>(std::string(64, '\0') + bytes);
  const size_t unaligned = (reinterpret_cast<uintptr_t>(owner->data()) + 55) % 16;
  const size_t shift = (16 - unaligned) % 16;
  owner->replace(shift, bytes.size(), bytes);
  const auto span = std::as_bytes(std::span(*owner)).subspan(shift, bytes.size());
  const Program program = import_pt2(span, owner, "net.pt2");
  const ConstantData& weight = program.constants.at(0);
  EXPECT_EQ(weight.name, "body.w");
  EXPECT_EQ(weight.bytes.size(), 16u);
  EXPECT_EQ(weight.bytes.data(), span.data() + 55);
  EXPECT_EQ(weight.owner, owner);
  EXPECT_FALSE(weight.is_buffer);
}

TEST(ImportPt2, CopiesWeightsThatLieUnaligned) {
  const std::string bytes = Pt2ForTest().zip().build();
  for (size_t shift = 0; shift < 4; ++shift) {
    auto owner = std::make_shared<std::string>(std::string(shift, '\0') + bytes);
    const Program program = import_pt2(std::as_bytes(std::span(*owner)).subspan(shift), owner, "net.pt2");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(program.constants[0].bytes.data()) % 4, 0u);
    EXPECT_EQ(program.constants[0].bytes[15], std::byte{0x3f});
  }
}

TEST(ImportPt2, SharesStorageBetweenNames) {
  Pt2ForTest model;
  replace(model.model_json, R"("inputs": [{"as_tensor": {"name": "p_w"}},)",
          R"("inputs": [{"as_tensor": {"name": "p_w"}}, {"as_tensor": {"name": "b_w"}},)");
  replace(model.model_json, R"("tensor_values": {)", R"("tensor_values": {"b_w": {"dtype": 7, "sizes": [{"as_int": 2}],
          "requires_grad": false, "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}],
          "storage_offset": {"as_int": 1}, "layout": 7},)");
  replace(model.model_json, R"({"user_input")",
          R"({"buffer": {"arg": {"name": "b_w"}, "buffer_name": "column", "persistent": true}}, {"user_input")");
  replace(model.weights_json, R"({"config": {)",
          R"({"config": {"column": {"path_name": "weight_0", "is_param": false, "use_pickle": false,
          "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 2}], "requires_grad": false,
          "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}], "storage_offset": {"as_int": 1},
          "layout": 7}},)");
  const Program program = model.import();
  ASSERT_EQ(program.constants.size(), 2u);
  const ConstantData& column = program.constants[1];
  EXPECT_EQ(column.bytes.data(), program.constants[0].bytes.data() + 4) << "the offset is applied";
  EXPECT_EQ(column.bytes.size(), 12u);
  EXPECT_TRUE(column.is_buffer);
  ASSERT_EQ(column.type.strides.size(), 1u);
  EXPECT_EQ(column.type.strides[0], sym::Expr(2));
}

// As export records `x.expand(3, 2)`; PyTorch takes any tensor of these sizes.
TEST(ImportPt2, KeepsOnlyDenseStridesOfExamples) {
  auto strides_of_x = [](int outer, int inner) {
    Pt2ForTest model;
    replace(model.model_json, R"("x": {"dtype": 7, "sizes": [{"as_int": 3}, {"as_int": 2}], "requires_grad": false,
            "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}, {"as_int": 1}],)",
            fmt::format(R"("x": {{"dtype": 7, "sizes": [{{"as_int": 3}}, {{"as_int": 2}}], "requires_grad": false,
            "device": {{"type": "cpu", "index": null}}, "strides": [{{"as_int": {}}}, {{"as_int": {}}}],)",
                        outer, inner));
    const Program program = model.import();
    return to_string(program.graph.type(program.graph.inputs.at(0)));
  };
  EXPECT_EQ(strides_of_x(2, 1), "f32[3, 2]");
  EXPECT_EQ(strides_of_x(1, 3), "f32[3, 2] strides [1, 3]");
  EXPECT_EQ(strides_of_x(0, 1), "f32[3, 2]");
  EXPECT_EQ(strides_of_x(2, 3), "f32[3, 2]");
  EXPECT_EQ(strides_of_x(1 << 30, 1), "f32[3, 2]");
}

TEST(ImportPt2, KnowsUnsignedIntegers) {
  for (const auto& [number, dtype] : {std::pair(28, DType::U16), std::pair(34, DType::U32), std::pair(35, DType::U64)}) {
    Pt2ForTest model;
    replace(model.model_json, R"("x": {"dtype": 7)", fmt::format(R"("x": {{"dtype": {})", number));
    const Program program = model.import();
    EXPECT_EQ(program.graph.type(program.graph.inputs.back()).dtype, dtype);
  }
}

TEST(ImportPt2, RefusesPickledWeights) {
  Pt2ForTest model;
  replace(model.weights_json, R"("use_pickle": false)", R"("use_pickle": true)");
  EXPECT_EQ(report_of(model),
            "error: weight 'body.w' is stored as a Python pickle, which toroid never loads\n"
            "  while loading weight 'body.w' by data/weights/model_weights_config.json\n"
            "  while reading models/model.json\n"
            "  while importing net.pt2\n"
            "  help: make it a plain contiguous tensor before exporting: subclasses and quantized tensors are pickled");
}

TEST(ImportPt2, NamesWhatIsWrongWithAWeight) {
  Pt2ForTest model;
  replace(model.weights_json, "body.w", "body.v");
  EXPECT_STARTS_WITH(report_of(model), "error: weight 'body.w' is missing from the archive\n");
  model = {};
  replace(model.weights_json, "weight_0", "weight_1");
  EXPECT_STARTS_WITH(report_of(model), "error: weight 'body.w' is missing from the archive: no entry 'data/weights/weight_1'\n");
  model = {};
  replace(model.weights_json, "weight_0", "../../net/data/weights/weight_0");
  EXPECT_STARTS_WITH(report_of(model), "error: weight 'body.w' is missing from the archive: no entry 'data/weights/../");
  model = {};
  model.weight.resize(15);
  EXPECT_STARTS_WITH(report_of(model),
                     "error: weight 'body.w' of type f32[2, 2] needs 16 bytes, and its entry "
                     "'data/weights/weight_0' holds 15\n");
  model = {};
  replace(model.weights_json, R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 4611686018427387904})");
  EXPECT_NE(report_of(model).find("needs more than 2^63 bytes"), std::string::npos);
  model = {};
  replace(model.weights_json, R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": -1})");
  EXPECT_STARTS_WITH(report_of(model), "error: weight 'body.w' begins before its entry\n  at byte ");
  for (const auto& [strides, bytes] : {std::pair("1099511627776", "4398046511112"), {"2305843009213693952", "more than 2^63"}}) {
    model = {};
    replace(model.weights_json, R"("strides": [{"as_int": 2})", fmt::format(R"("strides": [{{"as_int": {}}})", strides));
    EXPECT_STARTS_WITH(report_of(model),
                       fmt::format("error: weight 'body.w' of type f32[2, 2] strides [{}, 1] needs {} bytes", strides, bytes));
  }
  model = {};
  replace(model.weights_json, R"("strides": [{"as_int": 2})", R"("strides": [{"as_int": -2})");
  EXPECT_STARTS_WITH(report_of(model), "error: a stride is negative\n");
  model = {};
  replace(model.weights_json, R"("dtype": 7)", R"("dtype": 6)");
  EXPECT_STARTS_WITH(report_of(model), "error: weight 'body.w' is f16[2, 2] in the archive and f32[2, 2] in the graph\n  at byte ");
  model = {};
  ZipForTest zip = model.zip();
  zip.entries[0].crc = 1;
  try {
    Pt2ForTest::import_bytes(zip.build());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STARTS_WITH(error.message(), "archive rejected: entry 'net/data/weights/weight_0' is damaged: its CRC is ");
  }
}

TEST(ImportPt2, RefusesWhatIsNotAnExport) {
  Pt2ForTest model;
  model.format = "pt3";
  EXPECT_STARTS_WITH(report_of(model), "error: the archive's archive_format is 'pt3', and toroid reads 'pt2'\n");
  model = {};
  model.byteorder = "big";
  EXPECT_STARTS_WITH(report_of(model), "error: the archive's byteorder is 'big', and toroid reads 'little'\n");
  EXPECT_STARTS_WITH(report_with(R"("major": 8)", R"("major": 9)"), "error: the model has schema version 9, and toroid reads 8\n");
  model = {};
  model.model_name = "other";
  EXPECT_EQ(report_of(model), "accepted") << "a single model may have any name";
  ZipForTest zip = model.zip();
  zip.add("net/models/second.json", "{}");
  EXPECT_THROW(Pt2ForTest::import_bytes(zip.build()), Error);
  const auto message = [](const ZipForTest& archive) -> std::string {
    try {
      Pt2ForTest::import_bytes(archive.build());
    } catch (const Error& error) {
      return error.message();
    }
    return "accepted";
  };
  EXPECT_EQ(message(zip), "the archive holds 2 models, none called 'model': other, second");
  zip.entries.resize(2);
  EXPECT_EQ(message(zip), "this ZIP file is not a PyTorch export archive: it has no 'archive_format' entry");
  zip.add("net/archive_format", "pt2");
  EXPECT_EQ(message(zip), "the archive lacks the entry 'net/archive_version'");
  zip.add("net/archive_version", "0");
  zip.add("net/byteorder", "little");
  EXPECT_EQ(message(zip), "the archive holds no model: no entry 'models/NAME.json'");
}

TEST(ImportPt2, NamesFileAndPlaceOfMalformedModels) {
  Pt2ForTest model;
  replace(model.model_json, R"("mm": {"dtype": 7)", R"("mm": {"dtype": 99)");
  EXPECT_EQ(report_of(model), fmt::format("error: unknown dtype number 99\n"
                                          "  at byte {} of the JSON text\n"
                                          "  while importing node 'mm' (aten::mm)\n"
                                          "  while reading models/model.json\n"
                                          "  while importing net.pt2\n"
                                          "  help: write the file again: it is damaged, or comes from a version that "
                                          "this toroid does not know",
                                          model.model_json.find("99") + 1));
  EXPECT_STARTS_WITH(
      report_with(
          R"({"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},)",
          R"({"name": "m1", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}, {"name": "m2", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},)"),
      "error: operator aten::mm has no argument 'm1'\n");
  EXPECT_STARTS_WITH(report_with(R"("name": "mat2")", R"("name": "self")"),
                     "error: operator aten::mm is given its argument 'self' twice\n");
  EXPECT_STARTS_WITH(report_with(R"({"name": "self", "arg": {"as_tensor": {"name": "mm"}}, "kind": 1},)", ""),
                     "error: operator aten::add.Tensor lacks its argument 'self'\n");
  EXPECT_STARTS_WITH(report_with(R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_string": "x"}, "kind")"),
                     "error: argument 'self' of operator aten::mm cannot be of kind 'as_string'\n");
  EXPECT_STARTS_WITH(report_with(R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_tensor": {"name": "add"}}, "kind")"),
                     "error: 'add' is used before anything defines it\n");
  EXPECT_STARTS_WITH(report_with(R"("outputs": [{"as_tensor": {"name": "mm"}}])", R"("outputs": [{"as_tensor": {"name": "x"}}])"),
                     "error: 'x' is defined twice\n");
  EXPECT_STARTS_WITH(report_with(R"("outputs": [{"as_tensor": {"name": "mm"}}])", R"("outputs": [{"as_tensor": {"name": "q"}}])"),
                     "error: the tensor 'q' has no metadata\n");
  EXPECT_STARTS_WITH(report_with(R"({"as_int": 3})", R"({"as_int": -3})"), "error: a size is negative\n");
  EXPECT_STARTS_WITH(report_with(R"({"as_int": 3})", R"({"as_ant": 3})"), "error: expected an integer or an expression, found 'as_ant'\n");
  EXPECT_STARTS_WITH(report_with(R"("layout": 7)", R"("layout": 2)"), "error: sparse and other non-strided tensors are not supported\n");
  EXPECT_STARTS_WITH(report_with(R"("type": "cpu")", R"("type": "tpu")"), "error: device 'tpu' is not supported\n");
  EXPECT_STARTS_WITH(report_with(R"({"user_input")", R"({"custom_obj")"), "error: inputs of kind 'custom_obj' are not supported\n");
  EXPECT_STARTS_WITH(report_with("{", "["), "error: invalid JSON: ");
  EXPECT_STARTS_WITH(report_with(R"("target")", R"("targot")"), "error: an object lacks the key 'target'\n");
}

// Versions of PyTorch rename arguments; their order stays.
TEST(ImportPt2, ReadsRenamedArgumentsByTheirPlace) {
  Pt2ForTest model;
  replace(model.model_json, R"("name": "self")", R"("name": "input")");
  replace(model.model_json, R"("name": "mat2")", R"("name": "matrix")");
  const Program program = model.import();
  EXPECT_NE(text_of(program).find("mm: f32[3, 2] = aten::mm(%0, %1) x p_w"), std::string::npos) << text_of(program);
}

TEST(ImportPt2, DropsArgumentsOfNewerVersionsThatAreNone) {
  constexpr std::string_view kLast = R"({"name": "other", "arg": {"as_int": 1}, "kind": 1})";
  const auto with_another = [&](std::string_view value) {
    return fmt::format(R"({}, {{"name": "rounding", "arg": {}, "kind": 2}})", kLast, value);
  };
  Pt2ForTest model;
  replace(model.model_json, kLast, with_another(R"({"as_none": true})"));
  EXPECT_NE(text_of(model.import()).find("aten::add.Tensor(%0, 1"), std::string::npos);
  EXPECT_STARTS_WITH(report_with(kLast, with_another(R"({"as_string": "up"})")),
                     "error: operator aten::add.Tensor has no argument 'rounding'\n");
}

// A float that sizes give is an argument, and a result of its own.
TEST(ImportPt2, ComputesFloatsFromSizes) {
  Pt2ForTest model;
  replace(model.model_json, R"("x": {"dtype": 7, "sizes": [{"as_int": 3})",
          R"j("x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)"}})j");
  replace(model.model_json, R"("mm": {"dtype": 7, "sizes": [{"as_int": 3})",
          R"("mm": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}})");
  replace(model.model_json, R"("add": {"dtype": 7, "sizes": [{"as_int": 3})",
          R"("add": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}})");
  replace(model.model_json, R"("arg": {"as_int": 1})", R"("arg": {"as_sym_float": {"as_name": "half"}})");
  replace(
      model.model_json, R"("sym_int_values": {})",
      R"j("sym_float_values": {"half": {"as_expr": {"expr_str": "IntTrueDiv(Symbol('s0', positive=True, integer=True), Integer(2))"}}}, "sym_int_values": {})j");
  replace(model.model_json, R"("outputs": [{"as_tensor": {"name": "add"}}],
    "nodes")",
          R"("outputs": [{"as_sym_float": {"as_name": "half"}}],
    "nodes")");
  const std::string text = text_of(model.import());
  EXPECT_NE(text.find("aten::add.Tensor(%0, Real(div, Real(float, s0), 2)"), std::string::npos) << text;
  EXPECT_NE(text.find("number: i64[] = full(value=Real(div, Real(float, s0), 2))"), std::string::npos) << text;
  EXPECT_NE(text.find(": f64[] = bitcast number"), std::string::npos) << text;
}

// SymPy calls every size positive; the range that the program states counts.
TEST(ImportPt2, TakesSizesFromZeroOnWhereTheRangeSaysSo) {
  Pt2ForTest model;
  const auto least = [&] { return model.import().symbols->find_symbol("s0")->range().min; };
  replace(model.model_json, R"("x": {"dtype": 7, "sizes": [{"as_int": 3})",
          R"j("x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)"}})j");
  EXPECT_EQ(least(), 1);
  replace(model.model_json, R"("range_constraints": {})", R"("range_constraints": {"s0": {"min_val": 0, "max_val": 50}})");
  EXPECT_EQ(least(), 0);
  // From 2 on says that no size of 0 or 1 was traced, as of every size that is left to the exporter; PyTorch's program takes a batch of 1.
  replace(model.model_json, R"("min_val": 0)", R"("min_val": 2)");
  EXPECT_EQ(least(), 1);
  replace(model.model_json, R"("min_val": 2)", R"("min_val": 3)");
  EXPECT_EQ(least(), 3);
}

// The operator is the cause; that its dtype is unknown too is not.
TEST(ImportPt2, NamesMissingOperatorsBeforeOtherFaults) {
  Pt2ForTest model;
  replace(model.model_json, "torch.ops.aten.mm.default", "torch.ops.mylib.mm.default");
  replace(model.model_json, R"("mm": {"dtype": 7)", R"("mm": {"dtype": 99)");
  EXPECT_STARTS_WITH(report_of(model), "error: operator 'mylib::mm' is not supported\n");
}

TEST(ImportPt2, ReportsAllUnsupportedOperatorsTogether) {
  Pt2ForTest model;
  replace(model.model_json, "torch.ops.aten.mm.default", "torch.ops.mylib.fast_mm.default");
  Pt2Options options;
  options.is_supported = [](const Schema& schema) { return schema.name != "aten::add.Tensor"; };
  const std::string report = report_of(model, options);
  EXPECT_STARTS_WITH(report,
                     "error: 2 operators are not supported\n"
                     "  at mylib::fast_mm (1 use), first at node 'mm' in body (Body), net.py:7, in forward: y = x @ self.w\n"
                     "  at aten::add.Tensor (1 use), first at node 'add'\n");
  EXPECT_NE(report.find("help: 'toroid ops --missing net.pt2' lists every unsupported operator"), std::string::npos);
  EXPECT_STARTS_WITH(report_of(model), "error: operator 'mylib::fast_mm' is not supported\n");
}

TEST(ImportPt2, SaysHowTensorSubclassesAreTakenApart) {
  for (const std::string_view op : {"torch.ops.export.access_subclass_inner_tensor.default", "torch.ops.torchao.quantize_affine.default"}) {
    Pt2ForTest model;
    replace(model.model_json, "torch.ops.aten.mm.default", op);
    EXPECT_NE(
        report_of(model).find("help: export the model with torch.export.export(…).run_decompositions(), which takes tensor subclasses"),
        std::string::npos)
        << op;
  }
}

TEST(ImportPt2, CountsOperators) {
  const std::vector<OperatorUse> uses = pt2_operators(kConformance / "models" / "cond.pt2");
  std::string text;
  for (const OperatorUse& use : uses) text += fmt::format("{} {}{}\n", use.op, use.uses, use.is_known ? "" : "?");
  EXPECT_EQ(text, "aten::sum 1\naten::gt.Scalar 1\naten::linear 2\naten::relu 1\naten::sin 1\nhigher_order::cond 1\n");
}

TEST(ImportPt2, KeepsBodiesOfControlFlow) {
  const Program program = import_pt2(kConformance / "models" / "while_loop.pt2");
  EXPECT_EQ(text_of(program),
            "i: i64[] = input(0)\n"
            "x: f32[4, 4] = input(1)\n"
            "getitem: i64[], getitem_1: f32[4, 4] = higher_order::while_loop(@0, @1, [%0, %1], []) i x\n"
            "return getitem getitem_1");
  ASSERT_EQ(program.subgraphs.size(), 2u);
  EXPECT_EQ(text_of(program, program.subgraphs[0]),
            "arg0_1: i64[] = input(0)\n"
            "arg1_1: f32[4, 4] = input(1)\n"
            "lt: bool[] = aten::lt.Scalar(%0, 5) arg0_1\n"
            "return lt");
}

TEST(ImportPt2, DissolvesGradientRegions) {
  Pt2ForTest model;
  const size_t begin = model.model_json.find(R"({"target": "torch.ops.aten.mm.default")");
  const size_t end = model.model_json.find(R"({"target": "torch.ops.aten.add.Tensor")");
  const std::string node = model.model_json.substr(begin, model.model_json.rfind(',', end) - begin);
  const size_t types = model.model_json.find(R"("tensor_values")");
  const std::string values = model.model_json.substr(types, model.model_json.find(R"("is_single_tensor_return")", types) - types);
  model.model_json.replace(begin, node.size(),
                           R"({"target": "torch.ops.higher_order.wrap_with_set_grad_enabled",
      "inputs": [{"name": "", "arg": {"as_bool": false}, "kind": 1},
                 {"name": "", "kind": 1, "arg": {"as_graph": {"name": "submod_1", "graph": {
                     "inputs": [{"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "p_w"}}],
                     "outputs": [{"as_tensor": {"name": "mm"}}], "nodes": [)" +
                               node + "], " + values +
                               R"("is_single_tensor_return": false}}}},
                 {"name": "", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                 {"name": "", "arg": {"as_tensor": {"name": "p_w"}}, "kind": 1}],
      "outputs": [{"as_tensor": {"name": "mm"}}], "metadata": {}, "name": "wrapped"})");
  EXPECT_EQ(text_of(model.import()), text_of(Pt2ForTest().import()));
}

// The model's product within another node's graph: `before` comes before the graph among the arguments.
Pt2ForTest with_region(std::string_view op, std::string_view before, std::string_view result_dtype) {
  Pt2ForTest model;
  const size_t begin = model.model_json.find(R"({"target": "torch.ops.aten.mm.default")");
  const size_t end = model.model_json.find(R"({"target": "torch.ops.aten.add.Tensor")");
  const std::string node = model.model_json.substr(begin, model.model_json.rfind(',', end) - begin);
  const size_t types = model.model_json.find(R"("tensor_values")");
  std::string values = model.model_json.substr(types, model.model_json.find(R"("is_single_tensor_return")", types) - types);
  replace(values, R"("mm": {"dtype": 7)", fmt::format(R"("mm": {{"dtype": {})", result_dtype));
  model.model_json.replace(begin, node.size(),
                           fmt::format(R"({{"target": "torch.ops.higher_order.{}", "inputs": [{},
      {{"name": "", "kind": 1, "arg": {{"as_graph": {{"name": "submod_1", "graph": {{
          "inputs": [{{"as_tensor": {{"name": "x"}}}}, {{"as_tensor": {{"name": "p_w"}}}}],
          "outputs": [{{"as_tensor": {{"name": "mm"}}}}], "nodes": [{}], {} "is_single_tensor_return": false}}}}}}}},
      {{"name": "", "arg": {{"as_tensor": {{"name": "x"}}}}, "kind": 1}}, {{"name": "", "arg": {{"as_tensor": {{"name": "p_w"}}}}, "kind": 1}}],
      "outputs": [{{"as_tensor": {{"name": "mm"}}}}], "metadata": {{}}, "name": "wrapped"}})",
                                       op, before, node, values));
  return model;
}
std::string autocast(std::string_view device, std::string_view dtype, bool enabled) {
  return fmt::format(R"({{"name": "", "arg": {{"as_string": "{}"}}, "kind": 1}}, {{"name": "", "arg": {{"as_scalar_type": {}}}, "kind": 1}},
      {{"name": "", "arg": {{"as_bool": {}}}, "kind": 1}}, {{"name": "", "arg": {{"as_bool": true}}, "kind": 1}})",
                     device, dtype, enabled);
}

TEST(ImportPt2, MakesTheConversionsOfAutocastExplicit) {
  const std::string text = text_of(with_region("wrap_with_autocast", autocast("cpu", "13", true), "13").import());
  EXPECT_NE(text.find("x_bf16: bf16[3, 2] = aten::_to_copy(%0, dtype.bf16, none, none, none, false, none) x\n"
                      "p_w_bf16: bf16[2, 2] = aten::_to_copy(%0, dtype.bf16, none, none, none, false, none) p_w\n"
                      "mm: bf16[3, 2] = aten::mm(%0, %1) x_bf16 p_w_bf16\n"
                      "mm_rounded: bf16[3, 2] = bitcast mm\n"),
            std::string::npos)
      << text;
}

TEST(ImportPt2, ConvertsNothingOutsideOfAutocast) {
  const std::string plain = text_of(Pt2ForTest().import());
  EXPECT_EQ(text_of(with_region("wrap_with_autocast", autocast("cpu", "13", false), "7").import()), plain);
  EXPECT_EQ(text_of(with_region("wrap_with_autocast", autocast("cuda", "6", true), "7").import()), plain);
}

TEST(ImportPt2, RefusesAutocastToWhatIsNoLowerPrecision) {
  const std::string report = report_of(with_region("wrap_with_autocast", autocast("cpu", "8", true), "8"));
  EXPECT_NE(report.find("autocast converts to float16 or bfloat16"), std::string::npos) << report;
  const std::string device = report_of(with_region("wrap_with_autocast", autocast("moon", "13", true), "13"));
  EXPECT_NE(device.find("autocast is for a device of type cpu or cuda"), std::string::npos) << device;
}

std::string transform(std::string_view name, std::string_view inputs, std::string_view output) {
  return fmt::format(R"({{"target": "torch._functorch.predispatch.{}", "inputs": [{}], "outputs": [{}], "metadata": {{}}, "name": "{}"}},)",
                     name, inputs, output, name);
}
constexpr std::string_view kNone = R"({"as_none": true})";
std::string tensor_argument(std::string_view name) {
  return fmt::format(R"({{"name": "", "arg": {{"as_tensor": {{"name": "{}"}}}}, "kind": 1}})", name);
}
std::string integer_argument(int value) { return fmt::format(R"({{"name": "", "arg": {{"as_int": {}}}, "kind": 1}})", value); }

// PyTorch gives none where the schema has a tensor; of other parameters that is refused.
TEST(ImportPt2, TakesGradientsOfAttentionWithoutABias) {
  const auto with_none = [](std::string_view parameter) {
    Pt2ForTest model;
    std::string inputs;
    for (std::string_view name : {"grad_out_", "query", "key", "value", "attn_bias", "out", "logsumexp", "philox_seed", "philox_offset"}) {
      inputs += fmt::format(R"({{"name": "{}", "arg": {}, "kind": 1}},)", name,
                            name == parameter ? std::string(kNone) : R"({"as_tensor": {"name": "mm"}})");
    }
    inputs += R"({"name": "dropout_p", "arg": {"as_float": 0.0}, "kind": 1},
                 {"name": "grad_input_mask", "arg": {"as_bools": [true, false, false, false]}, "kind": 1})";
    replace(model.model_json, "torch.ops.aten.add.Tensor", "torch.ops.aten._scaled_dot_product_efficient_attention_backward.default");
    replace(model.model_json, R"({"name": "self", "arg": {"as_tensor": {"name": "mm"}}, "kind": 1},
                  {"name": "other", "arg": {"as_int": 1}, "kind": 1})",
            inputs);
    replace(model.model_json, R"("outputs": [{"as_tensor": {"name": "add"}}], "metadata")",
            R"("outputs": [{"as_tensor": {"name": "add"}}, {"as_none": true}, {"as_none": true}, {"as_none": true}], "metadata")");
    return model;
  };
  EXPECT_NE(text_of(with_none("attn_bias").import()).find("aten::_scaled_dot_product_efficient_attention_backward"), std::string::npos);
  EXPECT_STARTS_WITH(report_of(with_none("query")),
                     "error: argument 'query' of operator aten::_scaled_dot_product_efficient_attention_backward cannot be of kind "
                     "'as_none'\n");
}

// add = vmap(lambda row: row + 1)(mm); with the rows' dim and their length as recorded.
Pt2ForTest with_vmap(int dim, bool ends = true, int length = 2) {
  Pt2ForTest model;
  const std::string begin =
      transform("lazy_load_decompositions", "", kNone) +
      transform("_vmap_increment_nesting", integer_argument(3) + R"(, {"name": "", "arg": {"as_string": "error"}, "kind": 1})", kNone) +
      transform("_add_batch_dim", fmt::format("{}, {}, {}", tensor_argument("mm"), integer_argument(dim), integer_argument(1)),
                R"({"as_tensor": {"name": "row"}})");
  std::string end = "," + transform("_remove_batch_dim",
                                    fmt::format("{}, {}, {}, {}", tensor_argument("added"), integer_argument(1), integer_argument(3),
                                                integer_argument(dim)),
                                    R"({"as_tensor": {"name": "add"}})");
  if (ends) end += transform("_vmap_decrement_nesting", "", kNone);
  end.pop_back();
  std::string& json = model.model_json;
  replace(json, R"({"target": "torch.ops.aten.add.Tensor")", begin + R"({"target": "torch.ops.aten.add.Tensor")");
  replace(json, R"("arg": {"as_tensor": {"name": "mm"}}, "kind": 1},
                  {"name": "other")",
          R"("arg": {"as_tensor": {"name": "row"}}, "kind": 1},
                  {"name": "other")");
  replace(json, R"("outputs": [{"as_tensor": {"name": "add"}}], "metadata": {}, "name": "add"})",
          R"("outputs": [{"as_tensor": {"name": "added"}}], "metadata": {}, "name": "add"})" + end);
  for (const char* name : {"row", "added"}) {
    replace(
        json, R"("add": {"dtype")",
        fmt::format(R"("{}": {{"dtype": 7, "sizes": [{{"as_int": {}}}], "requires_grad": false, "device": {{"type": "cpu", "index": null}},
              "strides": [{{"as_int": 1}}], "storage_offset": {{"as_int": 0}}, "layout": 7}}, "add": {{"dtype")",
                    name, length));
  }
  return model;
}

TEST(ImportPt2, TakesTheNodesOfAVmapAsABodyForASlice) {
  const Program program = with_vmap(0).import();
  const std::string text = text_of(program);
  EXPECT_NE(text.find("add: f32[3, 2] = higher_order::vmap(@0, [%0], [], \"error\") mm\n"), std::string::npos) << text;
  ASSERT_EQ(program.subgraphs.size(), 1u);
  EXPECT_EQ(text_of(program, program.subgraphs[0]), "row: f32[2] = input(0)\nadded: f32[2] = aten::add.Tensor(%0, 1, 1) row\nreturn added");
}

TEST(ImportPt2, RefusesAVmapThatDoesNotHoldTogether) {
  EXPECT_NE(report_of(with_vmap(0, false)).find("a vmap that nothing ends"), std::string::npos);
  EXPECT_NE(report_of(with_vmap(2)).find("the mapped dim is none of the tensor's"), std::string::npos);
  const std::string length = report_of(with_vmap(0, true, 5));
  EXPECT_NE(length.find("vmap: what its body takes as tensor 0 is f32[5], not f32[2]"), std::string::npos) << length;
}

// Gives a value of the small model more neighbours of the same type.
void add_values(std::string& json, std::initializer_list<const char*> names) {
  const size_t begin = json.find(R"("add": {"dtype")"), end = json.find('}', json.find(R"("layout")", begin));
  const std::string type = json.substr(begin + 6, end + 1 - begin - 6);
  for (const char* name : names) json.insert(begin, fmt::format(R"("{}":{}, )", name, type));
}

// add = jvp(lambda y: y + 1, (mm,), (x,))[1]
TEST(ImportPt2, TakesTheStepsOfAJvpAsOperatorsOfDualTensors) {
  Pt2ForTest model;
  std::string& json = model.model_json;
  const std::string begin =
      transform("_jvp_increment_nesting", "", kNone) + transform("_enter_dual_level", "", kNone) +
      transform("_make_dual", tensor_argument("mm") + "," + tensor_argument("x"), R"({"as_tensor": {"name": "dual"}})");
  std::string end = "," +
                    transform("_unpack_dual", tensor_argument("sum"), R"({"as_tensor": {"name": "p"}}, {"as_tensor": {"name": "q"}})") +
                    transform("_unwrap_for_grad", tensor_argument("q") + "," + integer_argument(1), R"({"as_tensor": {"name": "add"}})") +
                    transform("_exit_dual_level", "", kNone) + transform("_jvp_decrement_nesting", "", kNone);
  end.pop_back();
  add_values(json, {"dual", "sum", "p", "q"});
  replace(json, R"({"target": "torch.ops.aten.add.Tensor")", begin + R"({"target": "torch.ops.aten.add.Tensor")");
  replace(json, R"("arg": {"as_tensor": {"name": "mm"}}, "kind": 1},
                  {"name": "other")",
          R"("arg": {"as_tensor": {"name": "dual"}}, "kind": 1},
                  {"name": "other")");
  replace(json, R"("outputs": [{"as_tensor": {"name": "add"}}], "metadata": {}, "name": "add"})",
          R"("outputs": [{"as_tensor": {"name": "sum"}}], "metadata": {}, "name": "add"})" + end);
  const std::string text = text_of(model.import());
  EXPECT_NE(text.find("dual: f32[3, 2] = aten::_make_dual(%0, %1, 1) mm x\nsum: f32[3, 2] = aten::add.Tensor(%0, 1, 1) dual\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("aten::_unpack_dual(%0, 1) sum\nreturn q"), std::string::npos) << text;
}

// An effect of `op` on mm, between tokens.
Pt2ForTest with_effect(std::string_view op) {
  Pt2ForTest model;
  std::string& json = model.model_json;
  add_values(json, {"token", "token_1"});
  replace(json, R"("inputs": [{"as_tensor": {"name": "p_w"}})",
          R"("inputs": [{"as_tensor": {"name": "token"}}, {"as_tensor": {"name": "p_w"}})");
  replace(json, R"("outputs": [{"as_tensor": {"name": "add"}}],
    "nodes")",
          R"("outputs": [{"as_tensor": {"name": "token_1"}}, {"as_tensor": {"name": "add"}}],
    "nodes")");
  replace(json, R"("input_specs": [)", R"("input_specs": [{"token": {"arg": {"name": "token"}}}, )");
  replace(json, R"("output_specs": [)", R"("output_specs": [{"token": {"arg": {"name": "token_1"}}}, )");
  replace(json, R"({"target": "torch.ops.aten.add.Tensor")",
          fmt::format(R"({{"target": "torch.ops.higher_order.with_effects", "inputs": [{},
              {{"name": "", "arg": {{"as_operator": "{}"}}, "kind": 1}}, {}, {{"name": "", "arg": {{"as_string": "linalg.inv"}}, "kind": 1}},
              {{"name": "is_matrix", "arg": {{"as_bool": true}}, "kind": 2}}],
              "outputs": [{{"as_tensor": {{"name": "token_1"}}}}, {{"as_none": true}}], "metadata": {{}}, "name": "effect"}},
              {{"target": "torch.ops.aten.add.Tensor")",
                      tensor_argument("token"), op, tensor_argument("mm")));
  return model;
}

TEST(ImportPt2, TakesOperatorsOutOfTheirTokens) {
  const Program program = with_effect("torch.ops.aten._linalg_check_errors.default").import();
  const std::string text = text_of(program);
  EXPECT_NE(text.find(R"(= aten::_linalg_check_errors(%0, "linalg.inv", true) mm)"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\nreturn add")) << text;
  EXPECT_EQ(program.inputs.size(), 1u);
  EXPECT_EQ(program.outputs.size(), 1u);
  EXPECT_NE(report_of(with_effect("torch.ops.mylib.say.default")).find("operator 'mylib::say' is not supported"), std::string::npos);
}

// The product is a kernel in Triton of the model's own, which writes to its second argument.
Pt2ForTest with_triton_kernel(std::string_view written = "[1]") {
  Pt2ForTest model;
  replace(model.model_json, R"({"target": "torch.ops.aten.mm.default",
       "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                  {"name": "mat2", "arg": {"as_tensor": {"name": "p_w"}}, "kind": 1}],)",
          fmt::format(R"({{"target": "torch.ops.higher_order.triton_kernel_wrapper_functional",
       "inputs": [{0}, {0}, {{"name": "", "arg": {{"as_int": 6}}, "kind": 1}},
                  {{"name": "name", "arg": {{"as_string": "twice_it_0123456789abcdef0123456789abcdef"}}, "kind": 2}},
                  {{"name": "grid", "arg": {{"as_ints": [1, 1, 1]}}, "kind": 2}},
                  {{"name": "output_indices", "arg": {{"as_ints": {1}}}, "kind": 2}},
                  {{"name": "num_warps", "arg": {{"as_int": 4}}, "kind": 2}}],)",
                      tensor_argument("x"), written));
  return model;
}

TEST(ImportPt2, TakesKernelsInTritonAsOperatorsOfTheUser) {
  EXPECT_NE(report_of(with_triton_kernel()).find("operator 'triton::twice_it' is not supported"), std::string::npos);
  const TempFolder folder;
  write_file_atomically(
      folder.path() / "triton.twice_it.op",
      std::string_view("operator triton::twice_it(Tensor x, Tensor(a!) out, int n) -> ()\nformula {\n  y = aten::add.Tensor(x, x)\n"
                       "  return y\n}\n"));
  const auto operators = std::make_shared<CustomOperators>(OperatorFolders{.trusted = {folder.path()}});
  const Pt2Options options{.is_supported = {}, .operators = operators};
  const std::string text = text_of(with_triton_kernel().import(options));
  EXPECT_NE(text.find("x_copy: f32[3, 2] = aten::clone(%0, none) x\n"), std::string::npos) << text;
  EXPECT_NE(text.find("triton::twice_it(%0, %1, 6) x x_copy\n"), std::string::npos) << text;
  EXPECT_NE(text.find("add: f32[3, 2] = aten::add.Tensor(%0, 1, 1) x_copy\n"), std::string::npos) << text;
  EXPECT_NE(error_of([&] { with_triton_kernel("[0]").import(options); })
                .message()
                .find("the kernel of triton::twice_it writes to its arguments 0, and its file says 1"),
            std::string::npos);
}

TEST(ImportPt2, SaysHowToExportTransformsThatItDoesNotKnow) {
  const std::string report = report_with("torch.ops.aten.mm.default", "torch._functorch.predispatch._vjp_treespec");
  EXPECT_NE(report.find("help: export the model with torch.export.export(…).run_decompositions({})"), std::string::npos) << report;
}

TEST(ImportPt2, TurnsSymbolicIntegersIntoExpressions) {
  const Program program = import_pt2(kConformance / "models" / "llama_dynamic.pt2");
  const std::string text = text_of(program);
  EXPECT_NE(text.find("\ni: i64[s58, s48] = input(0)\n"
                      "arange: i64[s48] = aten::arange(s48, none, none, device.cpu, false)\n"),
            std::string::npos)
      << text.substr(0, 3000);
  EXPECT_NE(text.find("= aten::view(%0, [s58, s48, 3, 4, 16])"), std::string::npos);
  const std::optional<sym::Expr> batch = program.symbols->find_symbol("s58");
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->range(), (sym::Range{1, 64}));
  EXPECT_EQ(batch->node()->hint, 2);
  EXPECT_EQ(batch->node()->symbol_kind, sym::SymbolKind::Size);
}

TEST(ImportPt2, BindsIntegersReadOutOfTensors) {
  const Program program = import_pt2(kConformance / "models" / "unbacked.pt2");
  EXPECT_NE(text_of(program).find("item: i64[] = aten::item(%0) n\n"
                                  "arange: f32[u0] = aten::arange(u0, dtype.f32, none, device.cpu, false)\n"),
            std::string::npos);
  ASSERT_EQ(program.graph.bindings.size(), 1u);
  EXPECT_EQ(sym::to_string(program.graph.bindings[0].expr), "u0");
  EXPECT_EQ(program.graph.value(program.graph.bindings[0].value).name, "item");
  EXPECT_EQ(program.graph.bindings[0].expr.range(), (sym::Range{2, 64}));
}

TEST(ImportPt2, ReadsGuardsOnSizes) {
  Pt2ForTest model;
  replace(model.model_json, R"("x": {"dtype": 7, "sizes": [{"as_int": 3})",
          R"("x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0", "hint": {"as_int": 4}}})");
  replace(model.model_json, R"("guards_code": [])", R"("guards_code": ["L['x'].size()[0] % 2 == 0", "L['x'].size()[1] == 2"])");
  EXPECT_NE(text_of(model.import()).find("\nguard Eq(Mod(s0, 2), 0)"), std::string::npos) << text_of(model.import());
  replace(model.model_json, "% 2 == 0", "is prime");
  EXPECT_STARTS_WITH(report_of(model), "error: the model's guard \"L['x'].size()[0] is prime\" is not understood\n");
  replace(model.model_json, "L['x'].size()[0] is prime", "L['z'].size()[0] == 1");
  EXPECT_STARTS_WITH(report_of(model), "error: the model's guard \"L['z'].size()[0] == 1\" is not understood\n");
  replace(model.model_json, "L['z'].size()[0] == 1", "L['x'].size()[1] == 1");
  EXPECT_STARTS_WITH(report_of(model), "error: the model's guard \"L['x'].size()[1] == 1\" never holds\n");
}

// So other sizes are numbers: s0//4 is 1, and broadcasts.
TEST(ImportPt2, SizesHaveTheRangesThatGuardsGiveThem) {
  const auto range = [](const std::string& guards, size_t left) {
    Pt2ForTest model;
    replace(model.model_json, R"("x": {"dtype": 7, "sizes": [{"as_int": 3})",
            R"("x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0", "hint": {"as_int": 4}}})");
    replace(model.model_json, R"("guards_code": [])", R"("guards_code": [)" + guards + "]");
    const Program program = model.import();
    EXPECT_EQ(program.guards.size(), left) << guards;
    return program.symbols->symbols()[0].range();
  };
  EXPECT_EQ(range(R"("L['x'].size()[0] // 4 == 1")", 0), (sym::Range{4, 7}));
  EXPECT_EQ(range(R"("L['x'].size()[0] // 4 == 1", "(2*L['x'].size()[0] + 1) // 3 == 3")", 0), (sym::Range{4, 5}));
  EXPECT_EQ(range(R"("L['x'].size()[0] // 4 == 1", "L['x'].size()[0] % 2 == 0")", 1), (sym::Range{4, 7}));
  EXPECT_EQ(range(R"("10 - L['x'].size()[0] // 2 == 8")", 0), (sym::Range{4, 5}));
}

TEST(ImportPt2, NamesValuesByIdentifiersOnly) {
  Pt2ForTest model;
  const std::string hostile = R"(*/ #include \"/etc/passwd\"\n)";
  for (int i = 0; i < 3; ++i) replace(model.model_json, R"("mm")", '"' + hostile + '"');
  replace(model.model_json, R"("mm": {)", '"' + hostile + "\": {");
  const Program program = model.import();
  EXPECT_EQ(program.graph.value(program.graph.nodes()[2].outputs[0]).name, "____include___etc_passwd__");
}

// Values whose names are alike where they are cut, and a weight called as an input is: each is itself, and inputs keep their whole names.
TEST(ImportPt2, KeepsValuesApartWhoseNamesAreCutToTheSame) {
  Pt2ForTest model;
  const std::string beginning(100, 'n');
  const auto rename = [&](std::string_view from, const std::string& to) {
    const std::string quoted = fmt::format("\"{}\"", from);
    for (size_t at = model.model_json.find(quoted); at != std::string::npos; at = model.model_json.find(quoted, at + to.size()))
      model.model_json.replace(at, quoted.size(), fmt::format("\"{}\"", to));
  };
  rename("p_w", beginning + "_w");
  rename("x", beginning + "_x");
  rename("mm", beginning + "_mm");
  const Program program = model.import();
  verify(program, Level::Import);
  const std::string cut(80, 'n');
  EXPECT_EQ(text_of(program), fmt::format("{0}: f32[2, 2] = constant(0)\n"
                                          "{0}_1: f32[3, 2] = input(0)\n"
                                          "{0}_2: f32[3, 2] = aten::mm(%0, %1) {0}_1 {0}\n"
                                          "add: f32[3, 2] = aten::add.Tensor(%0, 1, 1) {0}_2\n"
                                          "return add",
                                          cut));
  EXPECT_EQ(program.inputs[0].name, beginning + "_x");
  EXPECT_EQ(program.constants[0].name, "body.w");
  EXPECT_EQ(to_text(parse_text(to_text(program))), to_text(program));
}

TEST(ImportPt2, SurvivesDamageAnywhere) {
  // Each byte of the JSON texts replaced by others; the archive itself is right.
  for (std::string Pt2ForTest::*text : {&Pt2ForTest::model_json, &Pt2ForTest::weights_json}) {
    Pt2ForTest model;
    const size_t length = (model.*text).size();
    for (size_t i = 0; i < length; ++i) {
      for (char byte : {'0', '"', '}', '\xff'}) {
        const char before = std::exchange((model.*text)[i], byte);
        try {
          verify(model.import(), Level::Import);
        } catch (const Error& error) {
          EXPECT_NE(error.kind(), ErrorKind::Internal) << error.report();
        }
        (model.*text)[i] = before;
      }
    }
  }
}

}  // namespace
}  // namespace toroid
