#include "fuzz/shrink.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/machine/out_of_memory.h"
#include "fuzz/eager.h"
#include "fuzz/one_operator.h"

namespace toroid::fuzz {
namespace {

bool has_symbols(const Program& program) {
  return std::any_of(program.symbols.begin(), program.symbols.end(), [](const Symbol& s) { return !s.from_data; });
}

// Does the node define a size that depends on data?
bool defines_size(const Program& program, const Node& node) {
  for (const Symbol& symbol : program.symbols) {
    if (!symbol.from_data) continue;
    for (const Node& each : program.nodes) {
      bool has_it = false;
      for (const std::string& type : each.types) {
        const std::vector<std::string> sizes = sizes_of(type);
        has_it = has_it || std::find(sizes.begin(), sizes.end(), symbol.name) != sizes.end();
      }
      if (each.bound == symbol.name || has_it) {
        if (each.results == node.results && each.bound.empty()) return true;
        break;
      }
    }
  }
  return false;
}

bool mentions(const Node& node, const std::string& symbol) {
  std::string text = node.call + " " + node.bound;
  for (const std::string& type : node.types) text += " " + type;
  return replace_words(text, {{symbol, ""}}) != text;
}
bool mentions(const Program& program, const std::string& symbol) {
  return std::any_of(program.nodes.begin(), program.nodes.end(), [&](const Node& node) { return mentions(node, symbol); });
}

// Do other nodes need a size that this one defines?
bool gives_size_to(const Program& program, const Node& node) {
  for (const Symbol& symbol : program.symbols) {
    if (!symbol.from_data || !mentions(node, symbol.name)) continue;
    const auto first =
        std::find_if(program.nodes.begin(), program.nodes.end(), [&](const Node& each) { return mentions(each, symbol.name); });
    const auto users =
        std::count_if(program.nodes.begin(), program.nodes.end(), [&](const Node& each) { return mentions(each, symbol.name); });
    if (first->results == node.results && users > 1) return true;
  }
  return false;
}

// Nodes and inputs that nothing needs any more. Writes are needed: their target may be read later, or be an input.
Program without_unused(Program program) {
  for (;;) {
    std::set<std::string> used(program.outputs.begin(), program.outputs.end());
    for (const Node& node : program.nodes) {
      for (const std::string& name : values_in(node.call)) used.insert(name);
    }
    const size_t before = program.nodes.size();
    std::erase_if(program.nodes, [&](const Node& node) {
      const bool writes = is_in_place(node.call);
      return !writes &&
             std::none_of(node.results.begin(), node.results.end(), [&](const std::string& name) { return used.contains(name); }) &&
             !gives_size_to(program, node);
    });
    if (program.nodes.size() != before) continue;
    std::erase_if(program.symbols, [&](const Symbol& symbol) { return symbol.from_data && !mentions(program, symbol.name); });
    std::erase_if(program.inputs, [&](const Input& input) { return !used.contains(input.name); });
    return program;
  }
}

// The program after its sizes changed: types are inferred again. Throws Error where the program no longer fits.
Program retyped(Program program) {
  std::vector<std::pair<std::string, std::string>> types;
  auto type_of = [&](const std::string& name) {
    const auto found = std::find_if(types.begin(), types.end(), [&](const auto& each) { return each.first == name; });
    if (found == types.end()) throw Error(ErrorKind::InvalidInput, fmt::format("'{}' is not defined", name));
    return found->second;
  };
  for (const Input& input : program.inputs) types.emplace_back(input.name, type_text(input.dtype, input.sizes));
  Eager eager(program, program.runs[0]);
  for (const Input& input : program.inputs) eager.add_input(input);
  for (Node& node : program.nodes) {
    std::vector<std::pair<std::string, std::string>> operands;
    std::set<std::string> seen;
    for (const std::string& name : values_in(node.call)) {
      if (seen.insert(name).second) operands.emplace_back(name, type_of(name));
    }
    std::vector<std::string> plain;
    for (const std::string& type : node.types) plain.push_back(plain_type(type));
    std::vector<std::string> inferred = plain;
    if (node.bodies.empty() && !defines_size(program, node)) {
      RandomStreams streams;
      inferred = result_types({program.symbols, {}, &streams}, operands, node.call);
      if (inferred.size() < node.results.size()) throw Error(ErrorKind::InvalidInput, "the program needs guards");
    }
    eager.execute(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const std::vector<int64_t> sizes = sizes_in(sizes_of(inferred[i]), eager.run());
      if (eager.read(node.results[i]).sizes() != sizes) throw Error(ErrorKind::InvalidInput, "another size");
      types.emplace_back(node.results[i], inferred[i]);
      node.types[i] = inferred[i];
      const std::vector<int64_t> strides = eager.strides(node.results[i]);
      if (inferred[i].find_first_of("su") > inferred[i].find(']') && !has_symbols(program) && !strides.empty())
        node.types[i] += fmt::format(" strides [{}]", fmt::join(strides, ", "));
    }
  }
  return program;
}

class Shrinker {
 public:
  Shrinker(Program program, const StillFails& still_fails, int tries)
      : best_(std::move(program)), still_fails_(still_fails), tries_(tries) {}

  Program run() {
    for (bool changed = true; changed && tries_ > 0;) {
      changed = fewer_runs();
      changed = fewer_outputs() || changed;
      changed = fewer_nodes() || changed;
      changed = smaller_bodies() || changed;
      changed = fixed_symbols() || changed;
      changed = simpler_inputs() || changed;
      changed = smaller_sizes() || changed;
    }
    return best_;
  }

 private:
  bool accept(Program candidate) {
    if (tries_-- <= 0) return false;
    try {
      candidate = without_unused(std::move(candidate));
      if (candidate.inputs.empty() || candidate.outputs.empty()) return false;
      candidate = with_typed_memory("running the reference", [&] { return retyped(std::move(candidate)); });
      if (!still_fails_(candidate)) return false;
    } catch (const Error&) {
      return false;
    }
    best_ = std::move(candidate);
    return true;
  }

  bool fewer_runs() {
    bool changed = false;
    for (size_t i = best_.runs.size(); i-- > 0 && best_.runs.size() > 1;) {
      Program candidate = best_;
      candidate.runs.erase(candidate.runs.begin() + static_cast<ptrdiff_t>(i));
      changed = accept(std::move(candidate)) || changed;
    }
    return changed;
  }

  bool fewer_outputs() {
    bool changed = false;
    // One alone is the best that can be.
    for (size_t i = 0; i < best_.outputs.size() && best_.outputs.size() > 1; ++i) {
      Program candidate = best_;
      candidate.outputs = {best_.outputs[i]};
      if (accept(std::move(candidate))) return true;
    }
    for (size_t i = best_.outputs.size(); i-- > 0 && best_.outputs.size() > 1;) {
      if (i >= best_.outputs.size()) continue;
      Program candidate = best_;
      candidate.outputs.erase(candidate.outputs.begin() + static_cast<ptrdiff_t>(i));
      changed = accept(std::move(candidate)) || changed;
    }
    return changed;
  }

  // Ends the program earlier, leaves a node out and uses one of its operands instead, or makes its results inputs.
  bool fewer_nodes() {
    bool changed = false;
    for (size_t i = best_.nodes.size(); i-- > 0;) {
      if (i >= best_.nodes.size()) continue;
      changed = without(i) || changed;
    }
    return changed;
  }

  bool without(size_t i) {
    const Node node = best_.nodes[i];
    std::set<std::string> operands;
    for (const std::string& name : values_in(node.call)) operands.insert(name);
    for (const std::string& name : operands) {
      if (node.results.empty() || type_of(name) != plain_type(node.types[0])) continue;
      if (replace(i, {{node.results[0], name}})) return true;
    }
    Program candidate = best_;
    candidate.nodes.erase(candidate.nodes.begin() + static_cast<ptrdiff_t>(i));
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (is_complex(dtype_of(node.types[r]))) return false;  // inputs are real
      const Program typed = parse_program(
          fmt::format("# values {0}: grid {1}\ngraph({0}: {2}) {{\n}}\n", node.results[r], 7 * i + r, plain_type(node.types[r])));
      Input input = typed.inputs[0];
      if (!is_floating(input.dtype)) input.values = fmt::format("small {}", 7 * i + r);
      candidate.inputs.push_back(input);
    }
    return accept(std::move(candidate));
  }

  // Leaves out nodes of bodies, or uses one of their operands instead.
  bool smaller_bodies() {
    bool changed = false;
    for (size_t i = 0; i < best_.nodes.size(); ++i) {
      for (size_t b = 0; b < best_.nodes[i].bodies.size(); ++b) {
        for (size_t n = best_.nodes[i].bodies[b].nodes.size(); n-- > 0;) {
          if (n < best_.nodes[i].bodies[b].nodes.size()) changed = without_in_body(i, b, n) || changed;
          if (i >= best_.nodes.size() || b >= best_.nodes[i].bodies.size()) return changed;
        }
      }
    }
    return changed;
  }

  bool without_in_body(size_t i, size_t b, size_t n) {
    const Body& body = best_.nodes[i].bodies[b];
    const Node node = body.nodes[n];
    std::vector<std::pair<std::string, std::string>> known = body.parameters;
    for (size_t k = 0; k < n; ++k) {
      for (size_t r = 0; r < body.nodes[k].results.size(); ++r) known.emplace_back(body.nodes[k].results[r], body.nodes[k].types[r]);
    }
    std::vector<std::pair<std::string, std::string>> names;
    for (size_t r = 0; r < node.results.size(); ++r) {
      for (const auto& [name, type] : known) {
        if (plain_type(type) != plain_type(node.types[r])) continue;
        names.emplace_back(node.results[r], name);
        break;
      }
    }
    Program candidate = best_;
    Body& smaller = candidate.nodes[i].bodies[b];
    smaller.nodes.erase(smaller.nodes.begin() + static_cast<ptrdiff_t>(n));
    for (Node& each : smaller.nodes) each.call = replace_words(each.call, names);
    for (std::string& output : smaller.outputs) output = replace_words(output, names);
    return accept(std::move(candidate));
  }

  bool replace(size_t i, const std::vector<std::pair<std::string, std::string>>& names) {
    Program candidate = best_;
    candidate.nodes.erase(candidate.nodes.begin() + static_cast<ptrdiff_t>(i));
    for (Node& node : candidate.nodes) node.call = replace_words(node.call, names);
    for (std::string& output : candidate.outputs) output = replace_words(output, names);
    return accept(std::move(candidate));
  }

  std::string type_of(const std::string& name) const {
    for (const Input& input : best_.inputs) {
      if (input.name == name) return type_text(input.dtype, input.sizes);
    }
    for (const Node& node : best_.nodes) {
      for (size_t i = 0; i < node.results.size(); ++i) {
        if (node.results[i] == name) return plain_type(node.types[i]);
      }
    }
    return "";
  }

  bool fixed_symbols() {
    bool changed = false;
    for (size_t s = best_.symbols.size(); s-- > 0;) {
      if (best_.runs.size() != 1) return changed;
      if (best_.symbols[s].from_data) continue;
      Program candidate = best_;
      const std::string name = best_.symbols[s].name;
      const std::string value = std::to_string(size_in(name, best_.runs[0]));
      candidate.symbols.erase(candidate.symbols.begin() + static_cast<ptrdiff_t>(s));
      std::erase_if(candidate.runs[0], [&](const auto& each) { return each.first == name; });
      replace_everywhere(candidate, {{name, value}});
      changed = accept(std::move(candidate)) || changed;
    }
    return changed;
  }

  static void replace_everywhere(Program& program, const std::vector<std::pair<std::string, std::string>>& words) {
    for (Input& input : program.inputs) {
      for (std::string& size : input.sizes) size = replace_words(size, words);
    }
    for (Node& node : program.nodes) {
      node.call = replace_words(node.call, words);
      for (std::string& type : node.types) type = replace_words(type, words);
    }
  }

  bool simpler_inputs() {
    bool changed = false;
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      if (best_.inputs[i].kind != InputKind::Argument) {
        Program candidate = best_;
        candidate.inputs[i].kind = InputKind::Argument;
        changed = accept(std::move(candidate)) || changed;
      }
      if (!best_.inputs[i].strides.empty()) {
        Program candidate = best_;
        candidate.inputs[i].strides.clear();
        changed = accept(std::move(candidate)) || changed;
      }
    }
    return changed;
  }

  // Each size of the inputs, everywhere at once.
  bool smaller_sizes() {
    std::set<std::string> sizes;
    for (const Input& input : best_.inputs) {
      for (const std::string& size : input.sizes) {
        if (size.find_first_not_of("0123456789") == std::string::npos && size != "0" && size != "1") sizes.insert(size);
      }
    }
    bool changed = false;
    for (const std::string& size : sizes) {
      const int64_t old = std::stoll(size);
      for (int64_t smaller : {int64_t{1}, int64_t{2}, int64_t{3}, old / 2}) {
        if (smaller >= old) break;
        Program candidate = best_;
        for (Input& input : candidate.inputs) {
          bool has_it = false;
          for (std::string& each : input.sizes) {
            has_it = has_it || each == size;
            if (each == size) each = std::to_string(smaller);
          }
          if (input.values.starts_with("index " + size + " ") || input.values.starts_with("wrap " + size + " ")) {
            input.values = replace_words(input.values, {{size, std::to_string(smaller)}});
          }
        }
        for (Node& node : candidate.nodes) {
          const size_t bracket = node.call.find('[');
          if (bracket != std::string::npos)
            node.call = node.call.substr(0, bracket) + replace_words(node.call.substr(bracket), {{size, std::to_string(smaller)}});
        }
        if (accept(std::move(candidate))) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  Program best_;
  const StillFails& still_fails_;
  int tries_;
};

}  // namespace

Program shrink(Program program, const StillFails& still_fails, int tries) { return Shrinker(std::move(program), still_fails, tries).run(); }

}  // namespace toroid::fuzz
