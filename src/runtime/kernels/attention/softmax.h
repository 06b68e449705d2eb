// The softmax of a row of attention scores, a part of the row after the other.
#pragma once

#include <cmath>
#include <cstdint>

namespace toroid {

// Of the parts so far: softmax(x)[j] = exp(x[j] - most) / sum. Source: Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018.
struct RunningSoftmax {
  float most = -HUGE_VALF;
  float sum = 0;
  // What the exponentials' combinations are multiplied by at the end: 0 where all was -inf (a query that may look nowhere).
  float inverse() const { return sum == 0 ? 0 : 1 / sum; }
};

// row[j] = exp(scale * row[j] - running.most) for `count` elements, the next part, with what `most` is then. Gives what everything made of
// earlier parts has to be multiplied by. NaN anywhere makes all NaN. exp is off by at most 2 units in the last place; results below 2^-125
// become 0.
float softmax_part_f32(float* row, int64_t count, float scale, RunningSoftmax& running);

// row[j] = row[j] * scale + added[j * step].
void add_mask_f32(float* row, const float* added, int64_t step, int64_t count, float scale);
// row[j] = allowed[j * step] ? row[j] * scale : -inf.
void forbid_f32(float* row, const uint8_t* allowed, int64_t step, int64_t count, float scale);

// row[j] *= factor.
void scale_row_f32(float* row, int64_t count, float factor);

}  // namespace toroid
