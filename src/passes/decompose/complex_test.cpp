// Complex values inside a program, against PyTorch's results.
#include "passes/decompose/operator_cases.h"

namespace toroid {
namespace {

struct ComplexCase {
  std::string name;
  std::vector<std::string> inputs;  // x0, x1, …: "TYPE = ELEMENTS"
  std::vector<std::string> nodes;   // the last one gives y
  std::string result;
};

void PrintTo(const ComplexCase& row, std::ostream* out) { *out << row.name; }  // NOLINT: gtest's name

Program program_of(const ComplexCase& row) {
  std::string constants, body;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const std::string& input = row.inputs[i];
    constants += fmt::format("constant {0} \"c{0}\": {1}\n", i, input);
    body += fmt::format("  x{0}: {1} = constant({0})\n", i, input.substr(0, input.find(" =")));
  }
  constants += fmt::format("constant {} \"expected\": {}\n", row.inputs.size(), row.result);
  for (const std::string& node : row.nodes) body += fmt::format("  {}\n", node);
  return parse_text(fmt::format("program \"case\"\n{}graph() {{\n{}  return y\n}}\n", constants, body));
}

const ComplexCase kCases[] = {
    {"rfft",
     {"f32[2, 6] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[2, 4] = aten::fft_rfft(x0)", "y: f32[2, 4, 2] = aten::view_as_real(a)"},
     "f32[2, 4, 2] = [-2.25, 0, -0.375, 0.649519, -0.375, 0.2165063, -5.25, 0, 2.25, 0, -0.375, 0.649519, -0.375, "
     "0.2165063, -5.25, 0]"},
    {"rfft core",
     {"f32[2, 6] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[2, 4] = aten::_fft_r2c(x0, [1], 0, true)", "y: f32[2, 4] = aten::abs(a)"},
     "f32[2, 4] = [2.25, 0.75, 0.4330127, 5.25, 2.25, 0.75, 0.4330127, 5.25]"},
    {"irfft of an odd size",
     {"f32[2, 3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[2, 3] = aten::view_as_complex(x0)", "y: f32[2, 5] = aten::fft_irfft(a, 5)"},
     "f32[2, 5] = [-1.2, -0.4974485, 0.1486616, -0.1868582, 0.2356452, -0.45, -0.9591011, 0.257643, -0.2958396, "
     "0.6972977]"},
    {"fft over two dims",
     {"f32[2, 6] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[2, 6] = aten::fft_fft2(x0, norm=\"ortho\")", "y: f32[2, 6] = aten::imag(a)"},
     "f32[2, 6] = [0, 0.375, 0.125, 0, -0.125, -0.375, 0, 0, 0, 0, 0, 0]"},
    {"composite size",
     {"f32[40] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5, -1, "
      "0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, "
      "0, -1.5]"},
     {"a: c64[21] = aten::fft_rfft(x0)", "y: f32[21] = aten::abs(a)"},
     "f32[21] = [1.5, 1.551852, 1.817813, 11.32932, 1.427297, 1.77033, 6.710542, 1.282088, 1.788883, 5.637654, "
     "1.06066, 1.808041, 5.614742, 0.9130712, 1.822148, 6.604236, 2.176557, 1.830554, 11.7407, 15.34137, 9]"},
    {"quotient and conjugate",
     {"f32[2, 3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]",
      "f32[2, 3, 2] = [1.5, 0, -1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25]"},
     {"a: c64[2, 3] = aten::view_as_complex(x0)", "b: c64[2, 3] = aten::view_as_complex(x1)",
      "c: c64[2, 3] = aten::conj(a)", "e: c64[2, 3] = aten::div.Tensor(c, b)",
      "y: f32[2, 3, 2] = aten::view_as_real(e)"},
     "f32[2, 3, 2] = [-1, -0.1666667, 0.7567568, 0.4594595, 0.4827586, 0.7931034, -0, 1, -0.56, 0.92, -0.9655172, "
     "0.5862069]"},
    {"rotation",
     {"f32[2, 3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]",
      "f32[3] = [-1.5, 0.25, -1.25]"},
     {"l: f32[3] = aten::ones_like(x1)", "r: c64[3] = aten::polar(l, x1)", "a: c64[2, 3] = aten::view_as_complex(x0)",
      "p: c64[2, 3] = aten::mul.Tensor(a, r)", "y: f32[2, 3, 2] = aten::view_as_real(p)"},
     "f32[2, 3, 2] = [0.143268, 1.513927, -1.334843, 0.1752013, 0.3964161, 1.185476, 0.9444421, 0.8188584, -0.7937112, "
     "1.087439, 1.344646, 0.7102297]"},
    {"views",
     {"f32[2, 6] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]",
      "f32[2, 6] = [-0.5, 1.25, -0.25, 1.5, 0, 1.75, 0.25, 2, 0.5, 2.25, 0.75, 2.5]"},
     {"a: c64[2, 6] = aten::complex(x0, x1)", "b: c64[6, 2] = aten::permute(a, [1, 0])",
      "c: c64[2] = aten::select.int(b, 0, 3)", "y: f32[2] = aten::angle(c)"},
     "f32[2] = [1.249046, 1.063698]"},
};

class ComplexValues : public testing::TestWithParam<ComplexCase> {};

TEST_P(ComplexValues, ArePyTorchs) {
  Program program = program_of(GetParam());
  const HostTensor expected = constant_tensor(program.constants.back());
  decompose(program);
  verify(program, Level::Core);
  const std::vector<HostTensor> outputs = evaluate(program, {});
  EXPECT_EQ(difference(outputs.at(0), expected, {}), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Rows, ComplexValues, testing::ValuesIn(kCases));

std::string refusal_of(const std::string& body) {
  Program program = parse_text("program \"case\"\ngraph(x: f32[4]) {\n" + body + "}\n");
  try {
    decompose(program);
  } catch (const Error& error) {
    return error.report();
  }
  return "";
}

TEST(ComplexValues, RefusesOperatorsByName) {
  const std::string report = refusal_of(
      "  a: c64[3] = aten::fft_rfft(x)\n  b: c64[3] = aten::tanh(a)\n  y: f32[3] = aten::abs(b)\n  return y\n");
  EXPECT_EQ(report.substr(0, report.find('\n')), "error: operator 'aten::tanh of complex tensors' is not supported");
}

TEST(ComplexValues, RefusesComplexResults) {
  const std::string report = refusal_of("  a: c64[3] = aten::fft_rfft(x)\n  return a\n");
  EXPECT_EQ(report.substr(0, report.find('\n')), "error: output 'a' is complex (c64)");
  EXPECT_NE(report.find("torch.view_as_real"), std::string::npos);
}

}  // namespace
}  // namespace toroid
