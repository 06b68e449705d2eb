#include "passes/shard/shard.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/text/text.h"
#include "library/collectives/mpi.h"
#include "passes/collective.h"
#include "passes/constant_values.h"
#include "passes/dead_code.h"
#include "tensor/host_tensor.h"
#include "tensor/strided_copy.h"

namespace toroid {
namespace {

using shard::NodeSharding;
using shard::Plan;
using shard::Sharding;

std::vector<int64_t> values_of(std::span<const sym::Expr> numbers) {
  std::vector<int64_t> values;
  for (sym::Expr number : numbers) values.push_back(number.value());
  return values;
}

// Where the parts of a process are along a sharded dim of this size: begin and length of one in each segment.
std::vector<std::pair<int64_t, int64_t>> pieces_of(const Sharding& sharding, int64_t size, int64_t rank, int64_t processes) {
  std::vector<std::pair<int64_t, int64_t>> pieces;
  int64_t begin = 0;
  for (int64_t length : sharding.segments.empty() ? std::vector<int64_t>{size} : sharding.segments) {
    pieces.emplace_back(begin + rank * (length / processes), length / processes);
    begin += length;
  }
  return pieces;
}

// Part `rank` of a constant, in memory of its own.
ConstantData part_of(const ConstantData& whole, const Sharding& sharding, int64_t rank, int64_t processes) {
  require_elements(whole);
  const auto d = static_cast<size_t>(sharding.dim);
  ConstantData part = whole;
  part.type = {.dtype = whole.type.dtype, .sizes = whole.type.sizes, .device = whole.type.device};
  part.type.sizes[d] = sym::floor_div(whole.type.sizes[d], processes);
  std::vector<int64_t> sizes = values_of(part.type.sizes);
  const std::vector<int64_t> from_strides =
      values_of(whole.type.strides.empty() ? contiguous_strides(whole.type.sizes) : whole.type.strides);
  const std::vector<int64_t> to_strides = values_of(contiguous_strides(part.type.sizes));
  const auto width = static_cast<size_t>(size_bytes(whole.type.dtype));
  auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(numel(sizes)) * width);
  std::byte* to = memory->data();
  for (const auto& [begin, length] : pieces_of(sharding, whole.type.sizes[d].value(), rank, processes)) {
    sizes[d] = length;
    copy_strided(to, to_strides, whole.bytes.data() + static_cast<size_t>(begin * from_strides[d]) * width, from_strides, sizes, width);
    to += static_cast<size_t>(length * to_strides[d]) * width;
  }
  part.bytes = *memory;
  part.owner = std::move(memory);
  return part;
}

class Rewriter {
 public:
  Rewriter(Program& program, const Plan& plan, int64_t processes, int64_t rank)
      : program_(program),
        old_(program.graph),
        plan_(plan),
        processes_(processes),
        rank_(rank),
        constancy_(constant_values(program)),
        builder_(graph_, *program.symbols, &program.guards),
        held_(old_.num_values()) {}

  void run() {
    for (size_t i = 1; i < old_.provenances().size(); ++i) graph_.add_provenance(old_.provenances()[i]);
    for (size_t i = 0; i < old_.num_nodes(); ++i) rewrite(NodeId{static_cast<uint32_t>(i)});
    for (const SymbolBinding& binding : old_.bindings) graph_.bindings.push_back({binding.expr, as(binding.value, {}).id()});
    for (size_t i = 0; i < old_.inputs.size(); ++i) graph_.inputs.push_back(as(old_.inputs[i], plan_.inputs[i]).id());
    for (size_t i = 0; i < old_.outputs.size(); ++i) graph_.outputs.push_back(as(old_.outputs[i], plan_.outputs[i]).id());
    program_.graph = std::move(graph_);
    name_parts();
  }

 private:
  // What a process has of a value: as its node gave it, and what was made of that.
  struct Held {
    Tensor first;
    Sharding sharding;
    std::map<Sharding, Tensor> as;
  };

  TensorType local(const TensorType& type, const Sharding& sharding) const { return shard::part_type(type, sharding, processes_); }

  void rewrite(NodeId id) {
    const Node& node = old_.node(id);
    const NodeSharding& sharding = plan_.nodes[static_cast<size_t>(id)];
    builder_.set_provenance(node.provenance, old_.value(node.outputs[0]).name);
    std::vector<Tensor> results;
    if (const auto* constant = std::get_if<Constant>(&node.op); constant != nullptr && sharding.result.is_sharded()) {
      results = {constant_part(node.outputs[0], constant->id, sharding.result)};
    } else if (const auto* input = std::get_if<Input>(&node.op); input != nullptr && plan_.has_batch[input->index]) {
      const Tensor whole = made(node, {}, {})[0];
      graph_.rename(whole.id(), old_.value(node.outputs[0]).name);
      held_[static_cast<size_t>(node.outputs[0])].as[{}] = whole;
      results = {cut(whole, sharding.result)};
    } else {
      std::vector<Tensor> operands;
      for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(as(node.inputs[i], sharding.operands[i]));
      shard::count_in_part(builder_, old_, node, sharding, operands, processes_, rank_);
      results = made(node, operands, sharding.is_partial ? Sharding() : sharding.result);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor result = results[i];
      if (sharding.is_partial) result = sharding.result.is_sharded() ? scattered(result) : added(result);
      Held& held = held_[static_cast<size_t>(node.outputs[i])];
      held.first = result;
      held.sharding = sharding.result;
      held.as[sharding.result] = result;
      graph_.rename(result.id(), old_.value(node.outputs[i]).name);
    }
  }

  std::vector<Tensor> made(const Node& node, const std::vector<Tensor>& operands, const Sharding& result) {
    return shard::add_part(builder_, old_, node, operands, result, processes_);
  }

  Tensor as(ValueId value, const Sharding& wanted) {
    Held& held = held_[static_cast<size_t>(value)];
    if (const auto found = held.as.find(wanted); found != held.as.end()) return found->second;
    Tensor made;
    if (!wanted.is_sharded()) {
      made = gathered(held.first, held.sharding);
    } else if (!held.sharding.is_sharded()) {
      made = part(value, wanted);
    } else {
      made = cut(as(value, {}), wanted);
    }
    return held_[static_cast<size_t>(value)].as[wanted] = made;
  }

  // ---- parts of what all processes have

  Tensor cut(Tensor whole, const Sharding& sharding) {
    if (sharding.segments.empty()) {
      const sym::Expr size = sym::floor_div(whole.size(sharding.dim), processes_);
      return builder_.slice(whole, sharding.dim, size * rank_, size);
    }
    std::vector<Tensor> pieces;
    for (const auto& [begin, length] : pieces_of(sharding, whole.size(sharding.dim).value(), rank_, processes_)) {
      pieces.push_back(builder_.slice(whole, sharding.dim, begin, length));
    }
    return builder_.cat(pieces, sharding.dim);
  }

  // Of what follows from weights or positions, the part is computed from parts: the rest is never needed.
  Tensor part(ValueId value, const Sharding& sharding) {
    const Node& node = old_.producer(value);
    const bool is_expanded = std::holds_alternative<Expand>(node.op);
    const auto cut_here = [&] { return cut(held_[static_cast<size_t>(value)].first, sharding); };
    if (constancy_[static_cast<size_t>(value)] == Constancy::None && !is_expanded) return cut_here();
    if (const auto* constant = std::get_if<Constant>(&node.op)) return constant_part(value, constant->id, sharding);
    const std::optional<std::vector<Sharding>> operands = operands_of_part(node, sharding);
    if (!operands) return cut_here();
    std::vector<Tensor> parts;
    for (size_t i = 0; i < node.inputs.size(); ++i) parts.push_back(as(node.inputs[i], (*operands)[i]));
    builder_.set_provenance(node.provenance, old_.value(value).name);
    return made(node, parts, sharding)[0];
  }

  std::optional<std::vector<Sharding>> operands_of_part(const Node& node, const Sharding& sharding) const {
    const auto d = static_cast<size_t>(sharding.dim);
    const TensorType& type = old_.type(node.outputs[0]);
    const bool is_elementwise =
        std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<Cast>(node.op) || std::holds_alternative<Bitcast>(node.op);
    if (is_elementwise) return std::vector<Sharding>(node.inputs.size(), sharding);
    if (std::holds_alternative<Expand>(node.op)) {
      const bool is_repeated = !sym::known_eq(old_.type(node.inputs[0]).sizes[d], type.sizes[d]);
      return std::vector<Sharding>{is_repeated ? Sharding{} : sharding};
    }
    if (const auto* permute = std::get_if<Permute>(&node.op)) return std::vector<Sharding>{{permute->dims[d], sharding.segments}};
    if (std::holds_alternative<Reshape>(node.op)) {
      std::optional<Sharding> from = shard::reshaped(type, sharding, old_.type(node.inputs[0]), processes_);
      if (from) return std::vector<Sharding>{std::move(*from)};
    }
    if (const auto* cat = std::get_if<Cat>(&node.op); cat != nullptr && cat->dim != sharding.dim) {
      return std::vector<Sharding>(node.inputs.size(), sharding);
    }
    return std::nullopt;
  }

  Tensor constant_part(ValueId value, ConstantId id, const Sharding& sharding) {
    const auto known = parts_.find({id, sharding});
    ConstantId part_id;
    if (known != parts_.end()) {
      part_id = known->second;
    } else {
      part_id = program_.add_constant(part_of(program_.constant(id), sharding, rank_, processes_));
      parts_[{id, sharding}] = part_id;
    }
    return builder_.constant(part_id, local(old_.type(value), sharding), old_.value(value).name);
  }

  // Each part has the name of its weight, unless the program holds the whole, too, or two parts.
  void name_parts() {
    remove_dead_code(program_);
    std::set<ConstantId> whole = used_constants(program_), parts;
    for (const auto& [of, id] : parts_) {
      if (whole.erase(id) > 0) parts.insert(id);
    }
    std::set<std::string> names;
    for (ConstantId id : whole) names.insert(program_.constant(id).name);
    for (const auto& [of, id] : parts_) {
      ConstantData& data = program_.constants[static_cast<size_t>(id)];
      if (parts.contains(id) && !data.name.empty() && !names.insert(data.name).second) data.name += fmt::format(".dim{}", of.second.dim);
    }
  }

  // ---- communication, in one order for all processes

  Tensor collective(std::string_view name, Tensor x, Sizes sizes, std::vector<Scalar> attributes) {
    attributes.insert(attributes.end(), {Scalar(sym::Expr(processes_)), Scalar(sym::Expr(rank_))});  // the GROUP
    return add_collective(builder_, name, x, std::move(sizes), std::move(attributes));
  }

  Tensor added(Tensor addend) {
    constexpr auto kSum = static_cast<int64_t>(collectives::Reduction::Sum);
    return collective("all_reduce", addend, addend.sizes(), {Scalar(sym::Expr(kSum))});
  }

  // Each process has the sum of its rows.
  Tensor scattered(Tensor addend) {
    constexpr auto kSum = static_cast<int64_t>(collectives::Reduction::Sum);
    Sizes sizes = addend.sizes();
    sizes[0] = sym::floor_div(sizes[0], processes_);
    return collective("reduce_scatter", addend, std::move(sizes), {Scalar(sym::Expr(kSum))});
  }

  // The parts come one after the other: [n, …] of each process.
  Tensor gathered(Tensor x, const Sharding& sharding) {
    const int dim = sharding.dim;
    Sizes sizes = x.sizes();
    sizes[0] = sizes[0] * processes_;
    Tensor all = collective("all_gather", x, std::move(sizes), {});
    if (dim == 0 && sharding.segments.empty()) return all;
    Sizes apart = x.sizes();
    apart.insert(apart.begin(), sym::Expr(processes_));
    Dims order;
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (d == dim) order.push_back(0);
      order.push_back(d + 1);
    }
    Sizes whole = x.sizes();
    whole[static_cast<size_t>(dim)] = whole[static_cast<size_t>(dim)] * processes_;
    const Tensor parts = builder_.permute(builder_.reshape(all, apart), order);  // [.., processes, part, ..]
    if (sharding.segments.empty()) return builder_.reshape(parts, whole);
    std::vector<Tensor> segments;
    sym::Expr begin = 0;
    for (int64_t length : sharding.segments) {
      Sizes sizes = whole;
      sizes[static_cast<size_t>(dim)] = length;
      const Tensor pieces = builder_.slice(parts, dim + 1, begin, length / processes_);
      segments.push_back(builder_.reshape(pieces, sizes));
      begin += length / processes_;
    }
    return builder_.cat(segments, dim);
  }

  Program& program_;
  const Graph old_;
  const Plan& plan_;
  const int64_t processes_, rank_;
  const std::vector<Constancy> constancy_;
  Graph graph_;
  Builder builder_;
  std::vector<Held> held_;  // by old value
  std::map<std::pair<ConstantId, Sharding>, ConstantId> parts_;
};

}  // namespace

Plan shard_program(Program& program, const ShardOptions& options) {
  constexpr int kMostProcesses = 1 << 16;
  if (options.processes < 1 || options.processes > kMostProcesses) {
    throw Error(ErrorKind::InvalidOption, fmt::format("a model cut for {} processes", options.processes)).help("give a number from 1 on");
  }
  if (options.rank < 0 || options.rank >= options.processes) {
    throw Error(ErrorKind::InvalidOption, fmt::format("there is no process {} of {}", options.rank, options.processes))
        .help("ranks count from 0: --rank 0 is the first");
  }
  const std::vector<shard::Rule> rules = shard::parse_rules(options.rules);
  Plan plan = shard::plan_shards(program, options.processes, rules, options.costs);
  if (options.processes > 1) Rewriter(program, plan, options.processes, options.rank).run();
  return plan;
}

}  // namespace toroid
