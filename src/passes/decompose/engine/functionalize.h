// Which tensor holds which value: turns views and mutation into plain values.
//
// PyTorch's tensors share memory: writing to a slice changes the tensor it was taken from, and every other slice of that.
// Here each piece of memory has a current value, and each tensor is a view of one piece: the piece itself, or a view
// operator applied to another view. Writing to a view makes a new value for the piece; views of it are computed again when
// they are next read.
//
//   s = slice(x, 0, 1, 3)      s: slice of memory x
//   s.copy_(y)                 memory x becomes scatter(x, y, rows 1 and 2)
//   r = sum(x)                 reads the new value
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/builder.h"

namespace toroid {

enum class ViewId : uint32_t {};

// A view operator: output `output` of an import-level node, which may be applied to any tensor in place of its viewed argument.
struct ViewStep {
  NodeId node;
  uint32_t output;
};
using ApplyView = std::function<Tensor(Builder& builder, const ViewStep& step, Tensor source)>;

class Memory {
 public:
  Memory(Builder& builder, ApplyView apply) : builder_(builder), apply_(std::move(apply)) {}

  // A new piece of memory.
  ViewId allocate(Tensor value);
  // What `step` shows of `source`; `value` is that now.
  ViewId add_view(ViewId source, ViewStep step, Tensor value);

  Tensor read(ViewId id);
  // The value must have the view's dtype and shape.
  void write(ViewId id, Tensor value);
  // Puts a value of another shape in the place of a whole piece of memory (an `out` argument that is resized).
  void replace(ViewId id, Tensor value);
  bool was_written(ViewId id) const { return piece(id).version > 0; }
  bool is_whole(ViewId id) const { return !view(id).step.has_value(); }
  // The whole piece of which this is a view.
  ViewId whole(ViewId id) const {
    while (!is_whole(id)) id = view(id).source;
    return id;
  }

 private:
  struct Piece {
    Tensor value;
    uint32_t version = 0;
  };
  struct View {
    uint32_t piece;
    ViewId source{};               // with step
    std::optional<ViewStep> step;  // none: the whole piece
    Tensor value;                  // right while `version` is the piece's
    uint32_t version = 0;
  };

  View& view(ViewId id) { return views_[static_cast<size_t>(id)]; }
  const View& view(ViewId id) const { return views_[static_cast<size_t>(id)]; }
  const Piece& piece(ViewId id) const { return pieces_[view(id).piece]; }

  Builder& builder_;
  ApplyView apply_;
  std::vector<Piece> pieces_;
  std::vector<View> views_;
};

// `base` with the elements that the steps show, one applied to the other, replaced by `value`.
Tensor write_through(Builder& builder, const ApplyView& apply, const std::vector<ViewStep>& steps, Tensor base, Tensor value);

}  // namespace toroid
