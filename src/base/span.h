// Elements that lie one after the other in memory of somebody else's: the part of C++20's std::span that the run side uses, for source
// packages are C++17. It converts from whatever has data() and size(), from std::span too, and std::span converts from it.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace toroid {

template <class T>
class Span {
  template <class Range>
  using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<Range&>()))>;

 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using pointer = T*;
  using reference = T&;
  using iterator = T*;
  using reverse_iterator = std::reverse_iterator<T*>;
  static constexpr size_t kToTheEnd = static_cast<size_t>(-1);

  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  // A container, an array or another view. Elements that are to be written must be those of an object that lasts.
  template <class Range,
            class = std::enable_if_t<!std::is_same_v<std::decay_t<Range>, Span> && std::is_convertible_v<ElementOf<Range> (*)[], T (*)[]> &&
                                     (std::is_lvalue_reference_v<Range> || std::is_const_v<T>)>>
  constexpr Span(Range&& range) : data_(std::data(range)), size_(std::size(range)) {}

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr size_t size_bytes() const { return size_ * sizeof(T); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr reverse_iterator rbegin() const { return reverse_iterator(end()); }
  constexpr reverse_iterator rend() const { return reverse_iterator(begin()); }
  constexpr T& operator[](size_t i) const { return data_[i]; }
  constexpr T& front() const { return data_[0]; }
  constexpr T& back() const { return data_[size_ - 1]; }

  // These must be inside.
  constexpr Span first(size_t count) const { return {data_, count}; }
  constexpr Span last(size_t count) const { return {data_ + (size_ - count), count}; }
  constexpr Span subspan(size_t offset, size_t count = kToTheEnd) const {
    return {data_ + offset, count == kToTheEnd ? size_ - offset : count};
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T, size_t kSize>
Span(T (&)[kSize]) -> Span<T>;
template <class T>
Span(T*, size_t) -> Span<T>;
template <class Range>
Span(Range&& range) -> Span<std::remove_pointer_t<decltype(std::data(range))>>;

template <class T>
Span<const std::byte> as_bytes(Span<T> elements) {
  return {reinterpret_cast<const std::byte*>(elements.data()), elements.size_bytes()};
}

}  // namespace toroid
