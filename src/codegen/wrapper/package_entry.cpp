#include "codegen/wrapper/package_entry.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "toroid/program_abi.h"

namespace toroid::codegen {
namespace {

struct Symbol {
  std::string_view name, identifier;
};
constexpr Symbol kSymbols[] = {
#define TOROID_KERNEL(identifier, name) {name, #identifier},
#include "runtime/kernels/linked/linked_kernels.def"
#undef TOROID_KERNEL
};

// "" for one that there is not.
std::string_view symbol_of(std::string_view kernel) {
  const auto* const found = std::ranges::find(kSymbols, kernel, &Symbol::name);
  return found != std::end(kSymbols) ? found->identifier : "";
}

}  // namespace

// Kernels have C's names, so that files can call each other's; here it is the namespace's. A macro would not do: the unit has what it names of
// the prelude already.
std::string unit_of_level(std::string_view unit, std::string_view name_space) {
  constexpr std::string_view kOfC = "\nextern \"C\" void ", kOfNamespace = "\nvoid ";
  std::string result = fmt::format("#define TOROID_LEVEL\nnamespace {} {{\n", name_space);
  while (!unit.empty()) {
    const size_t found = unit.find(kOfC);
    result += unit.substr(0, found);
    if (found == unit.npos) break;
    result += kOfNamespace;
    unit.remove_prefix(found + kOfC.size());
  }
  return result + "\n}\n";
}

// These are taken in the place of the run side's definitions (toolchain/run_side.h), which are then left out of the file.
std::string absent_code_text(const std::vector<std::string>& symbols) {
  if (symbols.empty()) return "";
  std::string text =
      "asm(\".pushsection .text.toroid_absent,\\\"ax\\\",%progbits\\n.hidden toroid_absent_code\\ntoroid_absent:\\n\"\n"
      "#ifdef __aarch64__\n\"b toroid_absent_code\\n\"\n#else\n\"jmp toroid_absent_code\\n\"\n#endif\n";
  for (const std::string& symbol : symbols)
    text += fmt::format("\".globl {0}\\n.hidden {0}\\n.type {0}, %function\\n.set {0}, toroid_absent\\n\"\n", symbol);
  return text + "\".popsection\");\n";
}

// Of what compiles it: a line in the place of the model's and toroid's, which are written into the file.
std::string provenance_text() {
  return fmt::format(
      "static const char provenance[{}] = \"{}\\n\" \"compiler \"\n"
      "#ifdef __clang__\n  \"clang++ \" __clang_version__\n#else\n  \"g++ \" __VERSION__\n#endif\n"
      "  \"\\n\";\n",
      kProvenanceBytes, kProvenanceWord.substr(0, kProvenanceWord.size() - 1));
}

std::string package_entry(const PackageEntry& entry) {
  std::string declarations, levels, kernels;
  for (size_t i = 0; i < entry.isas.size(); ++i) {
    declarations += fmt::format("namespace level{} {{ struct ToroidProgram; extern const ToroidProgram toroid_program; }}\n", i);
    levels += fmt::format("{{\"{}\", &level{}::toroid_program}}, ", entry.isas[i], i);
  }
  for (const std::string& kernel : entry.linked_kernels) {
    const std::string_view symbol = symbol_of(kernel);
    if (symbol.empty() && entry.is_for_gpu) continue;
    TOROID_CHECK(!symbol.empty(), "no kernel '{}' can be linked", kernel);
    declarations += fmt::format("extern \"C\" const char toroid_kernel_{}[];\n", symbol);
    kernels += fmt::format("toroid_kernel_{}, ", symbol);
  }
  const std::string code =
      entry.linked_code.empty()
          ? ""
          : fmt::format("extern \"C\" {{ extern const char* const toroid_linked_code = \"{}\"; }}\n", entry.linked_code);
  const std::string embedded = entry.prefix.empty()
                                   ? "extern \"C\" { extern const void* const toroid_embedded_package = nullptr; }\n"
                                   : fmt::format(
                                         "extern \"C\" const char {0}_toroid_weights[], {0}_toroid_weights_end[];\n"
                                         "static const char* const embedded[] = {{{0}_toroid_weights, {0}_toroid_weights_end, \"{0}\"}};\n"
                                         "extern \"C\" {{ extern const void* const toroid_embedded_package = embedded; }}\n",
                                         entry.prefix);
  if (entry.is_for_gpu) {
    declarations += "namespace level0 { struct ToroidGpuProgram; extern \"C\" { extern const ToroidGpuProgram toroid_gpu_program; } }\n";
  }
  return absent_code_text(entry.absent_code) +
         fmt::format(
             "#pragma GCC visibility push(hidden)\n"
             "struct ToroidLevel {{ const char* isa; const void* program; }};\n"
             "struct ToroidLevels {{ int abi_version, num_levels; const ToroidLevel* levels; }};\n"
             "{}"
             "static const ToroidLevel levels[] = {{{}}};\n"
             "{}"
             "extern \"C\" {{\n"
             "extern __attribute__((visibility(\"default\"))) const ToroidLevels toroid_levels = {{{}, {}, levels}};\n"
             "extern const ToroidLevels* const toroid_own_levels = &toroid_levels;\n"
             "extern const void* const toroid_own_gpu_program = {};\n"
             "extern __attribute__((visibility(\"default\"))) const char* const toroid_provenance = provenance + {};\n"
             "extern const char* const toroid_own_provenance = provenance + {};\n"
             "extern const void* const toroid_linked_kernels[] = {{{}nullptr}};\n"
             "}}\n{}{}",
             declarations, levels, provenance_text(), TOROID_ABI_VERSION, entry.isas.size(),
             entry.is_for_gpu ? "&level0::toroid_gpu_program" : "nullptr", kProvenanceWord.size(), kProvenanceWord.size(), kernels, code,
             embedded);
}

}  // namespace toroid::codegen
