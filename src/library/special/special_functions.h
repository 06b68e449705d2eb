// Special functions that the C library lacks, in double precision, with torch.special's values at poles and ends.
//
// Each is its textbook series, recurrence or expansion, chosen where it converges quickly and without cancellation,
// rather than fitted rational functions: slower, but every line can be checked against the reference it names. DLMF
// is the NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov.
#pragma once

namespace toroid::special {

double erfinv(double x);
double erfcx(double x);  // exp(x^2) erfc(x)
double ndtri(double p);  // inverse of the normal distribution function
double log_ndtr(double x);
double lgamma(double x);  // log |gamma(x)|
double digamma(double x);
double zeta(double s, double q);    // Hurwitz: the sum of 1 / (q + k)^s
double igamma(double a, double x);  // regularised lower incomplete gamma function
double igammac(double a, double x);

double i0(double x);  // modified Bessel functions of the first kind; e: times exp(-|x|)
double i0e(double x);
double i1(double x);
double i1e(double x);
double k0(double x);  // … of the second kind; e: times exp(x)
double k0e(double x);
double k1(double x);
double k1e(double x);
double bessel_j0(double x);
double bessel_j1(double x);
double bessel_y0(double x);
double bessel_y1(double x);
double spherical_bessel_j0(double x);
double airy_ai(double x);

}  // namespace toroid::special
