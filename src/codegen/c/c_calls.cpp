// Library kernels in plain C, over operands of any strides.
#include "codegen/c/c_calls.h"

namespace toroid::codegen::c {

const std::string_view kLibrary = R"c(/* dtype: as numbered in the calls; sizes and strides in elements. */
typedef struct Operand {
  void* data;
  const int64_t *sizes, *strides;
  int rank, dtype;
} Operand;
enum { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };

static double element(const Operand* x, int64_t at) {
  switch (x->dtype) {
    case kBool: case kU8: return ((const uint8_t*)x->data)[at];
    case kI8: return ((const int8_t*)x->data)[at];
    case kI16: return ((const int16_t*)x->data)[at];
    case kI32: return ((const int32_t*)x->data)[at];
    case kI64: return (double)((const int64_t*)x->data)[at];
    case kF16: return f16_value(((const uint16_t*)x->data)[at]);
    case kBF16: return bf16_value(((const uint16_t*)x->data)[at]);
    case kF32: return ((const float*)x->data)[at];
    default: return ((const double*)x->data)[at];
  }
}
static uint64_t whole_element(const Operand* x, int64_t at) {
  return x->dtype == kI64 ? (uint64_t)((const int64_t*)x->data)[at] : (uint64_t)(int64_t)element(x, at);
}
static void set_element(const Operand* x, int64_t at, double value, uint64_t whole) {
  switch (x->dtype) {
    case kBool: ((uint8_t*)x->data)[at] = whole != 0; break;
    case kU8: ((uint8_t*)x->data)[at] = (uint8_t)whole; break;
    case kI8: ((int8_t*)x->data)[at] = (int8_t)whole; break;
    case kI16: ((int16_t*)x->data)[at] = (int16_t)whole; break;
    case kI32: ((int32_t*)x->data)[at] = (int32_t)whole; break;
    case kI64: ((int64_t*)x->data)[at] = wrap(whole); break;
    case kF16: ((uint16_t*)x->data)[at] = f16_bits((float)value); break;
    case kBF16: ((uint16_t*)x->data)[at] = bf16_bits((float)value); break;
    case kF32: ((float*)x->data)[at] = (float)value; break;
    default: ((double*)x->data)[at] = value; break;
  }
}
static int64_t elements(const int64_t* sizes, int rank) {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= sizes[d];
  return count;
}
/* Where the i-th element of the first `rank` dims lies. */
static int64_t place(const Operand* x, int64_t i, int rank) {
  int64_t at = 0;
  for (int d = rank - 1; d >= 0; --d) { at += i % x->sizes[d] * x->strides[d]; i /= x->sizes[d]; }
  return at;
}

/* out = x times factors along a dim */
static void scale_weights(Operand x, Operand factors, Operand out, int64_t dim) {
  const int64_t inner = elements(x.sizes + dim + 1, x.rank - (int)dim - 1);
  for (int64_t i = 0; i < elements(x.sizes, x.rank); ++i) {
    const double factor = element(&factors, place(&factors, i / inner % x.sizes[dim], 1));
    set_element(&out, place(&out, i, out.rank), element(&x, place(&x, i, x.rank)) * factor, 0);
  }
}

/* Writes x into out from the index `first` of a dim on; gives the index behind it. */
static int64_t join_weights(Operand x, Operand out, int64_t dim, int64_t first) {
  for (int64_t i = 0; i < elements(x.sizes, x.rank); ++i) {
    const int64_t from = place(&x, i, x.rank);
    set_element(&out, first * out.strides[dim] + place(&(const Operand){0, x.sizes, out.strides, x.rank, 0}, i, x.rank),
                element(&x, from), whole_element(&x, from));
  }
  return first + x.sizes[dim];
}

/* [B.., M, K] x [B.., K, N] -> [B.., M, N] */
static void matmul(Operand a, Operand b, Operand out) {
  const int r = out.rank - 2;
  const int64_t m = out.sizes[r], n = out.sizes[r + 1], k = a.sizes[r + 1];
  for (int64_t batch = 0; batch < elements(out.sizes, r); ++batch) {
    const int64_t pa = place(&a, batch, r), pb = place(&b, batch, r), po = place(&out, batch, r);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t t = 0; t < k; ++t) {
          const int64_t x = pa + i * a.strides[r] + t * a.strides[r + 1], y = pb + t * b.strides[r] + j * b.strides[r + 1];
          if (out.dtype >= kF16) sum += element(&a, x) * element(&b, y);
          else whole += whole_element(&a, x) * whole_element(&b, y);
        }
        set_element(&out, po + i * out.strides[r] + j * out.strides[r + 1], sum, whole);
      }
    }
  }
}

/* x [N, C, ..], filters [O, C / groups, ..] or, transposed, [C, O / groups, ..], bias [O] or null -> [N, O, ..] */
static void convolution(Operand x, Operand w, const Operand* bias, Operand out, int transposed, int64_t groups, const int64_t* stride,
                        const int64_t* padding, const int64_t* dilation) {
  const int spatial = out.rank - 2;
  const int64_t ins = x.sizes[1] / groups, outs = out.sizes[1] / groups;
  const int64_t places = elements(out.sizes + 2, spatial), taps = elements(w.sizes + 2, spatial);
  for (int64_t n = 0; n < out.sizes[0]; ++n) {
    for (int64_t o = 0; o < out.sizes[1]; ++o) {
      for (int64_t p = 0; p < places; ++p) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t t = 0; t < taps; ++t) {
          int64_t px = 0, pw = 0, left = p, tap = t;
          int inside = 1;
          for (int d = spatial - 1; d >= 0; --d) {
            const int64_t at = left % out.sizes[d + 2], k = tap % w.sizes[d + 2];
            int64_t i = transposed ? at + padding[d] - k * dilation[d] : at * stride[d] - padding[d] + k * dilation[d];
            if (transposed) { inside &= i >= 0 && i % stride[d] == 0; i /= stride[d]; }
            inside &= i >= 0 && i < x.sizes[d + 2];
            px += i * x.strides[d + 2];
            pw += k * w.strides[d + 2];
            left /= out.sizes[d + 2];
            tap /= w.sizes[d + 2];
          }
          if (!inside) continue;
          const int64_t g = o / outs;
          for (int64_t c = 0; c < ins; ++c) {
            const int64_t at = n * x.strides[0] + (g * ins + c) * x.strides[1] + px;
            const int64_t filter = pw + (transposed ? (g * ins + c) * w.strides[0] + o % outs * w.strides[1]
                                                    : o * w.strides[0] + c * w.strides[1]);
            if (out.dtype >= kF16) sum += element(&x, at) * element(&w, filter);
            else whole += whole_element(&x, at) * whole_element(&w, filter);
          }
        }
        if (bias != NULL) { sum += element(bias, o * bias->strides[0]); whole += whole_element(bias, o * bias->strides[0]); }
        int64_t to = n * out.strides[0] + o * out.strides[1], left = p;
        for (int d = spatial - 1; d >= 0; --d) { to += left % out.sizes[d + 2] * out.strides[d + 2]; left /= out.sizes[d + 2]; }
        set_element(&out, to, sum, whole);
      }
    }
  }
}

/* q [B.., H, L, E], k and v [B.., G, S, E] with H a multiple of G: softmax(q k^T scale + mask) v. A row that may look nowhere is 0. */
static int32_t attention(Memory* memory, Operand q, Operand k, Operand v, const Operand* mask, Operand out, int causal, double scale) {
  const int r = q.rank - 2;
  const int64_t queries = q.sizes[r], keys = k.sizes[r], width = q.sizes[r + 1], wide = v.sizes[r + 1];
  const int64_t shared = r > 0 && k.sizes[r - 1] > 0 ? q.sizes[r - 1] / k.sizes[r - 1] : 1;
  double* scores = take(memory, keys * (int64_t)sizeof(double));
  if (scores == NULL) return kNoMemory;
  for (int64_t batch = 0; batch < elements(q.sizes, r); ++batch) {
    const int64_t pq = place(&q, batch, r), pk = place(&k, batch / shared, r), pv = place(&v, batch / shared, r), po = place(&out, batch, r);
    for (int64_t i = 0; i < queries; ++i) {
      double most = -INFINITY, total = 0;
      int any_nan = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t e = 0; e < width; ++e)
          score += element(&q, pq + i * q.strides[r] + e * q.strides[r + 1]) * element(&k, pk + j * k.strides[r] + e * k.strides[r + 1]);
        score *= scale;
        if (mask != NULL) {
          int64_t at = 0, left = batch * queries * keys + i * keys + j;
          for (int d = 0; d < q.rank; ++d) {
            const int64_t size = d == 0 ? keys : d == 1 ? queries : q.sizes[r + 1 - d], m = mask->rank - 1 - d;
            if (m >= 0 && mask->sizes[m] > 1) at += left % size * mask->strides[m];
            left /= size;
          }
          const double bias = element(mask, at);
          score = mask->dtype == kBool ? (bias != 0 ? score : -INFINITY) : score + bias;
        }
        if (causal && j > i) score = -INFINITY;
        scores[j] = score;
        any_nan |= score != score;
        if (score > most) most = score;
      }
      for (int64_t j = 0; j < keys; ++j) total += scores[j] = any_nan ? NAN : most == -INFINITY ? 0 : exp(scores[j] - most);
      for (int64_t e = 0; e < wide; ++e) {
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j)
          if (scores[j] != 0) sum += scores[j] / total * element(&v, pv + j * v.strides[r] + e * v.strides[r + 1]);
        set_element(&out, po + i * out.strides[r] + e * out.strides[r + 1], sum, 0);
      }
    }
  }
  return 0;
}

)c";

}  // namespace toroid::codegen::c
