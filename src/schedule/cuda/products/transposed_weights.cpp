#include "schedule/cuda/products/transposed_weights.h"

#include <map>
#include <utility>
#include <vector>

namespace toroid::schedule {
namespace {

using loop::BufferId;

constexpr int64_t kPieces = 8, kPermuted = 32;  // of 16-bit floats: what TMA reads, and whose columns it permutes

class WeightTransposition {
 public:
  WeightTransposition(loop::LoopProgram& program, std::optional<bool> on_host) : program_(program), on_host_(on_host) {}

  void run() {
    std::vector<loop::Computation> result;
    for (loop::Computation& computation : program_.computations) {
      auto* call = std::get_if<loop::Call>(&computation.work);
      if (call != nullptr && takes(*call)) {
        loop::Operand& right = call->operands[1];
        auto known = copies_.find(right.buffer);
        if (known == copies_.end()) known = copies_.emplace(right.buffer, copy_of(right, computation, result)).first;
        right.buffer = known->second;
        right.strides = {1, right.sizes[0]};
      }
      result.push_back(std::move(computation));
    }
    program_.computations = std::move(result);
  }

 private:
  // A whole constant matrix of 16-bit floats with contiguous rows, which a product has on its right.
  bool takes(const loop::Call& call) const {
    if (!std::holds_alternative<Matmul>(call.op) || call.operands.size() != 2) return false;
    const loop::Operand& right = call.operands[1];
    const loop::Buffer& buffer = program_.buffer(right.buffer);
    const bool is_constant = buffer.kind == loop::BufferKind::Constant && !buffer.updated_by;
    const bool is_ours = !on_host_ || buffer.on_host == *on_host_;
    if (!is_constant || !is_ours || !is_reduced_float(buffer.dtype) || program_.buffer(call.operands[0].buffer).dtype != buffer.dtype)
      return false;
    if (buffer.sizes.size() != 2 || right.sizes != buffer.sizes || !right.offset.is_const(0)) return false;
    const sym::Expr depth = buffer.sizes[0], columns = buffer.sizes[1];
    if (!depth.is_const() || !columns.is_const() || depth.value() % kPieces != 0 || columns.value() % kPermuted != 0) return false;
    const bool has_rows = right.strides == contiguous_strides(right.sizes) && buffer.strides == right.strides;
    return has_rows && depth.value() > 1 && (copies_.contains(right.buffer) || bytes_ + bytes_of(buffer) <= kMostTransposedBytes);
  }

  static int64_t bytes_of(const loop::Buffer& buffer) { return sym::product(buffer.sizes).value() * size_bytes(buffer.dtype); }

  BufferId copy_of(const loop::Operand& operand, const loop::Computation& computation, std::vector<loop::Computation>& before) {
    const loop::Buffer source = program_.buffer(operand.buffer);
    bytes_ += bytes_of(source);
    const std::vector<sym::Expr> sizes = {source.sizes[1], source.sizes[0]};
    const sym::Expr column = program_.exprs.symbols().axis(sizes[0]), row = program_.exprs.symbols().axis(sizes[1]);
    const BufferId copy = program_.add_buffer({.name = source.name + "_transposed",
                                               .dtype = source.dtype,
                                               .sizes = sizes,
                                               .strides = contiguous_strides(sizes),
                                               .kind = loop::BufferKind::Prepared,
                                               .on_host = source.on_host});
    loop::Map map{{column, row}, program_.exprs.load(operand.buffer, {row, column}, source.dtype)};
    before.push_back({std::move(map), {copy}, computation.name + "_transpose", computation.provenance});
    return copy;
  }

  loop::LoopProgram& program_;
  std::optional<bool> on_host_;
  std::map<BufferId, BufferId> copies_;
  int64_t bytes_ = 0;
};

}  // namespace

void transpose_weights(loop::LoopProgram& program, std::optional<bool> on_host) { WeightTransposition(program, on_host).run(); }

}  // namespace toroid::schedule
