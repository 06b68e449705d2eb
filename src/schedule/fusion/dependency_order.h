// Which of many nodes depend on which, while both nodes and dependencies are being added: a topological order that is kept up to date,
// so that questions look only at the nodes between two places of it.
//
// The order is mended as in: D. Pearce, P. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", ACM Journal of
// Experimental Algorithmics 11, 2006. In programs, what depends on each other mostly lies close together, so that a question or a new
// dependency costs about the same however large the program is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace toroid::schedule {

class DependencyOrder {
 public:
  // A new node that nothing depends on yet. Nodes are numbered from 0.
  size_t add();
  // Does `node` depend on `on`, through others too?
  bool depends(size_t node, size_t on) const;
  // `node` depends on `on` from now on. `on` must not depend on `node`.
  void depend(size_t node, size_t on);
  // Every node after those it depends on; otherwise the lowest number first.
  std::vector<size_t> order() const;

 private:
  void collect(size_t start, bool users, size_t least, size_t most, std::vector<size_t>& found) const;

  std::vector<std::vector<size_t>> needs_;  // by node: what it depends on
  std::vector<std::vector<size_t>> users_;  // by node: what depends on it
  std::vector<size_t> place_;               // by node
  mutable std::vector<uint32_t> seen_;      // by node: the last search that came by
  mutable uint32_t search_ = 0;
};

}  // namespace toroid::schedule
