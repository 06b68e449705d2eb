// A descriptor of cuDNN's backend API: made, given its attributes, and finished. Functions throw Refused where the library says that it
// does not support what is described, and Error{Environment} where it fails otherwise.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/span.h"
#include "runtime/cuda/cudnn/api.h"

namespace toroid::cuda::cudnn {

// The library has no such graph; why, in its words.
struct Refused {
  std::string reason;
};

void check_status(Status status, const char* what);

class Descriptor {
 public:
  explicit Descriptor(Kind kind) { check_status(functions().descriptor_create(kind, &made_), "to make a descriptor"); }
  ~Descriptor() {
    if (made_ != nullptr) functions().descriptor_destroy(made_);
  }
  Descriptor(Descriptor&& other) noexcept : made_(std::exchange(other.made_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept { return std::swap(made_, other.made_), *this; }

  BackendDescriptor get() const { return made_; }

  Descriptor& number(Attribute which, AttributeType type, int value) { return set(which, type, 1, &value); }
  Descriptor& data_type(Attribute which, int value) { return number(which, kTypeDataType, value); }
  Descriptor& integer(Attribute which, int64_t value) { return set(which, kTypeInt64, 1, &value); }
  Descriptor& integers(Attribute which, Span<const int64_t> values) {
    return set(which, kTypeInt64, static_cast<int64_t>(values.size()), values.data());
  }
  Descriptor& yes(Attribute which) {
    const bool value = true;
    return set(which, kTypeBoolean, 1, &value);
  }
  Descriptor& float32(Attribute which, float value) { return set(which, kTypeFloat, 1, &value); }
  Descriptor& float64(Attribute which, double value) { return set(which, kTypeDouble, 1, &value); }
  Descriptor& handle(Attribute which, Handle value) { return set(which, kTypeHandle, 1, &value); }
  // The library copies what it needs of the other one.
  Descriptor& descriptor(Attribute which, const Descriptor& other) {
    const BackendDescriptor value = other.get();
    return set(which, kTypeDescriptor, 1, &value);
  }
  Descriptor& descriptors(Attribute which, Span<const BackendDescriptor> others) {
    return set(which, kTypeDescriptor, static_cast<int64_t>(others.size()), others.data());
  }
  Descriptor& pointers(Attribute which, Span<const void* const> values) {
    return set(which, kTypeVoidPointer, static_cast<int64_t>(values.size()), values.data());
  }
  Descriptor& text(Attribute which, std::string_view value) {
    return set(which, kTypeChar, static_cast<int64_t>(value.size()), value.data());
  }
  Descriptor& finish() {
    check_status(functions().finalize(made_), "to finish a descriptor");
    return *this;
  }

 private:
  Descriptor& set(Attribute which, AttributeType type, int64_t count, const void* values) {
    check_status(functions().set_attribute(made_, which, type, count, values), "to describe a graph");
    return *this;
  }

  BackendDescriptor made_ = nullptr;
};

}  // namespace toroid::cuda::cudnn
