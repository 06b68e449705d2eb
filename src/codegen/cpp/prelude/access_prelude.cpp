#include "codegen/cpp/prelude/prelude.h"

namespace toroid::codegen {

// Overloads of what memory.inc has for plain pointers, so that a kernel's body is printed the same for both. What would be accessed
// outside of a buffer is reported and left alone: the kernel reads zeros there, and its program ends with the first such message.
const std::string_view kAccessPrelude = R"prelude(
// ---- assertion builds: pointers that know how far their buffer reaches ----
struct Checks {
  const ToroidRuntime* runtime;
  const char* kernel;
  const char* const* buffers;
  const char* const* origins;
};
__attribute__((noinline, cold)) static void out_of_bounds(const Checks* checks, int buffer, int64_t index, int64_t size, int origin, int32_t* error) {
  checks->runtime->out_of_bounds(checks->runtime, checks->kernel, checks->buffers[buffer], index, size, checks->origins[origin]);
  report(4, error);
}
template <class T> struct Checked {
  T* start;
  int64_t size;
  int buffer;            // in Checks::buffers
  const Checks* checks;
  int32_t* error;
  int64_t at = 0;
  int origin = 0;        // in Checks::origins
  INLINE_BODY Checked(T* p, int64_t n, int number, const Checks* c, int32_t* e) : start(p), size(n), buffer(number), checks(c), error(e) {}
  INLINE_BODY Checked by(int number) const { Checked p = *this; p.origin = number; return p; }
  INLINE_BODY Checked operator+(int64_t n) const { Checked p = *this; p.at += n; return p; }
  INLINE_BODY Checked operator-(int64_t n) const { return *this + -n; }
  INLINE_BODY bool operator==(const Checked& other) const { return at == other.at; }
  INLINE_BODY bool operator!() const { return !start; }
  INLINE_BODY T* data() const { return start + at; }
  // Are there `count` elements from here on?
  INLINE_BODY bool has(int64_t count) const {
    if (count <= 0 || (at >= 0 && at <= size - count)) return true;
    out_of_bounds(checks, buffer, at < 0 || at >= size ? at : size, size, origin, error);
    return false;
  }
};
// A row of working memory.
template <class T> struct CheckedRow {
  Row<T> row;
  Checked<T> data;
  CheckedRow(int64_t n, int number, const Checks* checks, int32_t* error) : row(n), data(row.data, n, number, checks, error) {}
};

template <class T> INLINE auto load1(Checked<T> p) { return p.has(1) ? load1(p.data()) : (decltype(load1(p.data())))0; }
template <class T, class U> INLINE void store1(Checked<T> p, U x) { if (p.has(1)) store1(p.data(), x); }
template <class T, class U> INLINE void copy_elements(Checked<T> to, Checked<U> from, int64_t n) {
  if (to.has(n) && from.has(n)) copy_elements(to.data(), from.data(), n);
}
template <class L, class T> INLINE auto load_raw(L lanes, Checked<T> p) {
  decltype(load_raw(lanes, p.data())) v{};
  if (p.has(lanes.count)) v = load_raw(lanes, p.data());
  return v;
}
template <class L, class T, class V> INLINE void store_raw(L lanes, Checked<T> p, V v) { if (p.has(lanes.count)) store_raw(lanes, p.data(), v); }
template <class L, class T> INLINE auto load(L lanes, Checked<T> p) {
  decltype(load(lanes, p.data())) v{};
  if (p.has(lanes.count)) v = load(lanes, p.data());
  return v;
}
template <class L, class T, class V> INLINE void store(L lanes, Checked<T> p, V v) { if (p.has(lanes.count)) store(lanes, p.data(), v); }
// A lane at a time.
template <class L, class T> INLINE auto load_where(L lanes, mask<width_of<L>> m, Checked<T> p) {
  return gather(lanes, m, [&](int l) { return p + l; });
}
template <class L, class T> INLINE auto load_every_second(L lanes, Checked<T> p) { return gather(lanes, [&](int l) { return p + 2 * l; }); }
template <class L, class T> INLINE auto load_every_second(L lanes, mask<width_of<L>> m, Checked<T> p) {
  return gather(lanes, m, [&](int l) { return p + 2 * l; });
}
template <int N, class L, class T> INLINE auto load_repeated(L lanes, Checked<T> p, int64_t skipped) {
  return gather(lanes, [&](int l) { return p + (skipped + l) / N; });
}
template <class L, class T> INLINE auto load_backward(L lanes, Checked<T> p) { return gather(lanes, [&](int l) { return p - l; }); }
template <int Stride, class T, class U>
INLINE void turn_tile(Checked<T> from, int64_t jump, int64_t columns, int64_t rows, U* tile) {
  for (int64_t c = 0; c < columns; ++c) if (!(from + c * jump).has(rows)) return;
  turn_tile<Stride>(from.data(), jump, columns, rows, tile);
}
)prelude";

}  // namespace toroid::codegen
