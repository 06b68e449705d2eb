#include "graph/custom/custom_operator.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "base/file/file.h"
#include "graph/custom/custom_operators.h"

namespace toroid {
namespace {

constexpr std::string_view kAdd = R"(# Adds.
operator mylib::add2(Tensor x, Tensor y, float alpha=1.) -> Tensor
dtype T in f32, bf16
argument x: T[b, *rest]
argument y: T[b, *rest] strided
result: T[b, *rest]
require Mod(b, 2) == 0
cpp {
  tasks b*rest
  source """
void add2();
"""
}
formula {
  scaled = aten::mul.Scalar(y, alpha)
  sum = aten::add.Tensor(x, scaled)
  return sum
}
)";

TEST(CustomOperator, IsReadWithItsRulesAndBodies) {
  const CustomOperator op = read_custom_operator(std::string(kAdd), "mylib.add2.op");
  EXPECT_EQ(op.schema.name, "mylib::add2");
  EXPECT_EQ(op.size_names, (std::vector<std::string>{"b", "rest"}));
  ASSERT_EQ(op.arguments.size(), 2u);
  EXPECT_FALSE(op.arguments[0].second.is_strided);
  EXPECT_TRUE(op.arguments[1].second.is_strided);
  EXPECT_EQ(op.dtypes[0].second, (std::vector<DType>{DType::F32, DType::BF16}));
  ASSERT_NE(op.kernel(CustomKernel::Kind::Cpp), nullptr);
  EXPECT_EQ(op.kernel(CustomKernel::Kind::Cpp)->function, "add2");
  EXPECT_EQ(op.kernel(CustomKernel::Kind::Cpp)->source, "\nvoid add2();\n");
  EXPECT_EQ(op.kernel(CustomKernel::Kind::Cpp)->source_line, 10u);
  EXPECT_TRUE(op.formula);
}

struct Mistake {
  std::string_view name, from, to, message;
};
void PrintTo(const Mistake& row, std::ostream* out) { *out << row.name; }
// One change each of what reads well.
const Mistake kMistakes[] = {
    {"no_schema", "operator mylib::add2(", "schema mylib::add2(", "2:1: expected 'operator' and a schema"},
    {"bad_schema", "float alpha=1.) -> Tensor", "float alpha=1.) Tensor",
     "2:10: bad operator schema 'mylib::add2(Tensor x, Tensor y, float alpha=1.) Tensor': expected '->' at offset 48"},
    {"no_namespace", "mylib::add2(", "add2(", "2:10: expected a name as in mylib::op, not 'add2'"},
    {"view", "Tensor x, Tensor y, float alpha=1.) -> Tensor", "Tensor(a) x, Tensor y, float alpha=1.) -> Tensor(a)",
     "2:10: expected results that share no memory with arguments"},
    {"word", "require Mod", "requires Mod",
     "7:1: expected dtype, argument, result, require, formula, cpp, cuda, triton, halide or library"},
    {"dtype", "in f32, bf16", "in f32, float", "3:17: expected a dtype, not 'float'"},
    {"dtype_in_rule", "argument x: T[", "argument x: U[", "4:13: expected a dtype or a name that 'dtype' gives, not 'U'"},
    {"no_such_argument", "argument x:", "argument z:", "4:10: expected a tensor of the schema, not 'z'"},
    {"argument_twice", "argument y:", "argument x:", "5:10: argument 'x' has a rule already"},
    {"unknown_size", "result: T[b, *rest]", "result: T[c, *rest]", "6:11: expected a size or an integer argument, not 'c'"},
    {"unknown_dims", "result: T[b, *rest]", "result: T[b, *more]", "6:15: no argument has dims *more"},
    {"two_results", "require Mod(b, 2) == 0", "result: T[b]", "7:1: the schema has 1 new results, each with a rule"},
    {"expression", "require Mod(b, 2) == 0", "require Mod(b, 2 == 0",
     "7:9: bad size expression 'Mod(b, 2 == 0': expected ')' but the text ends at offset 13"},
    {"setting", "tasks b*rest", "blocks b*rest", "9:3: expected function, workspace, tasks, work or source, not 'blocks'"},
    {"open_source", "\"\"\"\n}\nformula", "\"\"\n}\nformula", "10:13: expected '\"\"\"' at the end of the source"},
    {"no_rule_for_kernel", "argument x: T[b, *rest]\nargument y: T[b, *rest] strided", "argument y: T[b, *rest]",
     "7:1: expected a rule for the argument 'x', which a kernel takes"},
    {"no_operator", "aten::mul.Scalar(", "aten::mul.Number(", "15:12: no operator is called 'aten::mul.Number'"},
    {"no_value", "aten::add.Tensor(x, scaled)", "aten::add.Tensor(x, half)", "16:29: no value is called 'half'"},
    {"name_twice", "  sum = aten", "  x = aten", "16:3: 'x' is defined already"},
    {"in_place", "  sum = aten::add.Tensor", "  sum = aten::add_.Tensor",
     "16:3: aten::add_.Tensor writes to its arguments; expected an operator that does not"},
    {"too_many_results", "return sum", "return sum, scaled",
     "14:9: the formula returns 2 tensors; expected 1: the results, then new values of arguments that are written to"},
};

class CustomOperatorMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(CustomOperatorMistakes, NameTheirLineAndWhatWasExpected) {
  std::string text(kAdd);
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, GetParam().from.size(), GetParam().to);
  const Error error = error_of([&] { read_custom_operator(text, "mylib.add2.op"); });
  EXPECT_EQ(error.kind(), ErrorKind::InvalidModel);
  EXPECT_EQ(error.message(), GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(All, CustomOperatorMistakes, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CustomOperator, HasKernelsInHalide) {
  constexpr std::string_view kText =
      "operator mylib::twice(Tensor x) -> Tensor\nargument x: f32[n]\nresult: f32[n]\nhalide {\n  autoscheduler "
      "none\n  source \"\"\"\nimport halide as hl\n\"\"\"\n}\n";
  const CustomOperator op = read_custom_operator(std::string(kText), "mylib.twice.op");
  const CustomKernel* kernel = op.kernel(CustomKernel::Kind::Halide);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->autoscheduler, "");
  EXPECT_EQ(kernel->function, "twice");
  const auto report_with = [&](std::string_view from, std::string_view to) {
    std::string text(kText);
    text.replace(text.find(from), from.size(), to);
    return error_of([&] { read_custom_operator(text, "mylib.twice.op"); }).report();
  };
  EXPECT_TRUE(report_with("none", "Best").find("5:17: expected Mullapudi2016, Li2018, Adams2019 or none, not 'Best'") != std::string::npos);
  EXPECT_TRUE(report_with("autoscheduler none", "tasks n").find("expected function, autoscheduler or source, not 'tasks'") !=
              std::string::npos);
  EXPECT_TRUE(report_with("Tensor x", "Tensor? x").find("a Halide kernel cannot take 'x', which may be absent or is written to") !=
              std::string::npos);
}

constexpr std::string_view kTriton = R"(operator mylib::add2(Tensor x, Tensor(a!) y, float alpha=1.) -> ()
argument x: f32[b, *rest]
argument y: f32[b, *rest]
triton {
  grid (rest + BLOCK - 1) // BLOCK, Max(b, 1)
  configuration BLOCK=1024, FAST=true, num_warps=8
  configuration BLOCK=256, FAST=false, num_stages=2
  arguments y, x, rest, BLOCK, FAST
  source """
"""
}
)";

TEST(CustomOperator, HasKernelsInTritonWithConfigurations) {
  const CustomOperator op = read_custom_operator(std::string(kTriton), "mylib.add2.op");
  const CustomKernel* kernel = op.kernel(CustomKernel::Kind::Triton);
  ASSERT_NE(kernel, nullptr);
  ASSERT_EQ(kernel->grid.size(), 2u);
  EXPECT_EQ(kernel->grid[0].text, "(rest + BLOCK - 1) // BLOCK");
  ASSERT_EQ(kernel->configurations.size(), 2u);
  EXPECT_EQ(kernel->configurations[0].warps, 8);
  EXPECT_EQ(kernel->configurations[1].stages, 2);
  EXPECT_EQ(kernel->configurations[1].constants, (std::vector<std::pair<std::string, std::string>>{{"BLOCK", "256"}, {"FAST", "false"}}));
  EXPECT_EQ(kernel->order, (std::vector<std::string>{"y", "x", "rest", "BLOCK", "FAST"}));
  EXPECT_EQ(op.library_name(CustomKernel::Kind::Triton), "custom.triton.mylib::add2");
}

TEST(CustomOperator, NamesWhatIsWrongWithAKernelInTriton) {
  const Mistake mistakes[] = {
      {"grid", "  grid (rest + BLOCK - 1) // BLOCK, Max(b, 1)\n", "", "4:1: expected 'grid'"},
      {"constant", "BLOCK, Max", "TILE, Max", "5:8: expected a size or an integer argument, not 'TILE'"},
      {"real_constant", "BLOCK=1024", "BLOCK=0.5", "5:8: expected a size or an integer argument, not 'BLOCK'"},
      {"warps", "num_warps=8", "num_warps=6", "6:50: expected 1, 2, 4, 8, 16 or 32 as num_warps, not '6'"},
      {"value", "FAST=true", "FAST=yes", "6:34: expected a number, true or false, not 'yes'"},
      {"name", "BLOCK=1024", "rest=1024", "6:17: 'rest' has a meaning already, or is no name"},
      {"other_constants", "FAST=false", "SLOW=false", "7:3: expected the constants of the first configuration, in its order"},
      {"argument", "arguments y, x", "arguments y, z",
       "4:1: the kernel's argument 'z' is none of the operator's, nor a size, a result or a constant"},
      {"argument_twice", "arguments y, x", "arguments y, y", "4:1: the kernel's argument 'y' is there twice"},
      {"setting", "  arguments", "  blocks", "8:3: expected function, workspace, grid, configuration, arguments or source, not 'blocks'"},
  };
  for (const Mistake& each : mistakes) {
    std::string text(kTriton);
    text.replace(text.find(each.from), each.from.size(), each.to);
    EXPECT_EQ(error_of([&] { read_custom_operator(text, "mylib.add2.op"); }).message(), each.message) << each.name;
  }
}

TEST(CustomOperators, InTritonAreForGpusThatAreThere) {
  const TempFolder folder;
  write_file_atomically(folder.path() / "mylib.add2.op", kTriton);
  CustomOperators on_gpu({.trusted = {folder.path()}, .for_gpu = true});
  EXPECT_TRUE(on_gpu.may_take_triton());
  EXPECT_EQ(on_gpu.kernel_of(*on_gpu.find("mylib::add2"))->kind, CustomKernel::Kind::Triton);
  EXPECT_EQ(on_gpu.of_library("custom.triton.mylib::add2"), on_gpu.find("mylib::add2"));
  CustomOperators emulated({.trusted = {folder.path()}, .for_gpu = true, .is_emulated = true});
  EXPECT_FALSE(emulated.may_take_triton());
  EXPECT_EQ(error_of([&] { emulated.kernel_of(*emulated.find("mylib::add2")); }).report(),
            "error: mylib.add2.op is in Triton, which a processor does not emulate\n"
            "  help: compile for a GPU with --device cuda, or give the operator a formula or a kernel in CUDA too");
  CustomOperators on_cpu({.trusted = {folder.path()}});
  EXPECT_EQ(error_of([&] { on_cpu.kernel_of(*on_cpu.find("mylib::add2")); }).message(), "mylib.add2.op has no body for a processor");
}

TEST(CustomOperators, AreFoundInTheFirstFolderThatHasThem) {
  const TempFolder first, second;
  write_file_atomically(second.path() / "mylib.add2.op", kAdd);
  CustomOperators operators({.trusted = {first.path(), second.path()}});
  const CustomOperator* op = operators.find("mylib::add2");
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(operators.find("mylib::add2.default"), op);
  EXPECT_EQ(operators.of(op->schema), op);
  EXPECT_EQ(operators.of_library("custom.mylib::add2"), op);
  EXPECT_EQ(operators.find("mylib::add3"), nullptr);
  EXPECT_EQ(operators.find("../mylib::add2"), nullptr);
  EXPECT_EQ(operators.find("mylib::../add2"), nullptr);
}

TEST(CustomOperators, HoldNoCodeBesideAModel) {
  const TempFolder folder;
  write_file_atomically(folder.path() / "mylib.add2.op", kAdd);
  CustomOperators operators({.beside_model = folder.path()});
  const Error error = error_of([&] { operators.find("mylib::add2"); });
  EXPECT_EQ(error.kind(), ErrorKind::InvalidOption);
  EXPECT_NE(error.message().find("holds code, which is not taken from beside a model"), std::string::npos) << error.message();
  // A formula is no code.
  std::string formula(kAdd);
  formula.erase(formula.find("cpp {"), formula.find("formula {") - formula.find("cpp {"));
  write_file_atomically(folder.path() / "mylib.add2.op", std::string_view(formula));
  EXPECT_NE(operators.find("mylib::add2"), nullptr);
}

TEST(CustomOperators, AreCalledAsTheirFiles) {
  const TempFolder folder;
  write_file_atomically(folder.path() / "mylib.other.op", kAdd);
  CustomOperators operators({.trusted = {folder.path()}});
  const Error error = error_of([&] { operators.find("mylib::other"); });
  EXPECT_NE(error.message().find("describes 'mylib::add2', not 'mylib::other'"), std::string::npos) << error.message();
}

TEST(CustomOperators, AreTheSameWhileTheirFilesAre) {
  const TempFolder folder;
  CustomOperators operators({.trusted = {folder.path()}});
  EXPECT_EQ(operators.fingerprint(), "");
  write_file_atomically(folder.path() / "mylib.add2.op", kAdd);
  const std::string before = operators.fingerprint();
  EXPECT_NE(before, "");
  EXPECT_EQ(operators.fingerprint(), before);
  write_file_atomically(folder.path() / "mylib.add2.op", std::string(kAdd) + "# changed\n");
  EXPECT_NE(operators.fingerprint(), before);
}

TEST(CustomOperators, OfALibraryThatCannotBeOpenedAreRefused) {
  const TempFolder folder;
  write_file_atomically(folder.path() / "libnothing.so", std::string_view("no library"));
  write_file_atomically(folder.path() / "mylib.f.op",
                        std::string_view("operator mylib::f(Tensor x) -> Tensor\nargument x: f32[n]\nresult: f32[n]\n"
                                         "library \"libnothing.so\" { tasks n }\n"));
  CustomOperators operators({.trusted = {folder.path()}});
  const Error error = error_of([&] { operators.find("mylib::f"); });
  EXPECT_EQ(error.kind(), ErrorKind::Environment);
  EXPECT_TRUE(error.message().starts_with("mylib.f.op:4 takes f from ")) << error.message();
}

}  // namespace
}  // namespace toroid
