#include "library/linalg/singular_values.h"

#include <limits>
#include <numeric>

#include "base/error.h"

namespace toroid::linalg {
namespace {

constexpr int64_t kSweeps = 6;  // of the square of the size

// Of the triangle (f g; 0 h): (cos_left sin_left; -sin_left cos_left) (f g; 0 h) (cos_right -sin_right; sin_right cos_right) is
// diagonal with `larger` and `smaller`.
template <class T>
struct Triangle {
  T smaller, larger, sin_right, cos_right, sin_left, cos_left;

  static Triangle of(T f, T g, T h) {
    const bool swapped = std::fabs(h) > std::fabs(f);
    const T ft = swapped ? h : f, ht = swapped ? f : h;
    const T fa = std::fabs(ft), ha = std::fabs(ht), ga = std::fabs(g);
    T low = ha, high = fa, cl = 1, sl = 0, cr = 1, sr = 0;
    int largest = swapped ? 3 : 1;
    if (ga > fa) largest = 2;
    if (ga > fa && fa / ga < std::numeric_limits<T>::epsilon() / 2) {
      high = ga;
      low = ha > 1 ? fa / (ga / ha) : (fa / ga) * ha;
      sl = ht / g;
      sr = 1;
      cr = ft / g;
    } else if (ga != 0) {
      const T d = fa - ha, l = d == fa ? T(1) : d / fa, m = g / ft, t = 2 - l;
      const T s = std::sqrt(t * t + m * m), r = l == 0 ? std::fabs(m) : std::sqrt(l * l + m * m), a = T(0.5) * (s + r);
      low = ha / a;
      high = fa * a;
      T tangent;
      if (m * m == 0) {
        tangent = l == 0 ? std::copysign(T(2), ft) * std::copysign(T(1), g) : g / std::copysign(d, ft) + m / t;
      } else {
        tangent = (m / (s + t) + m / (r + l)) * (1 + a);
      }
      const T length = std::sqrt(tangent * tangent + 4);
      cr = 2 / length;
      sr = tangent / length;
      cl = (cr + sr * m) / a;
      sl = (ht / ft) * sr / a;
    }
    Triangle result{low, high, sr, cr, sl, cl};
    if (swapped) result = {low, high, cl, sl, cr, sr};
    auto sign = [](T x) { return std::copysign(T(1), x); };
    const T turned = largest == 1   ? sign(result.cos_right) * sign(result.cos_left) * sign(f)
                     : largest == 2 ? sign(result.sin_right) * sign(result.cos_left) * sign(g)
                                    : sign(result.sin_right) * sign(result.sin_left) * sign(h);
    result.larger = std::copysign(high, turned);
    result.smaller = std::copysign(low, turned * sign(f) * sign(h));
    return result;
  }
};

// The smaller singular value of (f g; 0 h).
template <class T>
T smaller_of(T f, T g, T h) {
  const T low = std::min(std::fabs(f), std::fabs(h)), high = std::max(std::fabs(f), std::fabs(h)), ga = std::fabs(g);
  if (low == 0) return 0;
  const T sum = 1 + low / high, difference = (high - low) / high;
  if (ga < high) {
    const T u = (ga / high) * (ga / high);
    return low * (2 / (std::sqrt(sum * sum + u) + std::sqrt(difference * difference + u)));
  }
  const T u = high / ga;
  if (u == 0) return low * high / ga;
  const T c = 1 / (std::sqrt(1 + sum * u * (sum * u)) + std::sqrt(1 + difference * u * (difference * u)));
  return low * c * u * 2;
}

// Steps on the diagonal d and e above it; the columns of u and v turn along.
template <class T>
class SingularSteps {
 public:
  SingularSteps(Column<T>& d, Column<T>& e, Dense<T>& u, Dense<T>& v) : d_(d), e_(e), u_(u), v_(v) {}

  void run() {
    const int64_t n = d_.size();
    set_threshold();
    int64_t last_begin = -1, last_end = -1;
    bool down = true;
    int64_t left = kSweeps * n * n + 1;
    for (int64_t end = n - 1; end > 0;) {
      int64_t begin = end;
      T largest = std::fabs(d_[end]);
      while (begin > 0 && std::fabs(e_[begin - 1]) > threshold_) {
        --begin;
        largest = std::max({largest, std::fabs(d_[begin]), std::fabs(e_[begin])});
      }
      if (begin > 0) e_[begin - 1] = 0;
      if (begin == end) {
        --end;
        continue;
      }
      if (begin + 1 == end) {
        finish_pair(begin);
        end -= 2;
        continue;
      }
      if (last_end < 0 || begin > last_end || end < last_begin) down = std::fabs(d_[begin]) >= std::fabs(d_[end]);
      T smallest = 0;
      if (clears_neighbour(begin, end, down, &smallest)) continue;
      last_begin = begin;
      last_end = end;
      if (left-- == 0) throw Error(ErrorKind::InvalidInput, "the singular value decomposition did not converge");
      const T shift = shift_of(begin, end, down, smallest / largest);
      if (shift == 0) {
        down ? unshifted_down(begin, end) : unshifted_up(begin, end);
      } else {
        down ? shifted_down(begin, end, shift) : shifted_up(begin, end, shift);
      }
      T& neighbour = e_[down ? end - 1 : begin];
      if (std::fabs(neighbour) <= threshold_) neighbour = 0;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (d_[i] >= 0) continue;
      d_[i] = -d_[i];
      v_.col(i) *= -1;
    }
  }

 private:
  void set_threshold() {
    const auto n = static_cast<T>(d_.size());
    T least = std::fabs(d_[0]), mu = least;
    for (int64_t i = 1; i < d_.size() && least != 0; ++i) {
      mu = std::fabs(d_[i]) * (mu / (mu + std::fabs(e_[i - 1])));
      least = std::min(least, mu);
    }
    threshold_ = std::max(kTolerance * (least / std::sqrt(n)), T(kSweeps) * n * n * std::numeric_limits<T>::min());
  }

  void finish_pair(int64_t k) {
    const Triangle<T> t = Triangle<T>::of(d_[k], e_[k], d_[k + 1]);
    d_[k] = t.larger;
    e_[k] = 0;
    d_[k + 1] = t.smaller;
    rotate_columns(v_, k, t.cos_right, t.sin_right);
    rotate_columns(u_, k, t.cos_left, t.sin_left);
  }

  // Whether an element beside the diagonal is negligible, and is 0 now; else a bound from below of the singular values.
  bool clears_neighbour(int64_t begin, int64_t end, bool down, T* smallest) {
    auto clear = [&](int64_t k, T against) {
      if (std::fabs(e_[k]) > kTolerance * std::fabs(against)) return false;
      e_[k] = 0;
      return true;
    };
    if (clear(down ? end - 1 : begin, d_[down ? end : begin])) return true;
    T mu = std::fabs(d_[down ? begin : end]);
    *smallest = mu;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = down ? i : begin + end - 1 - i;
      if (clear(k, mu)) return true;
      mu = std::fabs(d_[down ? k + 1 : k]) * (mu / (mu + std::fabs(e_[k])));
      *smallest = std::min(*smallest, mu);
    }
    return false;
  }

  T shift_of(int64_t begin, int64_t end, bool down, T ratio) const {
    if (static_cast<T>(d_.size()) * kTolerance * ratio <= std::max(kEpsilon, T(0.01) * kTolerance)) return 0;
    const T size = std::fabs(d_[down ? begin : end]);
    const T shift = down ? smaller_of(d_[end - 1], e_[end - 1], d_[end]) : smaller_of(d_[begin], e_[begin], d_[begin + 1]);
    return size > 0 && (shift / size) * (shift / size) < kEpsilon ? T(0) : shift;
  }
  static T start(T d, T shift) { return (std::fabs(d) - shift) * (std::copysign(T(1), d) + shift / d); }

  void unshifted_down(int64_t begin, int64_t end) {
    Rotation<T> right{1, 0, 0}, left{1, 0, 0};
    for (int64_t i = begin; i < end; ++i) {
      right = Rotation<T>::of(d_[i] * right.c, e_[i]);
      if (i > begin) e_[i - 1] = left.s * right.r;
      left = Rotation<T>::of(left.c * right.r, d_[i + 1] * right.s);
      d_[i] = left.r;
      rotate_columns(v_, i, right.c, right.s);
      rotate_columns(u_, i, left.c, left.s);
    }
    const T h = d_[end] * right.c;
    d_[end] = h * left.c;
    e_[end - 1] = h * left.s;
  }

  void unshifted_up(int64_t begin, int64_t end) {
    Rotation<T> right{1, 0, 0}, left{1, 0, 0};
    for (int64_t i = end; i > begin; --i) {
      right = Rotation<T>::of(d_[i] * right.c, e_[i - 1]);
      if (i < end) e_[i] = left.s * right.r;
      left = Rotation<T>::of(left.c * right.r, d_[i - 1] * right.s);
      d_[i] = left.r;
      rotate_columns(v_, i - 1, left.c, -left.s);
      rotate_columns(u_, i - 1, right.c, -right.s);
    }
    const T h = d_[begin] * right.c;
    d_[begin] = h * left.c;
    e_[begin] = h * left.s;
  }

  void shifted_down(int64_t begin, int64_t end, T shift) {
    T f = start(d_[begin], shift), g = e_[begin];
    for (int64_t i = begin; i < end; ++i) {
      const Rotation<T> right = Rotation<T>::of(f, g);
      if (i > begin) e_[i - 1] = right.r;
      f = right.c * d_[i] + right.s * e_[i];
      e_[i] = right.c * e_[i] - right.s * d_[i];
      g = right.s * d_[i + 1];
      d_[i + 1] = right.c * d_[i + 1];
      const Rotation<T> left = Rotation<T>::of(f, g);
      d_[i] = left.r;
      f = left.c * e_[i] + left.s * d_[i + 1];
      d_[i + 1] = left.c * d_[i + 1] - left.s * e_[i];
      if (i + 1 < end) {
        g = left.s * e_[i + 1];
        e_[i + 1] = left.c * e_[i + 1];
      }
      rotate_columns(v_, i, right.c, right.s);
      rotate_columns(u_, i, left.c, left.s);
    }
    e_[end - 1] = f;
  }

  void shifted_up(int64_t begin, int64_t end, T shift) {
    T f = start(d_[end], shift), g = e_[end - 1];
    for (int64_t i = end; i > begin; --i) {
      const Rotation<T> right = Rotation<T>::of(f, g);
      if (i < end) e_[i] = right.r;
      f = right.c * d_[i] + right.s * e_[i - 1];
      e_[i - 1] = right.c * e_[i - 1] - right.s * d_[i];
      g = right.s * d_[i - 1];
      d_[i - 1] = right.c * d_[i - 1];
      const Rotation<T> left = Rotation<T>::of(f, g);
      d_[i] = left.r;
      f = left.c * e_[i - 1] + left.s * d_[i - 1];
      d_[i - 1] = left.c * d_[i - 1] - left.s * e_[i - 1];
      if (i > begin + 1) {
        g = left.s * e_[i - 2];
        e_[i - 2] = left.c * e_[i - 2];
      }
      rotate_columns(v_, i - 1, left.c, -left.s);
      rotate_columns(u_, i - 1, right.c, -right.s);
    }
    e_[begin] = f;
  }

  static constexpr T kEpsilon = std::numeric_limits<T>::epsilon() / 2;
  // max(10, min(100, epsilon^(-1/8))) roundings.
  static constexpr T kTolerance = (sizeof(T) == 4 ? T(10) : T(98.70149282610239)) * kEpsilon;
  Column<T>& d_;
  Column<T>& e_;
  Dense<T>& u_;
  Dense<T>& v_;
  T threshold_ = 0;
};

// d, e and vectors [k, k] of the square, upper part of what the reflections leave; without vectors those have no rows.
template <class T>
struct Bidiagonal {
  Column<T> d, e;
  Dense<T> u, v;
  std::vector<Reflection<T>> left, right;
};

template <class T>
Bidiagonal<T> reduced(Dense<T>& a, bool with_vectors) {
  const int64_t m = a.rows(), n = a.cols(), k = std::min(m, n), of_vectors = with_vectors ? k : 0;
  Bidiagonal<T> b{Column<T>(k), Column<T>(k), Dense<T>::Identity(of_vectors, k), Dense<T>::Identity(of_vectors, k), {}, {}};
  auto clear_column = [&](int64_t row, int64_t column) {
    const Reflection<T> r = Reflection<T>::of(a.col(column).tail(m - row), row);
    r.apply_to_rows(a, column + 1);
    if (with_vectors) b.left.push_back(r);
    return r.result;
  };
  auto clear_row = [&](int64_t row, int64_t column) {
    const Reflection<T> r = Reflection<T>::of(a.row(row).tail(n - column).transpose(), column);
    r.apply_to_columns(a, row + 1);
    if (with_vectors) b.right.push_back(r);
    return r.result;
  };
  for (int64_t i = 0; i < k; ++i) {
    if (m >= n) {
      b.d[i] = clear_column(i, i);
      if (i + 1 < n) b.e[i] = clear_row(i, i + 1);
    } else {
      b.d[i] = clear_row(i, i);
      if (i + 1 < m) b.e[i] = clear_column(i + 1, i);
    }
  }
  return b;
}

// Makes d the singular values, not in order. Returns the rotations that came first, of a lower bidiagonal to the upper one.
template <class T>
std::vector<Rotation<T>> diagonalise(Bidiagonal<T>& b, bool is_lower) {
  const int64_t k = b.d.size();
  std::vector<Rotation<T>> turns;
  for (int64_t i = 0; is_lower && i + 1 < k; ++i) {
    const Rotation<T> turn = turns.emplace_back(Rotation<T>::of(b.d[i], b.e[i]));
    b.d[i] = turn.r;
    b.e[i] = turn.s * b.d[i + 1];
    b.d[i + 1] = turn.c * b.d[i + 1];
  }
  if (k == 1) {
    if (b.u.size() > 0) b.u(0, 0) = std::copysign(T(1), b.d[0]);
    b.d[0] = std::fabs(b.d[0]);
  } else {
    SingularSteps<T>(b.d, b.e, b.u, b.v).run();
  }
  return turns;
}

// The decomposition of a [m, n], m and n not far apart or m < n: u [m, m] and vh [n, n], or the first columns and rows of these.
template <class T>
SingularValues<T> direct(Dense<T> a, bool full) {
  const int64_t m = a.rows(), n = a.cols(), k = std::min(m, n);
  Bidiagonal<T> b = reduced(a, true);
  const std::vector<Rotation<T>> turns = diagonalise(b, m < n);
  std::vector<int64_t> order(static_cast<size_t>(k));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return b.d[i] > b.d[j]; });
  SingularValues<T> result{Dense<T>::Identity(m, full ? m : k), Column<T>(k), Dense<T>::Identity(full ? n : k, n)};
  for (int64_t i = 0; i < k; ++i) {
    const int64_t from = order[static_cast<size_t>(i)];
    result.values[i] = b.d[from];
    result.u.col(i).head(k) = b.u.col(from);
    result.vh.row(i).head(k) = b.v.col(from).transpose();
  }
  for (size_t i = turns.size(); i-- > 0;) rotate_rows(result.u, static_cast<int64_t>(i), turns[i].c, -turns[i].s);
  for (size_t i = b.left.size(); i-- > 0;) b.left[i].apply_to_rows(result.u, 0);
  for (size_t i = b.right.size(); i-- > 0;) b.right[i].apply_to_columns(result.vh, 0);
  return result;
}

template <class T>
bool is_tall(const Dense<T>& a) {
  return a.rows() > a.cols() && a.rows() >= a.cols() * 11 / 6;
}

// Makes `a`, which is tall, R of a = Q R; returns the reflections of Q.
template <class T>
std::vector<Reflection<T>> triangularise(Dense<T>& a) {
  const int64_t m = a.rows(), n = a.cols();
  std::vector<Reflection<T>> reflections;
  for (int64_t i = 0; i < n; ++i) {
    reflections.push_back(Reflection<T>::of(a.col(i).tail(m - i), i));
    reflections.back().apply_to_rows(a, i);
  }
  a = Dense<T>(a.topRows(n).template triangularView<Eigen::Upper>());
  return reflections;
}

// Of a tall a: that of R, where a = Q R.
template <class T>
SingularValues<T> through_qr(Dense<T> a, bool full) {
  const int64_t m = a.rows(), n = a.cols();
  const std::vector<Reflection<T>> reflections = triangularise(a);
  SingularValues<T> result = direct<T>(std::move(a), full);
  Dense<T> u = Dense<T>::Identity(m, full ? m : n);
  u.topLeftCorner(n, n) = result.u;
  for (size_t i = reflections.size(); i-- > 0;) reflections[i].apply_to_rows(u, 0);
  result.u = u;
  return result;
}

// Makes the largest magnitude about 1, so that squares neither overflow nor vanish; returns the power of 2 that was taken out.
template <class T>
int scaled(Dense<T>& a) {
  int exponent = 0;
  std::frexp(a.cwiseAbs().maxCoeff(), &exponent);
  a *= std::ldexp(T(1), -exponent);
  return exponent;
}

}  // namespace

template <class T>
SingularValues<T> singular_values(Dense<T> a, bool full) {
  const int64_t m = a.rows(), n = a.cols(), k = std::min(m, n);
  if (k == 0) return {Dense<T>::Identity(m, full ? m : 0), Column<T>(0), Dense<T>::Identity(full ? n : 0, n)};
  const int exponent = scaled(a);
  SingularValues<T> result = is_tall(a) ? through_qr(std::move(a), full) : direct(std::move(a), full);
  for (int64_t i = 0; i < result.values.size(); ++i) result.values[i] = std::ldexp(result.values[i], exponent);
  return result;
}

template <class T>
Column<T> singular_values_alone(Dense<T> a) {
  if (a.size() == 0) return {};
  const int exponent = scaled(a);
  if (is_tall(a)) triangularise(a);
  const bool is_lower = a.rows() < a.cols();
  Bidiagonal<T> b = reduced(a, false);
  diagonalise(b, is_lower);
  std::sort(b.d.data(), b.d.data() + b.d.size(), std::greater<T>());
  for (int64_t i = 0; i < b.d.size(); ++i) b.d[i] = std::ldexp(b.d[i], exponent);
  return b.d;
}

template SingularValues<float> singular_values(Dense<float> a, bool full);
template SingularValues<double> singular_values(Dense<double> a, bool full);
template Column<double> singular_values_alone(Dense<double> a);

}  // namespace toroid::linalg
