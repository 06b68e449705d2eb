// How samples of the gamma and beta distributions follow their parameters.
//
// A sample x with the distribution function F(x; a) and density f moves with a by dx/da = -(dF/da) / f, so that F stays what it is
// (Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018). Written as integrals of the density over the side
// of x that has the smaller share, nothing cancels:
//
//   gamma   dx/da = -integral from 0 to x of (t/x)^(a-1) e^(x-t) (log t - digamma(a)) dt, or + from x to infinity
//   beta    the same with ((1-t)/(1-x))^(b-1) for e^(x-t) and digamma(a) - digamma(a+b)
//
// All are F64 tensors of one shape.
#pragma once

#include "graph/builder.h"

namespace toroid::formula {

// d sample / d shape of a gamma distribution.
Tensor gamma_sample_slope(Tensor shape, Tensor sample);

// d sample / d a of a beta distribution with parameters a = `shape` and total - a, divided by 1 - sample.
Tensor beta_sample_slope(Tensor sample, Tensor shape, Tensor total);

}  // namespace toroid::formula
