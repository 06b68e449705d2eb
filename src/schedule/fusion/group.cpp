#include "schedule/fusion/group.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "schedule/axes.h"
#include "schedule/fusion/dependency_order.h"
#include "support/match.h"

namespace toroid::schedule {
namespace {

using loop::Computation;
using loop::LoopProgram;

std::vector<sym::Expr> without_constants(const std::vector<sym::Expr>& axes) {
  std::vector<sym::Expr> result;
  for (sym::Expr axis : axes) {
    if (!axis.is_const()) result.push_back(axis);
  }
  return result;
}

std::vector<sym::Expr> extents(const std::vector<sym::Expr>& axes) {
  std::vector<sym::Expr> result;
  for (sym::Expr axis : axes) result.push_back(extent(axis));
  return result;
}

bool equal_extents(const std::vector<sym::Expr>& a, const std::vector<sym::Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!sym::known_eq(extent(a[i]), extent(b[i]))) return false;
  }
  return true;
}

// The axes a computation iterates over; `inner` for reductions only.
struct Domain {
  std::vector<sym::Expr> outer;
  std::vector<sym::Expr> inner;
  std::vector<sym::Expr> all() const {
    std::vector<sym::Expr> result = outer;
    result.insert(result.end(), inner.begin(), inner.end());
    return result;
  }
};

Domain domain_of(const Computation& computation) {
  if (const auto* map = std::get_if<loop::Map>(&computation.work)) return {without_constants(map->axes), {}};
  const auto& reduction = std::get<loop::Reduction>(computation.work);
  return {without_constants(reduction.axes), without_constants(reduction.reduce_axes)};
}

bool is_fusible(const Computation& computation) {
  return std::holds_alternative<loop::Map>(computation.work) || std::holds_alternative<loop::Reduction>(computation.work);
}

const std::vector<sym::Expr>& store_axes(const Computation& computation) {
  if (const auto* map = std::get_if<loop::Map>(&computation.work)) return map->axes;
  return std::get<loop::Reduction>(computation.work).axes;
}

class Grouping {
 public:
  Grouping(const LoopProgram& program, bool fuse, std::vector<Refusal>* refusals) : program_(program), fuse_(fuse), refusals_(refusals) {}

  std::vector<Group> run() {
    producer_.assign(program_.buffers.size(), kNone);
    readers_.resize(program_.buffers.size());
    for (size_t c = 0; c < program_.computations.size(); ++c) {
      const Computation& computation = program_.computations[c];
      reads_.push_back(loop::reads(program_, computation));
      examine(computation);
      place(c);
      stretch_ += communicates(computation) ? 1 : 0;
      for (loop::BufferId out : computation.outputs) producer_[static_cast<size_t>(out)] = c;
    }
    std::vector<Group> result;
    for (size_t g : dependencies_.order()) result.push_back(std::move(groups_[g]));
    return result;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  // Beyond this many expression nodes a kernel stops growing.
  static constexpr size_t kMaxNodes = 400;
  static constexpr size_t kMaxBuffers = 24;
  // Of the groups that read a buffer, the latest so many are looked at by a computation that reads it too: a mask or a table that every
  // layer reads would otherwise bring each together with all.
  static constexpr size_t kMostReaders = 16;
  // Reading this many bytes once instead of twice is worth a larger kernel.
  static constexpr int64_t kWorthSharing = 4096;

  struct Candidate {
    size_t group;
    sym::Substitution axes;
    std::vector<sym::Expr> outer;  // the group's axes once the computation joined
    std::vector<sym::Expr> inner;
    int64_t bytes_saved;
  };

  void place(size_t c) {
    const Computation& computation = program_.computations[c];
    std::set<size_t> sources;
    for (loop::BufferId buffer : reads_[c]) {
      if (const size_t p = producer_[static_cast<size_t>(buffer)]; p != kNone) sources.insert(group_of_[p]);
    }
    if (!bound_by_.empty()) {
      for (sym::Expr symbol : loop::size_symbols(program_, computation)) {
        if (const auto found = bound_by_.find(symbol); found != bound_by_.end()) sources.insert(found->second);
      }
    }
    std::optional<Candidate> best;
    if (fuse_ && is_fusible(computation)) {
      for (size_t g : neighbours(c, sources)) {
        const bool vertical = sources.count(g) > 0;
        std::string_view reason = against(c, g, sources, vertical);
        std::optional<Candidate> candidate;
        if (reason.empty()) {
          candidate = try_join(c, g, vertical);
          if (!candidate) reason = "the producer and the consumer do not visit the same elements in the same order";
        }
        if (vertical && candidate) reason = "the consumer shares more data with another kernel";
        if (vertical) refuse(c, g, reason);
        if (candidate && (!best || candidate->bytes_saved > best->bytes_saved)) best = std::move(candidate);
      }
    }
    size_t g;
    if (best) {
      g = best->group;
      groups_[g].outer = std::move(best->outer);
      groups_[g].inner = std::move(best->inner);
      groups_[g].members.push_back({c, std::move(best->axes)});
      node_counts_[g] += nodes_[c];
    } else {
      g = groups_.size();
      Group group;
      group.fusible = is_fusible(computation);
      group.members.push_back({c, {}});
      if (group.fusible) {
        Domain domain = domain_of(computation);
        group.outer = std::move(domain.outer);
        group.inner = std::move(domain.inner);
      }
      groups_.push_back(std::move(group));
      stretch_of_.push_back(stretch_);
      dependencies_.add();
      node_counts_.push_back(nodes_[c]);
    }
    group_of_.push_back(g);
    for (loop::BufferId buffer : reads_[c]) {
      std::vector<size_t>& readers = readers_[static_cast<size_t>(buffer)];
      if (std::find(readers.rbegin(), readers.rend(), g) == readers.rend()) readers.push_back(g);
      if (readers.size() > kMostReaders) readers.erase(readers.begin());
    }
    if (const auto* bind = std::get_if<loop::Bind>(&computation.work)) {
      for (sym::Expr symbol : sym::free_symbols(bind->expr)) bound_by_.try_emplace(symbol, g);
    }
    for (size_t source : sources) {
      if (source != g) dependencies_.depend(g, source);
    }
  }

  // What stands against joining, if anything does, before the axes are looked at.
  std::string_view against(size_t c, size_t g, const std::set<size_t>& sources, bool vertical) const {
    if (!groups_[g].fusible) return "a library call, scan, scatter or control flow is a step of its own";
    if (loop::is_on_host(program_, program_.computations[groups_[g].members[0].computation]) !=
        loop::is_on_host(program_, program_.computations[c]))
      return "one is computed on the host, the other one on the GPU";
    if (node_counts_[g] + nodes_[c] > kMaxNodes) return "one kernel of both would be too large";
    if (is_prepared(program_, groups_[g].members[0].computation) != is_prepared(program_, c)) return kComputedOnce;
    if (would_end_an_epilogue(g, c)) return "the producer is fused into the product that it reads, and the consumer reduces its result";
    if (!vertical && !shares_reads(g, c)) return "the two read little in common";
    if (stretch_of_[g] != stretch_) return "processes communicate between the two, and one kernel of both would wait for it";
    if (closes_cycle(g, sources)) return "a third step reads the producer's result and feeds the consumer";
    return {};
  }

  void refuse(size_t c, size_t g, std::string_view reason) {
    if (refusals_ == nullptr) return;
    for (loop::BufferId buffer : reads_[c]) {
      const size_t p = producer_[static_cast<size_t>(buffer)];
      if (p != kNone && group_of_[p] == g) refusals_->push_back({p, c, reason});
    }
  }

  // Is the group element-wise work on a product that `c`, a reduction, would make something else of? To write the work's result while the
  // product is made, and to read it again, moves less than to write and read the product besides.
  bool would_end_an_epilogue(size_t g, size_t c) const {
    if (!groups_[g].inner.empty() || !std::holds_alternative<loop::Reduction>(program_.computations[c].work)) return false;
    if (reads_what_is_sent(g)) return false;
    for (const Member& member : groups_[g].members) {
      for (loop::BufferId buffer : reads_[member.computation]) {
        const size_t p = producer_[static_cast<size_t>(buffer)];
        const bool is_float = is_floating(program_.buffer(buffer).dtype);
        if (p != kNone && is_float && makes_product(program_, program_.computations[p]) &&
            readers_[static_cast<size_t>(buffer)].size() == 1)
          return true;
      }
    }
    return false;
  }

  // Does the group read a result of a collective operation? A product that it is fused into would wait for that.
  bool reads_what_is_sent(size_t g) const {
    const auto is_sent = [&](loop::BufferId buffer) {
      const size_t p = producer_[static_cast<size_t>(buffer)];
      return p != kNone && communicates(program_.computations[p]);
    };
    return std::any_of(groups_[g].members.begin(), groups_[g].members.end(),
                       [&](const Member& member) { return std::ranges::any_of(reads_[member.computation], is_sent); });
  }

  // The groups that make something that `c` reads, and those that read something that it reads too.
  std::set<size_t> neighbours(size_t c, const std::set<size_t>& sources) const {
    std::set<size_t> result = sources;
    for (loop::BufferId buffer : reads_[c]) {
      const std::vector<size_t>& readers = readers_[static_cast<size_t>(buffer)];
      result.insert(readers.begin(), readers.end());
    }
    return result;
  }

  bool closes_cycle(size_t group, const std::set<size_t>& sources) const {
    return std::any_of(sources.begin(), sources.end(),
                       [&](size_t source) { return source != group && dependencies_.depends(source, group); });
  }

  void examine(const Computation& computation) {
    const std::vector<loop::ExprId> reached = loop::reachable(program_.exprs, loop::roots(program_, computation));
    nodes_.push_back(reached.size());
    std::vector<const loop::Load*>& loads = loads_.emplace_back();
    for (loop::ExprId id : reached) {
      if (const auto* load = std::get_if<loop::Load>(&program_.exprs.node(id).op)) loads.push_back(load);
    }
  }

  bool shares_reads(size_t g, size_t c) const {
    std::set<loop::BufferId> buffers;
    bool shared = false;
    for (const Member& member : groups_[g].members) {
      for (loop::BufferId buffer : reads_[member.computation]) {
        buffers.insert(buffer);
        if (std::find(reads_[c].begin(), reads_[c].end(), buffer) != reads_[c].end()) shared = true;
      }
    }
    return shared && buffers.size() + reads_[c].size() <= kMaxBuffers;
  }

  // Is a good part of what `c` or the group reads an element that both read at the same time? Rows and columns of one
  // square matrix are not: together they would run slower than apart. The random state is no data: the masks of all layers' dropouts read
  // nothing else, and would all be computed in the first layer's kernel.
  bool reads_alike(size_t g, size_t c, const sym::Substitution& axes) const {
    std::set<loop::BufferId> alike;
    for (const loop::Load* mine : loads_[c]) {
      if (alike.count(mine->buffer) || program_.buffer(mine->buffer).kind == loop::BufferKind::RandomState) continue;
      const std::vector<sym::Expr> index = substituted(mine->index, axes);
      for (const Member& member : groups_[g].members) {
        for (const loop::Load* load : loads_[member.computation]) {
          if (load->buffer != mine->buffer || substituted(load->index, member.axes) != index) continue;
          alike.insert(mine->buffer);
        }
      }
    }
    std::set<loop::BufferId> theirs;
    for (const Member& member : groups_[g].members) {
      theirs.insert(reads_[member.computation].begin(), reads_[member.computation].end());
    }
    auto total = [&](const auto& buffers) {
      int64_t sum = 0;
      for (loop::BufferId buffer : buffers) sum += bytes(buffer);
      return sum;
    };
    const int64_t shared = total(alike);
    return !alike.empty() && (shared >= kWorthSharing || 2 * shared >= std::min(total(reads_[c]), total(theirs)));
  }

  static std::vector<sym::Expr> substituted(const std::vector<sym::Expr>& index, const sym::Substitution& axes) {
    std::vector<sym::Expr> result;
    for (sym::Expr e : index) result.push_back(e.is_const() ? e : sym::substitute(e, axes));
    return result;
  }

  int64_t bytes(loop::BufferId id) const {
    const loop::Buffer& buffer = program_.buffer(id);
    return sym::evaluate_hint(sym::product(buffer.sizes)) * size_bytes(buffer.dtype);
  }

  int64_t bytes_saved(size_t g, size_t c, bool vertical) const {
    int64_t saved = 0;
    for (loop::BufferId buffer : reads_[c]) {
      bool touched = false;
      for (const Member& member : groups_[g].members) {
        const auto& outs = program_.computations[member.computation].outputs;
        const auto& ins = reads_[member.computation];
        touched =
            touched || std::find(outs.begin(), outs.end(), buffer) != outs.end() || std::find(ins.begin(), ins.end(), buffer) != ins.end();
      }
      if (touched) saved += bytes(buffer);
    }
    return saved + (vertical ? 1 : 0);
  }

  // How `c` could iterate over the group's axes; nullopt when it cannot.
  std::optional<Candidate> try_join(size_t c, size_t g, bool vertical) const {
    const Group& group = groups_[g];
    const Domain domain = domain_of(program_.computations[c]);
    std::optional<Candidate> result;
    auto attempt = [&](const std::optional<sym::Substitution>& axes) {
      if (result || !axes) return;
      result = check(c, g, domain, *axes);
    };
    if (vertical) attempt(match_by_load(c, group, domain));
    attempt(match_in_order(group, domain));
    attempt(match_flattened(group, domain));
    if (result && !vertical && !reads_alike(g, c, result->axes)) return std::nullopt;
    if (result) result->bytes_saved = bytes_saved(g, c, vertical);
    return result;
  }

  // Axes by an element that `c` reads from the group: where the producer stores it, there `c` must be.
  std::optional<sym::Substitution> match_by_load(size_t c, const Group& group, const Domain& domain) const {
    sym::Substitution axes;
    for (const loop::Load* load : loads_[c]) {
      const Member* member = member_producing(group, load->buffer);
      if (member == nullptr) continue;
      const std::vector<sym::Expr>& stored = store_axes(program_.computations[member->computation]);
      for (size_t d = 0; d < load->index.size(); ++d) {
        const sym::Expr mine = load->index[d];
        if (mine.is_const() || !mine.is_symbol() || mine.node()->symbol_kind != sym::SymbolKind::Axis) continue;
        const sym::Expr theirs = stored[d].is_const() ? stored[d] : sym::substitute(stored[d], member->axes);
        if (theirs.is_const() || find(axes, mine)) continue;
        // A part of a larger tensor (of a cat, a pad) is read along a longer axis, a slice along a shorter one.
        if (!sym::known_eq(extent(mine), extent(stored[d]))) return std::nullopt;
        axes.emplace_back(mine, theirs);
      }
    }
    // Axes that no element of the group fixes run over the group's remaining axes, in order.
    std::vector<sym::Expr> open;
    for (sym::Expr axis : domain.all()) {
      if (!find(axes, axis)) open.push_back(axis);
    }
    std::vector<sym::Expr> free_axes;
    for (const auto* list : {&group.outer, &group.inner}) {
      for (sym::Expr axis : *list) {
        const bool used = std::any_of(axes.begin(), axes.end(), [&](const auto& pair) { return pair.second == axis; });
        if (!used) free_axes.push_back(axis);
      }
    }
    if (open.empty()) return axes;
    if (!equal_extents(open, free_axes)) return std::nullopt;
    for (size_t i = 0; i < open.size(); ++i) axes.emplace_back(open[i], free_axes[i]);
    return axes;
  }

  std::optional<sym::Substitution> match_in_order(const Group& group, const Domain& domain) const {
    std::vector<sym::Expr> theirs = group.outer;
    theirs.insert(theirs.end(), group.inner.begin(), group.inner.end());
    const std::vector<sym::Expr> mine = domain.all();
    if (!equal_extents(mine, theirs)) {
      if (!equal_extents(mine, group.outer)) return std::nullopt;
      theirs = group.outer;
    }
    sym::Substitution axes;
    for (size_t i = 0; i < mine.size(); ++i) axes.emplace_back(mine[i], theirs[i]);
    return axes;
  }

  // Axes by the row-major position in the whole domain: [a*b, c] against [a, b, c].
  std::optional<sym::Substitution> match_flattened(const Group& group, const Domain& domain) const {
    if (!domain.inner.empty()) return std::nullopt;
    const std::vector<sym::Expr> mine = extents(domain.outer);
    // Nothing to run over, and nothing to divide by.
    if (std::any_of(mine.begin(), mine.end(), [](sym::Expr size) { return size.is_const(0); })) return std::nullopt;
    auto by = [&](const std::vector<sym::Expr>& theirs) -> std::optional<sym::Substitution> {
      if (!sym::known_eq(sym::product(mine), sym::product(extents(theirs)))) return std::nullopt;
      sym::Expr position = 0;
      for (sym::Expr axis : theirs) position = position * extent(axis) + axis;
      sym::Substitution axes;
      sym::Expr stride = 1;
      for (size_t d = mine.size(); d-- > 0;) {
        const sym::Expr quotient = sym::floor_div(position, stride);
        axes.emplace_back(domain.outer[d], d == 0 ? quotient : sym::mod(quotient, mine[d]));
        stride = stride * mine[d];
      }
      return axes;
    };
    std::vector<sym::Expr> all = group.outer;
    all.insert(all.end(), group.inner.begin(), group.inner.end());
    if (auto axes = by(all)) return axes;
    return group.inner.empty() ? std::nullopt : by(group.outer);
  }

  static std::optional<sym::Expr> find(const sym::Substitution& axes, sym::Expr from) {
    for (const auto& [key, value] : axes) {
      if (key == from) return value;
    }
    return std::nullopt;
  }

  const Member* member_producing(const Group& group, loop::BufferId buffer) const {
    const size_t p = producer_[static_cast<size_t>(buffer)];
    if (p == kNone || &groups_[group_of_[p]] != &group) return nullptr;
    for (const Member& member : group.members) {
      if (member.computation == p) return &member;
    }
    return nullptr;
  }

  static bool uses_only(sym::Expr e, const std::vector<sym::Expr>& axes) {
    if (e.is_const()) return true;
    for (sym::Expr symbol : sym::free_symbols(e)) {
      if (symbol.node()->symbol_kind == sym::SymbolKind::Axis && std::find(axes.begin(), axes.end(), symbol) == axes.end()) {
        return false;
      }
    }
    return true;
  }

  std::optional<Candidate> check(size_t c, size_t g, const Domain& domain, const sym::Substitution& axes) const {
    const Group& group = groups_[g];
    Candidate candidate{g, axes, group.outer, group.inner, 0};
    std::vector<sym::Expr> all = group.outer;
    all.insert(all.end(), group.inner.begin(), group.inner.end());
    if (!covers(domain.all(), axes, all)) {
      // Once a row: only a map over the outer axes.
      if (!domain.inner.empty() || group.inner.empty() || !covers(domain.all(), axes, group.outer)) return std::nullopt;
    }
    if (!domain.inner.empty()) {
      // A reduction: its own split of the axes must be the group's; a pure map takes the reduction's.
      std::vector<sym::Expr> outer;
      std::vector<sym::Expr> inner;
      for (sym::Expr axis : domain.outer) outer.push_back(*find(axes, axis));
      for (sym::Expr axis : domain.inner) inner.push_back(*find(axes, axis));
      if (group.inner.empty()) {
        for (sym::Expr axis : outer) {
          if (!axis.is_symbol()) return std::nullopt;
        }
        for (sym::Expr axis : inner) {
          if (!axis.is_symbol()) return std::nullopt;
        }
        candidate.outer = outer;
        candidate.inner = inner;
      } else {
        for (sym::Expr axis : outer) {
          if (std::find(group.outer.begin(), group.outer.end(), axis) == group.outer.end()) return std::nullopt;
        }
        if (outer.size() != group.outer.size() || inner.size() != group.inner.size()) return std::nullopt;
      }
    }
    // What the group produces must be read where it is produced.
    for (const loop::Load* load : loads_[c]) {
      const Member* member = member_producing(group, load->buffer);
      if (member == nullptr) continue;
      const std::vector<sym::Expr>& stored = store_axes(program_.computations[member->computation]);
      for (size_t d = 0; d < load->index.size(); ++d) {
        const sym::Expr mine = sym::substitute(load->index[d], axes);
        const sym::Expr theirs = sym::substitute(stored[d], member->axes);
        if (mine != theirs) return std::nullopt;
      }
      // A row value that was computed from the group's reductions cannot feed a map that runs before them; stages take
      // care of that. But a pure map group that becomes a reduction must not hold row values.
    }
    return candidate;
  }

  // Do the images of `mine` run over exactly the axes `theirs`, each once?
  static bool covers(const std::vector<sym::Expr>& mine, const sym::Substitution& axes, const std::vector<sym::Expr>& theirs) {
    std::vector<sym::Expr> images;
    bool plain = true;
    for (sym::Expr axis : mine) {
      const auto image = find(axes, axis);
      if (!image) return false;
      plain = plain && image->is_symbol();
      images.push_back(*image);
    }
    if (plain) {
      if (images.size() != theirs.size()) return false;
      for (sym::Expr axis : theirs) {
        if (std::count(images.begin(), images.end(), axis) != 1) return false;
      }
      return true;
    }
    // Flattened: match_flattened made them a bijection when the element counts agree.
    for (sym::Expr image : images) {
      if (!uses_only(image, theirs)) return false;
    }
    return sym::known_eq(sym::product(extents(mine)), sym::product(extents(theirs)));
  }

  const LoopProgram& program_;
  const bool fuse_;
  std::vector<Refusal>* const refusals_;
  std::vector<Group> groups_;
  DependencyOrder dependencies_;     // between groups
  std::vector<size_t> node_counts_;  // by group
  std::vector<size_t> stretch_of_;   // of each group: how many collective operations are before it
  size_t stretch_ = 0;
  std::vector<size_t> group_of_;                       // by computation
  std::vector<size_t> producer_;                       // by buffer: the computation that writes it
  std::unordered_map<sym::Expr, size_t> bound_by_;     // by size symbol: the group that defines it while the program runs
  std::vector<std::vector<loop::BufferId>> reads_;     // by computation
  std::vector<std::vector<const loop::Load*>> loads_;  // by computation
  std::vector<size_t> nodes_;                          // by computation: how many expression nodes it has
  std::vector<std::vector<size_t>> readers_;           // by buffer: the latest groups that read it
};

}  // namespace

std::vector<Group> group_computations(const LoopProgram& program, bool fuse, std::vector<Refusal>* refusals) {
  return Grouping(program, fuse, refusals).run();
}

sym::Expr position_of(const loop::Buffer& buffer, const std::vector<sym::Expr>& index) {
  sym::Expr position = 0;
  for (size_t d = 0; d < index.size(); ++d) position = position + index[d] * buffer.strides[d];
  return position;
}

}  // namespace toroid::schedule
