// Complex values inside a program, against PyTorch's results.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "interp/compare.h"
#include "interp/evaluate.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

struct ComplexCase {
  const char* name;
  std::initializer_list<const char*> inputs;  // x0, x1, …: "TYPE = ELEMENTS"
  std::initializer_list<const char*> nodes;   // the last one gives y
  const char* result;
};

void PrintTo(const ComplexCase& row, std::ostream* out) { *out << row.name; }  // NOLINT: gtest's name

Program complex_program_of(const ComplexCase& row) {
  std::string constants, body;
  size_t i = 0;
  for (const std::string_view input : row.inputs) {
    constants += fmt::format("constant {0} \"c{0}\": {1}\n", i, input);
    body += fmt::format("  x{0}: {1} = constant({0})\n", i, input.substr(0, input.find(" =")));
    ++i;
  }
  constants += fmt::format("constant {} \"expected\": {}\n", row.inputs.size(), row.result);
  for (const char* node : row.nodes) body += fmt::format("  {}\n", node);
  return parse_text(fmt::format("program \"case\"\n{}graph() {{\n{}  return y\n}}\n", constants, body));
}

const ComplexCase kComplexCases[] = {
    {"irfft of real numbers", {"f32[3] = [1, 2, -3]"}, {"y: f32[4] = aten::fft_irfft(x0)"}, "f32[4] = [0.5, 1, -1.5, 1]"},
    {"complex of a row and a column",
     {"f32[2, 1] = [1, 2]", "f32[3] = [3, 4, 5]"},
     {"a: c64[2, 3] = aten::complex(x0, x1)", "y: f32[2, 3, 2] = aten::view_as_real(a)"},
     "f32[2, 3, 2] = [1, 3, 1, 4, 1, 5, 2, 3, 2, 4, 2, 5]"},
    {"bool of complex numbers",
     {"f32[4, 2] = [0, 1, 0, 0, 2, 0, 0, nan]"},
     {"a: c64[4] = aten::view_as_complex(x0)", "y: bool[4] = aten::to.dtype(a, dtype.bool)"},
     "bool[4] = [true, false, true, true]"},
    {"rfft",
     {"f32[2, 6] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[2, 4] = aten::fft_rfft(x0)", "y: f32[2, 4, 2] = aten::view_as_real(a)"},
     "f32[2, 4, 2] = [-2.25, 0, -0.375, 0.649519, -0.375, 0.2165063, -5.25, 0, 2.25, 0, -0.375, 0.649519, -0.375, "
     "0.2165063, -5.25, 0]"},
    {"rfft where NaN and infinity reach some parts",
     {"f32[2, 4] = [1, nan, 2, 3, 1, 2, inf, 3]"},
     {"a: c64[2, 3] = aten::fft_rfft(x0)", "y: f32[2, 3, 2] = aten::view_as_real(a)"},
     "f32[2, 3, 2] = [nan, 0, -1, nan, nan, 0, inf, 0, -inf, 1, inf, 0]"},
    {"fft of real numbers, from the last to the first",
     {"f32[5] = [1, 2, 4, 8, 16]"},
     {"a: c64[5] = aten::fft_ifft(x0, norm=\"forward\")", "b: c64[5] = aten::fft_fft(a)", "y: f32[5] = aten::real(b)"},
     "f32[5] = [5, 10, 20, 40, 80]"},
    {"index_add multiplies both parts by alpha",
     {"f32[2, 2] = [1, 2, 3, 4]", "i64[2] = [1, 1]", "f32[2, 2] = [1, 10, 2, 20]"},
     {"x: c64[2] = aten::view_as_complex(x0)", "s: c64[2] = aten::view_as_complex(x2)", "a: c64[2] = aten::index_add(x, 0, x1, s, alpha=2)",
      "b: c64[2] = aten::index_add(a, 0, x1, s)", "y: f32[2, 2] = aten::view_as_real(b)"},
     "f32[2, 2] = [1, 2, 12, 94]"},
    {"a real tensor in a complex one's shape",
     {"f32[2, 1] = [3, 4]", "f32[2, 2, 2] = [1, 2, 3, 4, 5, 6, 7, 8]"},
     {"x: c64[2, 2] = aten::view_as_complex(x1)", "y: f32[2, 2] = aten::expand_as(x0, x)"},
     "f32[2, 2] = [3, 3, 4, 4]"},
    {"real tensors like complex ones",
     {"f32[1, 2] = [1, 2]"},
     {"x: c64[1] = aten::view_as_complex(x0)", "a: f32[1] = aten::zeros_like(x, dtype.f32)", "b: f32[1] = aten::ones_like(x, dtype.f32)",
      "c: f32[1] = aten::full_like(x, 2.5, dtype.f32)", "y: f32[3] = aten::cat([a, b, c])"},
     "f32[3] = [0, 1, 2.5]"},
    {"padding fills the real parts alone",
     {"f32[1, 2] = [1, 2]"},
     {"x: c64[1] = aten::view_as_complex(x0)", "a: c64[2] = aten::pad(x, [1, 0], \"constant\", 1.5)",
      "b: c64[3] = aten::constant_pad_nd(a, [0, 1], 3)", "y: f32[3, 2] = aten::view_as_real(b)"},
     "f32[3, 2] = [1.5, 0, 1, 2, 3, 0]"},
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
     {"a: c64[2, 3] = aten::view_as_complex(x0)", "b: c64[2, 3] = aten::view_as_complex(x1)", "c: c64[2, 3] = aten::conj(a)",
      "e: c64[2, 3] = aten::div.Tensor(c, b)", "y: f32[2, 3, 2] = aten::view_as_real(e)"},
     "f32[2, 3, 2] = [-1, -0.1666667, 0.7567568, 0.4594595, 0.4827586, 0.7931034, -0, 1, -0.56, 0.92, -0.9655172, "
     "0.5862069]"},
    {"rotation",
     {"f32[2, 3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]", "f32[3] = [-1.5, 0.25, -1.25]"},
     {"l: f32[3] = aten::ones_like(x1)", "r: c64[3] = aten::polar(l, x1)", "a: c64[2, 3] = aten::view_as_complex(x0)",
      "p: c64[2, 3] = aten::mul.Tensor(a, r)", "y: f32[2, 3, 2] = aten::view_as_real(p)"},
     "f32[2, 3, 2] = [0.143268, 1.513927, -1.334843, 0.1752013, 0.3964161, 1.185476, 0.9444421, 0.8188584, -0.7937112, "
     "1.087439, 1.344646, 0.7102297]"},
    {"views",
     {"f32[2, 6] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]",
      "f32[2, 6] = [-0.5, 1.25, -0.25, 1.5, 0, 1.75, 0.25, 2, 0.5, 2.25, 0.75, 2.5]"},
     {"a: c64[2, 6] = aten::complex(x0, x1)", "b: c64[6, 2] = aten::permute(a, [1, 0])", "c: c64[2] = aten::select.int(b, 0, 3)",
      "y: f32[2] = aten::angle(c)"},
     "f32[2] = [1.249046, 1.063698]"},
    {"stft with centre",
     {"f32[12] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[5, 7] = aten::stft.center(x0, 8, 2, 6, none, true, \"reflect\", true, none, true)", "y: f32[5, 7] = aten::abs(a)"},
     "f32[5, 7] = [1.06066, 0.9722718, 0.5303301, 0, 0.5303301, 0.9722718, 1.06066, 0.5448623, 0.3629078, 0.2048739, "
     "0.1236922, 0.2048738, 0.3629078, 0.5448623, 0.3952847, 0.4759858, 0.3952847, 0.375, 0.3952847, 0.4759858, "
     "0.3952847, "
     "0.5448623, 0.5938627, 0.6289092, 0.6252601, 0.6289091, 0.5938627, 0.5448623, 1.767767, 1.679379, 1.59099, "
     "1.59099, "
     "1.59099, 1.679379, 1.767767]"},
    {"stft of both halves, aligned to its window",
     {"f32[12] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[4, 6] = aten::stft(x0, 4, 2, 2, none, false, false, true, true)", "y: f32[4, 6] = aten::abs(a)"},
     "f32[4, 6] = [1.25, 0.75, 0.25, 0.25, 0.75, 1.25, 1.520691, 1.346291, 1.25, 1.25, 1.346291, 1.520691, 1.75, 1.75, "
     "1.75, 1.75, 1.75, 1.75, 1.520691, 1.346291, 1.25, 1.25, 1.346291, 1.520691]"},
    {"istft of a given length",
     {"f32[3, 4, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5, "
      "-1, "
      "0.75, -0.75, 1, -0.5, 1.25, -0.25]",
      "f32[4] = [1, 2.5, 1.25, 2.25]"},
     {"a: c64[3, 4] = aten::view_as_complex(x0)", "y: f32[9] = aten::istft(a, 4, 2, 4, x1, true, false, none, 9)"},
     "f32[9] = [-0.09756097, -0.2513812, 0, 0.1049724, 0.09756097, -0.2209945, 0, -0.5, 0]"},
    {"istft that stays complex",
     {"f32[4, 3, 2] = [-0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, "
      "-0.25, "
      "1.5, 0, -1.5, 0.25, -1.25, 0.5]"},
     {"a: c64[4, 3] = aten::view_as_complex(x0)", "b: c64[8] = aten::istft(a, 4, 2, none, none, false, true, false, none, true)",
      "y: f32[8, 2] = aten::view_as_real(b)"},
     "f32[8, 2] = [0.75, -0.625, 0, 0.125, -0.5625, 0.375, -0.75, 1.6875, 0.5, 0.625, -0.75, 0.875, 0.875, 0.875, "
     "-1.5, 0]"},
    {"hfftn",
     {"f32[2, 3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]"},
     {"a: c64[2, 3] = aten::view_as_complex(x0)", "y: f32[2, 4] = aten::fft_hfftn(a, none, none, \"ortho\")"},
     "f32[2, 4] = [-2.474874, 0.8838835, 1.192093e-07, -1.59099, -1.06066, -0.5303301, 0, 0.5303301]"},
    {"ihfft",
     {"f32[2, 5] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25]"},
     {"a: c64[2, 3] = aten::fft_ihfft(x0)", "y: f32[2, 3, 2] = aten::view_as_real(a)"},
     "f32[2, 3, 2] = [-0.6, -0, -0.225, 0.03203931, -0.225, 0.4798161, 0.35, -0, 0.09999999, -0.204087, 0.1, "
     "-0.520431]"},
    {"sqrt",
     {"f32[7, 2] = [4, 0, -4, 0, 0, 3, 0, -3, -4, -0, 0, 0, 1.5, -2]"},
     {"a: c64[7] = aten::view_as_complex(x0)", "b: c64[7] = aten::sqrt(a)", "y: f32[7, 2] = aten::view_as_real(b)"},
     "f32[7, 2] = [2, 0, 0, 2, 1.224745, 1.224745, 1.224745, -1.224745, 0, -2, 0, 0, 1.414214, -0.7071068]"},
    {"log",
     {"f32[6, 2] = [4, 0, -4, 0, 0, 3, 0, -3, -4, -0, 1.5, -2]"},
     {"a: c64[6] = aten::view_as_complex(x0)", "b: c64[6] = aten::log(a)", "y: f32[6, 2] = aten::view_as_real(b)"},
     "f32[6, 2] = [1.386294, 0, 1.386294, 3.141593, 1.098612, 1.570796, 1.098612, -1.570796, 1.386294, -3.141593, "
     "0.9162908, -0.9272952]"},
    {"tanh",
     {"f32[7, 2] = [4, 0, -4, 0, 0, 3, 0, -3, -4, -0, 0, 0, 1.5, -2]"},
     {"a: c64[7] = aten::view_as_complex(x0)", "b: c64[7] = aten::tanh(a)", "y: f32[7, 2] = aten::view_as_real(b)"},
     "f32[7, 2] = [0.9993292, 0, -0.9993292, 0, 0, -0.1425465, 0, 0.1425465, -0.9993292, -0, 0, 0, 1.064144, "
     "0.08039102]"},
    {"reciprocal",
     {"f32[6, 2] = [4, 0, -4, 0, 0, 3, 0, -3, -4, -0, 1.5, -2]"},
     {"a: c64[6] = aten::view_as_complex(x0)", "b: c64[6] = aten::reciprocal(a)", "y: f32[6, 2] = aten::view_as_real(b)"},
     "f32[6, 2] = [0.25, 0, -0.25, -0, 0, -0.3333333, -0, 0.3333333, -0.25, -0, 0.24, 0.32]"},
    {"sgn",
     {"f32[7, 2] = [4, 0, -4, 0, 0, 3, 0, -3, -4, -0, 0, 0, 1.5, -2]"},
     {"a: c64[7] = aten::view_as_complex(x0)", "b: c64[7] = aten::sgn(a)", "y: f32[7, 2] = aten::view_as_real(b)"},
     "f32[7, 2] = [1, 0, -1, 0, 0, 1, 0, -1, -1, 0, 0, 0, 0.6, -0.8]"},
    {"matrix product in place",
     {"f32[2, 3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5]",
      "f32[3, 2, 2] = [0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5]"},
     {"a: c64[2, 3] = aten::view_as_complex(x0)", "b: c64[3, 2] = aten::view_as_complex(x1)", "c: c64[2, 2] = aten::mm(a, b)",
      "e: c64[2, 2] = aten::mul_.Scalar(c, 2)", "y: f32[2, 2, 2] = aten::view_as_real(e)"},
     "f32[2, 2, 2] = [-2.125, 1.75, -4.75, 0.625, -0.25, 1.375, -2.875, 2.5]"},
    {"einsum with a real factor",
     {"f32[2, 3] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]",
      "f32[3, 2, 2] = [0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5]"},
     {"a: c64[3, 2] = aten::view_as_complex(x1)", "c: c64[2, 2] = aten::einsum(\"bi,io->bo\", [x0, a])",
      "y: f32[2, 2, 2] = aten::view_as_real(c)"},
     "f32[2, 2, 2] = [1.0625, 0.75, 0.4375, 0.125, -2, 0.0625, -1.9375, 0.125]"},
    {"einsum of one tensor",
     {"f32[2, 2, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1]"},
     {"a: c64[2, 2] = aten::view_as_complex(x0)", "b: c64[2] = aten::einsum(\"ij->j\", [a])", "y: f32[2, 2] = aten::view_as_real(b)"},
     "f32[2, 2] = [-2.5, 1, -2, 1.5]"},
    {"einsum that turns one tensor",
     {"f32[2, 2, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1]"},
     {"a: c64[2, 2] = aten::view_as_complex(x0)", "b: c64[2, 2] = aten::einsum(\"ij->ji\", [a])",
      "y: f32[2, 2, 2] = aten::view_as_real(b)"},
     "f32[2, 2, 2] = [-1.5, 0.25, -1, 0.75, -1.25, 0.5, -0.75, 1]"},
    {"einsum of three tensors",
     {"f32[2, 2, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1]"},
     {"a: c64[2, 2] = aten::view_as_complex(x0)", "b: c64[2, 2] = aten::einsum(\"ij,jk,kl->il\", [a, a, a])",
      "y: f32[2, 2, 2] = aten::view_as_real(b)"},
     "f32[2, 2, 2] = [-4.21875, 8.375, -1.6875, 8.46875, 0.53125, 8, 2.4375, 6.96875]"},
    {"einsum of five tensors, one of them real, one a diagonal",
     {"f32[2, 2, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1]", "f32[2, 2] = [0.5, -1, 1.5, 0.25]"},
     {"a: c64[2, 2] = aten::view_as_complex(x0)", "b: c64[2, 2] = aten::einsum(\"...j, jk, kl, lm, mm -> ...m\", [a, a, x1, a, a])",
      "y: f32[2, 2, 2] = aten::view_as_real(b)"},
     "f32[2, 2, 2] = [5.4658203, -9.3720703, -2.8486328, -6.9521484, -0.0849609375, -9.2900391, -5.1416016, -3.8623047]"},
    {"einsum of four tensors to a number, by a path",
     {"f32[2, 2, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1]"},
     {"a: c64[2, 2] = aten::view_as_complex(x0)", "b: c64[] = aten::einsum(\"ij,jk,kl,li\", [a, a, a, a], path=[1, 2, 0, 2, 0, 1])",
      "y: f32[2] = aten::view_as_real(b)"},
     "f32[2] = [-13.890625, -35.875]"},
    {"real values where a mask is false",
     {"f32[3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]", "f32[3] = [1.5, 0, -1.5]", "bool[3] = [false, true, false]"},
     {"a: c64[3] = aten::view_as_complex(x0)", "b: c64[3] = aten::where.self(x2, a, x1)", "y: f32[3, 2] = aten::view_as_real(b)"},
     "f32[3, 2] = [1.5, 0, -1.25, 0.5, -1.5, 0]"},
    {"power of a power",
     {"f32[3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75]"},
     {"a: c64[3] = aten::view_as_complex(x0)", "b: c64[3] = aten::pow.Tensor_Scalar(a, 1.5)", "y: f32[3, 2] = aten::view_as_real(b)"},
     "f32[3, 2] = [-0.4598083, -1.818014, -0.8439575, -1.314492, -1.149048, -0.7954954]"},
    {"eigenvalues of a turn",
     {"f32[2, 2] = [0, -2, 2, 0]"},
     {"a: c64[2] = aten::linalg_eigvals(x0)", "y: f32[2] = aten::abs(a)"},
     "f32[2] = [2, 2]"},
    {"product of the elements of a row",
     {"f32[3, 5, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5, "
      "-1, "
      "0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5]"},
     {"a: c64[3, 5] = aten::view_as_complex(x0)", "b: c64[3] = aten::prod.dim_int(a, 1)", "y: f32[3, 2] = aten::view_as_real(b)"},
     "f32[3, 2] = [4.248047, -0.7080078, -3.445312, -0.140625, 1.558594, -4.089844]"},
    {"inverse",
     {"f32[2, 2, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1]"},
     {"a: c64[2, 2] = aten::view_as_complex(x0)", "b: c64[2, 2] = aten::linalg_inv(a)", "y: f32[2, 2, 2] = aten::view_as_real(b)"},
     "f32[2, 2, 2] = [-4, -2.999999, 2.000001, 4.999999, 3, 3.999999, -1.000001, -5.999999]"},
    {"views that are written to",
     {"f32[4, 3, 2] = [-1.5, 0.25, -1.25, 0.5, -1, 0.75, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 0, -1.5, 0.25, -1.25, 0.5, "
      "-1, "
      "0.75, -0.75, 1, -0.5, 1.25, -0.25]"},
     {"a: c64[4, 3] = aten::view_as_complex(x0)", "z: c64[4, 3] = aten::clone(a)", "p: c64[2, 3] = aten::slice.Tensor(z, 0, 1, 3)",
      "q: c64[2] = aten::select.int(p, 1, 0)", "r: c64[2] = aten::mul_.Scalar(q, 2)", "s: c64[3] = aten::select.int(z, 0, 0)",
      "t: f32[3] = aten::imag(s)", "u: f32[3] = aten::fill_.Scalar(t, 7)", "y: f32[4, 3, 2] = aten::view_as_real(z)"},
     "f32[4, 3, 2] = [-1.5, 7, -1.25, 7, -1, 7, -1.5, 2, -0.5, 1.25, -0.25, 1.5, 0, -3, 0.25, -1.25, 0.5, -1, 0.75, "
     "-0.75, "
     "1, -0.5, 1.25, -0.25]"},
};

class ComplexValues : public testing::TestWithParam<ComplexCase> {};

TEST_P(ComplexValues, ArePyTorchs) {
  Program program = complex_program_of(GetParam());
  const HostTensor expected = constant_tensor(program.constants.back());
  decompose(program);
  verify(program, Level::Core);
  const std::vector<HostTensor> outputs = evaluate(program, {});
  EXPECT_EQ(difference(outputs.at(0), expected, {}), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Rows, ComplexValues, testing::ValuesIn(kComplexCases));

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
  const std::string report =
      refusal_of("  a: c64[3] = aten::fft_rfft(x)\n  b: c64[3] = aten::cumprod(a, 0)\n  y: f32[3] = aten::abs(b)\n  return y\n");
  EXPECT_EQ(report.substr(0, report.find('\n')), "error: operator 'aten::cumprod of complex tensors' is not supported");
}

// Inputs and results are pairs in a last dim, laid out as the complex numbers were.
TEST(ComplexValues, AtTheBoundaryArePairs) {
  Program program = parse_text(R"(program "case"
graph(x: c64[2, 3] strides [1, 2]) {
  y: c64[2, 3] = aten::neg(x)
  return y
}
)");
  decompose(program);
  const Graph& graph = program.graph;
  EXPECT_EQ(to_string(graph.type(graph.inputs[0])), "f32[2, 3, 2] strides [2, 4, 1]");
  EXPECT_EQ(to_string(graph.type(graph.outputs[0])), "f32[2, 3, 2]");
}

}  // namespace
}  // namespace toroid
