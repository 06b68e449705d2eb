// Where the tensors of a program are: on the CPU, on a GPU, or some on each.
//
// A value's device is in its type. In a program at import level it is what the model recorded; at core level assign_devices says it.
#pragma once

#include "graph/graph.h"

namespace toroid {

enum class Placement : uint8_t { OnCpu, OnGpu, Mixed };
// Of all values, those of subgraphs too. Throws Error{Unsupported} for tensors on several GPUs, and names one on each.
Placement placement_of(const Program& program);

inline bool is_on_gpu(const TensorType& type) { return type.device.type == Device::Type::Cuda; }

// All tensors are in one memory, that of the program's target.
void place_together(Program& program);

// Makes what crosses from one device to another a node of its own, device.copy (library/device_copy.h): all tensors of any other node are
// on one device then. Devices are those that the model recorded of results; operands that are elsewhere are copied
//
//   of conversions and copies       (aten::to, aten::_to_copy, aten::copy_, prims::device_put)
//   of one element without dims     beside operands on a GPU, as PyTorch takes them
//   of an indexing                  indices on the CPU
//   of what has a device argument   (aten::zeros_like, aten::new_zeros), which takes the shape alone
//
//   of loops and branches           all of which is done on the GPU: results that the model has on the CPU are copied back
// Throws Error{InvalidModel} for others, as PyTorch does, naming both operands; Error{Unsupported} for a weight on the CPU inside of a loop
// or a branch.
// Needs a program at import level, or core nodes whose types have devices.
void make_copies_explicit(Program& program);

// Gives each value of a core-level program its device: inputs, weights and buffers have one, copies say theirs, all others are where their
// operands are. What has no operands, as a constant without a name, is where it is used, once for each device, and is not copied. Nor is
// what is on the device already.
void assign_devices(Program& program);

}  // namespace toroid
