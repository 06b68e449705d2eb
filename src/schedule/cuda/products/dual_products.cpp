#include "schedule/cuda/products/dual_products.h"

#include <algorithm>
#include <span>

#include "schedule/buffer_lists.h"
#include "schedule/cpu/loops.h"
#include "schedule/cuda/launches/accesses.h"
#include "schedule/cuda/products/epilogue_work.h"
#include "schedule/cuda/products/few_rows_tiled.h"
#include "schedule/fusion/group.h"

namespace toroid::schedule {
namespace {

bool is_plain_product(const CallStep& step) {
  return std::holds_alternative<Matmul>(step.call.op) && step.call.operands.size() == 2 && step.outputs.size() == 1 && !step.prologue;
}

// The one load of the buffer in an epilogue, if all elements do it where the product's own element is.
std::optional<ExprId> load_beside_product(const loop::LoopProgram& program, const Kernel& epilogue, BufferId buffer) {
  const auto position = [&](ExprId id) { return std::get<loop::Load>(program.exprs.node(id).op).index[0]; };
  std::vector<ExprId> values, found;
  for (const Statement& statement : epilogue.stages[0].statements) values.push_back(value_of(statement));
  for (ExprId id : loop::reachable(program.exprs, values)) {
    const auto* load = std::get_if<loop::Load>(&program.exprs.node(id).op);
    if (load != nullptr && load->buffer == buffer) found.push_back(id);
  }
  if (found.size() != 1 || position(found[0]) != position(*epilogue.product)) return std::nullopt;
  const std::vector<ExprId> always = unconditional_loads(program.exprs, epilogue);
  return std::find(always.begin(), always.end(), found[0]) != always.end() ? std::optional(found[0]) : std::nullopt;
}

bool is_same_matrix(const loop::Operand& a, const loop::Operand& b) {
  if (a.buffer != b.buffer || a.offset != b.offset || a.sizes != b.sizes) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.strides[d] != b.strides[d] && !a.sizes[d].is_const(1)) return false;  // nothing goes along a dim of one
  }
  return true;
}

class DualProducts {
 public:
  DualProducts(const loop::LoopProgram& program, std::vector<Step>& steps, const ChooseTiles& choose)
      : program_(program), steps_(steps), choose_(choose), accesses_(program) {}

  void make() {
    for (size_t second = 0; second < steps_.size(); ++second) {
      if (auto* step = std::get_if<CallStep>(&steps_[second]); step == nullptr || !step->epilogue || !is_plain_product(*step)) continue;
      for (size_t first = second; first-- > 0;) {
        if (!merge(first, second)) continue;
        steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(first));
        --second;
        break;
      }
    }
  }

 private:
  // Makes the first step a part of the second, where it can be.
  bool merge(size_t at_first, size_t at_second) {
    const auto* first = std::get_if<CallStep>(&steps_[at_first]);
    auto& second = std::get<CallStep>(steps_[at_second]);
    if (first == nullptr || first->epilogue || !is_plain_product(*first)) return false;
    if (std::get<Matmul>(first->call.op) != std::get<Matmul>(second.call.op)) return false;  // 8-bit floats of two kinds
    const BufferId result = first->outputs[0];
    const std::vector<loop::Operand>&its = first->call.operands, &own = second.call.operands;
    if (!is_same_matrix(its[0], own[0]) || !contains(second.epilogue->reads, result) || !is_for_one_step(result)) return false;
    if (own[0].buffer == result || own[1].buffer == result) return false;
    const std::span between = std::span<const Step>(steps_).subspan(at_first + 1, at_second - at_first - 1);
    if (!accesses_.may_move_over(steps_[at_first], between)) return false;
    const std::optional<ExprId> load = load_beside_product(program_, *second.epilogue, result);
    if (!load) return false;
    CallStep made = second;
    made.call.operands.push_back(its[1]);
    made.outputs.push_back(result);
    made.epilogue->second_product = load;
    made.gpu = tiles_of(*first, second, made);
    if (!made.gpu) return false;
    made.name = first->name + "_" + made.name;
    add_provenance(made.provenance, first->provenance);
    second = std::move(made);
    return true;
  }

  // None where the two products take less time by themselves.
  std::optional<GpuTiles> tiles_of(const CallStep& first, const CallStep& second, const CallStep& both) const {
    const auto shape_of = [&](const CallStep& step) { return as_product_of_tiles(program_, step.call, step.outputs).shape; };
    const std::optional<ProductShape> one = shape_of(first), other = shape_of(second), dual = shape_of(both);
    if (!one || !other || !dual) return std::nullopt;
    const EpilogueWork work = work_of_epilogue(program_, *both.epilogue, both.outputs);
    const std::optional<GpuTiles> tiles = choose_(*dual, work);
    const auto has_few_rows = [](const std::optional<GpuTiles>& of) { return of && of->depth_warps > 0 && !are_few_rows_tiled(*of); };
    if (!tiles || has_few_rows(tiles) != has_few_rows(first.gpu) || has_few_rows(tiles) != has_few_rows(second.gpu)) return std::nullopt;
    if (has_few_rows(tiles)) return tiles;  // reading the right sides takes the time
    const double apart =
        seconds_of_quickest(*one, std::nullopt) + seconds_of_quickest(*other, work_of_epilogue(program_, *second.epilogue, second.outputs));
    return seconds_of_quickest(*dual, work) < apart ? tiles : std::nullopt;
  }

  // Is it in no memory once the one step that reads it has it in registers?
  bool is_for_one_step(BufferId id) const { return program_.buffer(id).kind == loop::BufferKind::Temporary && is_read_once(steps_, id); }

  const loop::LoopProgram& program_;
  std::vector<Step>& steps_;
  const ChooseTiles& choose_;
  AccessTable accesses_;
};

}  // namespace

void make_dual_products(const loop::LoopProgram& program, std::vector<Step>& steps, const ChooseTiles& choose) {
  DualProducts(program, steps, choose).make();
}

}  // namespace toroid::schedule
