// Orthogonal polynomials of degree n at x, by their three-term recurrences (DLMF 18.9), with torch.special's
// conventions: the degree is truncated to an integer, negative degrees give 0, and a degree beyond 512 of a Hermite
// polynomial gives NaN.
#pragma once

namespace toroid::special {

double chebyshev_t(double x, double n);  // cos(n t) where x = cos(t)
double chebyshev_u(double x, double n);  // sin((n + 1) t) / sin(t)
double chebyshev_v(double x, double n);  // cos((n + 1/2) t) / cos(t/2)
double chebyshev_w(double x, double n);  // sin((n + 1/2) t) / sin(t/2)
double hermite_h(double x, double n);    // the physicists': weight exp(-x^2)
double hermite_he(double x, double n);   // the probabilists': weight exp(-x^2 / 2)
double laguerre_l(double x, double n);
double legendre_p(double x, double n);

}  // namespace toroid::special
