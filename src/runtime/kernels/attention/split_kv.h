// Attention cut into tasks: some queries of a batch with some of its keys. Where there are fewer batches and blocks of queries than make
// work for many threads, keys are cut too; each part then has its own largest score, sum of exponentials and weighted values, which are put
// together at the end. Source: Dao et al., "Flash-Decoding for long-context inference", 2023. How keys are cut depends on the sizes alone,
// so results do not depend on the number of threads.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/kernels/attention/call.h"

namespace toroid {

// Of what form of attention the tasks are.
struct AttentionGrain {
  int64_t rows;  // that a task takes at once
  int64_t keys;  // the fewest of a part; parts begin at multiples of it
};

struct AttentionTask {
  int64_t batch;
  int64_t first_row, last_row;
  int64_t part;                 // of the keys
  int64_t first_key, last_key;  // no query of these rows sees a later one
};

// One at a time on each thread.
class AttentionParts {
 public:
  AttentionParts(const AttentionCall& call, AttentionGrain grain);

  int64_t key_parts() const { return key_parts_; }

  // Calls body(task) on all threads, for all rows and keys. It must call finish() for each row.
  template <class Body>
  void for_each(const Body& body) {
    if (batches_ == 0 || row_parts_ == 0 || call_.out_width == 0) return;
    call_.pool.parallel_for(batches_ * row_parts_ * key_parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const AttentionTask task = this->task(i);
        body(task);
        end_task(task, i / key_parts_);
      }
    });
  }

  // The weighted values of a row of the task, in order, and what they are still to be divided by. They may be overwritten.
  void finish(const AttentionTask& task, int64_t row, float* sums, const RunningSoftmax& running);

 private:
  AttentionTask task(int64_t index) const;
  float* kept(int64_t batch, int64_t row, int64_t part) const { return kept_ + ((batch * rows_ + row) * key_parts_ + part) * kept_row_; }
  void write(int64_t batch, int64_t row, const float* result) const;
  void end_task(const AttentionTask& task, int64_t whole);
  void merge(int64_t batch, int64_t row) const;

  const AttentionCall& call_;
  int64_t batches_, rows_;
  int64_t key_parts_, row_parts_, part_keys_;
  // Where there are several parts of keys: each row's sums in each, then its RunningSoftmax.
  int64_t kept_row_;
  float* kept_ = nullptr;                          // the calling thread's
  std::unique_ptr<std::atomic<int64_t>[]> ended_;  // parts of the keys, by batch and part of the rows
};

}  // namespace toroid
