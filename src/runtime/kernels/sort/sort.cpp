// Sorting lines of a tensor, values and positions together, equal elements in their order.
//
// An element becomes an unsigned key that orders as PyTorch does (library/sort_keys.h), paired with its position. Short
// lines are sorted by comparison, longer ones digit by digit from the lowest (LSD radix sort, bytes as digits), which is stable by
// itself; a digit that all keys share costs nothing. Long lines are sorted by all threads together (parallel_sort.cpp), unless there are
// enough of them to keep every thread busy with its own.
#include "runtime/kernels/sort/sort.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "library/sort_keys.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/sort/parallel_sort.h"

namespace toroid {
namespace {

template <class Key>
struct Entry {
  Key key;
  Key position;
};

template <class Key>
void sort_entries(std::vector<Entry<Key>>& entries, std::vector<Entry<Key>>& scratch) {
  constexpr size_t kWorthRadix = 96;
  constexpr size_t kDigits = sizeof(Key);
  const size_t n = entries.size();
  if (n < kWorthRadix) {
    std::sort(entries.begin(), entries.end(),
              [](const Entry<Key>& a, const Entry<Key>& b) { return a.key != b.key ? a.key < b.key : a.position < b.position; });
    return;
  }
  std::array<std::array<size_t, 256>, kDigits> counts{};
  for (const Entry<Key>& entry : entries) {
    for (size_t d = 0; d < kDigits; ++d) ++counts[d][(entry.key >> (8 * d)) & 0xff];
  }
  scratch.resize(n);
  for (size_t d = 0; d < kDigits; ++d) {
    if (counts[d][(entries[0].key >> (8 * d)) & 0xff] == n) continue;
    size_t start = 0;
    for (size_t& count : counts[d]) start += std::exchange(count, start);
    for (const Entry<Key>& entry : entries) scratch[counts[d][(entry.key >> (8 * d)) & 0xff]++] = entry;
    entries.swap(scratch);
  }
}

struct Lines {
  int64_t length;
  int64_t stride;  // between elements of a line
  int64_t count;
  int64_t start(int64_t line) const { return line / stride * stride * length + line % stride; }
};

// T: the stored elements as bits. key(T): unsigned, ascending.
template <class Key, class T, class MakeKey>
void sort_lines(const KernelCall& call, const Lines& lines, bool descending, MakeKey make_key) {
  const T* const from = static_cast<const T*>(call.inputs[0].data);
  T* const values = static_cast<T*>(call.outputs[0].data);
  int64_t* const positions = static_cast<int64_t*>(call.outputs[1].data);
  const bool is_long = lines.length >= kLongLine;
  auto in_pieces = [&](const auto& body) { call.pool.parallel_for(lines.length, kLongLine / 2, body); };
  auto sort_long_line = [&](const T* line, T* sorted, int64_t* order) {
    const auto keys = std::unique_ptr<uint64_t[]>(new uint64_t[static_cast<size_t>(lines.length)]);
    const uint64_t flip = descending ? ~uint64_t{0} : 0;
    in_pieces([&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) keys[static_cast<size_t>(i)] = make_key(line[i * lines.stride]) ^ flip;
    });
    order_of_keys(call.pool, {keys.get(), static_cast<size_t>(lines.length)}, order, lines.stride);
    in_pieces([&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sorted[i * lines.stride] = line[order[i * lines.stride] * lines.stride];
    });
  };
  auto sort_some = [&](int64_t begin, int64_t end) {
    std::vector<Entry<Key>> entries(static_cast<size_t>(is_long ? 0 : lines.length));
    std::vector<Entry<Key>> scratch;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t start = lines.start(line);
      if (is_long) {
        sort_long_line(from + start, values + start, positions + start);
        continue;
      }
      for (int64_t i = 0; i < lines.length; ++i) {
        const Key key = make_key(from[start + i * lines.stride]);
        entries[static_cast<size_t>(i)] = {descending ? static_cast<Key>(~key) : key, static_cast<Key>(i)};
      }
      sort_entries(entries, scratch);
      for (int64_t i = 0; i < lines.length; ++i) {
        const auto position = static_cast<int64_t>(entries[static_cast<size_t>(i)].position);
        values[start + i * lines.stride] = from[start + position * lines.stride];
        positions[start + i * lines.stride] = position;
      }
    }
  };
  if (is_long && lines.count < 2 * call.pool.threads()) return sort_some(0, lines.count);
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, lines.length));
  call.pool.parallel_for(lines.count, grain, sort_some);
}

}  // namespace

void run_sort(const KernelCall& call) {
  const ToroidOperand& x = call.inputs[0];
  const bool descending = call.integers[1] != 0;
  Lines lines{1, 1, 1};
  for (int32_t d = 0; d < x.rank; ++d) {
    if (d == call.integers[0]) lines.length = x.sizes[d];
    if (d > call.integers[0]) lines.stride *= x.sizes[d];
    if (d != call.integers[0]) lines.count *= x.sizes[d];
  }
  if (lines.count == 0 || lines.length == 0) return;
  auto sort_as = [&](auto bits, auto make_key) {
    using T = decltype(bits);
    using Key = decltype(make_key(bits));
    sort_lines<Key, T>(call, lines, descending, make_key);
  };
  with_sort_keys(static_cast<DType>(x.dtype), sort_as);
}

TOROID_LINKED_KERNEL(sort, "sort", nullptr, plan_running<run_sort>);

}  // namespace toroid
