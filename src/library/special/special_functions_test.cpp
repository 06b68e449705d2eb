#include "library/special/special_functions.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace toroid::special {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Values from the tables of DLMF and Abramowitz and Stegun, or from an arbitrary-precision library, to 15 digits.
struct Row {
  const char* name;
  double (*function)(double);
  double x;
  double value;
};
const Row kRows[] = {
    {"erfinv", erfinv, 0.5, 0.476936276204469873},
    {"erfinv near 1", erfinv, 1 - 0x1p-40, 5.05125408524939},
    {"erfinv small", erfinv, -1e-20, -8.86226925452758e-21},
    {"erfcx", erfcx, 1, 0.427583576155807},
    {"erfcx large", erfcx, 1e4, 5.64189580726808e-5},
    {"erfcx negative", erfcx, -2, 108.940904389977972},
    {"ndtri", ndtri, 0.975, 1.959963984540054},
    {"ndtri tail", ndtri, 1e-100, -21.273453560958512},
    {"log_ndtr", log_ndtr, -40, -804.608442013753788},
    {"digamma", digamma, 1, -0.577215664901532861},
    {"digamma negative", digamma, -0.5, 0.0364899739785765206},
    {"i0", i0, 1, 1.26606587775200834},
    {"i0 large", i0, 50, 2.93255378384933632e20},
    {"i0e", i0e, 700, 0.0150812956515313570},
    {"i0e of the largest number", i0e, 0x1.fffffffffffffp+1023, 2.97544745931589948e-155},
    {"i1", i1, -1, -0.565159103992485027},
    {"i1e", i1e, 100, 0.0397441530251302527},
    {"k0", k0, 0.1, 2.42706902470285},
    {"k0 beyond the series", k0, 5, 0.00369109833404259427},
    {"k0e large", k0e, 1e6, 0.00125331398065132121},
    {"k1", k1, 2, 0.139865881816522427},
    {"k1e", k1e, 10, 0.410766570595788751},
    {"bessel_j0", bessel_j0, 5, -0.177596771314338304},
    {"bessel_y1", bessel_y1, 1, -0.781212821300288717},
    {"spherical_bessel_j0", spherical_bessel_j0, 1e-4, 0.9999999983333333},
    {"airy_ai", airy_ai, 0, 0.355028053887817239},
    {"airy_ai decays", airy_ai, 5, 1.08344428136074417e-4},
    {"airy_ai oscillates", airy_ai, -20, -0.176406127077984},
};

TEST(SpecialFunctions, BesselFunctionsOfTheLargestNumberAreInfinite) {
  constexpr double kLargest = 0x1.fffffffffffffp+1023;
  EXPECT_EQ(i0(kLargest), INFINITY);
  EXPECT_EQ(i1(-kLargest), -INFINITY);
}

TEST(SpecialFunctions, AgreeWithPublishedValues) {
  for (const Row& row : kRows) {
    EXPECT_NEAR(row.function(row.x) / row.value, 1, 1e-12) << row.name << "(" << row.x << ")";
  }
  EXPECT_NEAR(zeta(2, 1), M_PI * M_PI / 6, 1e-14);
  EXPECT_NEAR(zeta(3, 2.5), 0.118102025820863702, 1e-15);
  EXPECT_NEAR(igamma(2, 3), 1 - 4 * std::exp(-3.0), 1e-15);
  EXPECT_NEAR(igammac(2, 3), 4 * std::exp(-3.0), 1e-15);
  EXPECT_NEAR(igammac(1e-10, 0.5) / 5.59773594805498791e-11, 1, 1e-12);  // no cancellation: a E1(x)
}

TEST(SpecialFunctions, PolesAndEnds) {
  EXPECT_EQ(erfinv(1), kInf);
  EXPECT_TRUE(std::isnan(erfinv(1.5)));
  EXPECT_EQ(ndtri(0), -kInf);
  EXPECT_EQ(digamma(0.0), -kInf);
  EXPECT_EQ(digamma(-0.0), kInf);
  EXPECT_TRUE(std::isnan(digamma(-3)));
  EXPECT_EQ(zeta(1, 5), kInf);
  EXPECT_EQ(zeta(2, -3), kInf);
  EXPECT_TRUE(std::isnan(zeta(2.5, -3.5)));
  EXPECT_EQ(k0(0), kInf);
  EXPECT_EQ(k0(kInf), 0);
  EXPECT_TRUE(std::isnan(k1(-1)));
  EXPECT_EQ(igamma(0, 1), 1);
  EXPECT_TRUE(std::isnan(igamma(0, 0)));
  EXPECT_EQ(igammac(3, kInf), 0);
}

}  // namespace
}  // namespace toroid::special
