// Work that processes with a common cache divide among them, on one machine or on many: each product is made once, and found by the others.
//
// A part begins with its own share. Then it takes what the others have not made yet, those products first that their owners would come to
// last. What another process is making at the moment it waits for, while that one shows life (lease.h, remote/remote.h) and no longer than
// the patience allows. So nobody waits for a process that does not run, and one that dies costs the others what it had begun. A cache
// without leases, such as an HTTP server, may have two processes make the same product.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache.h"

namespace toroid {

// Which of the processes this is.
struct Part {
  int number = 1;  // from 1
  int of = 1;
};

// Of "2/8". Throws Error{InvalidOption}.
Part parse_part(std::string_view text);
std::string to_string(Part part);  // "2/8"

// The order in which a part takes `count` products: every `of`-th is its own; then those of the next part, backwards, and so on.
std::vector<size_t> order_of_part(size_t count, Part part);

// Products by their positions.
struct SharedWork {
  std::vector<CacheKey> keys = {};
  // Whether there is nothing left to make: it was found in the cache. Asked again once a lease is held.
  std::function<bool(size_t product)> find = {};
  std::function<void(size_t product, size_t worker)> make = {};  // makes it, and puts it into the cache
  std::chrono::milliseconds patience{};                          // with another process that makes a product
};

// Returns when each product was found or made, by so many threads; the calling one is worker 0. After an exception of `find` or `make`
// nothing more is begun, and the first is rethrown.
void do_shared(Cache& cache, const SharedWork& work, Part part, size_t workers);

}  // namespace toroid
