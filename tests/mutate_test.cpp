// Hostile models end in a typed error that names the place, whichever backend is asked; and a sample of random edits finds nothing.
#include <gtest/gtest.h>

#include <functional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/file.h"
#include "driver/compile.h"
#include "driver/pipeline/generate.h"
#include "frontend/pt2/import.h"
#include "interp/evaluate.h"
#include "mutate/archive.h"
#include "passes/decompose/engine/decompose.h"
#include "support/process/subprocess.h"

namespace toroid::mutate {
namespace {

const std::filesystem::path kModels = TOROID_CONFORMANCE_DIR;

Json& graph_of(EditableArchive& model) { return model.json("models/model.json")["graph_module"]["graph"]; }
Json& node_of(EditableArchive& model, std::string_view target) {
  for (Json& node : graph_of(model)["nodes"]) {
    if (node["target"] == target) return node;
  }
  throw Error(ErrorKind::InvalidInput, fmt::format("no node is a {}", target));
}
Json& branch_of(EditableArchive& model) { return node_of(model, "torch.ops.higher_order.cond")["inputs"][1]["arg"]["as_graph"]["graph"]; }
Json& meta_of(Json& graph, const Json& argument) { return graph["tensor_values"][argument["as_tensor"]["name"].get<std::string>()]; }

using Edit = std::function<void(EditableArchive& model)>;

std::string spoilt(const std::string& model, const Edit& edit) {
  EditableArchive archive(kModels / (model + ".pt2"));
  edit(archive);
  return archive.build();
}

Program import(const std::string& bytes) {
  auto owner = std::make_shared<const std::string>(bytes);
  return import_pt2(std::as_bytes(std::span(*owner)), owner, "spoilt.pt2", {.is_supported = is_supported});
}

// The error's message, after the same error of evaluator and compiler.
std::string error_of(const std::string& model, const Edit& edit) {
  const std::string bytes = spoilt(model, edit);
  std::string messages[2];
  for (const bool compiled : {false, true}) {
    try {
      Program program = import(bytes);
      if (compiled) {
        generate_code(std::move(program));
      } else {
        decompose(program);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidModel) << error.report();
      messages[compiled] = error.message();
    }
  }
  EXPECT_EQ(messages[0], messages[1]);
  return messages[0];
}

const std::string kCond = "models/cond";
const std::string kCondOp = "torch.ops.higher_order.cond";

TEST(HostileModel, ResultsOfACondAreThoseOfItsBranches) {
  const auto result = [](const char* member, Json value) {
    return [=](EditableArchive& model) {
      Json& graph = graph_of(model);
      Json& meta = meta_of(graph, Json{{"as_tensor", Json{{"name", "getitem"}}}});
      if (std::string_view(member) == "sizes") {
        meta["sizes"][1] = Json{{"as_int", value}};
      } else {
        meta[member] = value;
      }
    };
  };
  const std::string gives = "cond gives f32[4, 8] as result 0, 'getitem', and the model records ";
  EXPECT_EQ(error_of(kCond, result("sizes", 2)), gives + "f32[4, 2]");
  EXPECT_EQ(error_of(kCond, result("sizes", 16)), gives + "f32[4, 16]");
  EXPECT_EQ(error_of(kCond, result("sizes", int64_t{1} << 40)), gives + "f32[4, 1099511627776]");
  EXPECT_EQ(error_of(kCond, result("dtype", 8)), gives + "f64[4, 8]");
  EXPECT_EQ(error_of(kCond, result("dtype", 1)), gives + "u8[4, 8]");
  EXPECT_EQ(error_of(kCond,
                     [](EditableArchive& model) {
                       node_of(model, kCondOp)["outputs"].push_back(Json{{"as_tensor", Json{{"name", "x"}}}});
                     }),
            "cond gives 1 tensors, and the model records 2");
}

TEST(HostileModel, BranchesTakeWhatTheyAreGiven) {
  EXPECT_EQ(error_of(kCond,
                     [](EditableArchive& model) {
                       Json& branch = branch_of(model);
                       meta_of(branch, branch["inputs"][0])["dtype"] = 8;
                     }),
            "cond: what its true branch takes as tensor 0 is f64[4, 8], not f32[4, 8]");
  EXPECT_EQ(error_of(kCond, [](EditableArchive& model) { node_of(model, kCondOp)["inputs"][3]["arg"]["as_tensors"].erase(0); }),
            "cond: its true branch takes 5 tensors, and is given 4");
  EXPECT_EQ(error_of(kCond,
                     [](EditableArchive& model) {
                       branch_of(model)["inputs"][0] = Json{{"as_string", "x"}};
                     }),
            "a subgraph cannot take an input of kind 'as_string'");
}

TEST(HostileModel, OperandsOfControlFlowAreTensors) {
  const auto argument = [](size_t position, Json value) {
    return [=](EditableArchive& model) { node_of(model, kCondOp)["inputs"][position]["arg"] = value; };
  };
  EXPECT_EQ(error_of(kCond, argument(3, Json{{"as_none", true}})), "cond: argument 3 is none, not a list of tensors");
  EXPECT_EQ(error_of(kCond, argument(3, Json{{"as_string", "x"}})), "cond: argument 3 is \"x\", not a list of tensors");
  EXPECT_EQ(error_of(kCond, argument(3, Json{{"as_optional_tensors", Json::array({Json{{"as_none", true}}})}})),
            "cond: argument 3 holds none in the place of a tensor");
  EXPECT_EQ(error_of(kCond, argument(1, Json{{"as_ints", Json::array({1, 0})}})), "cond: argument 1 is [1, 0], not a subgraph");
  EXPECT_EQ(error_of(kCond, argument(0, Json{{"as_none", true}})), "cond: its predicate is none, neither a tensor nor a truth value");
}

TEST(HostileModel, LoopsGiveWhatTheyCarry) {
  const auto body_result = [](const char* op, Json dtype) {
    return [=](EditableArchive& model) {
      Json& body = node_of(model, op)["inputs"][0]["arg"]["as_graph"]["graph"];
      meta_of(body, body["outputs"][0])["dtype"] = dtype;
    };
  };
  EXPECT_EQ(error_of("control_flow/scan_recurrent", body_result("torch.ops.higher_order.scan", 8)),
            "scan: what its body gives as tensor 0 is f64[2, 6], not f32[2, 6]");
  EXPECT_EQ(error_of("control_flow/map_two", body_result("torch.ops.higher_order.map_impl", 8)),
            "map_impl gives f64[5, 3, 6] as result 0, 'getitem', and the model records f32[5, 3, 6]");
}

// Both lie, so only what the body's operator computes shows it.
TEST(HostileModel, ResultsInABodyAreThoseOfTheirOperators) {
  EXPECT_EQ(error_of("control_flow/map_two",
                     [](EditableArchive& model) {
                       Json& body = node_of(model, "torch.ops.higher_order.map_impl")["inputs"][0]["arg"]["as_graph"]["graph"];
                       meta_of(body, body["outputs"][0])["sizes"][1] = Json{{"as_int", 600}};
                       graph_of(model)["tensor_values"]["getitem"]["sizes"][2] = Json{{"as_int", 600}};
                     }),
            "aten::add.Tensor gives f32[3, 6] as 'add', but the model records f32[3, 600]");
}

TEST(HostileModel, DimsThatATensorLacksAreRefused) {
  EXPECT_EQ(error_of("models/mlp",
                     [](EditableArchive& model) {
                       node_of(model, "torch.ops.aten.layer_norm.default")["inputs"][0]["arg"] = Json{{"as_bool", true}};
                     }),
            "a tensor f32[] has no dim -1");
}

TEST(HostileModel, SizesAreReadFromIntegers) {
  EXPECT_EQ(error_of("control_flow/split_by_lengths",
                     [](EditableArchive& model) {
                       Json& graph = graph_of(model);
                       for (Json& node : graph["nodes"]) {
                         if (node["target"] == "torch.ops.aten.item.default") meta_of(graph, node["inputs"][0]["arg"])["dtype"] = 7;
                       }
                     })
                .substr(0, 36),
            "'item' is an integer, and is read fr");
}

// An example input that does not lie densely tells nothing of the caller's.
TEST(HostileModel, StridesThatWrapChangeNothing) {
  const auto with_strides = [](int64_t first, int64_t second) {
    return spoilt("control_flow/scan_recurrent", [=](EditableArchive& model) {
      graph_of(model)["tensor_values"]["args_1"]["strides"] =
          Json::array({Json{{"as_int", first}}, Json{{"as_int", second}}, Json{{"as_int", 1}}});
    });
  };
  std::vector<HostTensor> inputs;
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 6}, std::vector<int64_t>{7, 2, 6}}) {
    inputs.push_back(HostTensor::from_doubles(DType::F32, sizes, std::vector<double>(static_cast<size_t>(numel(sizes)), 0.5)));
  }
  CompileSession session;
  const auto outputs = [&](int64_t first, int64_t second) {
    return session.compile(import(with_strides(first, second)), {.optimization = 0}).load(1).run(inputs);
  };
  const std::vector<HostTensor> right = outputs(12, 6);
  ASSERT_EQ(right.size(), 2u);
  for (const auto& [first, second] : {std::pair<int64_t, int64_t>{10, (int64_t{1} << 62) - 5}, {1, int64_t{1} << 62}}) {
    const std::vector<HostTensor> spoilt = outputs(first, second);
    for (size_t i = 0; i < right.size(); ++i) EXPECT_EQ(spoilt.at(i).to_doubles(), right[i].to_doubles()) << first << ", " << second;
  }
}

// The sum of a row of 1e308 overflows; as a product with what follows it does not, where that is small.
TEST(HostileModel, AnOverflowOnTheWayIsNoDifference) {
  const TempFolder folder;
  const auto path = folder.path() / "program.txt";
  write_file_atomically(path, std::string_view(R"(# values v0: grid 76955
# values v4: positive 54388
# run
graph(v0: f64[65, 3], v4: f64[65, 3]) {
  v2: f64[65, 3] = aten::_log_softmax_backward_data(1e308, v0, 1, dtype.f64)
  v3: f64[65, 3] = aten::_log_softmax_backward_data(v0, v0, 1, dtype.f64)
  v5: f64[65, 3] = aten::div.Tensor_mode(v2, v4, rounding_mode="floor")
  return v3, v5
}
)"));
  const ProcessResult result =
      run_process({.argv = {TOROID_MUTATE_MODELS, "--replay", path.string()}, .timeout = std::chrono::seconds(100)});
  EXPECT_EQ(result.output, path.string() + ": equal\t\n") << result.errors;
}

// docs/testing.md has the command for more.
TEST(HostileModel, ASampleOfRandomEditsFindsNothing) {
  std::vector<std::string> argv = {
      TOROID_MUTATE_MODELS, "--seed", "1", "--count", "200", "--compile-every", "20", (kModels / "control_flow").string()};
  for (const char* model : {"mlp", "cond", "mutation", "index_mix", "unbacked", "while_loop"})
    argv.push_back((kModels / "models" / (std::string(model) + ".pt2")).string());
  const ProcessResult result = run_process({.argv = argv, .timeout = std::chrono::seconds(200)});
  EXPECT_TRUE(result.ok()) << result.outcome() << "\n" << result.output << result.errors;
}

}  // namespace
}  // namespace toroid::mutate
