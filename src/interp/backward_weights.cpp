#include "interp/backward_weights.h"

#include <cstddef>
#include <vector>

namespace toroid {
namespace {

// Adds f(index) over all indices below these sizes.
template <class F>
void for_each_place(std::span<const int64_t> sizes, const F& f) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  while (true) {
    f(index);
    size_t d = sizes.size();
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

int64_t offset_of_place(std::span<const int64_t> sizes, std::span<const int64_t> index) {
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) offset = offset * sizes[d] + index[d];
  return offset;
}

}  // namespace

void backward_weights(const LibraryCall& call) {
  const LibraryInput &x = call.inputs[0], &dy = call.inputs[1];
  const LibraryOutput& dw = call.outputs[0];
  const auto* images = reinterpret_cast<const float*>(x.data);
  const auto* gradients = reinterpret_cast<const float*>(dy.data);
  const size_t dims = x.sizes.size() - 2;
  const auto number = [&](size_t i) { return static_cast<int64_t>(call.attributes[i]); };
  const int64_t filters = dy.sizes[1] / number(0);  // of a group
  std::vector<int64_t> positions = {x.sizes[0]};    // image, then a result's place
  positions.insert(positions.end(), dy.sizes.begin() + 2, dy.sizes.end());
  for_each_place(dw.sizes, [&](std::span<const int64_t> filter) {
    double sum = 0;
    for_each_place(positions, [&](std::span<const int64_t> position) {
      std::vector<int64_t> read = {position[0], filter[0] / filters * dw.sizes[1] + filter[1]}, given = {position[0], filter[0]};
      for (size_t d = 0; d < dims; ++d) {
        const int64_t place = position[1 + d] * number(1 + d) - number(1 + dims + d) + filter[2 + d] * number(1 + 2 * dims + d);
        if (place < 0 || place >= x.sizes[2 + d]) return;
        read.push_back(place);
        given.push_back(position[1 + d]);
      }
      sum += static_cast<double>(images[offset_of_place(x.sizes, read)]) * static_cast<double>(gradients[offset_of_place(dy.sizes, given)]);
    });
    reinterpret_cast<float*>(dw.data)[offset_of_place(dw.sizes, filter)] = static_cast<float>(sum);
  });
}

}  // namespace toroid
