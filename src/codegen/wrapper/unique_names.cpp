#include "codegen/wrapper/unique_names.h"

#include <unordered_set>

#include <fmt/format.h>

#include "codegen/cpp/names.h"

namespace toroid::codegen {

void make_names_unique(loop::LoopProgram& loops, const Program& program) {
  std::unordered_set<std::string> taken;
  for (sym::Expr symbol : program.symbols->symbols()) taken.insert(identifier(symbol.node()->name));
  for (loop::Buffer& each : loops.buffers) {
    std::string name = identifier(each.name);
    if (const size_t mark = name.rfind("_v");
        mark != std::string::npos && mark + 2 < name.size() && name.find_first_not_of("0123456789", mark + 2) == std::string::npos) {
      name = identifier(each.name + "_b");
    }
    for (int i = 1; !taken.insert(name).second; ++i) name = identifier(fmt::format("{}_b{}", each.name, i));
    each.name = name;
  }
}

}  // namespace toroid::codegen
