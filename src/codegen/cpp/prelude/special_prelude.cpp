#include "codegen/cpp/prelude/prelude.h"

namespace toroid::codegen {

// Polynomials of Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 9.4.1 to 9.4.6 and 9.8.1 to 9.8.8, and of M. J. Wichura,
// algorithm AS 241 (1988), PPND7: errors below 2.2e-7, about three units in the last place of a float. Gamma functions by Stirling's series
// after six steps of the recurrence.
const std::string_view kSpecialPrelude = R"prelude(
// ---- special functions of float lanes, in double ----
template <class V, class F> INLINE V in_doubles(V x, F f) {
  constexpr int W = lanes_of<V>, H = W < kLanes8 ? W : kLanes8;
  vec<float, H> part[W / H];
  __builtin_memcpy(part, &x, sizeof x);
  for (int h = 0; h < W / H; ++h) part[h] = convert<float>(f(convert<double>(part[h])));
  __builtin_memcpy(&x, part, sizeof x);
  return x;
}
template <class V> INLINE V polynomial(V, double c) { return V{} + c; }
template <class V, class... Cs> INLINE V polynomial(V x, double c, Cs... more) { return polynomial(x, more...) * x + c; }  // c + more x …
template <class V> INLINE V infinity_of(V) { return V{} + __builtin_inf(); }

template <class V> INLINE V lgamma_from_half(V x) {
  const auto is_small = x < 6;
  const V product = is_small ? x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) : V{} + 1;
  const V z = is_small ? x + 6 : x, r = 1 / z;
  const V series = polynomial(r * r, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360);
  return (z - 0.5) * op_log_v(z) - z + 0.91893853320467274178 + r * series - op_log_v(product);
}
template <class V> INLINE V nearest_whole(V x) {  // of magnitudes below 2^51; larger ones are whole
  const V magic = V{} + 0x1.8p52;
  return op_abs_v(x) < 0x1p51 ? (x + magic) - magic : x;
}
template <class V> INLINE V op_lgamma_v(V x) {
  return in_doubles(x, [](auto x) INLINE_BODY {
    const auto is_left = x < 0.5;  // by reflection
    const auto from_half = lgamma_from_half(is_left ? 1 - x : x);
    const auto sine = op_abs_v(op_sin_v(3.14159265358979323846 * (x - nearest_whole(x))));
    const auto y = is_left ? 1.14472988584940017414 - op_log_v(sine) - from_half : from_half;
    const auto exact = (x == 1) | (x == 2) ? x - x : y;
    return op_abs_v(x) == __builtin_inf() ? infinity_of(x) : exact;
  });
}
template <class V> INLINE V op_digamma_v(V x) {
  return in_doubles(x, [](auto x) INLINE_BODY {
    const auto is_left = x < 0.5;
    const auto a = is_left ? 1 - x : x;
    auto product = a, slope = a - a + 1;  // of a (a + 1) … (a + 5)
    for (int k = 1; k < 6; ++k) {
      slope = slope * (a + k) + product;
      product = product * (a + k);
    }
    const auto is_small = a < 6;
    const auto z = is_small ? a + 6 : a, r = 1 / z;
    const auto series = polynomial(r * r, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760);
    auto y = op_log_v(z) - 0.5 * r - r * r * series;
    y = is_small ? y - slope / product : y;
    const auto whole = nearest_whole(x);
    const auto angle = 3.14159265358979323846 * (x - whole);
    const auto left = y - 3.14159265358979323846 * op_cos_v(angle) / op_sin_v(angle);
    y = is_left ? left : y;
    return (x < 0) & (x == whole) ? x - x + __builtin_nan("") : y;
  });
}

// ---- Bessel functions; `scaled` by e^-|x| or e^x ----
// near() where `is_near`, else far(): a form that no lane takes is not computed.
template <class M, class N, class F> INLINE auto near_or_far(M is_near, N near, F far) {
  decltype(near()) n{}, f{};
  if (any_lane(is_near)) n = near();
  if (!all_lanes(is_near)) f = far();
  return is_near ? n : f;
}
template <class V> INLINE V bessel_i0(V x, bool scaled) {
  const V a = op_abs_v(x);
  return near_or_far(a < 3.75, [&]() INLINE_BODY {
    const V t = a * a * (1 / 14.0625);
    const V y = polynomial(t, 1, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813);
    return scaled ? y * op_exp_v(-a) : y;
  }, [&]() INLINE_BODY {
    const V s = 3.75 / a;
    const V y = polynomial(s, 0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377) /
                op_sqrt_v(a);
    return scaled ? y : y * op_exp_v(a);
  });
}
template <class V> INLINE V bessel_i1(V x, bool scaled) {
  const V a = op_abs_v(x);
  const V y = near_or_far(a < 3.75, [&]() INLINE_BODY {
    const V t = a * a * (1 / 14.0625);
    const V y = a * polynomial(t, 0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411);
    return scaled ? y * op_exp_v(-a) : y;
  }, [&]() INLINE_BODY {
    const V s = 3.75 / a;
    const V y = polynomial(s, 0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654, -0.00420059) /
                op_sqrt_v(a);
    return scaled ? y : y * op_exp_v(a);
  });
  return x < 0 ? -y : y;
}
// Modulus * sqrt(x) and phase of the functions of order 0 and 1, of s = 3 / x.
template <class V> INLINE V bessel_size0(V s) {
  return polynomial(s, 0.79788456, -0.00000077, -0.00552740, -0.00009512, 0.00137237, -0.00072805, 0.00014476);
}
template <class V> INLINE V bessel_angle0(V x, V s) {
  return x + polynomial(s, -0.78539816, -0.04166397, -0.00003954, 0.00262573, -0.00054125, -0.00029333, 0.00013558);
}
template <class V> INLINE V bessel_size1(V s) {
  return polynomial(s, 0.79788456, 0.00000156, 0.01659667, 0.00017105, -0.00249511, 0.00113653, -0.00020033);
}
template <class V> INLINE V bessel_angle1(V x, V s) {
  return x + polynomial(s, -2.35619449, 0.12499612, 0.00005650, -0.00637879, 0.00074348, 0.00079824, -0.00029166);
}
template <class V> INLINE V bessel_j0_near(V x) {
  return polynomial(x * x * (1 / 9.0), 1, -2.2499997, 1.2656208, -0.3163866, 0.0444479, -0.0039444, 0.0002100);
}
template <class V> INLINE V bessel_j1_near(V x) {
  return x * polynomial(x * x * (1 / 9.0), 0.5, -0.56249985, 0.21093573, -0.03954289, 0.00443319, -0.00031761, 0.00001109);
}
template <class V> INLINE V bessel_j0(V x) {
  const V a = op_abs_v(x);
  return near_or_far(a < 3, [&]() INLINE_BODY { return bessel_j0_near(x); }, [&]() INLINE_BODY {
    const V s = 3 / a;
    return bessel_size0(s) * op_cos_v(bessel_angle0(a, s)) / op_sqrt_v(a);
  });
}
template <class V> INLINE V bessel_y0(V x) {
  return near_or_far(x < 3, [&]() INLINE_BODY {
    return 0.63661977236758134308 * op_log_v(0.5 * x) * bessel_j0_near(x) +
           polynomial(x * x * (1 / 9.0), 0.36746691, 0.60559366, -0.74350384, 0.25300117, -0.04261214, 0.00427916, -0.00024846);
  }, [&]() INLINE_BODY {
    const V s = 3 / x;
    return bessel_size0(s) * op_sin_v(bessel_angle0(x, s)) / op_sqrt_v(x);
  });
}
template <class V> INLINE V bessel_j1(V x) {
  const V a = op_abs_v(x);
  return near_or_far(a < 3, [&]() INLINE_BODY { return bessel_j1_near(x); }, [&]() INLINE_BODY {
    const V s = 3 / a;
    const V y = bessel_size1(s) * op_cos_v(bessel_angle1(a, s)) / op_sqrt_v(a);
    return x < 0 ? -y : y;
  });
}
template <class V> INLINE V bessel_y1(V x) {
  const V y = near_or_far(x < 3, [&]() INLINE_BODY {
    const V t = x * x * (1 / 9.0);
    return 0.63661977236758134308 * op_log_v(0.5 * x) * bessel_j1_near(x) +
           polynomial(t, -0.6366198, 0.2212091, 2.1682709, -1.3164827, 0.3123951, -0.0400976, 0.0027873) / x;
  }, [&]() INLINE_BODY {
    const V s = 3 / x;
    return bessel_size1(s) * op_sin_v(bessel_angle1(x, s)) / op_sqrt_v(x);
  });
  return x == 0 ? -infinity_of(x) : y;
}
template <class V> INLINE V bessel_k0(V x, bool scaled) {
  return near_or_far(x <= 2, [&]() INLINE_BODY {
    const V t = x * x * 0.25;
    const V y = polynomial(t, -0.57721566, 0.42278420, 0.23069756, 0.03488590, 0.00262698, 0.00010750, 0.00000740) -
                op_log_v(0.5 * x) * bessel_i0(x, false);
    return scaled ? y * op_exp_v(x) : y;
  }, [&]() INLINE_BODY {
    const V s = 2 / x;
    const V y = polynomial(s, 1.25331414, -0.07832358, 0.02189568, -0.01062446, 0.00587872, -0.00251540, 0.00053208) / op_sqrt_v(x);
    return scaled ? y : y * op_exp_v(-x);
  });
}
template <class V> INLINE V bessel_k1(V x, bool scaled) {
  const V y = near_or_far(x <= 2, [&]() INLINE_BODY {
    const V t = x * x * 0.25;
    const V y = op_log_v(0.5 * x) * bessel_i1(x, false) +
                polynomial(t, 1, 0.15443144, -0.67278579, -0.18156897, -0.01919402, -0.00110404, -0.00004686) / x;
    return scaled ? y * op_exp_v(x) : y;
  }, [&]() INLINE_BODY {
    const V s = 2 / x;
    const V y = polynomial(s, 1.25331414, 0.23498619, -0.03655620, 0.01504268, -0.00780353, 0.00325614, -0.00068245) / op_sqrt_v(x);
    return scaled ? y : y * op_exp_v(-x);
  });
  return x == 0 ? infinity_of(x) : y;
}
#define SPECIAL(name, formula) \
  template <class V> INLINE V op_##name##_v(V x) { return in_doubles(x, [](auto x) INLINE_BODY { return formula; }); }
SPECIAL(i0, bessel_i0(x, false)) SPECIAL(i0e, bessel_i0(x, true)) SPECIAL(i1, bessel_i1(x, false)) SPECIAL(i1e, bessel_i1(x, true))
SPECIAL(bessel_j0, bessel_j0(x)) SPECIAL(bessel_j1, bessel_j1(x)) SPECIAL(bessel_y0, bessel_y0(x)) SPECIAL(bessel_y1, bessel_y1(x))
SPECIAL(modified_bessel_i0, bessel_i0(x, false)) SPECIAL(modified_bessel_i1, bessel_i1(x, false))
SPECIAL(modified_bessel_k0, bessel_k0(x, false)) SPECIAL(modified_bessel_k1, bessel_k1(x, false))
SPECIAL(scaled_modified_bessel_k0, bessel_k0(x, true)) SPECIAL(scaled_modified_bessel_k1, bessel_k1(x, true))

// The quantile of the normal distribution.
template <class V> INLINE V op_ndtri_v(V x) {
  return in_doubles(x, [](auto p) INLINE_BODY {
    const auto q = p - 0.5, m = 0.180625 - q * q;
    const auto middle = q * polynomial(m, 3.3871327179, 50.434271938, 159.29113202, 59.109374720) /
                        polynomial(m, 1, 17.895169469, 78.757757664, 67.187563600);
    const auto r = op_sqrt_v(-op_log_v(q < 0 ? p : 1 - p));
    const auto near = polynomial(r - 1.6, 1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103) /
                      polynomial(r - 1.6, 1, 0.73700164250, 0.12021132975);
    const auto far = polynomial(r - 5, 6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997) /
                     polynomial(r - 5, 1, 0.24197894225, 0.012258202635);
    auto tail = r <= 5 ? near : far;
    tail = r == __builtin_inf() ? infinity_of(r) : tail;
    return op_abs_v(q) <= 0.425 ? middle : q < 0 ? -tail : tail;
  });
}
)prelude";

}  // namespace toroid::codegen
