#include "library/linalg/symmetric_eigen.h"

#include <limits>
#include <numeric>

#include "base/error.h"

namespace toroid::linalg {
namespace {

constexpr int64_t kStepsPerRow = 30;

// The eigenvalues of (a b; b c), the larger in magnitude first, and the rotation to its vector (c, s).
template <class T>
struct Pair {
  T first, second, c, s;

  static Pair of(T a, T b, T c) {
    const T sum = a + c, difference = a - c, twice = b + b;
    const T larger = std::fabs(a) > std::fabs(c) ? a : c, smaller = std::fabs(a) > std::fabs(c) ? c : a;
    const T root = std::hypot(difference, twice);
    Pair p{};
    T sign = 1;
    if (sum == 0) {
      p.first = T(0.5) * root;
      p.second = -p.first;
    } else {
      sign = std::copysign(T(1), sum);
      p.first = T(0.5) * (sum + sign * root);
      p.second = (larger / p.first) * smaller - (b / p.first) * b;
    }
    const T side = difference >= 0 ? T(1) : T(-1);
    const T cs = difference + side * root;
    if (std::fabs(cs) > std::fabs(twice)) {
      const T t = -twice / cs;
      p.s = 1 / std::sqrt(1 + t * t);
      p.c = t * p.s;
    } else if (twice == 0) {
      p.c = 1;
      p.s = 0;
    } else {
      const T t = -cs / twice;
      p.c = 1 / std::sqrt(1 + t * t);
      p.s = t * p.c;
    }
    if (sign == side) {
      const T c_before = p.c;
      p.c = -p.s;
      p.s = c_before;
    }
    return p;
  }
};

// Steps on the diagonal d and its neighbour e; the columns of z turn along.
template <class T>
class EigenSteps {
 public:
  EigenSteps(Column<T>& d, Column<T>& e, Dense<T>& z) : d_(d), e_(e), z_(z), left_(kStepsPerRow * d.size()) {}

  void run() {
    const int64_t n = d_.size();
    for (int64_t begin = 0; begin < n;) {
      int64_t end = begin;
      while (end + 1 < n && !splits(end)) ++end;
      if (end + 1 < n) e_[end] = 0;
      // From the end with the smaller element.
      if (std::fabs(d_[end]) < std::fabs(d_[begin])) {
        for (int64_t l = end; l >= begin;) l = upwards(l, begin);
      } else {
        for (int64_t l = begin; l <= end;) l = downwards(l, end);
      }
      // What did not converge between is split again.
      begin = end + 1;
    }
  }

 private:
  bool splits(int64_t k) const {
    const T size = std::fabs(e_[k]);
    return size == 0 || size <= std::sqrt(std::fabs(d_[k])) * std::sqrt(std::fabs(d_[k + 1])) * kEpsilon;
  }
  bool is_small(int64_t k, T first, T second) const {
    return e_[k] * e_[k] <= (kEpsilon * kEpsilon * std::fabs(first)) * std::fabs(second) + std::numeric_limits<T>::min();
  }
  // The shift of a step that begins at l with its neighbour `next` and ends at m.
  T shifted(T at_l, T next, T between, T at_m) {
    if (left_-- == 0) throw Error(ErrorKind::InvalidInput, "the eigenvalue decomposition did not converge");
    const T g = (next - at_l) / (2 * between);
    return at_m - at_l + between / (g + std::copysign(std::hypot(g, T(1)), g));
  }

  // One QL step on [l, m], where m <= end is the first small neighbour; the next l.
  int64_t downwards(int64_t l, int64_t end) {
    int64_t m = l;
    while (m < end && !is_small(m, d_[m], d_[m + 1])) ++m;
    if (m < end) e_[m] = 0;
    if (m == l) return l + 1;
    if (m == l + 1) {
      const Pair<T> p = Pair<T>::of(d_[l], e_[l], d_[l + 1]);
      rotate_columns(z_, l, p.c, p.s);
      d_[l] = p.first;
      d_[l + 1] = p.second;
      e_[l] = 0;
      return l + 2;
    }
    T g = shifted(d_[l], d_[l + 1], e_[l], d_[m]), p = 0;
    Rotation<T> turn{1, 1, 0};
    for (int64_t i = m - 1; i >= l; --i) {
      const T f = turn.s * e_[i], b = turn.c * e_[i];
      turn = Rotation<T>::of_larger(g, f);
      if (i != m - 1) e_[i + 1] = turn.r;
      g = d_[i + 1] - p;
      const T r = (d_[i] - g) * turn.s + 2 * turn.c * b;
      p = turn.s * r;
      d_[i + 1] = g + p;
      g = turn.c * r - b;
      rotate_columns(z_, i, turn.c, -turn.s);
    }
    d_[l] -= p;
    e_[l] = g;
    return l;
  }

  // One QR step on [m, l]; the mirror image.
  int64_t upwards(int64_t l, int64_t end) {
    int64_t m = l;
    while (m > end && !is_small(m - 1, d_[m], d_[m - 1])) --m;
    if (m > end) e_[m - 1] = 0;
    if (m == l) return l - 1;
    if (m == l - 1) {
      const Pair<T> p = Pair<T>::of(d_[l - 1], e_[l - 1], d_[l]);
      rotate_columns(z_, l - 1, p.c, p.s);
      d_[l - 1] = p.first;
      d_[l] = p.second;
      e_[l - 1] = 0;
      return l - 2;
    }
    T g = shifted(d_[l], d_[l - 1], e_[l - 1], d_[m]), p = 0;
    Rotation<T> turn{1, 1, 0};
    for (int64_t i = m; i < l; ++i) {
      const T f = turn.s * e_[i], b = turn.c * e_[i];
      turn = Rotation<T>::of_larger(g, f);
      if (i != m) e_[i - 1] = turn.r;
      g = d_[i] - p;
      const T r = (d_[i + 1] - g) * turn.s + 2 * turn.c * b;
      p = turn.s * r;
      d_[i] = g + p;
      g = turn.c * r - b;
      rotate_columns(z_, i, turn.c, turn.s);
    }
    d_[l] -= p;
    e_[l - 1] = g;
    return l;
  }

  static constexpr T kEpsilon = std::numeric_limits<T>::epsilon() / 2;
  Column<T>& d_;
  Column<T>& e_;
  Dense<T>& z_;
  int64_t left_;
};

}  // namespace

template <class T>
SymmetricEigen<T> symmetric_eigen(Dense<T> a, bool upper) {
  const int64_t n = a.rows();
  // From the upper triangle the reduction begins at the other end: the same in reverse order of rows and columns.
  if (upper) a = Dense<T>(a.reverse());
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < j; ++i) a(i, j) = a(j, i);
  }
  int exponent = 0;
  std::frexp(n > 0 ? a.cwiseAbs().maxCoeff() : T(0), &exponent);
  a *= std::ldexp(T(1), -exponent);  // squares neither overflow nor vanish

  Column<T> d(n), e(n);
  std::vector<Reflection<T>> reflections;
  for (int64_t i = 0; i + 1 < n; ++i) {
    const int64_t rest = n - i - 1;
    const Reflection<T> r = Reflection<T>::of(a.col(i).tail(rest), i + 1);
    auto block = a.bottomRightCorner(rest, rest);
    Column<T> w = r.factor * (block * r.v);
    w -= (T(0.5) * r.factor * w.dot(r.v)) * r.v;
    for (int64_t j = 0; j < rest; ++j) block.col(j) -= w[j] * r.v + r.v[j] * w;
    d[i] = a(i, i);
    e[i] = r.result;
    reflections.push_back(r);
  }
  if (n > 0) d[n - 1] = a(n - 1, n - 1);
  if (upper) {
    d.reverseInPlace();
    e.head(std::max<int64_t>(n - 1, 0)).reverseInPlace();
  }
  Dense<T> z = Dense<T>::Identity(n, n);
  EigenSteps<T>(d, e, z).run();
  if (upper) z = Dense<T>(z.colwise().reverse());
  for (size_t i = reflections.size(); i-- > 0;) reflections[i].apply_to_rows(z, 0);
  if (upper) z = Dense<T>(z.colwise().reverse());

  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return d[i] < d[j]; });
  SymmetricEigen<T> result{Column<T>(n), Dense<T>(n, n)};
  for (int64_t k = 0; k < n; ++k) {
    result.values[k] = std::ldexp(d[order[static_cast<size_t>(k)]], exponent);
    result.vectors.col(k) = z.col(order[static_cast<size_t>(k)]);
  }
  return result;
}

template SymmetricEigen<float> symmetric_eigen(Dense<float> a, bool upper);
template SymmetricEigen<double> symmetric_eigen(Dense<double> a, bool upper);

}  // namespace toroid::linalg
