#include "runtime/kernels/select/selection.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "base/format.h"
#include "base/machine/per_thread.h"
#include "library/sort_keys.h"

namespace toroid::selection {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Elements, rows and what is stored of one row, typed.
template <class T>
struct Rows {
  explicit Rows(const LibraryCall& call)
      : from(reinterpret_cast<const T*>(call.inputs[0].data)),
        values(reinterpret_cast<T*>(call.outputs[0].data)),
        indices(reinterpret_cast<int64_t*>(call.outputs[1].data)),
        length(call.inputs[0].sizes.back()),
        results(call.outputs[0].sizes.back()) {
    for (int64_t size : call.inputs[0].sizes.first(call.inputs[0].sizes.size() - 1)) count *= size;
  }

  const T* row(int64_t r) const { return from + r * length; }
  void give(int64_t r, int64_t place, int64_t index) const {
    values[r * results + place] = row(r)[index];
    indices[r * results + place] = index;
  }
  // f(row number) for all rows, pieces of about as many elements in parallel.
  template <class F>
  void for_each(const LibraryCall& call, F f) const {
    call.in_pieces(count * length, [&](int64_t begin, int64_t end) {
      for (int64_t r = ceil_div(begin, length); r < ceil_div(end, length); ++r) f(r);
    });
  }

  const T* from;
  T* values;
  int64_t* indices;
  int64_t length;
  int64_t results;
  int64_t count = 1;
};

__extension__ typedef unsigned __int128 Wide;
// A key and where it is, as one number: equal keys order by position.
template <class Key>
using Placed = std::conditional_t<sizeof(Key) == 4, uint64_t, Wide>;
template <class Key>
Placed<Key> placed(Key key, int64_t position) {
  return static_cast<Placed<Key>>(key) << (8 * sizeof(Key)) | static_cast<Key>(position);
}
template <class Key>
int64_t position_of(Placed<Key> entry) {
  return static_cast<int64_t>(static_cast<Key>(entry));
}

// The position of the element at `place` in ascending order: digit by digit from the highest, each time keeping the elements whose digit
// is that element's.
template <class Key, class Keys>
int64_t position_in_order(int64_t n, int key_bits, Keys key_at, int64_t place, std::vector<int64_t>& candidates) {
  constexpr int64_t kLong = 8192;
  const int digit_bits = n < kLong || key_bits < 16 ? 8 : 11;
  std::array<int64_t, 2048> counts;
  bool all = true;
  for (int shift = key_bits; shift > 0;) {
    const int width = std::min(digit_bits, shift);
    shift -= width;
    const size_t mask = (size_t{1} << width) - 1;
    auto digit = [&](int64_t i) { return static_cast<size_t>(key_at(i) >> shift) & mask; };
    std::fill_n(counts.begin(), mask + 1, 0);
    if (all) {
      for (int64_t i = 0; i < n; ++i) ++counts[digit(i)];
    } else {
      for (int64_t i : candidates) ++counts[digit(i)];
    }
    size_t wanted = 0;
    while (place >= counts[wanted]) place -= counts[wanted++];
    if (all) {
      candidates.resize(static_cast<size_t>(n) + 1);
      size_t kept = 0;
      for (int64_t i = 0; i < n; ++i) {
        candidates[kept] = i;
        kept += digit(i) == wanted ? 1 : 0;
      }
      candidates.resize(kept);
      all = false;
    } else {
      const auto is_other = [&](int64_t i) { return digit(i) != wanted; };
      candidates.erase(std::remove_if(candidates.begin(), candidates.end(), is_other), candidates.end());
    }
    if (candidates.size() == 1) break;
  }
  return candidates[static_cast<size_t>(place)];
}

// The keys of a row.
template <class T, class KeyOf>
struct KeyAt {
  const T* row;
  KeyOf key_of;
  auto operator()(int64_t i) const { return key_of(row[i]); }
};
// Of any dtype: for rows so long that few are, as their time hides the calls.
using AnyKeyAt = std::function<uint64_t(int64_t)>;

// One element of each row: choose(n, key_at, candidates) gives its position.
template <class Choose>
void one_of_each_row(const LibraryCall& call, Choose choose) {
  with_sort_keys(call.inputs[0].dtype, [&](auto bits, auto key_of) {
    using T = decltype(bits);
    using Key = decltype(key_of(bits));
    const Rows<T> rows(call);
    if (rows.length == 0) return;
    rows.for_each(call, [&](int64_t r) {
      static PerThread<std::vector<int64_t>> candidates;
      const KeyAt<T, decltype(key_of)> key_at = {rows.row(r), key_of};
      rows.give(r, 0, choose(rows.length, Key{}, static_cast<int>(sizeof(T) * 8), key_at, candidates.get()));
    });
  });
}

// Longer rows are packed with 64-bit keys: 32 bits would not hold their positions.
constexpr int64_t kLongestRow = INT64_C(0xffffffff);

template <class Key, class Keys>
int64_t mode_of(int64_t n, const Keys& key_at) {
  static PerThread<std::vector<Placed<Key>>> of_threads;
  std::vector<Placed<Key>>& entries = of_threads.get();
  entries.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) entries[static_cast<size_t>(i)] = placed<Key>(static_cast<Key>(key_at(i)), i);
  std::sort(entries.begin(), entries.end());
  constexpr int kShift = 8 * sizeof(Key);
  size_t most = 0;
  size_t last = 0;
  for (size_t begin = 0; begin < entries.size();) {
    size_t end = begin + 1;
    while (end < entries.size() && entries[end] >> kShift == entries[begin] >> kShift) ++end;
    if (end - begin > most) {
      most = end - begin;
      last = end - 1;
    }
    begin = end;
  }
  return position_of<Key>(entries[last]);
}

// The k first of a row in the order of key_at, by position where equal. Elements pass a bar, the k-th of those seen so far, which rises
// whenever enough have passed.
template <class Key, class Keys>
void first_in_order(int64_t n, int64_t k, const Keys& key_at, std::vector<Placed<Key>>& entries) {
  const size_t kept = static_cast<size_t>(k);
  const size_t room = 2 * kept + 256;
  entries.clear();
  entries.reserve(room);
  bool has_bar = false;
  Key bar = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Key key = static_cast<Key>(key_at(i));
    if (has_bar && key >= bar) continue;  // an equal one comes after those seen before
    entries.push_back(placed<Key>(key, i));
    if (entries.size() < room) continue;
    const auto last = entries.begin() + static_cast<ptrdiff_t>(kept - 1);
    std::nth_element(entries.begin(), last, entries.end());
    bar = static_cast<Key>(*last >> (8 * sizeof(Key)));
    has_bar = true;
    entries.resize(kept);
  }
  std::partial_sort(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(kept), entries.end());
}

}  // namespace

namespace {

void require_place(int64_t place, int64_t length) {
  if (place >= 0 && place < length) return;
  throw Error(ErrorKind::InvalidInput, formatted("element {} of an ordered row of {} does not exist", place, length));
}

}  // namespace

void topk(const LibraryCall& call) {
  const bool largest = call.attributes[1] != 0;
  with_sort_keys(call.inputs[0].dtype, [&](auto bits, auto key_of) {
    using T = decltype(bits);
    using Key = decltype(key_of(bits));
    const Rows<T> rows(call);
    if (rows.results == 0 || rows.length == 0) return;
    require_place(rows.results - 1, rows.length);
    auto give_row = [&](int64_t r, auto wide, const auto& key_at) {
      using Wide = decltype(wide);
      static PerThread<std::vector<Placed<Wide>>> of_threads;
      std::vector<Placed<Wide>>& entries = of_threads.get();
      first_in_order<Wide>(rows.length, rows.results, key_at, entries);
      for (int64_t k = 0; k < rows.results; ++k) rows.give(r, k, position_of<Wide>(entries[static_cast<size_t>(k)]));
    };
    const auto flip = largest ? static_cast<Key>(~Key{0}) : Key{0};
    rows.for_each(call, [&](int64_t r) {
      const T* row = rows.row(r);
      const auto key_at = [=](int64_t i) { return key_of(row[i]) ^ flip; };
      rows.length > kLongestRow ? give_row(r, uint64_t{}, AnyKeyAt(key_at)) : give_row(r, Key{}, key_at);
    });
  });
}

void kth(const LibraryCall& call) {
  const auto place = static_cast<int64_t>(call.attributes[0]);
  if (const int64_t length = call.inputs[0].sizes.back(); length > 0) require_place(place, length);
  one_of_each_row(call, [&](int64_t n, auto key, int bits, auto key_at, std::vector<int64_t>& candidates) {
    return position_in_order<decltype(key)>(n, bits, key_at, place, candidates);
  });
}

void median(const LibraryCall& call) {
  const bool ignore_nan = call.attributes[0] != 0;
  const bool has_nan = is_floating(call.inputs[0].dtype);
  one_of_each_row(call, [&](int64_t n, auto key, int bits, auto key_at, std::vector<int64_t>& candidates) {
    const auto nan_key = static_cast<decltype(key)>(~uint64_t{0} >> (64 - bits));
    int64_t nans = 0;
    int64_t first_nan = 0;
    for (int64_t i = n; has_nan && i-- > 0;) {
      if (key_at(i) != nan_key) continue;
      ++nans;
      first_nan = i;
    }
    if (nans > 0 && (!ignore_nan || nans == n)) return first_nan;
    return position_in_order<decltype(key)>(n, bits, key_at, (n - nans - 1) / 2, candidates);
  });
}

void mode(const LibraryCall& call) {
  one_of_each_row(call, [&](int64_t n, auto key, int, const auto& key_at, std::vector<int64_t>&) {
    return n > kLongestRow ? mode_of<uint64_t>(n, AnyKeyAt(key_at)) : mode_of<decltype(key)>(n, key_at);
  });
}

// Blocks are counted, then filled, in parallel.
void positions(const LibraryCall& call) {
  constexpr int64_t kBlock = 4096;
  const auto* is_true = reinterpret_cast<const uint8_t*>(call.inputs[0].data);
  auto* out = reinterpret_cast<int64_t*>(call.outputs[0].data);
  const int64_t n = call.inputs[0].sizes[0];
  const int64_t room = call.outputs[0].sizes[0];
  std::vector<int64_t> starts(static_cast<size_t>(ceil_div(n, kBlock)) + 1);
  auto for_blocks = [&](auto f) {
    call.in_pieces(n, [&](int64_t begin, int64_t end) {
      for (int64_t b = ceil_div(begin, kBlock); b < ceil_div(end, kBlock); ++b) f(b, b * kBlock, std::min(n, (b + 1) * kBlock));
    });
  };
  for_blocks([&](int64_t block, int64_t begin, int64_t end) {
    int32_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += is_true[i] != 0 ? 1 : 0;
    starts[static_cast<size_t>(block) + 1] = count;
  });
  for (size_t b = 1; b < starts.size(); ++b) starts[b] += starts[b - 1];
  for_blocks([&](int64_t block, int64_t begin, int64_t end) {
    std::array<int64_t, kBlock + 1> found;
    size_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
      found[count] = i;
      count += is_true[i] != 0 ? 1 : 0;
    }
    const int64_t start = std::min(room, starts[static_cast<size_t>(block)]);
    std::copy_n(found.begin(), std::min(room - start, static_cast<int64_t>(count)), out + start);
  });
  std::fill(out + std::min(room, starts.back()), out + room, 0);
}

namespace {

template <class T>
void search_rows(const LibraryCall& call) {
  const auto* sorted = reinterpret_cast<const T*>(call.inputs[0].data);
  const auto* values = reinterpret_cast<const T*>(call.inputs[1].data);
  auto* places = reinterpret_cast<int64_t*>(call.outputs[0].data);
  const int64_t length = call.inputs[0].sizes.back(), searches = call.inputs[1].sizes.back();
  const bool right = call.attributes[0] != 0;
  int64_t all = 1;
  for (int64_t size : call.inputs[1].sizes) all *= size;
  call.in_pieces(all, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = sorted + i / searches * length;
      const T value = values[i];
      int64_t first = 0;
      for (int64_t last = length; first < last;) {
        const int64_t middle = first + (last - first) / 2;
        const bool is_before = right ? !(row[middle] > value) : !(row[middle] >= value);
        (is_before ? first : last) = is_before ? middle + 1 : middle;
      }
      places[i] = first;
    }
  });
}

}  // namespace

void search(const LibraryCall& call) {
  switch (call.inputs[0].dtype) {
    case DType::F32: return search_rows<float>(call);
    case DType::F64: return search_rows<double>(call);
    case DType::I64: return search_rows<int64_t>(call);
    default: TOROID_CHECK(false, "a search among {}", to_string(call.inputs[0].dtype));
  }
}

}  // namespace toroid::selection
