// Arithmetic and functions of complex tensors, part by part, and products of complex matrices.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/operators.h"
#include "formula/math/einsum.h"
#include "passes/decompose/arguments/operands.h"
#include "passes/decompose/arguments/reduced_dims.h"
#include "passes/decompose/complex/complex.h"
#include "passes/decompose/complex/complex_parts.h"

namespace toroid {
namespace {

std::vector<Tensor> as_is(Decomposer&, const Args& a) { return {a.tensor(parameter(a, 0))}; }

std::vector<Tensor> from_parts(Decomposer& d, const Args& a) {
  Tensor re = a.tensor("real"), im = a.tensor("imag");
  const Sizes sizes = d.b.broadcast(re.sizes(), im.sizes());
  return {pairs_of({d.b.expand(re, sizes), d.b.expand(im, sizes)})};
}

std::vector<Tensor> polar(Decomposer&, const Args& a) {
  Tensor length = a.tensor("abs"), angle = a.tensor("angle");
  return {pairs_of({length * cos(angle), length * sin(angle)})};
}

std::vector<Tensor> real_part(Decomposer&, const Args& a) { return {parts(a.tensor("self")).re}; }
std::vector<Tensor> imaginary_part(Decomposer&, const Args& a) { return {parts(a.tensor("self")).im}; }

std::vector<Tensor> conjugate(Decomposer&, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  return {pairs_of({x.re, -x.im})};
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

template <class F>
std::vector<Tensor> binary(Decomposer& d, const Args& a, F f) {
  const DType dtype = result_part(d, a);
  Complex x = complex_argument(d, a, "self", dtype), y = complex_argument(d, a, "other", dtype);
  const Complex result = f(x, y);
  const Sizes sizes = d.b.broadcast(result.re.sizes(), result.im.sizes());
  return {pairs_of({d.b.expand(result.re, sizes), d.b.expand(result.im, sizes)})};
}

double alpha_of(const Args& a) { return has_parameter(a, "alpha") ? a.number("alpha") : 1.0; }

std::vector<Tensor> add(Decomposer& d, const Args& a) {
  const double alpha = alpha_of(a);
  return binary(d, a, [&](Complex x, Complex y) { return Complex{x.re + y.re * alpha, x.im + y.im * alpha}; });
}
std::vector<Tensor> subtract(Decomposer& d, const Args& a) {
  const double alpha = alpha_of(a);
  return binary(d, a, [&](Complex x, Complex y) { return Complex{x.re - y.re * alpha, x.im - y.im * alpha}; });
}
std::vector<Tensor> multiply(Decomposer& d, const Args& a) { return binary(d, a, product); }
Complex quotient(Complex x, Complex y) {
  // Scaled by the larger part, so that squares neither overflow nor vanish.
  Tensor scale = maximum(abs(y.re), abs(y.im));
  const Complex small = {y.re / scale, -(y.im / scale)};
  Tensor square = (small.re * small.re + small.im * small.im) * scale;
  const Complex numerator = product(x, small);
  return {numerator.re / square, numerator.im / square};
}
std::vector<Tensor> divide(Decomposer& d, const Args& a) { return binary(d, a, quotient); }
std::vector<Tensor> reversed_subtract(Decomposer& d, const Args& a) {
  const double alpha = alpha_of(a);
  return binary(d, a, [&](Complex x, Complex y) { return Complex{y.re - x.re * alpha, y.im - x.im * alpha}; });
}

// ---- functions ------------------------------------------------------------------------------------------------------

std::vector<Tensor> absolute(Decomposer&, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  return {apply(ScalarOp::Hypot, x.re, x.im)};
}
std::vector<Tensor> angle(Decomposer&, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  return {apply(ScalarOp::Atan2, x.im, x.re)};
}
Complex exponential_of(Complex x) {
  Tensor length = exp(x.re);
  return {length * cos(x.im), length * sin(x.im)};
}
Complex logarithm_of(Complex x) { return {log(apply(ScalarOp::Hypot, x.re, x.im)), apply(ScalarOp::Atan2, x.im, x.re)}; }

// In the half plane of positive real parts, with the sign of the imaginary part: s = sqrt((|x| + |re|) / 2), and im / 2s.
Complex root_of(Complex x) {
  Tensor s = sqrt((apply(ScalarOp::Hypot, x.re, x.im) + abs(x.re)) * 0.5);
  Tensor other = where(eq(s, 0), 0, abs(x.im) / (s * 2.0));
  Tensor is_right = x.re >= 0;
  return {where(is_right, s, other), apply(ScalarOp::Copysign, where(is_right, other, s), x.im)};
}

Tensor hyperbolic_sine(Tensor x) { return apply(ScalarOp::Sinh, x); }
Tensor hyperbolic_cosine(Tensor x) { return apply(ScalarOp::Cosh, x); }

Complex power_of(Complex x, Complex y) {
  const Complex power = exponential_of(product(logarithm_of(x), y));
  // 0 to a power with a positive real part; 0 to the power of 0 is 1.
  Tensor is_zero = eq(x.re, 0) & eq(x.im, 0), is_one = eq(y.re, 0) & eq(y.im, 0);
  return {where(is_one, 1, where(is_zero, 0, power.re)), where(is_one | is_zero, 0, power.im)};
}

template <Complex (*f)(Complex)>
std::vector<Tensor> of_one(Decomposer&, const Args& a) {
  return {pairs_of(f(parts(a.tensor(parameter(a, 0)))))};
}

Complex square_of(Complex x) { return product(x, x); }
Complex reciprocal_of(Complex x) { return quotient({number_like(x.re, 1.0), number_like(x.re, 0.0)}, x); }
Complex reciprocal_root_of(Complex x) { return reciprocal_of(root_of(x)); }
Complex sine_of(Complex x) { return {sin(x.re) * hyperbolic_cosine(x.im), cos(x.re) * hyperbolic_sine(x.im)}; }
Complex cosine_of(Complex x) { return {cos(x.re) * hyperbolic_cosine(x.im), -(sin(x.re) * hyperbolic_sine(x.im))}; }
Complex hyperbolic_sine_of(Complex x) { return {hyperbolic_sine(x.re) * cos(x.im), hyperbolic_cosine(x.re) * sin(x.im)}; }
Complex hyperbolic_cosine_of(Complex x) { return {hyperbolic_cosine(x.re) * cos(x.im), hyperbolic_sine(x.re) * sin(x.im)}; }
// (tanh re (1 + tan^2 im) + i tan im (1 - tanh^2 re)) / (1 + tanh^2 re tan^2 im): nothing here overflows with re.
Complex hyperbolic_tangent_of(Complex x) {
  Tensor t = tanh(x.re), u = apply(ScalarOp::Tan, x.im);
  Tensor below = 1.0 + square(t * u);
  return {t * (1.0 + square(u)) / below, u * (1.0 - square(t)) / below};
}
Complex logistic_of(Complex x) {
  const Complex e = exponential_of({-x.re, -x.im});
  return reciprocal_of({e.re + 1.0, e.im});
}
Complex direction_of(Complex x) {
  Tensor length = apply(ScalarOp::Hypot, x.re, x.im);
  Tensor is_zero = eq(length, 0);
  return {where(is_zero, 0, x.re / length), where(is_zero, 0, x.im / length)};
}

// Small whole powers are products, as in PyTorch.
std::vector<Tensor> power(Decomposer& d, const Args& a) {
  if (is_number_argument(a, "exponent") && is_complex_input(d, a.raw("self"))) {
    const double exponent = a.number("exponent");
    const Complex x = parts(a.tensor("self"));
    if (exponent == 2) return {pairs_of(square_of(x))};
    if (exponent == 3) return {pairs_of(product(square_of(x), x))};
    if (exponent == 0.5) return {pairs_of(root_of(x))};
    if (exponent == -1) return {pairs_of(reciprocal_of(x))};
  }
  const DType dtype = result_part(d, a);
  const Complex x = complex_argument(d, a, "self", dtype), y = complex_argument(d, a, "exponent", dtype);
  const Sizes sizes = d.b.broadcast(x.re.sizes(), y.re.sizes());
  const Complex result = power_of(x, y);
  return {pairs_of({d.b.expand(result.re, sizes), d.b.expand(result.im, sizes)})};
}

template <bool equal>
std::vector<Tensor> compare(Decomposer& d, const Args& a) {
  const DType dtype = is_complex_input(d, a.raw("self")) ? a.tensor("self").dtype() : a.tensor("other").dtype();
  const Complex x = complex_argument(d, a, "self", dtype), y = complex_argument(d, a, "other", dtype);
  Tensor same = eq(x.re, y.re) & eq(x.im, y.im);
  return {equal ? same : !same};
}

template <bool all>
std::vector<Tensor> test_parts(Decomposer& d, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  Tensor re = d.call1(a.schema().name, {x.re}), im = d.call1(a.schema().name, {x.im});
  return {all ? re & im : re | im};
}

// ---- products of matrices and what else is linear in two arguments -----------------------------------------------------

// The tensors that an operator multiplies, one or several.
size_t count_factors(const Args& a) {
  size_t count = 0;
  for (const Parameter& each : a.schema().parameters) {
    const Argument& argument = a.raw(each.name);
    if (const auto* list = std::get_if<InputList>(&argument)) count += list->size();
    if (std::holds_alternative<InputRef>(argument) && each.name != "bias") ++count;
  }
  return count;
}

// (a + bi)(c + di)… with an operator that is linear in each factor, such as a matrix product or a sum over one tensor: a real one for
// each choice of parts, times i for each imaginary one.
std::vector<Tensor> multilinear(Decomposer& d, const Args& a) {
  const DType dtype = result_part(d, a);
  const size_t factors = count_factors(a);
  // Bit i of `imaginary` says which part of factor i is taken. Undefined where a real factor has none.
  auto apply_to = [&](size_t imaginary) {
    std::vector<Decomposer::Value> values;
    size_t seen = 0;
    bool is_nothing = false;
    // What is added to the product belongs to the parts that the first argument's real part gives.
    auto added = [&](Tensor x, bool is_pair) {
      if ((imaginary & 1) != 0) return Tensor();
      const bool takes_imaginary = imaginary != 0;
      if (is_pair) return d.b.cast(takes_imaginary ? parts(x).im : parts(x).re, dtype);
      return takes_imaginary ? Tensor() : d.b.cast(x, dtype);
    };
    auto part = [&](Tensor x, bool is_pair) {
      const bool takes_imaginary = (imaginary >> seen++ & 1) != 0;
      is_nothing = is_nothing || (takes_imaginary && !is_pair);
      if (is_pair) return d.b.cast(takes_imaginary ? parts(x).im : parts(x).re, dtype);
      return d.b.cast(x, dtype);
    };
    for (const Parameter& each : a.schema().parameters) {
      const Argument& argument = a.raw(each.name);
      if (const auto* list = std::get_if<InputList>(&argument)) {
        Tensors tensors = a.tensors(each.name);
        for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = part(tensors[i], is_complex_input(d, *(*list)[i]));
        values.emplace_back(tensors);
      } else if (each.name == "bias" && std::holds_alternative<InputRef>(argument)) {
        values.emplace_back(added(a.tensor(each.name), is_complex_input(d, argument)));
      } else if (std::holds_alternative<InputRef>(argument)) {
        values.emplace_back(part(a.tensor(each.name), is_complex_input(d, argument)));
      } else {
        values.emplace_back(argument);
      }
    }
    return is_nothing ? Tensor() : d.call1(a.schema().name, std::move(values));
  };
  Complex sum;
  for (size_t imaginary = 0; imaginary < size_t{1} << factors; ++imaginary) {
    const Tensor product = apply_to(imaginary);
    if (!product.defined()) continue;
    const int power = std::popcount(imaginary) % 4;
    Tensor& total = power % 2 == 0 ? sum.re : sum.im;
    const bool negative = power >= 2;
    total = total.defined() ? (negative ? total - product : total + product) : negative ? -product : product;
  }
  return {pairs_of(sum)};
}

// Of more than two tensors in pairs: 4 products of real ones for each pair, not 2 to the power of their number in all.
std::vector<Tensor> einsum(Decomposer& d, const Args& a) {
  if (count_factors(a) <= 2) return multilinear(d, a);
  const DType dtype = result_part(d, a);
  const InputList& inputs = std::get<InputList>(a.raw("tensors"));
  const Tensors tensors = a.tensors("tensors");
  std::vector<Complex> factors;  // a real one has no imaginary part
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Complex both = is_complex_input(d, *inputs[i]) ? parts(tensors[i]) : Complex{tensors[i], Tensor()};
    factors.push_back({d.b.cast(both.re, dtype), both.im.defined() ? d.b.cast(both.im, dtype) : Tensor()});
  }
  const std::optional<Dims> path = a.has("path") ? std::optional(a.dims("path")) : std::nullopt;
  const std::string equation = a.text("equation");
  if (static_cast<size_t>(std::count(equation.begin(), equation.end(), ',')) + 1 != factors.size()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("einsum equation '{}' for {} tensors", equation, factors.size()));
  }
  for (const formula::EinsumPair& pair : formula::einsum_in_pairs(equation, path)) {
    auto multiply = [&](Tensor x, Tensor y) {
      return x.defined() && y.defined() ? d.call1("aten::einsum", {pair.equation.c_str(), Tensors{x, y}}) : Tensor();
    };
    auto sum = [](Tensor x, Tensor y) { return x.defined() && y.defined() ? x + y : x.defined() ? x : y; };
    const Complex x = factors[pair.left], y = factors[pair.right];
    const Tensor of_imaginary = multiply(x.im, y.im);
    Tensor re = multiply(x.re, y.re);
    if (of_imaginary.defined()) re = re - of_imaginary;
    const Complex product = {re, sum(multiply(x.re, y.im), multiply(x.im, y.re))};
    factors.erase(factors.begin() + static_cast<ptrdiff_t>(pair.right));
    factors.erase(factors.begin() + static_cast<ptrdiff_t>(pair.left));
    factors.insert(path ? factors.end() : factors.begin(), product);
  }
  return {pairs_of(factors[0])};
}

Complex times_number(Complex x, double factor) { return factor == 1 ? x : Complex{x.re * factor, x.im * factor}; }
Complex plus(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }

std::vector<Tensor> broadcast_pairs(Decomposer& d, Complex x) {
  const Sizes sizes = d.b.broadcast(x.re.sizes(), x.im.sizes());
  return {pairs_of({d.b.expand(x.re, sizes), d.b.expand(x.im, sizes)})};
}

// beta * self + alpha * (a matrix product)
std::vector<Tensor> add_product(Decomposer& d, const Args& a) {
  const DType dtype = result_part(d, a);
  const Complex x = complex_argument(d, a, parameter(a, 1), dtype), y = complex_argument(d, a, parameter(a, 2), dtype);
  auto times = [&](Tensor p, Tensor q) { return d.call1("aten::matmul", {p, q}); };
  const Complex z = {times(x.re, y.re) - times(x.im, y.im), times(x.re, y.im) + times(x.im, y.re)};
  const Complex sum = times_number(z, a.number("alpha"));
  const double beta = a.number("beta");
  return broadcast_pairs(d, beta == 0 ? sum : plus(times_number(complex_argument(d, a, "self", dtype), beta), sum));
}

template <Complex (*combine)(Complex, Complex)>
std::vector<Tensor> add_combined(Decomposer& d, const Args& a) {
  const DType dtype = result_part(d, a);
  const Complex z = combine(complex_argument(d, a, "tensor1", dtype), complex_argument(d, a, "tensor2", dtype));
  return broadcast_pairs(d, plus(complex_argument(d, a, "self", dtype), times_number(z, a.number("value"))));
}

std::vector<Tensor> interpolate(Decomposer& d, const Args& a) {
  const DType dtype = result_part(d, a);
  const Complex x = complex_argument(d, a, "self", dtype), y = complex_argument(d, a, "end", dtype);
  return broadcast_pairs(d, plus(x, product(complex_argument(d, a, "weight", dtype), {y.re - x.re, y.im - x.im})));
}

// The operator on the distances from 0.
std::vector<Tensor> of_lengths(Decomposer& d, const Args& a) {
  std::vector<Decomposer::Value> values;
  for (const Parameter& each : a.schema().parameters) {
    if (is_complex_input(d, a.raw(each.name))) {
      const Complex x = parts(a.tensor(each.name));
      values.emplace_back(apply(ScalarOp::Hypot, x.re, x.im));
    } else if (const auto* dtype = std::get_if<DType>(&a.raw(each.name))) {
      values.emplace_back(part_dtype(*dtype));
    } else {
      values.emplace_back(a.raw(each.name));
    }
  }
  return d.call(a.schema().name, std::move(values));
}

// Spreads as far as both parts do.
std::vector<Tensor> spread(Decomposer& d, const Args& a) {
  auto of_part = [&](Tensor part) {
    std::vector<Decomposer::Value> values = {part};
    for (size_t i = 1; i < a.schema().parameters.size(); ++i) values.emplace_back(a.raw(parameter(a, i)));
    return d.call1(a.schema().name, std::move(values));
  };
  const Complex x = parts(a.tensor("self"));
  Tensor sum = of_part(x.re) + of_part(x.im);
  return {sum};
}

// The product of the elements along a dim of known size, by halves.
Complex product_along(Complex x, int64_t dim) {
  Builder& b = x.re.builder();
  auto run = [&](int64_t start, int64_t count) { return Complex{b.slice(x.re, dim, start, count), b.slice(x.im, dim, start, count)}; };
  for (int64_t n = x.re.size(dim).value(); n > 1; n = n - n / 2) {
    const Complex halves = product(run(0, n / 2), run(n / 2, n / 2));
    const Complex rest = run(n / 2 * 2, n % 2);
    x = {b.cat({halves.re, rest.re}, dim), b.cat({halves.im, rest.im}, dim)};
  }
  return x;
}

std::vector<Tensor> product_of_elements(Decomposer& d, const Args& a) {
  Complex x = parts(a.tensor("self"));
  const bool has_dim = has_parameter(a, "dim");
  if (!has_dim) x = {d.b.reshape(x.re, {x.re.numel()}), d.b.reshape(x.im, {x.im.numel()})};
  if (x.re.rank() == 0) return {a.tensor("self")};
  const int64_t dim = has_dim ? d.b.wrap_dim(a.constant("dim"), x.re.rank()) : 0;
  if (!x.re.size(dim).is_const()) {
    throw Error(ErrorKind::Unsupported, "the product of a symbolic number of complex elements").help("export the model with a fixed size");
  }
  if (x.re.size(dim).is_const(0)) {
    Sizes sizes = x.re.sizes();
    sizes[static_cast<size_t>(dim)] = 1;
    x = {d.b.full(sizes, x.re.dtype(), 1.0), d.b.full(sizes, x.re.dtype(), 0.0)};
  }
  const Complex result = product_along(x, dim);
  if (has_dim && a.flag("keepdim")) return {pairs_of(result)};
  return {pairs_of({d.b.squeeze(result.re, dim), d.b.squeeze(result.im, dim)})};
}

// [[re, -im], [im, re]], which real matrices multiply and invert as complex ones do.
Tensor as_real_matrix(Complex x) {
  Builder& b = x.re.builder();
  return b.cat({b.cat({x.re, -x.im}, -1), b.cat({x.im, x.re}, -1)}, -2);
}
std::vector<Tensor> from_first_column(Tensor blocks, sym::Expr rows, sym::Expr columns) {
  Builder& b = blocks.builder();
  Tensor left = b.slice(blocks, -1, 0, columns);
  return {pairs_of({b.slice(left, -2, 0, rows), b.slice(left, -2, rows, rows)})};
}
std::vector<Tensor> inverse(Decomposer& d, const Args& a) {
  const Complex x = parts(a.tensor(parameter(a, 0)));
  return from_first_column(d.call1("aten::linalg_inv", {as_real_matrix(x)}), x.re.size(-1), x.re.size(-1));
}
std::vector<Tensor> solve(Decomposer& d, const Args& a) {
  const DType dtype = result_part(d, a);
  const Complex A = complex_argument(d, a, "A", dtype);
  Complex B = complex_argument(d, a, "B", dtype);
  const bool is_vector = B.re.rank() == 1 || (B.re.rank() + 1 == A.re.rank() && sym::known_eq(B.re.size(-1), A.re.size(-1)));
  if (!a.flag("left")) throw Error(ErrorKind::Unsupported, "linalg_solve of complex matrices from the right");
  if (is_vector) B = {d.b.unsqueeze(B.re, -1), d.b.unsqueeze(B.im, -1)};
  Tensor columns = d.b.cat({B.re, B.im}, -2);
  Tensor solved = d.call1("aten::linalg_solve", {as_real_matrix(A), columns});
  Tensor result = from_first_column(solved, A.re.size(-1), B.re.size(-1))[0];
  return {is_vector ? d.b.squeeze(result, -2) : result};
}

// With LAPACK's code of success: what cannot be inverted or solved ends the call.
std::vector<Tensor> inverse_with_info(Decomposer& d, const Args& a) {
  Tensor x = a.tensor(parameter(a, 0));
  return {inverse(d, a)[0], d.b.full(x.sizes().without_last(3), DType::I32, sym::Expr(0))};
}
std::vector<Tensor> solve_with_factors(Decomposer& d, const Args& a) {
  Tensor x = a.tensor("A");
  return {solve(d, a)[0], Tensor(), Tensor(), d.b.full(x.sizes().without_last(3), DType::I32, sym::Expr(0))};
}

// The conjugate of the first argument times the second.
std::vector<Tensor> conjugated_dot(Decomposer& d, const Args& a) {
  const DType dtype = result_part(d, a);
  const Complex x = complex_argument(d, a, "self", dtype), y = complex_argument(d, a, "other", dtype);
  const Complex terms = product({x.re, -x.im}, y);
  return {pairs_of({d.b.sum(terms.re, {}), d.b.sum(terms.im, {})})};
}

std::vector<Tensor> conjugate_transposed(Decomposer& d, const Args& a) {
  const Complex x = parts(a.tensor("self"));
  return {pairs_of({d.b.transpose(x.re, -1, -2), -d.b.transpose(x.im, -1, -2)})};
}

// ---- eigenvalues of real matrices -----------------------------------------------------------------------------------

Tensor real_matrix(Decomposer& d, const Args& a) {
  if (is_complex_input(d, a.raw("self"))) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} of complex matrices", a.schema().name));
  }
  Tensor x = a.tensor("self");
  if (x.rank() < 2) throw Error(ErrorKind::InvalidModel, fmt::format("a matrix is needed, not a tensor of rank {}", x.rank()));
  return x;
}

std::vector<Tensor> eigen(Decomposer& d, const Args& a) {
  Tensor x = real_matrix(d, a);
  Sizes values = x.sizes(), vectors = x.sizes();
  values.back() = 2;
  vectors.emplace_back(2);
  std::vector<TensorType> types = {{.dtype = x.dtype(), .sizes = values}};
  if (a.schema().results.size() == 2) types.push_back({.dtype = x.dtype(), .sizes = vectors});
  return d.b.library("linalg.eig", {x}, types);
}

constexpr DecompositionRow kComplexArithmeticRows[] = {
    {"aten::view_as_real", as_is},
    {"aten::view_as_real_copy", as_is},
    {"aten::view_as_complex", as_is},
    {"aten::view_as_complex_copy", as_is},
    {"aten::complex", from_parts},
    {"aten::polar", polar},
    {"aten::real", real_part},
    {"aten::imag", imaginary_part},
    {"aten::conj", conjugate},
    {"aten::_conj", conjugate},
    {"aten::_conj_physical", conjugate},
    {"aten::conj_physical", conjugate},
    {"aten::resolve_conj", as_is},
    {"aten::resolve_neg", as_is},
    {"aten::abs", absolute},
    {"aten::angle", angle},
    {"aten::add.Tensor", add},
    {"aten::add.Scalar", add},
    {"aten::sub.Tensor", subtract},
    {"aten::sub.Scalar", subtract},
    {"aten::mul.Tensor", multiply},
    {"aten::mul.Scalar", multiply},
    {"aten::div.Tensor", divide},
    {"aten::div.Scalar", divide},
    {"aten::true_divide.Tensor", divide},
    {"aten::rsub.Tensor", reversed_subtract},
    {"aten::rsub.Scalar", reversed_subtract},

    {"aten::exp", of_one<exponential_of>},
    {"aten::log", of_one<logarithm_of>},
    {"aten::sqrt", of_one<root_of>},
    {"aten::rsqrt", of_one<reciprocal_root_of>},
    {"aten::square", of_one<square_of>},
    {"aten::reciprocal", of_one<reciprocal_of>},
    {"aten::sin", of_one<sine_of>},
    {"aten::cos", of_one<cosine_of>},
    {"aten::sinh", of_one<hyperbolic_sine_of>},
    {"aten::cosh", of_one<hyperbolic_cosine_of>},
    {"aten::tanh", of_one<hyperbolic_tangent_of>},
    {"aten::sigmoid", of_one<logistic_of>},
    {"aten::sgn", of_one<direction_of>},
    {"aten::pow.Tensor_Scalar", power},
    {"aten::pow.Tensor_Tensor", power},
    {"aten::pow.Scalar", power},
    {"aten::eq.Tensor", compare<true>},
    {"aten::eq.Scalar", compare<true>},
    {"aten::ne.Tensor", compare<false>},
    {"aten::ne.Scalar", compare<false>},
    {"aten::isnan", test_parts<false>},
    {"aten::isinf", test_parts<false>},
    {"aten::isfinite", test_parts<true>},

    {"aten::mm", multilinear},
    {"aten::bmm", multilinear},
    {"aten::mv", multilinear},
    {"aten::dot", multilinear},
    {"aten::matmul", multilinear},
    {"aten::linalg_matmul", multilinear},
    {"aten::outer", multilinear},
    {"aten::kron", multilinear},
    {"aten::einsum", einsum},
    {"aten::tensordot", multilinear},
    {"aten::inner", multilinear},
    {"aten::linear", multilinear},
    {"aten::conv1d", multilinear},
    {"aten::conv2d", multilinear},
    {"aten::conv3d", multilinear},
    {"aten::convolution", multilinear},
    {"aten::conv_transpose1d", multilinear},
    {"aten::conv_transpose2d.input", multilinear},
    {"aten::addmm", add_product},
    {"aten::addmv", add_product},
    {"aten::baddbmm", add_product},
    {"aten::addcmul", add_combined<product>},
    {"aten::addcdiv", add_combined<quotient>},
    {"aten::lerp.Scalar", interpolate},
    {"aten::lerp.Tensor", interpolate},
    {"aten::linalg_vector_norm", of_lengths},
    {"aten::norm.*", of_lengths},
    {"aten::var.*", spread},
    {"aten::linalg_inv", inverse},
    {"aten::inverse", inverse},
    {"aten::linalg_solve", solve},
    {"aten::linalg_inv_ex", inverse_with_info},
    {"aten::_linalg_solve_ex", solve_with_factors},
    {"aten::prod", product_of_elements},
    {"aten::prod.dim_int", product_of_elements},
    {"aten::vdot", conjugated_dot},
    {"aten::adjoint", conjugate_transposed},
    {"aten::mH", conjugate_transposed},
    {"aten::matrix_H", conjugate_transposed},

    {"aten::linalg_eig", eigen},
    {"aten::linalg_eigvals", eigen},
    {"aten::_linalg_eigvals", eigen},
};

}  // namespace

Complex product(Complex x, Complex y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

std::span<const DecompositionRow> complex_arithmetic_rows() { return kComplexArithmeticRows; }

}  // namespace toroid
