// What a step moves and computes, for comparing its time with the machine's limits.
#pragma once

#include "schedule/schedule.h"

namespace toroid::schedule {

struct StepWork {
  sym::Expr bytes;             // read and written, each buffer once; of a buffer that is indexed by data as many elements as are looked up
  sym::Expr flops;             // multiplications and additions of matrix products, convolutions and attention; 0 for others
  DType numbers = DType::F32;  // that are multiplied: of the left side
};
StepWork work_of(const loop::LoopProgram& program, const Step& step);

}  // namespace toroid::schedule
