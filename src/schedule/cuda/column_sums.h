// Sums of columns that a GPU's blocks make beside what they make of rows (internal to schedule/).
//
// The backward pass of a norm needs sums of each row and sums of each column of the same elements. A kernel of rows whose blocks go through
// all rows has each element in its registers once: each thread adds what it sees of its columns, over all rows that it has, and writes it
// once. The small kernel that adds the parts of blocks is there already (fusion/split_reductions.h).
//
//   kernel rows       { for row: acc0 = sum x[row, j];  out[row, j] = x[row, j] - acc0 / n }
//   kernel of columns { for block, j: part[block, j] = sum over r of x[row, j] }      =>   kernel rows { …; acc1[j] += x[row, j] }
//   kernel blocks     { for j: sums[j] = sum over block of part[block, j] }                kernel blocks, of more parts
//
// Memory is read once in the place of twice.
#pragma once

#include <functional>
#include <vector>

#include "schedule/schedule.h"

namespace toroid::schedule {

// `plan`: makes steps of a kernel whose axes are given, as the planner does. Steps become fewer.
void sum_columns_beside_rows(loop::LoopProgram& program, std::vector<Step>& steps,
                             const std::function<void(std::vector<Step>& steps, Kernel kernel)>& plan);

}  // namespace toroid::schedule
