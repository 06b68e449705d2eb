#include "runtime/kernels/attention/split_kv.h"

#include <cmath>

#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

constexpr int64_t kEnoughTasks = 32;
constexpr int64_t kManyRows =
    256;  // as good as a batch of their own: what they need of the keys more than once costs little beside the rest

Scratch scratch_for_result, scratch_for_kept;

}  // namespace

AttentionParts::AttentionParts(const AttentionCall& call, AttentionGrain grain)
    : call_(call), batches_(call.batches()), rows_(call.rows()) {
  const int64_t blocks = (rows_ + grain.rows - 1) / grain.rows, tasks = batches_ * std::max<int64_t>(rows_ / kManyRows, 1);
  const int64_t most = std::max<int64_t>(call.keys / grain.keys, 1);  // parts with enough keys
  const int64_t wanted = std::clamp<int64_t>(kEnoughTasks / std::max<int64_t>(tasks, 1), 1, most);
  const int64_t grains = (call.keys + grain.keys - 1) / grain.keys;
  part_keys_ = std::max<int64_t>((grains + wanted - 1) / wanted, 1) * grain.keys;
  key_parts_ = std::max<int64_t>((call.keys + part_keys_ - 1) / part_keys_, 1);
  row_parts_ = batches_ == 0 || blocks == 0 ? 0 : std::clamp<int64_t>(2 * call.pool.threads() / (batches_ * key_parts_), 1, blocks);
  kept_row_ = call.out_width + 2;
  if (key_parts_ == 1 || row_parts_ == 0) return;
  kept_ = scratch_for_kept.get(batches_ * rows_ * key_parts_ * kept_row_);
  ended_ = std::make_unique<std::atomic<int64_t>[]>(static_cast<size_t>(batches_ * row_parts_));
}

AttentionTask AttentionParts::task(int64_t index) const {
  const int64_t part = index % key_parts_, row_part = index / key_parts_ % row_parts_;
  AttentionTask task = {
      index / (key_parts_ * row_parts_), rows_ * row_part / row_parts_, rows_ * (row_part + 1) / row_parts_, part, part * part_keys_, 0};
  const int64_t seen = call_.limit(task.last_row - 1, 0, call_.keys);
  task.last_key = std::clamp((part + 1) * part_keys_, task.first_key, std::max(seen, task.first_key));
  return task;
}

void AttentionParts::finish(const AttentionTask& task, int64_t row, float* sums, const RunningSoftmax& running) {
  if (key_parts_ == 1) {
    scale_row_f32(sums, call_.out_width, running.inverse());
    return write(task.batch, row, sums);
  }
  float* to = kept(task.batch, row, task.part);
  std::copy_n(sums, call_.out_width, to);
  to[call_.out_width] = running.most;
  to[call_.out_width + 1] = running.sum;
}

void AttentionParts::write(int64_t batch, int64_t row, const float* result) const {
  const AttentionCall::Rows rows = call_.rows_of(call_.out, batch);
  const int64_t at = rows.begin + row * rows.step;
  if (call_.dtype != DType::F32) return round_row(call_.dtype, result, call_.out_width, static_cast<uint16_t*>(call_.out.data) + at);
  std::copy_n(result, call_.out_width, data_of(call_.out) + at);
}

// Who ends the last part puts them together, always in the same order.
void AttentionParts::end_task(const AttentionTask& task, int64_t whole) {
  if (key_parts_ == 1 || ended_[static_cast<size_t>(whole)].fetch_add(1, std::memory_order_acq_rel) + 1 < key_parts_) return;
  for (int64_t row = task.first_row; row < task.last_row; ++row) merge(task.batch, row);
}

void AttentionParts::merge(int64_t batch, int64_t row) const {
  const int64_t width = call_.out_width;
  float* result = scratch_for_result.get(width);
  std::fill_n(result, width, 0.0f);
  float most = -HUGE_VALF;
  for (int64_t part = 0; part < key_parts_; ++part) most = std::max(most, kept(batch, row, part)[width]);
  RunningSoftmax all = {most, 0};
  for (int64_t part = 0; part < key_parts_; ++part) {
    const float* sums = kept(batch, row, part);
    // Where nothing is to be seen all sums are 0; what is not a number stays so whatever it is multiplied by.
    const float factor = sums[width] == most ? 1 : std::exp(sums[width] - most);
    all.sum += factor * sums[width + 1];
    for (int64_t j = 0; j < width; ++j) result[j] += factor * sums[j];
  }
  scale_row_f32(result, width, all.inverse());
  write(batch, row, result);
}

}  // namespace toroid
