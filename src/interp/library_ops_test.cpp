#include "library/library_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include <gtest/gtest.h>

#include "base/error.h"
#include "interp/program_for_test.h"

namespace toroid {
namespace {

struct Result {
  DType dtype;
  std::vector<int64_t> sizes;
};

std::vector<HostTensor> call(const std::string& name, const std::vector<HostTensor>& inputs, const std::vector<Result>& results,
                             const std::vector<Scalar>& attributes = {}) {
  return run(inputs, [&](Builder& b, std::vector<Tensor> x) {
    std::vector<TensorType> types;
    for (const Result& result : results) {
      types.push_back({.dtype = result.dtype, .sizes = Sizes(result.sizes.begin(), result.sizes.end())});
    }
    return b.library(name, x, types, attributes);
  });
}

void expect_near(const HostTensor& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.numel(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual.double_at(static_cast<int64_t>(i)), expected[i], 1e-5) << "element " << i;
  }
}

HostTensor product(const HostTensor& a, const HostTensor& b) {
  return run({a, b}, [](Builder& builder, std::vector<Tensor> x) { return std::vector<Tensor>{builder.matmul(x[0], x[1])}; })[0];
}

const HostTensor kSquare = f32({3, 3}, {4, 2, 1, 2, 5, 3, 1, 3, 6});  // positive definite
const HostTensor kTall = f32({3, 2}, {1, 2, 3, 4, 5, 6});

TEST(LibraryOps, CholeskyOfABatch) {
  const HostTensor batch = f32({2, 2, 2}, {4, 2, 2, 5, 1, 0, 0, 9});
  const auto result = call("linalg.cholesky", {batch}, {{DType::F32, {2, 2, 2}}}, {false});
  expect_near(result[0], {2, 0, 1, 2, 1, 0, 0, 3});
  const auto upper = call("linalg.cholesky", {batch}, {{DType::F32, {2, 2, 2}}}, {true});
  expect_near(upper[0], {2, 1, 0, 2, 1, 0, 0, 3});
}

TEST(LibraryOps, InfiniteMatricesHaveDecompositionsOfNaN) {
  const double inf = HUGE_VAL, nan = std::nan("");
  const auto is_nan = [](const HostTensor& x) {
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (!std::isnan(x.double_at(i))) return false;
    }
    return true;
  };
  const std::vector<Result> svd = {{DType::F32, {2, 2}}, {DType::F32, {2}}, {DType::F32, {2, 2}}}, svdvals = {{DType::F32, {2}}};
  for (const HostTensor& each : call("linalg.svd", {f32({2, 2}, {inf, 1, 1, 2})}, svd, {false})) EXPECT_TRUE(is_nan(each));
  EXPECT_TRUE(is_nan(call("linalg.svdvals", {f32({2, 2}, {1, -inf, 1, 2})}, svdvals)[0]));
  EXPECT_THROW(call("linalg.svd", {f32({2, 2}, {nan, inf, 1, 2})}, svd, {false}), Error);
  EXPECT_THROW(call("linalg.svdvals", {f32({2, 2}, {nan, 1, 1, 2})}, svdvals), Error);

  // Of a symmetric matrix one triangle counts.
  const std::vector<Result> eigh = {{DType::F32, {2}}, {DType::F32, {2, 2}}}, eigvalsh = {{DType::F32, {2}}};
  const HostTensor above = f32({2, 2}, {1, nan, 2, 3}), below = f32({2, 2}, {1, 2, inf, 3});
  for (const bool upper : {false, true}) {
    const HostTensor& good = upper ? below : above;
    const HostTensor& bad = upper ? above : below;
    expect_near(call("linalg.eigh", {good}, eigh, {upper})[0], {-0.2360680, 4.236068});
    expect_near(call("linalg.eigvalsh", {good}, eigvalsh, {upper})[0], {-0.2360680, 4.236068});
    for (const HostTensor& each : call("linalg.eigh", {bad}, eigh, {upper})) EXPECT_TRUE(is_nan(each));
    EXPECT_TRUE(is_nan(call("linalg.eigvalsh", {bad}, eigvalsh, {upper})[0]));
  }
}

TEST(LibraryOps, FailuresAreReportedOrThrown) {
  const HostTensor singular = f32({2, 2}, {1, 2, 2, 4});
  const auto with_info = call("linalg.inv", {singular}, {{DType::F32, {2, 2}}, {DType::I32, {}}});
  EXPECT_EQ(with_info[1].int_at(0), 2);
  EXPECT_THROW(call("linalg.inv", {singular}, {{DType::F32, {2, 2}}}), Error);
  EXPECT_THROW(call("linalg.cholesky", {f32({1, 1}, {-1})}, {{DType::F32, {1, 1}}}, {false}), Error);
  EXPECT_THROW(call("linalg.unheard_of", {singular}, {{DType::F32, {2, 2}}}), Error);
}

TEST(LibraryOps, QrMultipliesBack) {
  const auto qr = call("linalg.qr", {kTall}, {{DType::F32, {3, 2}}, {DType::F32, {2, 2}}}, {sym::Expr(0)});
  expect_near(product(qr[0], qr[1]), {1, 2, 3, 4, 5, 6});
  EXPECT_LT(qr[1].double_at(0), 0);  // LAPACK's sign
  EXPECT_EQ(qr[1].double_at(2), 0);
  const auto compact = call("linalg.geqrf", {kTall}, {{DType::F32, {3, 2}}, {DType::F32, {2}}});
  const auto q = call("linalg.householder_product", {compact[0], compact[1]}, {{DType::F32, {3, 2}}});
  expect_near(q[0], qr[0].to_doubles());
  const auto complete = call("linalg.qr", {kTall}, {{DType::F32, {3, 3}}, {DType::F32, {3, 2}}}, {sym::Expr(1)});
  expect_near(product(complete[0], complete[1]), {1, 2, 3, 4, 5, 6});
  // Q^T A = R
  const auto back = call("linalg.ormqr", {compact[0], compact[1], kTall}, {{DType::F32, {3, 2}}}, {true, true});
  expect_near(back[0], complete[1].to_doubles());
}

TEST(LibraryOps, SingularAndEigenValues) {
  const auto svd = call("linalg.svd", {kTall}, {{DType::F32, {3, 2}}, {DType::F32, {2}}, {DType::F32, {2, 2}}}, {false});
  expect_near(svd[1], {9.52551809, 0.51430058});
  const HostTensor s = f32({2, 2}, {svd[1].double_at(0), 0, 0, svd[1].double_at(1)});
  expect_near(product(product(svd[0], s), svd[2]), {1, 2, 3, 4, 5, 6});
  expect_near(call("linalg.svdvals", {kTall}, {{DType::F32, {2}}})[0], svd[1].to_doubles());
  expect_near(call("linalg.eigvalsh", {f32({2, 2}, {2, 99, 1, 2})}, {{DType::F32, {2}}}, {false})[0], {1, 3});
}

// The values are PyTorch 2.11's; any sign of a vector would be right, but users compare.
TEST(LibraryOps, VectorsHaveTheSignsOfPyTorch) {
  const HostTensor symmetric = f32({3, 3}, {4, 2, 1, 2, -5, 3, 1, 3, 6});
  const std::vector<Result> eigen = {{DType::F32, {3}}, {DType::F32, {3, 3}}};
  const auto lower = call("linalg.eigh", {symmetric}, eigen, {false});
  expect_near(lower[0], {-6.054157, 3.623144, 7.431014});
  expect_near(lower[1], {-0.1685412, -0.8946703, -0.4137134, 0.9597026, -0.0531935, -0.2759368, -0.2248656, 0.4435485, -0.8675829});
  const auto upper = call("linalg.eigh", {symmetric}, eigen, {true});
  expect_near(upper[1], {-0.1685411, 0.8946706, 0.4137132, 0.9597028, 0.05319357, 0.2759368, -0.2248657, -0.4435485, 0.867583});

  const HostTensor square = f32({3, 3}, {1, -2, 3, 4, 5, -6, -7, 8, 9});
  const auto svd = call("linalg.svd", {square}, {{DType::F32, {3, 3}}, {DType::F32, {3}}, {DType::F32, {3, 3}}}, {false});
  expect_near(svd[0], {0.0583449, -0.34703, -0.9360373, -0.3140963, 0.8836346, -0.3471799, 0.9475968, 0.3142622, -0.05744547});
  expect_near(svd[1], {14.42802, 8.455081, 2.311664});
  expect_near(svd[2], {-0.5427783, 0.4084831, 0.7338485, 0.1168142, 0.901982, -0.4156718, -0.8317128, -0.1398938, -0.5372928});
  const auto broad =
      call("linalg.svd", {f32({2, 3}, {1, -2, 3, 4, 5, -6})}, {{DType::F32, {2, 2}}, {DType::F32, {2}}, {DType::F32, {3, 3}}}, {true});
  expect_near(broad[0], {0.3198189, 0.9474787, -0.9474787, 0.3198189});
  expect_near(broad[2], {-0.376161, -0.5828743, 0.7202504, 0.9168285, -0.1218165, 0.3802447, -0.1338965, 0.8033793, 0.5802184});
  const auto tall = call("linalg.svd", {f32({4, 2}, {1, -2, 4, 5, 3, -1, 2, 2})},
                         {{DType::F32, {4, 4}}, {DType::F32, {2}}, {DType::F32, {2, 2}}}, {true});
  expect_near(tall[0], {0.1143304, 0.5796052, -0.7950257, -0.1375525, -0.8941779, -0.1037525, -0.1324449, -0.4148972, -0.1768162, 0.8072107,
                        0.5631578, -0.0005599409, -0.3951082, 0.04128429, -0.1823344, 0.8994105});
  expect_near(tall[2], {-0.6690722, -0.7431974, 0.7431974, -0.6690722});
}

TEST(LibraryOps, VectorsOfTinyHugeAndEqualValues) {
  const std::vector<Result> svd = {{DType::F32, {2, 2}}, {DType::F32, {2}}, {DType::F32, {2, 2}}};
  expect_near(call("linalg.svd", {f32({2, 2}, {0, 0, 0, 0})}, svd, {false})[0], {1, 0, 0, 1});
  const auto huge = call("linalg.svd", {f32({2, 2}, {3e30F, 0, 0, -4e30F})}, svd, {false});
  EXPECT_NEAR(huge[1].double_at(0) / 4e30, 1, 1e-6);
  EXPECT_NEAR(huge[1].double_at(1) / 3e30, 1, 1e-6);
  const auto tiny =
      call("linalg.eigh", {f32({2, 2}, {1e-30F, 2e-30F, 2e-30F, 1e-30F})}, {{DType::F32, {2}}, {DType::F32, {2, 2}}}, {false});
  EXPECT_NEAR(tiny[0].double_at(0) / -1e-30, 1, 1e-6);
  EXPECT_NEAR(tiny[0].double_at(1) / 3e-30, 1, 1e-6);
}

TEST(LibraryOps, LuAndSolves) {
  const auto lu =
      call("linalg.lu_factor", {f32({2, 2}, {1, 2, 3, 4})}, {{DType::F32, {2, 2}}, {DType::I32, {2}}, {DType::I32, {}}}, {true});
  expect_near(lu[0], {3, 4, 1.0 / 3, 2.0 / 3});
  expect_near(lu[1], {2, 2});
  expect_near(call("linalg.lu_permutation", {lu[1]}, {{DType::I64, {2}}})[0], {1, 0});
  const HostTensor b = f32({2, 1}, {5, 11});
  expect_near(call("linalg.lu_solve", {lu[0], lu[1], b}, {{DType::F32, {2, 1}}}, {true, false})[0], {1, 2});
  expect_near(call("linalg.lu_solve", {lu[0], lu[1], f32({2, 1}, {7, 10})}, {{DType::F32, {2, 1}}}, {true, true})[0], {1, 2});
  expect_near(call("linalg.solve", {f32({2, 2}, {1, 2, 3, 4}), f32({1, 2}, {7, 10})}, {{DType::F32, {1, 2}}}, {false})[0], {1, 2});
  expect_near(call("linalg.det", {f32({2, 2}, {1, 2, 3, 4})}, {{DType::F32, {}}})[0], {-2});
  const auto slogdet = call("linalg.slogdet", {f32({2, 2}, {1, 2, 3, 4})}, {{DType::F32, {}}, {DType::F32, {}}});
  expect_near(slogdet[0], {-1});
  expect_near(slogdet[1], {std::log(2.0)});
  expect_near(call("linalg.solve_triangular", {f32({2, 2}, {2, 1, 9, 4}), b}, {{DType::F32, {2, 1}}}, {true, true, false})[0],
              {1.125, 2.75});
}

// A shape whose blocks are factored at once, and those with more rows or columns: P A = L U.
TEST(LibraryOps, LuOfAnyShapeMultipliesBack) {
  for (const auto& [m, n] : {std::array<int64_t, 2>{70, 70}, {90, 20}, {20, 90}, {3, 1}, {1, 3}}) {
    const int64_t rank = std::min(m, n);
    std::vector<double> values;
    for (int64_t i = 0; i < m * n; ++i) values.push_back(std::sin(static_cast<double>(i * i + 3 * i + 1)));
    const HostTensor a = HostTensor::from_doubles(DType::F64, {m, n}, values);
    const auto lu = call("linalg.lu_factor", {a}, {{DType::F64, {m, n}}, {DType::I32, {rank}}, {DType::I32, {}}}, {true});
    EXPECT_EQ(lu[2].int_at(0), 0);
    const HostTensor order = call("linalg.lu_permutation", {lu[1]}, {{DType::I64, {m}}})[0];
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < rank && k <= std::min(i, j); ++k) {
          const double l = i == k ? 1 : lu[0].double_at(i * n + k);
          EXPECT_LE(std::fabs(l), 1);
          sum += l * lu[0].double_at(k * n + j);
        }
        EXPECT_NEAR(sum, a.double_at(order.int_at(i) * n + j), 1e-12);
      }
    }
  }
}

TEST(LibraryOps, MatricesWithoutRowsOrColumns) {
  for (const auto& [m, n] : {std::array<int64_t, 2>{0, 0}, {0, 3}, {3, 0}}) {
    const HostTensor a = HostTensor(DType::F64, {m, n});
    const std::vector<Result> lu = {{DType::F64, {m, n}}, {DType::I32, {0}}, {DType::I32, {}}};
    EXPECT_EQ(call("linalg.lu_factor", {a}, lu, {true})[2].int_at(0), 0);
    EXPECT_EQ(call("linalg.lu_factor", {a}, lu, {false})[2].int_at(0), 0);
    const auto complete = call("linalg.qr", {a}, {{DType::F64, {m, m}}, {DType::F64, {m, n}}}, {sym::Expr(1)});
    for (int64_t i = 0; i < m * m; ++i) EXPECT_EQ(complete[0].double_at(i), i % (m + 1) == 0 ? 1 : 0);
    const std::vector<Result> least = {{DType::F64, {n, 2}}, {DType::F64, {0}}, {DType::I64, {}}, {DType::F64, {0}}};
    const auto fit =
        call("linalg.lstsq", {a, HostTensor::from_doubles(DType::F64, {m, 2}, std::vector<double>(static_cast<size_t>(2 * m), 1))}, least,
             {1e-6});
    EXPECT_EQ(fit[2].int_at(0), 0);
    for (int64_t i = 0; i < 2 * n; ++i) EXPECT_EQ(fit[0].double_at(i), 0);
  }
  const HostTensor none(DType::F64, {0, 0});
  EXPECT_EQ(call("linalg.det", {none}, {{DType::F64, {}}})[0].double_at(0), 1);
  EXPECT_EQ(call("linalg.cholesky", {none}, {{DType::F64, {0, 0}}, {DType::I32, {}}}, {false})[1].int_at(0), 0);
  EXPECT_EQ(call("linalg.inv", {none}, {{DType::F64, {0, 0}}, {DType::I32, {}}})[1].int_at(0), 0);
}

// The order of the first leading minor that is not positive definite, also where that is NaN, and the factor before it.
TEST(LibraryOps, CholeskyTellsWhereAMatrixIsNotDefinite) {
  const auto info_of = [](const std::vector<double>& a, int64_t n) {
    const auto result = call("linalg.cholesky", {f32({n, n}, a)}, {{DType::F32, {n, n}}, {DType::I32, {}}}, {false});
    return std::pair(result[1].int_at(0), result[0].double_at(0));
  };
  EXPECT_EQ(info_of({4, 0, 0, 2, 1, 0, 0, 0, 1}, 3), std::pair(int64_t{2}, 2.0));
  EXPECT_EQ(info_of({4, 0, 0, 2, 5, 0, 1, 1, -1}, 3), std::pair(int64_t{3}, 2.0));
  EXPECT_EQ(info_of({0, 0, 0, 1}, 2).first, 1);
  EXPECT_EQ(info_of({4, 0, 0, std::nan("")}, 2), std::pair(int64_t{2}, 2.0));
  EXPECT_EQ(info_of({4, 0, 2, 5}, 2).first, 0);
}

TEST(LibraryOps, LdlWithTwoByTwoPivots) {
  const HostTensor a = f32({3, 3}, {0, 1, 2, 1, 0, 3, 2, 3, 0});
  const auto ldl = call("linalg.ldl_factor", {a}, {{DType::F32, {3, 3}}, {DType::I32, {3}}, {DType::I32, {}}}, {false});
  EXPECT_LT(ldl[1].int_at(0), 0);
  const HostTensor b = product(a, f32({3, 1}, {1, -2, 3}));
  expect_near(call("linalg.ldl_solve", {ldl[0], ldl[1], b}, {{DType::F32, {3, 1}}}, {false})[0], {1, -2, 3});
  const auto definite = call("linalg.ldl_factor", {kSquare}, {{DType::F32, {3, 3}}, {DType::I32, {3}}}, {false});
  const HostTensor c = product(kSquare, f32({3, 1}, {1, 2, 3}));
  expect_near(call("linalg.ldl_solve", {definite[0], definite[1], c}, {{DType::F32, {3, 1}}}, {false})[0], {1, 2, 3});
}

TEST(LibraryOps, MatrixExponentialAndLeastSquares) {
  expect_near(call("linalg.matrix_exp", {f32({2, 2}, {0, -M_PI / 2, M_PI / 2, 0})}, {{DType::F32, {2, 2}}})[0], {0, -1, 1, 0});
  const float infinity = std::numeric_limits<float>::infinity();
  const auto single = call("linalg.matrix_exp", {f32({3, 1, 1}, {1, infinity, -infinity})}, {{DType::F32, {3, 1, 1}}})[0];
  EXPECT_EQ(single.double_at(0), std::numbers::e_v<float>);
  EXPECT_EQ(single.double_at(1), infinity);
  EXPECT_EQ(single.double_at(2), 0);
  const auto larger = call("linalg.matrix_exp", {f32({2, 2}, {infinity, 0, 0, 0})}, {{DType::F32, {2, 2}}})[0];
  EXPECT_TRUE(std::isnan(larger.double_at(0)));
  const auto fit = call("linalg.lstsq", {f32({3, 2}, {1, 0, 1, 1, 1, 2}), f32({3, 1}, {1, 2, 4})},
                        {{DType::F32, {2, 1}}, {DType::F32, {1}}, {DType::I64, {}}, {DType::F32, {2}}}, {1e-6});
  expect_near(fit[0], {5.0 / 6, 1.5});
  expect_near(fit[1], {1.0 / 6});
  EXPECT_EQ(fit[2].int_at(0), 2);
}

// Small factors, a chirp for large ones, one element, and back again.
TEST(LibraryOps, ManyMatricesWithoutElementsAreDoneAtOnce) {
  const HostTensor none(DType::F32, {int64_t{1} << 31, 4, 0, 0});
  EXPECT_EQ(call("linalg.matrix_exp", {none}, {{DType::F32, none.sizes()}})[0].sizes(), none.sizes());
}

TEST(Fourier, TransformsEveryLength) {
  for (int64_t n : {1, 2, 3, 8, 12, 30, 61, 64, 67, 134, 169, 1009}) {
    SCOPED_TRACE(n);
    std::vector<double> re, im;
    for (int64_t j = 0; j < n; ++j) {
      re.push_back(std::sin(static_cast<double>(j * j)));
      im.push_back(std::cos(static_cast<double>(3 * j)));
    }
    const std::vector<HostTensor> x = {HostTensor::from_doubles(DType::F64, {n}, re), HostTensor::from_doubles(DType::F64, {n}, im)};
    const std::vector<Result> results = {{DType::F64, {n}}, {DType::F64, {n}}};
    const std::vector<HostTensor> y = call("fourier.transform", x, results, {Scalar(sym::Expr(1))});
    for (int64_t k = 0; k < n; k += 1 + n / 16) {
      std::complex<double> sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double angle = -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        sum += std::complex<double>(re[static_cast<size_t>(j)], im[static_cast<size_t>(j)]) * std::polar(1.0, angle);
      }
      EXPECT_NEAR(y[0].double_at(k), sum.real(), 1e-11);
      EXPECT_NEAR(y[1].double_at(k), sum.imag(), 1e-11);
    }
    const std::vector<HostTensor> back = call("fourier.transform", y, results, {Scalar(sym::Expr(0))});
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_NEAR(back[0].double_at(j) / static_cast<double>(n), re[static_cast<size_t>(j)], 1e-13);
    }
  }
}

TEST(LibraryOps, WeightsAreScaledAlongADim) {
  const HostTensor weights = f32({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const HostTensor of_rows = HostTensor::from_doubles(DType::F64, {2}, std::vector<double>{10, -1});
  EXPECT_EQ(call("weights.scale", {weights, of_rows}, {{DType::F32, {2, 3, 2}}}, {sym::Expr(0)})[0].to_doubles(),
            (std::vector<double>{10, 20, 30, 40, 50, 60, -7, -8, -9, -10, -11, -12}));
  const HostTensor of_columns = HostTensor::from_doubles(DType::F64, {3}, std::vector<double>{1, 0.5, 0});
  EXPECT_EQ(call("weights.scale", {weights, of_columns}, {{DType::F32, {2, 3, 2}}}, {sym::Expr(1)})[0].to_doubles(),
            (std::vector<double>{1, 2, 1.5, 2, 0, 0, 7, 8, 4.5, 5, 0, 0}));
  // Rounded once, from double.
  const HostTensor third = HostTensor::from_doubles(DType::F64, {1}, std::vector<double>{1.0 / 3});
  EXPECT_EQ(call("weights.scale", {f32({1}, {0.1}), third}, {{DType::F32, {1}}}, {sym::Expr(0)})[0].double_at(0),
            static_cast<float>(static_cast<double>(0.1f) * (1.0 / 3)));
}

TEST(LibraryOps, WeightsAreJoinedAlongADim) {
  const HostTensor a = f32({2, 1}, {1, 2}), b = f32({2, 3}, {3, 4, 5, 6, 7, 8}), c = i64({2}, {9, 10});
  EXPECT_EQ(call("weights.join", {a, b, a}, {{DType::F32, {2, 5}}}, {sym::Expr(1)})[0].to_doubles(),
            (std::vector<double>{1, 3, 4, 5, 1, 2, 6, 7, 8, 2}));
  EXPECT_EQ(call("weights.join", {a, a}, {{DType::F32, {4, 1}}}, {sym::Expr(0)})[0].to_doubles(), (std::vector<double>{1, 2, 1, 2}));
  EXPECT_EQ(call("weights.join", {c, c}, {{DType::I64, {4}}}, {sym::Expr(0)})[0].to_doubles(), (std::vector<double>{9, 10, 9, 10}));
}

}  // namespace
}  // namespace toroid
