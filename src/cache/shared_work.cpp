#include "cache/shared_work.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "support/text/number.h"

namespace toroid {
namespace {

constexpr int64_t kMostParts = 1 << 16;

// What the workers of one process agree on.
class Products {
 public:
  explicit Products(std::vector<size_t> order) : order_(std::move(order)), states_(order_.size()) {}

  struct Next {
    size_t place;  // in the order
    bool waits;    // every product that is left is being made by somebody else: wait for this one
  };
  // None: nothing is left for this worker.
  std::optional<Next> next() {
    const std::lock_guard lock(mutex_);
    if (failure_) return std::nullopt;
    for (const State wanted : {State::Open, State::Elsewhere}) {
      for (size_t place = 0; place < states_.size(); ++place) {
        if (states_[place] != wanted) continue;
        states_[place] = State::Ours;
        return Next{place, wanted == State::Elsewhere};
      }
    }
    return std::nullopt;
  }
  size_t product_at(size_t place) const { return order_[place]; }
  void is_elsewhere(size_t place) { set(place, State::Elsewhere); }
  void is_done(size_t place) { set(place, State::Done); }
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  enum class State { Open, Ours, Elsewhere, Done };
  void set(size_t place, State state) {
    const std::lock_guard lock(mutex_);
    states_[place] = state;
    // While this one was made, another process may have ended.
    if (state == State::Done) std::ranges::replace(states_, State::Elsewhere, State::Open);
  }

  std::mutex mutex_;
  const std::vector<size_t> order_;
  std::vector<State> states_;  // by place
  std::exception_ptr failure_;
};

void take_one(Cache& cache, const SharedWork& work, Products& products, Products::Next next, size_t worker) {
  const size_t product = products.product_at(next.place);
  if (work.find(product)) return products.is_done(next.place);
  const std::optional<CacheLease> lease =
      next.waits ? cache.acquire(work.keys[product], work.patience) : cache.try_acquire(work.keys[product]);
  if (!lease) return products.is_elsewhere(next.place);
  if (!work.find(product)) work.make(product, worker);
  products.is_done(next.place);
}

}  // namespace

Part parse_part(std::string_view text) {
  const size_t slash = text.find('/');
  const auto number = number_of(text.substr(0, slash));
  const auto of = slash == std::string_view::npos ? std::nullopt : number_of(text.substr(slash + 1));
  if (!number || !of || *number < 1 || *number > *of || *of > kMostParts) {
    throw Error(ErrorKind::InvalidOption, fmt::format("'{}' is no part of the work", text))
        .help("give the number of this process and of all, as in 1/4, 2/4, 3/4, 4/4");
  }
  return {static_cast<int>(*number), static_cast<int>(*of)};
}

std::string to_string(Part part) { return fmt::format("{}/{}", part.number, part.of); }

std::vector<size_t> order_of_part(size_t count, Part part) {
  const size_t of = static_cast<size_t>(part.of), own = static_cast<size_t>(part.number) - 1;
  std::vector<size_t> order;
  for (size_t i = own; i < count; i += of) order.push_back(i);
  for (size_t next = 1; next < of; ++next) {
    const size_t begin = order.size();
    for (size_t i = (own + next) % of; i < count; i += of) order.push_back(i);
    std::reverse(order.begin() + static_cast<std::ptrdiff_t>(begin), order.end());
  }
  return order;
}

void do_shared(Cache& cache, const SharedWork& work, Part part, size_t workers) {
  Products products(order_of_part(work.keys.size(), part));
  const auto run = [&](size_t worker) {
    try {
      while (const std::optional<Products::Next> next = products.next()) take_one(cache, work, products, *next, worker);
    } catch (...) {
      products.fail(std::current_exception());
    }
  };
  std::vector<std::jthread> threads;
  try {
    for (size_t worker = 1; worker < std::min(workers, work.keys.size()); ++worker) threads.emplace_back(run, worker);
  } catch (const std::system_error&) {  // no more threads: those there are do it
  }
  run(0);
  threads.clear();
  products.rethrow();
}

}  // namespace toroid
