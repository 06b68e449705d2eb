// The stages of a kernel in Triton: what each row computes once, and its reductions, stores and stashes for each element.
#pragma once

#include <string>
#include <utility>

#include "codegen/triton/triton_body.h"
#include "codegen/triton/triton_tile.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace toroid::codegen {

class TritonStages {
 public:
  // All of it must outlive the stages. The body's rows are open.
  TritonStages(const loop::ExprTable& exprs, const schedule::Kernel& kernel, const TritonTile& tile, TritonBody& body)
      : exprs_(exprs), kernel_(kernel), tile_(tile), body_(body) {}
  // Throws NotInTriton.
  void print(const schedule::Stage& stage) { stage.inner ? row_stage(stage) : once_stage(stage); }

 private:
  void once_stage(const schedule::Stage& stage);
  void row_stage(const schedule::Stage& stage);
  // Of one row, whose sums stay what they begin with where the condition does not hold.
  void stage_where(const schedule::Stage& stage);
  // Lanes have sums of their own, so that each is of few numbers.
  void looped_stage(const schedule::Stage& stage);
  void store(const schedule::Store& s, bool of_elements) { body_.store(s.buffer, s.position, body_.value(s.value), of_elements); }

  // `places`: of the elements, for the place of the best one; else "".
  void reduce(const schedule::Accumulate& s, const std::string& tile, const std::string& places);
  // What lanes have, or elements, as one for each row. Doubles are slow: neighbours are added before.
  std::string reduced(const schedule::Accumulate& s, const std::string& tile) const;
  // What each element of the tile gives to a sum.
  std::string element_of(const schedule::Accumulate& s);
  // Of an element in its row; behind all of them where there is none.
  std::string place_of(const schedule::Accumulate& s);
  // Where sums are to be the most exact, they are added in double.
  DType dtype_of_sum(const schedule::Accumulate& s) const;
  // What is reduced has 32 bits at least where its place is asked for.
  std::pair<ReduceOp, DType> type_of(const schedule::Accumulate& s) const;

  const loop::ExprTable& exprs_;
  const schedule::Kernel& kernel_;
  const TritonTile& tile_;
  TritonBody& body_;
};

}  // namespace toroid::codegen
