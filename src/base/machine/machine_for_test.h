// For tests: what the machine is said to have, for a scope.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment_for_test.h"
#include "base/machine/machine.h"

namespace toroid {

// While alive this process, and those that it starts, take the machine for `machine`, which is to have no more than this one. Programs,
// plans and packed constants that were made in another scope are not to be used. No other thread may compute meanwhile.
class MachineScope {
 public:
  explicit MachineScope(const Machine& machine)
      : machine_(machine), before_(machine_details::in_use.exchange(&machine_)), variable_("TOROID_MACHINE", machine.name()) {}
  explicit MachineScope(std::string_view name) : MachineScope(parse_machine(name)) {}
  MachineScope(const MachineScope&) = delete;
  MachineScope& operator=(const MachineScope&) = delete;
  ~MachineScope() { machine_details::in_use = before_; }

 private:
  Machine machine_;
  const Machine* before_;
  ScopedVariable variable_;
};

// The machines that tests take this one for: the baseline and on, up to what it is said to have, each level alone and the last with all its
// extras; then with tiles: emulated on the baseline, and its own or emulated beside all else.
inline std::vector<Machine> machines_to_test() {
  const Isa best = machine().isa;
  std::vector<Machine> machines;
  for (IsaLevel level : {IsaLevel::Baseline, IsaLevel::Avx2, IsaLevel::Avx512}) {
    if (level <= best.level) machines.push_back({{.level = level}});
  }
  Isa without_amx = best;
  without_amx.amx = false;
  if (without_amx != machines.back().isa) machines.push_back({without_amx});
  machines.push_back({{}, true});
  const Machine widest = best.amx ? Machine{best} : Machine{without_amx, true};
  if (widest.name() != machines.back().name()) machines.push_back(widest);
  return machines;
}

inline std::vector<Machine> machines_with_tiles_to_test() {
  std::vector<Machine> machines = machines_to_test();
  std::erase_if(machines, [](const Machine& machine) { return !machine.has_amx(); });
  return machines;
}

}  // namespace toroid
