// The transforms around the products of a convolution by Winograd's method (winograd.h): what turns a tile of the image, a filter
// and a tile's products into what the method multiplies, and back.
//
// In one dimension m outputs of three filter elements are y = A^T ((G g) * (B^T d)) with m + 2 multiplications (Winograd,
// "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016), for
// tiles once along the rows and once along the columns. The matrices interpolate polynomials in m + 1 points and at infinity; the
// points decide the error (Barabasz, Anderson, Soodhalter and Gregg, "Error Analysis and Improving the Accuracy of Winograd
// Convolution for Deep Neural Networks", 2020):
//
//   m = 2   0, 1, -1
//   m = 4   0, ±sqrt(1/2), ±sqrt(2): of the points in pairs of opposites those with the least error of all that we tried, less than
//           half that of the usual ±1, ±2 (docs/runtime.md); their product is 1, which saves rows 0 and 5 of B^T multiplications
#pragma once

#include <cstdint>

namespace toroid {

struct WinogradTransforms {
  static constexpr int kMostOutputs = 4;
  static constexpr int kMostPoints = kMostOutputs + 2;
  // The least number of channels: an image with fewer has no whole vector.
  static constexpr int kLeastChannels = 16;

  int outputs;  // of a tile, a side: m
  int points;   // a side of the tile of the image that they see, and of the products: m + 2

  // out[k * width + j] = G g G^T in the point k, of the filter j whose elements are filters[e * width + j], e = 3 * row + column; rounded
  // once. `width` is a multiple of a vector's lanes.
  void (*filters)(const float* filters, int64_t width, float* out);
  // out[k * plane + c] = B^T d B in the point k = row * points + column, for the channels c; pixels[k] are the channels of the
  // pixel k of d. Channels: at least kLeastChannels.
  void (*input)(const float* const* pixels, int64_t channels, float* out, int64_t plane);
  // out[y * out_row + x * out_column + j] = A^T m A for the rows y < rows and x < columns of a tile, of m in the point k =
  // products[k * plane + j]. `width`, the number of j, is a multiple of a vector's lanes.
  void (*output)(const float* products, int64_t plane, int64_t width, int64_t rows, int64_t columns, float* out, int64_t out_row,
                 int64_t out_column);
};

// For this machine. outputs: 2 or 4.
const WinogradTransforms& winograd_transforms(int64_t outputs);

}  // namespace toroid
