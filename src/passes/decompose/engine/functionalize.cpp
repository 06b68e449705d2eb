#include "passes/decompose/engine/functionalize.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"

namespace toroid {
namespace {

// The inverse of one core view: `input` with what `node` shows of it replaced by `value`.
Tensor undo(Builder& b, const Node& node, Tensor input, Tensor value) {
  if (std::holds_alternative<Reshape>(node.op)) return b.reshape(value, input.sizes());
  if (std::holds_alternative<Bitcast>(node.op)) return b.bitcast(value, input.dtype());
  if (const auto* permute = std::get_if<Permute>(&node.op)) {
    Dims inverse(permute->dims.size());
    for (size_t d = 0; d < inverse.size(); ++d) inverse[static_cast<size_t>(permute->dims[d])] = static_cast<int64_t>(d);
    return b.permute(value, inverse);
  }
  const Slice& slice = std::get<Slice>(node.op);
  std::vector<Tensor> indices;
  for (size_t d = 0; d < slice.starts.size(); ++d) {
    Tensor index = b.arange(value.sizes()[d], slice.starts[d], slice.steps[d]);
    Sizes along_d(slice.starts.size(), 1);
    along_d[d] = value.sizes()[d];
    indices.push_back(b.reshape(index, along_d));
  }
  return b.scatter(input, value, indices, ScatterMode::Set);
}

bool can_undo(const Op& op) {
  return std::holds_alternative<Reshape>(op) || std::holds_alternative<Permute>(op) || std::holds_alternative<Slice>(op) ||
         std::holds_alternative<Bitcast>(op);
}

// Whether every element that the operation gives is an element of its first operand.
bool only_moves(const Op& op) {
  return can_undo(op) || std::holds_alternative<Expand>(op) || std::holds_alternative<Remap>(op) || std::holds_alternative<Gather>(op);
}

// The largest integer that is no pattern of a NaN, whose bits may change on the way.
int64_t largest_position(DType dtype) {
  if (dtype == DType::F16) return 0x7c00;
  if (dtype == DType::BF16) return 0x7f80;
  if (dtype == DType::F32) return 0x7f80'0000;
  return size_bytes(dtype) == 2 ? std::numeric_limits<int16_t>::max() : std::numeric_limits<int32_t>::max();
}

// An integer as wide as the tensor's elements, which holds their positions where views change the dtype.
DType position_dtype(Tensor base) {
  const int64_t width = size_bytes(base.dtype());
  if (width == 8) return DType::I64;
  const bool fits = sym::known_le(base.numel() - 1, largest_position(base.dtype()));
  if (width == 4 && fits) return DType::I32;
  if (width == 2 && fits) return DType::I16;
  throw Error(ErrorKind::Unsupported, fmt::format("writing to a view of the bits of {} is not supported", to_string(base.type())));
}

// The same core view of another tensor.
Tensor redo(Builder& b, const Node& node, const TensorType& type, Tensor input) {
  if (std::holds_alternative<Reshape>(node.op)) return b.reshape(input, type.sizes);
  if (std::holds_alternative<Bitcast>(node.op)) return b.bitcast(input, type.dtype);
  if (const auto* permute = std::get_if<Permute>(&node.op)) return b.permute(input, Dims(permute->dims.begin(), permute->dims.end()));
  const Slice& slice = std::get<Slice>(node.op);
  return b.slice(input, slice.starts, slice.steps, type.sizes);
}

}  // namespace

ViewId Memory::allocate(Tensor value) {
  pieces_.push_back({value});
  views_.push_back({.piece = static_cast<uint32_t>(pieces_.size() - 1), .step = {}, .value = value});
  return ViewId{static_cast<uint32_t>(views_.size() - 1)};
}

ViewId Memory::add_view(ViewId source, ViewStep step, Tensor value) {
  const uint32_t piece = view(source).piece;
  views_.push_back({.piece = piece, .source = source, .step = step, .value = value, .version = pieces_[piece].version});
  return ViewId{static_cast<uint32_t>(views_.size() - 1)};
}

Tensor Memory::read(ViewId id) {
  const uint32_t version = piece(id).version;
  if (view(id).version != version) {
    const Tensor value = is_whole(id) ? piece(id).value : apply_(builder_, *view(id).step, read(view(id).source));
    view(id).value = value;
    view(id).version = version;
  }
  return view(id).value;
}

void Memory::write(ViewId id, Tensor value) {
  std::vector<ViewStep> steps;
  for (ViewId at = id; !is_whole(at); at = view(at).source) steps.push_back(*view(at).step);
  std::reverse(steps.begin(), steps.end());
  Piece& piece = pieces_[view(id).piece];
  // A view without elements changes nothing, whatever shows it.
  const bool is_empty = std::any_of(value.sizes().begin(), value.sizes().end(), [](sym::Expr size) { return size.is_const(0); });
  if (steps.empty()) {
    piece.value = value;
  } else if (!is_empty) {
    piece.value = write_through(builder_, apply_, steps, piece.value, value);
  }
  ++piece.version;
  view(id).value = value;
  view(id).version = piece.version;
}

void Memory::replace(ViewId id, Tensor value) {
  TOROID_CHECK(is_whole(id), "only a whole piece of memory can be replaced");
  write(id, value);
}

Tensor write_through(Builder& builder, const ApplyView& apply, const std::vector<ViewStep>& steps, Tensor base, Tensor value) {
  // In a graph of its own the steps show as the core views that they are made of: most can be undone one by one.
  Graph scratch;
  std::vector<sym::Expr> guards;  // the same ones as when the view was made
  Builder scratch_builder(scratch, builder.symbols(), &guards);
  const Tensor start = scratch_builder.emit(Input{0}, {}, {{.dtype = base.dtype(), .sizes = base.sizes()}})[0];
  Tensor end = start;
  std::vector<ViewStep> moving;  // without conversions to the dtype that the tensor has, which would convert positions
  for (const ViewStep& step : steps) {
    const Tensor seen = apply(scratch_builder, step, end);
    if (seen.id() != end.id()) moving.push_back(step);
    end = seen;
  }
  std::vector<ValueId> path;  // from the view back to the base, without it
  bool undoable = true;
  int slices = 0;
  bool changes_dtype = false;
  for (ValueId at = end.id(); at != start.id(); at = scratch.producer(at).inputs[0]) {
    const Op& op = scratch.producer(at).op;
    if (!only_moves(op)) {
      throw Error(ErrorKind::Unsupported, fmt::format("writing to a view that is made by {} is not supported", to_string(op)));
    }
    undoable = undoable && can_undo(op);
    slices += std::holds_alternative<Slice>(op) ? 1 : 0;
    changes_dtype = changes_dtype || std::holds_alternative<Bitcast>(op);
    path.push_back(at);
  }
  // Each slice undone is a scatter, and so a copy: for several, one scatter by position is less work.
  if (undoable && slices <= 1) {
    std::reverse(path.begin(), path.end());
    std::vector<Tensor> inputs = {base};
    for (ValueId at : path) inputs.push_back(redo(builder, scratch.producer(at), scratch.type(at), inputs.back()));
    for (size_t i = path.size(); i-- > 0;) value = undo(builder, scratch.producer(path[i]), inputs[i], value);
    return value;
  }
  // Any other view: the view of the elements' positions tells where each written element belongs.
  Tensor positions = builder.reshape(builder.arange(base.numel()), base.sizes());
  if (changes_dtype) positions = builder.bitcast(builder.cast(positions, position_dtype(base)), base.dtype());
  for (const ViewStep& step : moving) positions = apply(builder, step, positions);
  if (changes_dtype) positions = builder.bitcast(positions, position_dtype(base));
  const Tensor flat = builder.reshape(base, {base.numel()});
  const Tensor source = builder.bitcast(value, base.dtype());
  return builder.reshape(builder.scatter(flat, source, {positions}, ScatterMode::Set), base.sizes());
}

}  // namespace toroid
