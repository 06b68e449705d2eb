// The work of a call as a CUDA graph: captured once from the stream that it is started on, then started again as a whole.
//
//   first call    kernel, kernel, product        each started by the host
//   a later one   the same, captured             nothing is done yet
//   from then on  one start of the graph         no gap between kernels, a few microseconds of the host
//
// What it captured are kernels with their arguments, so a graph serves calls with the same pointers and sizes. Another call of the same
// form can take its place without it being made anew.
#pragma once

#include <functional>

#include "runtime/cuda/device.h"

namespace toroid::cuda {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept : made_(std::exchange(other.made_, nullptr)), nodes_(other.nodes_) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(made_, other.made_), std::swap(nodes_, other.nodes_);
    return *this;
  }

  // Becomes what `start` starts on the stream, of which nothing is done. Throws what `start` throws, and Error{Environment} where it does
  // what cannot be captured; then it is as it was.
  void capture(const Stream& stream, const std::function<void()>& start);
  void launch(StreamHandle stream) const;
  size_t num_nodes() const { return nodes_; }

 private:
  GraphExecHandle made_ = nullptr;
  size_t nodes_ = 0;
};

// Throws Error{InvalidInput} where the caller captures the stream.
void require_not_captured(StreamHandle stream);

}  // namespace toroid::cuda
