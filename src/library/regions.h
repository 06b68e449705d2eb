// Library kernels of object detection: boxes that suppress others, and regions of images pooled to a fixed size. Sources: torchvision's
// CPU kernels of the operators torchvision::nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool.
//
// An image is [N,C,H,W]. A region is a row [image, x1, y1, x2, y2] of [K,5], in the image's coordinates times 1/scale, pooled to PH x PW
// bins. Images and regions have one dtype: F32, F64, or F16. In F16 positions are rounded after each step, as in PyTorch; weighted sums
// are F32. A region of an image that does not exist throws Error{InvalidInput}.
//
// "By position": the bin (i, j) of output channel c reads input channel (c*PH + i)*PW + j alone (R-FCN).
//
//   regions.suppress        boxes F32 or F64 [n,4], best first (limit)        Bool [n]: kept, as no better box that is kept
//                                                                             overlaps it by more than the limit (intersection over union)
//   regions.align           image, regions (scale, samples, aligned, by position)   [K,C',PH,PW]: bins' means of bilinear samples,
//                                                                             samples x samples a bin, or (0) about one a pixel
//   regions.align_backward  grad [K,C',PH,PW], regions (same)                 [N,C,H,W]
//   regions.max             image, regions (scale)                            [K,C,PH,PW], I32: place in the plane, -1 for empty bins
//   regions.mean            image, regions (scale)                            [K,C',PH,PW], by position
//   regions.mean_backward   grad [K,C',PH,PW], regions (scale)                [N,C,H,W]
#pragma once

#include "library/library_ops.h"

namespace toroid::regions {

void suppress(const LibraryCall& call);
void align(const LibraryCall& call);
void align_backward(const LibraryCall& call);
void max(const LibraryCall& call);
void mean(const LibraryCall& call);
void mean_backward(const LibraryCall& call);

}  // namespace toroid::regions
