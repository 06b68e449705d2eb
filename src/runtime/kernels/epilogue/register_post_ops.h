// Vectors of sums on their way to memory: what is done with them (ToroidPostOps), and the last vector of a row, of which only the first
// lanes are there.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime/kernels/isa/vector_sets.h"
#include "toroid/program_abi.h"

namespace toroid {

template <class Vector>
using ElementOf = std::decay_t<decltype(std::declval<Vector&>()[0])>;
template <class Vector>
inline constexpr int kLanesOf = sizeof(Vector) / sizeof(ElementOf<Vector>);

// All lanes of a vector in memory.
template <class Vector>
struct AllLanes {
  using Element = ElementOf<Vector>;
  TOROID_INLINE void load(const Element* from, Vector& x) const { std::memcpy(&x, from, sizeof x); }
  TOROID_INLINE void store(const Vector& x, Element* to) const { std::memcpy(to, &x, sizeof x); }
};

// The first lanes, fewer than all; memory behind them is neither read nor written. Masked instructions by name, since compilers give their
// functions only to code of the instruction set. Elements of 4 or 8 bytes.
template <class Vector>
class FirstLanes {
 public:
  using Element = ElementOf<Vector>;

  TOROID_INLINE explicit FirstLanes(int64_t count) {
    if constexpr (kHasMask) {
      mask_ = static_cast<uint16_t>((1u << count) - 1);
    } else {
      for (int l = 0; l < kLanes; ++l) mask_[l] = l < count ? ~Bits{0} : Bits{0};
    }
  }

  // The others become 0.
  TOROID_INLINE void load(const Element* from, Vector& x) const {
#ifdef TOROID_NAMES_INSTRUCTIONS
    if constexpr (sizeof(Vector) == 64 && sizeof(Element) == 4) {
      asm volatile("vmovups (%1), %0 %{%2%}%{z%}" : "=v"(x) : "r"(from), "Yk"(mask_) : "memory");
      return;
    } else if constexpr (sizeof(Vector) == 64) {
      asm volatile("vmovupd (%1), %0 %{%2%}%{z%}" : "=v"(x) : "r"(from), "Yk"(mask_) : "memory");
      return;
    } else if constexpr (sizeof(Vector) == 32 && sizeof(Element) == 4) {
      asm volatile("vmaskmovps (%1), %2, %0" : "=x"(x) : "r"(from), "x"(mask_) : "memory");
      return;
    } else if constexpr (sizeof(Vector) == 32) {
      asm volatile("vmaskmovpd (%1), %2, %0" : "=x"(x) : "r"(from), "x"(mask_) : "memory");
      return;
    }
#endif
    if constexpr (!kHasMask) {
      for (int l = 0; l < kLanes; ++l) x[l] = mask_[l] != 0 ? from[l] : Element{0};
    }
  }

  TOROID_INLINE void store(const Vector& x, Element* to) const {
#ifdef TOROID_NAMES_INSTRUCTIONS
    if constexpr (sizeof(Vector) == 64 && sizeof(Element) == 4) {
      asm volatile("vmovups %0, (%1) %{%2%}" : : "v"(x), "r"(to), "Yk"(mask_) : "memory");
      return;
    } else if constexpr (sizeof(Vector) == 64) {
      asm volatile("vmovupd %0, (%1) %{%2%}" : : "v"(x), "r"(to), "Yk"(mask_) : "memory");
      return;
    } else if constexpr (sizeof(Vector) == 32 && sizeof(Element) == 4) {
      asm volatile("vmaskmovps %0, %2, (%1)" : : "x"(x), "r"(to), "x"(mask_) : "memory");
      return;
    } else if constexpr (sizeof(Vector) == 32) {
      asm volatile("vmaskmovpd %0, %2, (%1)" : : "x"(x), "r"(to), "x"(mask_) : "memory");
      return;
    }
#endif
    if constexpr (!kHasMask) {
      for (int l = 0; l < kLanes; ++l) {
        if (mask_[l] != 0) to[l] = x[l];
      }
    }
  }

 private:
  static constexpr int kLanes = kLanesOf<Vector>;
  // A mask register; else a vector of masks.
#ifdef TOROID_NAMES_INSTRUCTIONS
  static constexpr bool kHasMask = sizeof(Vector) == 64;
#else
  static constexpr bool kHasMask = false;
#endif
  using Bits = std::conditional_t<sizeof(Element) == 4, uint32_t, uint64_t>;
  struct Register {
    using Type = uint16_t;
  };
  typename std::conditional_t<kHasMask, Register, VectorOfBytes<Bits, sizeof(Vector)>>::Type mask_;
};

// What is done with the sums of a vector of columns before a residual is added.
template <class Vector>
class Affine {
 public:
  Affine() = default;
  // For the columns from `column` on.
  template <class Lanes>
  TOROID_INLINE Affine(const ToroidPostOps& ops, int64_t column, const Lanes& lanes) {
    scale_ = 1.0f - Vector{};
    bias_ = -Vector{};  // nothing changes by adding -0
    if (ops.scale != nullptr) lanes.load(ops.scale + column, scale_);
    if (ops.bias != nullptr) lanes.load(ops.bias + column, bias_);
  }

  // x * scale + bias
  TOROID_INLINE void apply(Vector& x) const {
#ifdef TOROID_NAMES_INSTRUCTIONS
    if constexpr (kLanesOf < Vector >> 4) {  // compilers fuse where they like to
      asm("vfmadd213ps %2, %1, %0" : "+v"(x) : "v"(scale_), "v"(bias_));
      return;
    }
#endif
    x = x * scale_ + bias_;
  }

 private:
  Vector scale_, bias_;
};

// What is done at last.
template <class Vector>
class Bounds {
 public:
  TOROID_INLINE explicit Bounds(const ToroidPostOps& ops) : low_(ops.low - Vector{}), high_(ops.high - Vector{}) {}

  // Of equal numbers, and where one is NaN, the instructions give their second operand, which is x.
  TOROID_INLINE void apply(Vector& x) const {
#ifdef TOROID_NAMES_INSTRUCTIONS
    if constexpr (kLanesOf < Vector >> 4) {
      asm("vmaxps %0, %1, %0" : "+v"(x) : "v"(low_));
      asm("vminps %0, %1, %0" : "+v"(x) : "v"(high_));
      return;
    }
#endif
    x = low_ > x ? low_ : x;
    x = high_ < x ? high_ : x;
  }

 private:
  Vector low_, high_;
};

}  // namespace toroid
