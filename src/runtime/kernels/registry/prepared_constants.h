// Constants in the layouts that kernels want, made once in the life of a loaded program: packed weights.
//
// A layout is a struct of all that decides what is made of a constant, with TOROID_COMPARED_FIELDS (base/fields.h). Layouts of
// two types are never the same, whatever their numbers.
//
//   struct TransformedFilters {
//     int64_t tile, channels;
//     TOROID_COMPARED_FIELDS(TransformedFilters, tile, channels)
//   };
//   prepared.get(weights, TransformedFilters{4, 64}, count, make);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "runtime/memory/bump_allocator.h"

namespace toroid {

class PreparedConstants {
 public:
  // memory: of the host's, which gives what is made; null: as AlignedBytes.
  explicit PreparedConstants(const HostMemory* memory = nullptr) : memory_(memory) {}
  // `count` floats, 64-byte aligned, that `make` wrote the first time: what this layout makes of the constant at `data`. The memory lasts
  // as long as this object. Several threads may call; of those that ask for the same one makes it. Throws Error{Environment} when there is
  // no memory.
  template <class Layout>
  const float* get(const void* data, const Layout& layout, int64_t count, const std::function<void(float*)>& make) {
    return made(entry(data, KindOf<Layout>::kind, &layout), count, make);
  }

  int64_t bytes() const;  // of all layouts

 private:
  // What there is of a type of layouts: code for all of them is made once.
  struct Kind {
    void* (*copy)(const void* layout);
    void (*destroy)(void* layout);
    bool (*are_equal)(const void* layout, const void* other);
  };
  template <class Layout>
  struct KindOf {
    // Not constant, or a linker might take two types' for one.
    inline static Kind kind = {
        [](const void* layout) -> void* { return new Layout(*static_cast<const Layout*>(layout)); },
        [](void* layout) { delete static_cast<Layout*>(layout); },
        [](const void* layout, const void* other) { return *static_cast<const Layout*>(layout) == *static_cast<const Layout*>(other); }};
  };
  struct Entry {
    Entry(const void* of_constant, const Kind& its_kind, const void* its_layout)
        : constant(of_constant), kind(its_kind), layout(kind.copy(its_layout)) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { kind.destroy(layout); }

    const void* const constant;
    const Kind& kind;
    void* const layout;
    std::mutex mutex;             // of what makes it
    const float* data = nullptr;  // when it is made
  };
  Entry& entry(const void* data, const Kind& kind, const void* layout);
  const float* made(Entry& entry, int64_t count, const std::function<void(float*)>& make);

  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // looked through once a plan
  BumpAllocator memory_;
  int64_t bytes_ = 0;
};

}  // namespace toroid
