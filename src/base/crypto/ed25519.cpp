#include "base/crypto/ed25519.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/crypto/sha512.h"

namespace toroid {
namespace {

__extension__ typedef unsigned __int128 Wide;
using Bytes = std::array<std::byte, 32>;

// ---- numbers modulo p = 2^255 - 19, in five limbs of 51 bits and a little more

constexpr uint64_t kMask = (uint64_t{1} << 51) - 1;

struct Field {
  uint64_t limbs[5] = {};
};

// Every limb below 2^52 again.
Field carried(const Wide (&sums)[5]) {
  Field result;
  Wide carry = 0;
  for (int i = 0; i < 5; ++i) {
    const Wide sum = sums[i] + carry;
    result.limbs[i] = static_cast<uint64_t>(sum) & kMask;
    carry = sum >> 51;
  }
  const Wide first = result.limbs[0] + carry * 19;
  result.limbs[0] = static_cast<uint64_t>(first) & kMask;
  result.limbs[1] += static_cast<uint64_t>(first >> 51);
  return result;
}

Field of_number(uint64_t number) { return {{number & kMask, number >> 51, 0, 0, 0}}; }

Field operator+(const Field& a, const Field& b) {
  Wide sums[5];
  for (int i = 0; i < 5; ++i) sums[i] = Wide{a.limbs[i]} + b.limbs[i];
  return carried(sums);
}

Field operator-(const Field& a, const Field& b) {
  Wide sums[5];
  // 4 p keeps each limb positive.
  for (int i = 0; i < 5; ++i) sums[i] = Wide{a.limbs[i]} + 4 * (i == 0 ? kMask - 18 : kMask) - b.limbs[i];
  return carried(sums);
}

Field operator*(const Field& a, const Field& b) {
  Wide sums[5] = {};
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) sums[(i + j) % 5] += Wide{a.limbs[i]} * b.limbs[j] * (i + j < 5 ? 1 : 19);
  }
  return carried(sums);
}

// To the power of 2^bits - less, of which `less` fits a byte.
Field power(const Field& base, int bits, int less) {
  Field result = of_number(1);
  for (int i = bits - 1; i >= 0; --i) {
    result = result * result;
    if (i >= 8 || ((0x100 - less) >> i & 1) != 0) result = result * base;
  }
  return result;
}
Field inverse(const Field& number) { return power(number, 255, 21); }

Bytes bytes_of(const Field& number) {
  Field x = number;
  for (int round = 0; round < 2; ++round) x = x + Field{};
  // Below 2^255 now; p or more of it once.
  uint64_t over = (x.limbs[0] + 19) >> 51;
  for (int i = 1; i < 5; ++i) over = (x.limbs[i] + over) >> 51;
  x.limbs[0] += 19 * over;
  for (int i = 0; i < 4; ++i) {
    x.limbs[i + 1] += x.limbs[i] >> 51;
    x.limbs[i] &= kMask;
  }
  x.limbs[4] &= kMask;
  Bytes bytes{};
  for (int bit = 0; bit < 255; ++bit) {
    if ((x.limbs[bit / 51] >> (bit % 51) & 1) != 0) bytes[static_cast<size_t>(bit / 8)] |= static_cast<std::byte>(1 << (bit % 8));
  }
  return bytes;
}

// Without the highest bit.
Field of_bytes(const Bytes& bytes) {
  Field result;
  for (int bit = 0; bit < 255; ++bit) {
    const auto is_set = static_cast<uint64_t>(bytes[static_cast<size_t>(bit / 8)] >> (bit % 8)) & 1;
    result.limbs[bit / 51] |= is_set << (bit % 51);
  }
  return result;
}

bool operator==(const Field& a, const Field& b) { return bytes_of(a) == bytes_of(b); }
bool is_odd(const Field& number) { return (bytes_of(number)[0] & std::byte{1}) != std::byte{0}; }

// ---- points of the curve -x^2 + y^2 = 1 + d x^2 y^2, as X/Z, Y/Z and T = X Y / Z

struct Curve {
  Field d = (Field{} - of_number(121665)) * inverse(of_number(121666));
  Field root_of_minus_one = power(of_number(2), 253, 5);
};

struct Point {
  Field x, y = of_number(1), z = of_number(1), t;
};

// Complete: also of a point with itself.
Point added(const Curve& curve, const Point& p, const Point& q) {
  const Field a = (p.y - p.x) * (q.y - q.x), b = (p.y + p.x) * (q.y + q.x), c = (p.t + p.t) * curve.d * q.t, d = (p.z + p.z) * q.z;
  const Field e = b - a, f = d - c, g = d + c, h = b + a;
  return {e * f, g * h, f * g, e * h};
}

Bytes bytes_of(const Point& point) {
  const Field by_z = inverse(point.z);
  Bytes bytes = bytes_of(point.y * by_z);
  if (is_odd(point.x * by_z)) bytes[31] |= std::byte{0x80};
  return bytes;
}

std::optional<Point> point_of(const Curve& curve, const Bytes& bytes) {
  const bool odd = (bytes[31] & std::byte{0x80}) != std::byte{0};
  Bytes without_sign = bytes;
  without_sign[31] &= std::byte{0x7f};
  const Field y = of_bytes(bytes), one = of_number(1);
  if (bytes_of(y) != without_sign) return std::nullopt;  // p or more
  const Field u = y * y - one, v = curve.d * y * y + one, v3 = v * v * v;
  Field x = u * v3 * power(u * v3 * v3 * v, 252, 3);
  const Field square = v * x * x;
  if (!(square == u)) {
    if (!(square == Field{} - u)) return std::nullopt;
    x = x * curve.root_of_minus_one;
  }
  if (x == Field{} && odd) return std::nullopt;
  if (is_odd(x) != odd) x = Field{} - x;
  return Point{x, y, one, x * y};
}

// ---- numbers modulo the base point's order

constexpr uint64_t kOrder[4] = {0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 0x1000000000000000};
struct Scalar {
  uint64_t words[4] = {};
  bool bit(int i) const { return (words[i / 64] >> (i % 64) & 1) != 0; }
};

bool is_below_order(const Scalar& number) {
  for (int i = 3; i >= 0; --i) {
    if (number.words[i] != kOrder[i]) return number.words[i] < kOrder[i];
  }
  return false;
}

// Of bytes, the lowest first.
Scalar reduced(Span<const std::byte> bytes) {
  Scalar result;
  for (size_t bit = 8 * bytes.size(); bit-- > 0;) {
    uint64_t carry = static_cast<uint64_t>(bytes[bit / 8] >> (bit % 8)) & 1;
    for (uint64_t& word : result.words) {
      const uint64_t next = word >> 63;
      word = word << 1 | carry;
      carry = next;
    }
    if (is_below_order(result)) continue;
    Wide borrow = 0;
    for (int i = 0; i < 4; ++i) {
      const Wide difference = Wide{result.words[i]} - kOrder[i] - borrow;
      result.words[i] = static_cast<uint64_t>(difference);
      borrow = difference >> 127;
    }
  }
  return result;
}

}  // namespace

bool is_signed_by(const PublicKey& key, Span<const std::byte> message, const Signature& signature) {
  Bytes r;
  Scalar s;
  std::copy_n(signature.begin(), 32, r.begin());
  std::memcpy(s.words, signature.data() + 32, sizeof s.words);
  if (!is_below_order(s)) return false;
  const Curve curve;
  Bytes base_bytes;
  base_bytes.fill(std::byte{0x66});
  base_bytes[0] = std::byte{0x58};
  const std::optional<Point> base = point_of(curve, base_bytes), signer = point_of(curve, key);
  if (!base || !signer) return false;
  const Point minus = {Field{} - signer->x, signer->y, signer->z, Field{} - signer->t};
  Sha512 hash;
  hash.add(r);
  hash.add(key);
  hash.add(message);
  const Scalar k = reduced(hash.finish());
  // s B - k A, which is R.
  Point sum;
  for (int i = 255; i >= 0; --i) {
    sum = added(curve, sum, sum);
    if (s.bit(i)) sum = added(curve, sum, *base);
    if (k.bit(i)) sum = added(curve, sum, minus);
  }
  return bytes_of(sum) == r;
}

}  // namespace toroid
