// Factorisations and solvers of matrices: calls of the library kernels that library/library_ops.h names, with batch dims
// broadcast before, and what is cheaply made of their results (pseudo-inverses, ranks, tensor equations).
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "formula/basics/index_tensors.h"
#include "formula/basics/operators.h"
#include "formula/basics/precision.h"
#include "passes/decompose/engine/data_dependent.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

// ---- shapes ---------------------------------------------------------------------------------------------------------

Sizes batch_of(Tensor x, size_t core_dims = 2) {
  if (x.sizes().size() < core_dims) {
    throw Error(ErrorKind::InvalidModel, fmt::format("a matrix is needed, not a tensor of rank {}", x.rank()));
  }
  return x.sizes().without_last(core_dims);
}

Sizes with(Sizes batch, std::initializer_list<sym::Expr> core) {
  batch.insert(batch.end(), core);
  return batch;
}

Tensor expand_batch(Tensor x, const Sizes& batch, size_t core_dims = 2) {
  Sizes sizes = batch;
  sizes.append(x.sizes().last(core_dims));
  return x.builder().expand(x, sizes);
}

Tensor transposed(Tensor x) { return x.builder().transpose(x, -1, -2); }

// Kernels compute in F32 or F64.
Tensor matrix(const Args& a, std::string_view name) {
  Tensor x = a.tensor(name);
  if (is_complex(x.dtype())) {
    throw Error(ErrorKind::Unsupported, fmt::format("{} of complex matrices", a.schema().name));
  }
  return x.builder().cast(x, x.dtype() == DType::F64 ? DType::F64 : DType::F32);
}

Scalar flag(bool value) { return sym::Expr(value ? 1 : 0); }

TensorType typed(DType dtype, Sizes sizes) {
  return {.dtype = dtype, .sizes = std::move(sizes), .strides = {}, .storage_offset = {}, .device = {}};
}
TensorType like(Tensor x, Sizes sizes) { return typed(x.dtype(), std::move(sizes)); }

sym::Expr smaller_side(Tensor x) { return sym::min(x.size(-2), x.size(-1)); }

std::vector<Tensor> kernel(std::string name, std::vector<Tensor> inputs, std::vector<TensorType> outputs,
                           std::vector<Scalar> attributes = {}) {
  Builder& b = inputs[0].builder();
  return b.library("linalg." + std::move(name), std::move(inputs), std::move(outputs), std::move(attributes));
}

// A kernel with an optional `info`: PyTorch's _ex functions return it unless they are asked to check it themselves.
bool wants_info(const Args& a) { return !a.has("check_errors") || !a.flag("check_errors"); }

// ---- inverse, determinant, solve ------------------------------------------------------------------------------------

Tensor inverse_of(Tensor x) { return kernel("inv", {x}, {like(x, x.sizes())})[0]; }

std::vector<Tensor> inverse(Decomposer&, const Args& a) { return {inverse_of(matrix(a, a.schema().parameters[0].name))}; }

std::vector<Tensor> inverse_with_info(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "A");
  const Sizes batch = batch_of(x);
  if (wants_info(a)) return kernel("inv", {x}, {like(x, x.sizes()), typed(DType::I32, batch)});
  return {inverse_of(x), d.b.full(batch, DType::I32, sym::Expr(0))};
}

std::vector<Tensor> sign_and_log_of_determinant(Tensor x) { return kernel("slogdet", {x}, {like(x, batch_of(x)), like(x, batch_of(x))}); }

std::vector<Tensor> det(Decomposer&, const Args& a) {
  Tensor x = matrix(a, a.schema().parameters[0].name);
  return {kernel("det", {x}, {like(x, batch_of(x))})[0]};
}

std::vector<Tensor> slogdet(Decomposer&, const Args& a) { return sign_and_log_of_determinant(matrix(a, a.schema().parameters[0].name)); }

// What torch.linalg's functions check of a kernel's `info`: 0 for each matrix.
std::vector<Tensor> check_errors(Decomposer& d, const Args& a) {
  require_true(d.b, eq(a.tensor("info"), 0), "failures_of_" + a.text("api_name"));
  return {};
}

std::vector<Tensor> logdet(Decomposer&, const Args& a) {
  const std::vector<Tensor> parts = sign_and_log_of_determinant(matrix(a, "self"));
  return {where(parts[0] < 0, std::numeric_limits<double>::quiet_NaN(), parts[1])};
}

// B is a stack of vectors if it is one vector or has A's batch dims and size.
bool is_vector(Tensor A, Tensor B) {
  if (B.rank() == 1) return true;
  if (A.rank() - 1 != B.rank()) return false;
  for (int64_t d = 0; d < B.rank(); ++d) {
    if (!sym::known_eq(A.size(d), B.size(d))) return false;
  }
  return true;
}

// A X = B or X A = B, with the same batch dims on both sides; B holds matrices.
struct Equations {
  Tensor A, B;
  Sizes batch;
  bool of_vector;

  Tensor solution(Tensor X) const { return of_vector ? X.builder().squeeze(X, -1) : X; }
};
Equations equations(Tensor A, Tensor B) {
  Builder& b = A.builder();
  const bool vector = is_vector(A, B);
  if (vector) B = b.unsqueeze(B, -1);
  const Sizes batch = b.broadcast(batch_of(A), batch_of(B));
  A = expand_batch(A, batch);
  B = expand_batch(B, batch);
  return {A, B, batch, vector};
}

std::vector<Tensor> solve_matrices(Tensor A, Tensor B, bool left, bool with_info) {
  const Equations e = equations(A, B);
  std::vector<TensorType> types = {like(e.B, e.B.sizes())};
  if (with_info) types.push_back(typed(DType::I32, e.batch));
  std::vector<Tensor> results = kernel("solve", {e.A, e.B}, types, {flag(left)});
  results[0] = e.solution(results[0]);
  return results;
}

std::vector<Tensor> solve(Decomposer&, const Args& a) { return solve_matrices(matrix(a, "A"), matrix(a, "B"), a.flag("left"), false); }

std::vector<Tensor> solve_with_info(Decomposer& d, const Args& a) {
  std::vector<Tensor> results = solve_matrices(matrix(a, "A"), matrix(a, "B"), a.flag("left"), wants_info(a));
  if (results.size() == 1) results.push_back(d.b.full(batch_of(a.tensor("A")), DType::I32, sym::Expr(0)));
  return results;
}

// LU and pivots, which the gradient reads.
std::vector<Tensor> factors_of(Tensor x) {
  return kernel("lu_factor", {x}, {like(x, x.sizes()), typed(DType::I32, with(batch_of(x), {x.size(-1)}))}, {flag(true)});
}

// As PyTorch keeps them of a determinant: those of the transpose where the matrix is contiguous.
std::vector<Tensor> determinant_factors(Decomposer& d, const Args& a) {
  const bool is_contiguous = d.argument_types.empty() || d.argument_types[0].strides.empty();
  const Tensor x = matrix(a, "A");
  return factors_of(is_contiguous ? transposed(x) : x);
}

std::vector<Tensor> det_with_factors(Decomposer& d, const Args& a) {
  const std::vector<Tensor> factors = determinant_factors(d, a);
  return {det(d, a)[0], factors[0], factors[1]};
}

std::vector<Tensor> slogdet_with_factors(Decomposer& d, const Args& a) {
  const std::vector<Tensor> results = slogdet(d, a), factors = determinant_factors(d, a);
  return {results[0], results[1], factors[0], factors[1]};
}

std::vector<Tensor> solve_with_factors(Decomposer& d, const Args& a) {
  const std::vector<Tensor> results = solve_with_info(d, a), factors = factors_of(matrix(a, "A"));
  return {results[0], factors[0], factors[1], results[1]};
}

Tensor solve_triangular_matrices(Tensor A, Tensor B, bool upper, bool left, bool unit) {
  const Sizes batch = A.builder().broadcast(batch_of(A), batch_of(B));
  B = expand_batch(B, batch);
  return kernel("solve_triangular", {expand_batch(A, batch), B}, {like(B, B.sizes())}, {flag(upper), flag(left), flag(unit)})[0];
}

std::vector<Tensor> solve_triangular(Decomposer&, const Args& a) {
  return {solve_triangular_matrices(matrix(a, "self"), matrix(a, "B"), a.flag("upper"), a.flag("left"), a.flag("unitriangular"))};
}

std::vector<Tensor> triangular_solve(Decomposer& d, const Args& a) {
  Tensor A = matrix(a, "A"), B = matrix(a, "self");
  const bool transpose = a.flag("transpose"), upper = a.flag("upper") != transpose;
  Tensor X = solve_triangular_matrices(transpose ? transposed(A) : A, B, upper, true, a.flag("unitriangular"));
  return {X, expand_batch(A, d.b.broadcast(batch_of(A), batch_of(B)))};
}

std::vector<Tensor> lstsq(Decomposer& d, const Args& a) {
  const Equations e = equations(matrix(a, "self"), matrix(a, "b"));
  const Tensor A = e.A;
  const Sizes& batch = e.batch;
  const double machine = A.dtype() == DType::F64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const double side = static_cast<double>(std::max(sym::evaluate_hint(A.size(-1)), sym::evaluate_hint(A.size(-2))));
  const double rcond = a.has("rcond") ? a.number("rcond") : machine * side;
  const sym::Expr columns = e.B.size(-1);
  std::vector<Tensor> results = kernel("lstsq", {A, e.B},
                                       {like(A, with(batch, {A.size(-1), columns})), like(A, with(batch, {columns})),
                                        typed(DType::I64, batch), like(A, with(batch, {smaller_side(A)}))},
                                       {Scalar(rcond)});
  results[0] = e.solution(results[0]);
  // Drivers leave empty what they do not compute.
  for (size_t i = 1; i < results.size() && i < d.recorded.size(); ++i) {
    if (d.recorded[i].numel().is_const(0)) results[i] = d.b.full(d.recorded[i].sizes, d.recorded[i].dtype, 0.0);
  }
  return results;
}

// ---- Cholesky -------------------------------------------------------------------------------------------------------

std::vector<Tensor> cholesky(Decomposer&, const Args& a) {
  Tensor x = matrix(a, "self");
  return {kernel("cholesky", {x}, {like(x, x.sizes())}, {flag(a.flag("upper"))})[0]};
}

std::vector<Tensor> cholesky_with_info(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "self");
  if (!wants_info(a)) return {cholesky(d, a)[0], d.b.full(batch_of(x), DType::I32, sym::Expr(0))};
  return kernel("cholesky", {x}, {like(x, x.sizes()), typed(DType::I32, batch_of(x))}, {flag(a.flag("upper"))});
}

std::vector<Tensor> cholesky_inverse(Decomposer&, const Args& a) {
  Tensor x = matrix(a, "self");
  return {kernel("cholesky_inverse", {x}, {like(x, x.sizes())}, {flag(a.flag("upper"))})[0]};
}

std::vector<Tensor> cholesky_solve(Decomposer& d, const Args& a) {
  Tensor B = matrix(a, "self"), L = matrix(a, "input2");
  const Sizes batch = d.b.broadcast(batch_of(B), batch_of(L));
  B = expand_batch(B, batch);
  return {kernel("cholesky_solve", {B, expand_batch(L, batch)}, {like(B, B.sizes())}, {flag(a.flag("upper"))})[0]};
}

// ---- QR -------------------------------------------------------------------------------------------------------------

std::vector<Tensor> qr_of(Tensor x, std::string_view mode) {
  Builder& b = x.builder();
  const Sizes batch = batch_of(x);
  const sym::Expr m = x.size(-2), n = x.size(-1), k = smaller_side(x);
  auto code = [](int value) { return std::vector<Scalar>{sym::Expr(value)}; };
  if (mode == "reduced") {
    return kernel("qr", {x}, {like(x, with(batch, {m, k})), like(x, with(batch, {k, n}))}, code(0));
  }
  if (mode == "complete") {
    return kernel("qr", {x}, {like(x, with(batch, {m, m})), like(x, with(batch, {m, n}))}, code(1));
  }
  if (mode == "r") return {b.full({0}, x.dtype(), 0.0), kernel("qr", {x}, {like(x, with(batch, {k, n}))}, code(2))[0]};
  throw Error(ErrorKind::InvalidModel, fmt::format("linalg_qr: mode '{}'", mode));
}

std::vector<Tensor> linalg_qr(Decomposer&, const Args& a) { return qr_of(matrix(a, "A"), a.text("mode")); }
std::vector<Tensor> qr(Decomposer&, const Args& a) { return qr_of(matrix(a, "self"), a.flag("some") ? "reduced" : "complete"); }

std::vector<Tensor> geqrf(Decomposer&, const Args& a) {
  Tensor x = matrix(a, "self");
  return kernel("geqrf", {x}, {like(x, x.sizes()), like(x, with(batch_of(x), {smaller_side(x)}))});
}

std::vector<Tensor> householder_product(Decomposer&, const Args& a) {
  Tensor x = matrix(a, a.schema().parameters[0].name), tau = matrix(a, a.schema().parameters[1].name);
  return {kernel("householder_product", {x, tau}, {like(x, x.sizes())})[0]};
}

std::vector<Tensor> ormqr(Decomposer&, const Args& a) {
  Tensor x = matrix(a, "self"), tau = matrix(a, "input2"), C = matrix(a, "input3");
  if (tau.size(-1) != x.size(-1)) x = x.builder().slice(x, x.rank() - 1, 0, tau.size(-1));  // there may be fewer reflectors than columns
  return {kernel("ormqr", {x, tau, C}, {like(C, C.sizes())}, {flag(a.flag("left")), flag(a.flag("transpose"))})[0]};
}

// ---- singular and eigenvalues ---------------------------------------------------------------------------------------

std::vector<Tensor> svd_of(Tensor x, bool full) {
  const Sizes batch = batch_of(x);
  const sym::Expr m = x.size(-2), n = x.size(-1), k = smaller_side(x);
  return kernel("svd", {x}, {like(x, with(batch, {m, full ? m : k})), like(x, with(batch, {k})), like(x, with(batch, {full ? n : k, n}))},
                {flag(full)});
}

Tensor singular_values(Tensor x) { return kernel("svdvals", {x}, {like(x, with(batch_of(x), {smaller_side(x)}))})[0]; }

std::vector<Tensor> linalg_svd(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "A");
  if (!a.has("compute_uv") || a.flag("compute_uv")) return svd_of(x, a.flag("full_matrices"));
  Tensor empty = d.b.full({0}, x.dtype(), 0.0);
  return {empty, singular_values(x), empty};
}

// torch.svd returns V, not its transpose; without vectors both are zeros.
std::vector<Tensor> svd(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "self");
  if (a.flag("compute_uv")) {
    std::vector<Tensor> parts = svd_of(x, !a.flag("some"));
    return {parts[0], parts[1], transposed(parts[2])};
  }
  auto zeros = [&](sym::Expr side) { return d.b.full(with(batch_of(x), {side, side}), x.dtype(), 0.0); };
  return {zeros(x.size(-2)), singular_values(x), zeros(x.size(-1))};
}

std::vector<Tensor> svdvals(Decomposer&, const Args& a) { return {singular_values(matrix(a, "A"))}; }

bool is_upper(const Args& a) { return a.text("UPLO") == "U" || a.text("UPLO") == "u"; }

std::vector<Tensor> eigh_of(Tensor x, bool upper) {
  return kernel("eigh", {x}, {like(x, with(batch_of(x), {x.size(-1)})), like(x, x.sizes())}, {flag(upper)});
}

Tensor eigenvalues(Tensor x, bool upper) { return kernel("eigvalsh", {x}, {like(x, with(batch_of(x), {x.size(-1)}))}, {flag(upper)})[0]; }

std::vector<Tensor> eigh(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, a.schema().parameters[0].name);
  if (!a.has("compute_v") || a.flag("compute_v")) return eigh_of(x, is_upper(a));
  return {eigenvalues(x, is_upper(a)), d.b.full({0}, x.dtype(), 0.0)};
}

std::vector<Tensor> eigvalsh(Decomposer&, const Args& a) { return {eigenvalues(matrix(a, "self"), is_upper(a))}; }

// ---- LU and LDL -----------------------------------------------------------------------------------------------------

std::vector<Tensor> lu_factor_of(Tensor x, bool pivot, bool info) {
  const Sizes batch = batch_of(x);
  std::vector<TensorType> types = {like(x, x.sizes()), typed(DType::I32, with(batch, {smaller_side(x)}))};
  if (info) types.push_back(typed(DType::I32, batch));
  return kernel("lu_factor", {x}, types, {flag(pivot)});
}

std::vector<Tensor> lu_factor(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, a.schema().parameters[0].name);
  const bool has_info = a.schema().results.size() == 3;
  std::vector<Tensor> parts = lu_factor_of(x, a.flag("pivot"), has_info && wants_info(a));
  if (has_info && parts.size() == 2) parts.push_back(d.b.full(batch_of(x), DType::I32, sym::Expr(0)));
  return parts;
}

// P, L [m, k] with ones on its diagonal, U [k, n].
std::vector<Tensor> unpack(Tensor lu, Tensor pivots) {
  Builder& b = lu.builder();
  const int64_t rank = lu.rank();
  const sym::Expr m = lu.size(-2), k = smaller_side(lu);
  auto rows = [&](Tensor x) { return positions(b, x.size(-2), rank - 2, rank); };
  auto columns = [&](Tensor x) { return positions(b, x.size(-1), rank - 1, rank); };
  Tensor lower = b.slice(lu, -1, 0, k), upper = b.slice(lu, -2, 0, k);
  Tensor below = rows(lower) > Term(columns(lower));
  Tensor L = where(eq(rows(lower), columns(lower)), 1, where(below, lower, 0));
  Tensor U = where(rows(upper) > Term(columns(upper)), 0, upper);
  const Sizes batch = batch_of(lu);
  Tensor order = kernel("lu_permutation", {pivots}, {typed(DType::I64, with(batch, {m}))})[0];
  Tensor is_one = eq(b.expand(positions(b, m, rank - 2, rank), with(batch, {m, m})), b.unsqueeze(order, -2));
  return {b.cast(is_one, lu.dtype()), b.expand(L, lower.sizes()), b.expand(U, upper.sizes())};
}

std::vector<Tensor> linalg_lu(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "A");
  const std::vector<Tensor> parts = lu_factor_of(x, a.flag("pivot"), false);
  std::vector<Tensor> unpacked = unpack(parts[0], parts[1]);
  if (!a.flag("pivot")) unpacked[0] = d.b.full({0}, x.dtype(), 0.0);
  return unpacked;
}

std::vector<Tensor> lu_unpack(Decomposer& d, const Args& a) {
  Tensor lu = matrix(a, "LU_data");
  std::vector<Tensor> parts = unpack(lu, a.tensor("LU_pivots"));
  Tensor empty = d.b.full({0}, lu.dtype(), 0.0);
  if (!a.flag("unpack_pivots")) parts[0] = empty;
  if (!a.flag("unpack_data")) parts[1] = parts[2] = empty;
  return parts;
}

Tensor solve_by_lu(Tensor lu, Tensor pivots, Tensor B, bool left, bool adjoint) {
  const Sizes batch = lu.builder().broadcast(batch_of(lu), batch_of(B));
  B = expand_batch(B, batch);
  return kernel("lu_solve", {expand_batch(lu, batch), expand_batch(pivots, batch, 1), B}, {like(B, B.sizes())},
                {flag(left), flag(adjoint)})[0];
}

std::vector<Tensor> linalg_lu_solve(Decomposer&, const Args& a) {
  return {solve_by_lu(matrix(a, "LU"), a.tensor("pivots"), matrix(a, "B"), a.flag("left"), a.flag("adjoint"))};
}

std::vector<Tensor> lu_solve(Decomposer&, const Args& a) {
  return {solve_by_lu(matrix(a, "LU_data"), a.tensor("LU_pivots"), matrix(a, "self"), true, false)};
}

std::vector<Tensor> ldl_factor(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "self");
  const Sizes batch = batch_of(x);
  std::vector<TensorType> types = {like(x, x.sizes()), typed(DType::I32, with(batch, {x.size(-1)}))};
  const bool has_info = a.schema().results.size() == 3;
  if (has_info && wants_info(a)) types.push_back(typed(DType::I32, batch));
  std::vector<Tensor> parts = kernel("ldl_factor", {x}, types, {flag(a.flag("hermitian"))});
  if (has_info && parts.size() == 2) parts.push_back(d.b.full(batch, DType::I32, sym::Expr(0)));
  return parts;
}

std::vector<Tensor> ldl_solve(Decomposer& d, const Args& a) {
  Tensor ld = matrix(a, "LD"), B = matrix(a, "B");
  const Sizes batch = d.b.broadcast(batch_of(ld), batch_of(B));
  B = expand_batch(B, batch);
  return {kernel("ldl_solve", {expand_batch(ld, batch), expand_batch(a.tensor("pivots"), batch, 1), B}, {like(B, B.sizes())},
                 {flag(a.flag("hermitian"))})[0]};
}

// ---- functions of matrices ------------------------------------------------------------------------------------------

std::vector<Tensor> matrix_exp(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "self");
  return {d.b.cast(kernel("matrix_exp", {x}, {like(x, x.sizes())})[0], a.tensor("self").dtype())};
}

// Singular values at or below max(atol, rtol*largest) count as zero. Without either, rtol is the larger side in units
// of the dtype's precision; with a positive atol alone it is none.
struct Tolerance {
  Tensor absolute, relative;  // rank 0, or one for each matrix of the batch
};

Tolerance tolerance_of(const Args& a, Tensor x) {
  Builder& b = x.builder();
  auto number = [&](double value) { return b.scalar(x.dtype(), value); };
  auto given = [&](std::string_view name) {
    const bool is_tensor = std::holds_alternative<InputRef>(a.raw(name));
    return is_tensor ? b.cast(a.tensor(name), x.dtype()) : number(a.number(name));
  };
  const double precision = x.dtype() == DType::F64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  Tensor by_size = b.scalar(x.dtype(), Scalar(sym::max(x.size(-2), x.size(-1)))) * precision;
  // The older overloads have one tolerance.
  if (a.schema().parameters[1].name == "tol") return {given("tol"), number(0)};
  if (a.schema().parameters[1].name == "rcond") return {number(0), given("rcond")};
  if (!a.has("atol")) return {number(0), a.has("rtol") ? given("rtol") : by_size};
  Tensor absolute = given("atol");
  return {absolute, a.has("rtol") ? given("rtol") : where(absolute > 0, 0, by_size)};
}

// [batch…, k]: which values count.
Tensor counting_values(Tensor magnitudes, const Tolerance& tolerance) {
  Builder& b = magnitudes.builder();
  Tensor largest = b.amax(magnitudes, {-1});
  Tensor cutoff = maximum(tolerance.absolute, tolerance.relative * largest);
  return magnitudes > Term(b.unsqueeze(cutoff, -1));
}

std::vector<Tensor> matrix_rank(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, a.schema().parameters[0].name);
  if (smaller_side(x).is_const(0)) return {d.b.full(batch_of(x), DType::I64, sym::Expr(0))};
  Tensor magnitudes = a.flag("hermitian") ? abs(eigenvalues(x, false)) : singular_values(x);
  return {d.b.sum(d.b.cast(counting_values(magnitudes, tolerance_of(a, x)), DType::I64), {-1})};
}

std::vector<Tensor> pinv(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = matrix(a, "self");
  if (smaller_side(x).is_const(0)) return {b.full(with(batch_of(x), {x.size(-1), x.size(-2)}), x.dtype(), 0.0)};
  const Tolerance tolerance = tolerance_of(a, x);
  auto inverted = [&](Tensor values, Tensor counts) { return b.unsqueeze(where(counts, reciprocal(values), 0), -2); };
  if (a.has("hermitian") && a.flag("hermitian")) {
    const std::vector<Tensor> parts = eigh_of(x, false);
    Tensor counts = counting_values(abs(parts[0]), tolerance);
    return {b.matmul(parts[1] * inverted(parts[0], counts), transposed(parts[1]))};
  }
  const std::vector<Tensor> parts = svd_of(x, false);
  Tensor counts = counting_values(parts[1], tolerance);
  return {b.matmul(transposed(parts[2]) * inverted(parts[1], counts), transposed(parts[0]))};
}

// x = (w v')(v s v') for x = w s v': the nearest matrix with orthonormal columns, and how x stretches.
std::vector<Tensor> polar(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "A");
  if (sym::known_lt(x.size(-2), x.size(-1))) {
    throw Error(ErrorKind::InvalidModel, "linalg_polar needs at least as many rows as columns");
  }
  const std::vector<Tensor> parts = svd_of(x, false);
  Tensor stretch = d.b.matmul(transposed(parts[2]) * d.b.unsqueeze(parts[1], -2), parts[2]);
  return {d.b.matmul(parts[0], parts[2]), stretch};
}

// v sqrt(max(w, 0)) v' of the symmetric matrix v w v'
std::vector<Tensor> matrix_sqrth(Decomposer& d, const Args& a) {
  const std::vector<Tensor> parts = eigh_of(matrix(a, "self"), false);
  Tensor roots = d.b.unsqueeze(sqrt(maximum(parts[0], 0)), -2);
  return {d.b.matmul(parts[1] * roots, transposed(parts[1]))};
}

// ---- equations between tensors --------------------------------------------------------------------------------------

std::vector<Tensor> tensorinv(Decomposer& d, const Args& a) {
  Tensor x = matrix(a, "self");
  const int64_t split = a.constant("ind");
  if (split <= 0 || split > x.rank()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("linalg_tensorinv: ind = {}", split));
  }
  Sizes first = x.sizes().first(static_cast<size_t>(split)), last = x.sizes().without_first(static_cast<size_t>(split));
  Tensor square = d.b.reshape(x, {sym::product(first), sym::product(last)});
  d.b.require_equal(square.size(0), square.size(1), "linalg_tensorinv");
  last.insert(last.end(), first.begin(), first.end());
  return {d.b.reshape(inverse_of(square), last)};
}

std::vector<Tensor> tensorsolve(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = matrix(a, "self"), other = matrix(a, "other");
  if (a.has("dims")) {
    Dims order;
    const Dims to_end = b.wrap_dims(a.dims("dims"), x.rank());
    for (int64_t dim = 0; dim < x.rank(); ++dim) {
      if (!std::binary_search(to_end.begin(), to_end.end(), dim)) order.push_back(dim);
    }
    for (int64_t dim : a.dims("dims")) order.push_back(b.wrap_dim(dim, x.rank()));
    x = b.permute(x, order);
  }
  const Sizes unknowns = x.sizes().without_first(static_cast<size_t>(other.rank()));
  Tensor square = b.reshape(x, {other.numel(), sym::product(unknowns)});
  return {b.reshape(solve_matrices(square, b.reshape(other, {other.numel()}), true, false)[0], unknowns)};
}

// Powers 0 … N-1 of each element, as running products.
std::vector<Tensor> linalg_vander(Decomposer& d, const Args& a) {
  Builder& b = d.b;
  Tensor x = a.tensor("x");
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  const sym::Expr n = a.has("N") ? a.integer("N") : x.size(-1);
  if (!is_floating(x.dtype())) x = b.cast(x, DType::I64);
  Sizes sizes = x.sizes();
  sizes.push_back(n);
  Tensor is_first = eq(positions(b, n, x.rank(), x.rank() + 1), 0);
  return {b.scan(ScanOp::Prod, b.expand(where(is_first, 1, b.unsqueeze(x, -1)), sizes), -1)[0]};
}

constexpr DecompositionRow kLinalgRows[] = {
    {"aten::linalg_inv", inverse},
    {"aten::inverse", inverse},
    {"aten::linalg_inv_ex", inverse_with_info},
    {"aten::linalg_det", det},
    {"aten::_linalg_det", det_with_factors},
    {"aten::_linalg_slogdet", slogdet_with_factors},
    {"aten::_linalg_solve_ex", solve_with_factors},
    {"aten::_linalg_check_errors", check_errors},
    {"aten::det", det},
    {"aten::linalg_slogdet", slogdet},
    {"aten::slogdet", slogdet},
    {"aten::logdet", logdet},
    {"aten::linalg_solve", solve},
    {"aten::linalg_solve_ex", solve_with_info},
    {"aten::linalg_solve_triangular", solve_triangular},
    {"aten::triangular_solve", triangular_solve},
    {"aten::linalg_lstsq", lstsq},
    {"aten::linalg_cholesky", cholesky},
    {"aten::cholesky", cholesky},
    {"aten::linalg_cholesky_ex", cholesky_with_info},
    {"aten::cholesky_inverse", cholesky_inverse},
    {"aten::cholesky_solve", cholesky_solve},
    {"aten::linalg_qr", linalg_qr},
    {"aten::qr", qr},
    {"aten::geqrf", geqrf},
    {"aten::linalg_householder_product", householder_product},
    {"aten::orgqr", householder_product},
    {"aten::ormqr", ormqr},
    {"aten::linalg_svd", linalg_svd},
    {"aten::_linalg_svd", linalg_svd},
    {"aten::svd", svd},
    {"aten::linalg_svdvals", svdvals},
    {"aten::linalg_polar", polar},
    {"aten::linalg_matrix_sqrth", matrix_sqrth},
    {"aten::linalg_eigh", eigh},
    {"aten::_linalg_eigh", eigh},
    {"aten::linalg_eigvalsh", eigvalsh},
    {"aten::linalg_lu_factor", lu_factor},
    {"aten::linalg_lu_factor_ex", lu_factor},
    {"aten::_lu_with_info", lu_factor},
    {"aten::linalg_lu", linalg_lu},
    {"aten::lu_unpack", lu_unpack},
    {"aten::linalg_lu_solve", linalg_lu_solve},
    {"aten::lu_solve", lu_solve},
    {"aten::linalg_ldl_factor", ldl_factor},
    {"aten::linalg_ldl_factor_ex", ldl_factor},
    {"aten::linalg_ldl_solve", ldl_solve},
    {"aten::matrix_exp", matrix_exp},
    {"aten::linalg_matrix_exp", matrix_exp},
    {"aten::linalg_matrix_rank.*", matrix_rank},
    {"aten::linalg_matrix_rank", matrix_rank},
    {"aten::linalg_pinv.*", pinv},
    {"aten::linalg_pinv", pinv},
    {"aten::pinverse", pinv},
    {"aten::linalg_tensorinv", tensorinv},
    {"aten::linalg_tensorsolve", tensorsolve},
    {"aten::linalg_vander", linalg_vander},
};

}  // namespace

std::span<const DecompositionRow> linalg_rows() { return kLinalgRows; }

}  // namespace toroid
