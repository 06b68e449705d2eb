// What the program that started this process says of it: a launcher of several processes (MPI's, Slurm's, torchrun), a Slurm array, or
// both. It says it by environment variables.
#pragma once

#include <optional>
#include <string>

namespace toroid {

struct Launched {
  std::string by;     // "Open MPI"
  int rank = 0;       // from 0
  int processes = 1;  // in all
};

// One of the processes that a launcher started together: of Open MPI, MPICH and its kind, MVAPICH, Slurm, torchrun. None without a
// launcher, or where it does not say how many there are.
std::optional<Launched> launched_together();
// The rank alone, which all of these say.
std::optional<int> launched_rank();

// The same, counted over the tasks of a Slurm array too: task 2 of an array of 4 tasks with 3 processes each has the ranks 6 to 8 of 12.
// The array's tasks are counted from its first in its steps.
std::optional<Launched> launched_anywhere();

}  // namespace toroid
