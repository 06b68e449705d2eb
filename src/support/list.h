// A vector for formulas that follow arguments from foreign files: a position that it lacks is the arguments' fault and throws
// Error{InvalidModel}, in release builds too.
//
//   List<int64_t> stride = …;      stride[1]              throws when a model gives one number
//                                  sizes.without_last(2)  throws when a tensor has one dim
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace toroid {

// Throws Error{InvalidModel}: position `position` of a list of `size`.
[[noreturn]] void throw_missing_position(size_t position, size_t size);

template <class T>
class List : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  List() = default;
  List(Base values) : Base(std::move(values)) {}  // NOLINT: implicit, the two stand for each other

  const T& operator[](size_t i) const { return Base::operator[](checked(i)); }
  T& operator[](size_t i) { return Base::operator[](checked(i)); }
  const T& front() const { return (*this)[0]; }
  T& front() { return (*this)[0]; }
  const T& back() const { return (*this)[this->size() - 1]; }
  T& back() { return (*this)[this->size() - 1]; }

  List first(size_t count) const { return List(this->begin(), this->begin() + end_of(count)); }
  List last(size_t count) const { return List(this->end() - end_of(count), this->end()); }
  List without_first(size_t count) const { return List(this->begin() + end_of(count), this->end()); }
  List without_last(size_t count) const { return List(this->begin(), this->end() - end_of(count)); }
  void append(const Base& more) { this->insert(this->end(), more.begin(), more.end()); }

 private:
  size_t checked(size_t i) const {
    if (i >= this->size()) [[unlikely]]
      throw_missing_position(i, this->size());
    return i;
  }
  ptrdiff_t end_of(size_t count) const {
    if (count > this->size()) [[unlikely]]
      throw_missing_position(count - 1, this->size());
    return static_cast<ptrdiff_t>(count);
  }
};

}  // namespace toroid
