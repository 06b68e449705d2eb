// Library kernels of distributions that take a varying number of draws, and of checks on their parameters.
//
//   random.require    holds Bool [] (requirement)              I64 [] 0; throws when `holds` is false
//   random.poisson    rate F64, state I64 [2] (stream)         F64 of rate's sizes
//   random.binomial   count F64, p F64, state (stream)         F64
//   random.permutation  state (stream)                         I64 [n]: 0 to n - 1 in random order (random_permutation.cpp)
//   random.gamma      shape F64, state (stream)                F64: shape's standard gamma, at least the least normal number
//
// Element i draws from Philox blocks of a key of its own: block (i + 2^40 * stream, call) under the seed, as in
// passes/decompose/random/random_bits.h, gives the key; the k-th block under it is that of the counter k.
#pragma once

#include "library/library_ops.h"

namespace toroid {

// What a random operator demands of its arguments' elements.
enum class RandomRequirement : uint8_t {
  BernoulliProbability,
  NormalDeviation,
  MultinomialElements,
  MultinomialSum,
  PoissonRate,
  IntegerRange,
};

namespace random_kernels {

// The key of an element's own blocks. `state`: seed and number of the call.
uint64_t element_key(const int64_t* state, double stream, int64_t element);

void require(const LibraryCall& call);
void poisson(const LibraryCall& call);
void binomial(const LibraryCall& call);
void gamma(const LibraryCall& call);
void permutation(const LibraryCall& call);

}  // namespace random_kernels
}  // namespace toroid
