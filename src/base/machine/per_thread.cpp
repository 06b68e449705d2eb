#include "base/machine/per_thread.h"

#include <pthread.h>

#include <memory>
#include <new>
#include <vector>

namespace toroid::per_thread {
namespace {

struct Place {
  void* object = nullptr;
  void (*destroy)(void*) = nullptr;
};
using Table = std::vector<Place>;  // by number

void destroy(void* of_thread) {
  Table* const table = static_cast<Table*>(of_thread);
  for (const Place& place : *table) {
    if (place.object != nullptr) place.destroy(place.object);
  }
  delete table;
}

// The system's name for each thread's table.
class Key {
 public:
  Key() : is_made_(::pthread_key_create(&key_, destroy) == 0) {}
  ~Key() {
    if (!is_made_) return;
    is_made_ = false;
    void* const own = ::pthread_getspecific(key_);
    ::pthread_key_delete(key_);
    if (own != nullptr) destroy(own);
  }

  Table& table() const {
    if (!is_made_) throw std::bad_alloc();  // the system has no more keys
    if (void* const known = ::pthread_getspecific(key_)) return *static_cast<Table*>(known);
    auto made = std::make_unique<Table>();
    if (::pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }

 private:
  pthread_key_t key_ = 0;
  bool is_made_;
};

Key key;

}  // namespace

void*& place(std::atomic<uint32_t>& number, void (*destroy)(void*)) {
  static std::atomic<uint32_t> last{0};
  uint32_t known = number.load(std::memory_order_relaxed);
  if (known == 0) {
    const uint32_t mine = ++last;
    if (number.compare_exchange_strong(known, mine)) known = mine;
  }
  Table& table = key.table();
  if (table.size() <= known) table.resize(known + 1);
  table[known].destroy = destroy;
  return table[known].object;
}

}  // namespace toroid::per_thread
