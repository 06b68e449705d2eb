#include "schedule/explain.h"

#include <algorithm>

namespace toroid::schedule {

std::vector<FusionDecision> explain(const loop::LoopProgram& program, const std::vector<Group>& groups,
                                    const std::vector<Refusal>& refusals, const EpilogueGroups& epilogues,
                                    const EpilogueRefusals& not_done_with, const ChainDecisions& chains, bool fuse) {
  constexpr size_t kNobody = ~size_t{0};
  std::vector<const Group*> group_of(program.computations.size());
  for (const Group& group : groups) {
    for (const Member& member : group.members) group_of[member.computation] = &group;
  }
  std::map<std::pair<size_t, size_t>, std::string_view> reasons;
  for (const Refusal& refusal : refusals) reasons.try_emplace({refusal.producer, refusal.consumer}, refusal.reason);
  std::vector<size_t> producer(program.buffers.size(), kNobody);
  for (size_t c = 0; c < program.computations.size(); ++c) {
    for (BufferId out : program.computations[c].outputs) producer[static_cast<size_t>(out)] = c;
  }
  auto is_epilogue = [&](const Group* group) {
    return std::any_of(epilogues.begin(), epilogues.end(), [&](const auto& each) { return each.second == group; });
  };
  auto is_convolution = [&](size_t c) {
    const auto* call = std::get_if<loop::Call>(&program.computations[c].work);
    return call != nullptr && std::holds_alternative<Convolution>(call->op);
  };
  auto last_operator = [&](size_t c) {
    const std::vector<ProvenanceId>& provenance = program.computations[c].provenance;
    return provenance.empty() ? ProvenanceId{} : provenance.back();
  };

  // Of all members of its group; of a product with an epilogue, that one's too.
  const auto results_of = [&](size_t c) {
    std::vector<BufferId> results;
    const auto add = [&](const Group& group) {
      for (const Member& member : group.members) {
        const std::vector<BufferId>& outputs = program.computations[member.computation].outputs;
        results.insert(results.end(), outputs.begin(), outputs.end());
      }
    };
    add(*group_of[c]);
    for (BufferId out : program.computations[c].outputs) {
      if (const auto epilogue = epilogues.find(out); epilogue != epilogues.end()) add(*epilogue->second);
    }
    return results;
  };

  std::vector<FusionDecision> decisions;
  auto decide = [&](size_t p, size_t c, BufferId passed) {
    const loop::Buffer& buffer = program.buffer(passed);
    FusionDecision decision = {
        last_operator(p), last_operator(c), sym::evaluate_hint(sym::product(buffer.sizes)) * size_bytes(buffer.dtype), false, {},
        results_of(p),    results_of(c)};
    const auto epilogue = epilogues.find(passed);
    if (group_of[p] == group_of[c]) {
      decision.is_fused = true;
      decision.reason = "one kernel";
    } else if (epilogue != epilogues.end() && epilogue->second == group_of[c]) {
      decision.is_fused = true;
      decision.reason = "the consumer is fused into the product, block by block";
    } else if (const auto chain = chains.find(passed); chain != chains.end() && is_convolution(c)) {
      decision.is_fused = chain->second.empty();
      decision.reason = decision.is_fused ? "computed together, in bands of image rows" : chain->second;
    } else if (const auto found = not_done_with.find({passed, group_of[c]}); found != not_done_with.end()) {
      decision.reason = found->second;
    } else if (makes_product(program, program.computations[p]) && is_epilogue(group_of[c])) {
      decision.reason = "the consumer reads two products and is fused into the later one";
    } else if (const auto reason = reasons.find({p, c}); reason != reasons.end()) {
      decision.reason = reason->second;
    } else {
      decision.reason = fuse ? "a library call, scan, scatter or control flow is a step of its own" : "fusion is off";
    }
    decisions.push_back(std::move(decision));
  };
  for (size_t c = 0; c < program.computations.size(); ++c) {
    for (BufferId in : loop::reads(program, program.computations[c])) {
      if (const size_t p = producer[static_cast<size_t>(in)]; p != kNobody) decide(p, c, in);
    }
  }
  return decisions;
}

}  // namespace toroid::schedule
