// Collective operations, as torch.distributed's functional ones are exported: library kernels (library/collectives/collectives.h). They are
// complete when their node is, so waiting is nothing.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "library/collectives/mpi.h"
#include "passes/collective.h"
#include "passes/decompose/engine/decompose.h"

namespace toroid {
namespace {

using collectives::Reduction;

constexpr int64_t kMostProcesses = 1 << 24;
constexpr std::array<std::string_view, 8> kReductions = {"sum", "avg", "product", "min", "max", "band", "bor", "bxor"};  // as Reduction

Scalar number(int64_t value) { return Scalar(sym::Expr(value)); }

Scalar reduction_of(const Args& a) {
  const std::string name = a.text("reduce_op");
  const auto found = std::find(kReductions.begin(), kReductions.end(), name);
  if (found == kReductions.end()) throw Error(ErrorKind::Unsupported, fmt::format("the reduction '{}' over processes", name));
  return number(found - kReductions.begin());
}

// How many processes, 0 where the operator does not say; for any of them; then their ranks: none of them for all.
std::vector<Scalar> group_of(const Decomposer& d, const Args& a, int64_t size) {
  const std::string name = a.text("group_name");
  std::vector<Scalar> group = {number(size), number(-1)};
  const auto known = d.program.process_groups.find(name);
  if (known != d.program.process_groups.end()) {
    for (int64_t rank : known->second) group.push_back(number(rank));
    group[0] = number(static_cast<int64_t>(known->second.size()));
    if (size != 0 && group[0] != number(size)) {
      throw Error(ErrorKind::InvalidModel,
                  fmt::format("the group '{}' of {} processes has {} in the model", name, known->second.size(), size));
    }
  } else if (name != "0" && !name.empty()) {
    throw Error(ErrorKind::Unsupported, fmt::format("the group '{}' of processes, whose ranks the model does not say", name))
        .help(fmt::format("name them: --group {}=0,1", name));
  }
  return group;
}

Tensor collective(Decomposer& d, std::string_view name, Tensor x, Sizes sizes, std::vector<Scalar> first,
                  const std::vector<Scalar>& group) {
  first.insert(first.end(), group.begin(), group.end());
  return add_collective(d.b, name, x, std::move(sizes), std::move(first));
}

// Gathered and scattered tensors have a dim at least.
Tensor with_rows(Decomposer& d, Tensor x) { return x.rank() == 0 ? d.b.reshape(x, {1}) : x; }

Tensor reduced(Decomposer& d, const Args& a, Tensor x) {
  return collective(d, "all_reduce", x, x.sizes(), {reduction_of(a)}, group_of(d, a, 0));
}
Tensor gathered(Decomposer& d, const Args& a, Tensor x) {
  const int64_t size = a.constant_in("group_size", 1, kMostProcesses);
  x = with_rows(d, x);
  Sizes sizes = x.sizes();
  sizes[0] = sizes[0] * size;
  return collective(d, "all_gather", x, std::move(sizes), {}, group_of(d, a, size));
}
Tensor scattered(Decomposer& d, const Args& a, Tensor x) {
  const int64_t size = a.constant_in("group_size", 1, kMostProcesses);
  x = with_rows(d, x);
  Sizes sizes = x.sizes();
  sizes[0] = sym::floor_div(sizes[0], size);
  d.b.require_equal(sizes[0] * size, x.sizes()[0], "the rows of what is scattered are a multiple of the processes");
  return collective(d, "reduce_scatter", x, std::move(sizes), {reduction_of(a)}, group_of(d, a, size));
}

template <Tensor (*kOne)(Decomposer&, const Args&, Tensor)>
std::vector<Tensor> one(Decomposer& d, const Args& a) {
  return {kOne(d, a, a.tensor("input"))};
}
template <Tensor (*kOne)(Decomposer&, const Args&, Tensor)>
std::vector<Tensor> each(Decomposer& d, const Args& a) {
  std::vector<Tensor> results;
  for (Tensor x : a.tensors("inputs")) results.push_back(kOne(d, a, x));
  return results;
}

std::vector<Tensor> all_to_all(Decomposer& d, const Args& a) {
  const Tensor x = with_rows(d, a.tensor("input"));
  const Sizes received = a.integers("output_split_sizes"), sent = a.integers("input_split_sizes");
  if (received.size() != sent.size()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("an exchange of {} parts for {}", sent.size(), received.size()));
  }
  Sizes sizes = x.sizes();
  sizes[0] = 0;
  for (sym::Expr rows : received) sizes[0] = sizes[0] + rows;
  sym::Expr all = 0;
  for (sym::Expr rows : sent) all = all + rows;
  d.b.require_equal(all, x.sizes()[0], "an exchange's parts are all rows");
  std::vector<Scalar> numbers = {number(static_cast<int64_t>(sent.size()))};
  for (const Sizes& list : {received, sent}) {
    for (sym::Expr rows : list) numbers.push_back(Scalar(rows));
  }
  return {collective(d, "all_to_all", x, std::move(sizes), std::move(numbers), group_of(d, a, static_cast<int64_t>(sent.size())))};
}

std::vector<Tensor> broadcast(Decomposer& d, const Args& a) {
  const Tensor x = a.tensor("input");
  return {collective(d, "broadcast", x, x.sizes(), {number(a.constant("src"))}, group_of(d, a, 0))};
}

std::vector<Tensor> complete(Decomposer&, const Args& a) { return {a.tensor("tensor")}; }
std::vector<Tensor> all_complete(Decomposer&, const Args& a) { return a.tensors("tensors"); }

constexpr DecompositionRow kCollectiveRows[] = {
    {"_c10d_functional::all_reduce", one<reduced>},
    {"_c10d_functional::all_reduce_coalesced", each<reduced>},
    {"_c10d_functional::all_gather_into_tensor", one<gathered>},
    {"_c10d_functional::all_gather_into_tensor_coalesced", each<gathered>},
    {"_c10d_functional::reduce_scatter_tensor", one<scattered>},
    {"_c10d_functional::reduce_scatter_tensor_coalesced", each<scattered>},
    {"_c10d_functional::all_to_all_single", all_to_all},
    {"_c10d_functional::broadcast", broadcast},
    {"_c10d_functional::wait_tensor", complete},
    {"_c10d_functional::wait_tensors", all_complete},
    // The same with a gradient.
    {"_c10d_functional_autograd::all_gather_into_tensor", one<gathered>},
    {"_c10d_functional_autograd::reduce_scatter_tensor", one<scattered>},
    {"_c10d_functional_autograd::all_to_all_single", all_to_all},
};

}  // namespace

std::span<const DecompositionRow> collective_rows() { return kCollectiveRows; }

}  // namespace toroid
