// Each name of the preludes compiles with the parts that it brings, and nothing else: in one file, each in a namespace.
#include <gtest/gtest.h>

#include "codegen/wrapper/generate.h"
#include "driver/end_to_end/compiled_for_test.h"

namespace toroid {
namespace {

std::string replaced(std::string text, std::string_view from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  return text;
}

TEST(PreludeParts, EachNameOfThePreludeCompilesWithItsParts) {
  for (const bool assertions : {false, true}) {
    const codegen::PreludeParts& prelude = *codegen::prelude_for(assertions);
    std::string text;
    int count = 0;
    for (const std::string_view name : prelude.names()) {
      // Of what has C's linkage there is one of a name in a file.
      const std::string own = replaced(prelude.used_by(name), "toroid_bad_index", fmt::format("bad_index_{}", count));
      text += fmt::format("namespace of_{} {{\n{}\n}}\n", count++, own);
    }
    EXPECT_GT(count, 300);
    EXPECT_NO_THROW(Toolchain().compile_object(text, {.name = "preludes", .optimization = 0}));
  }
}

// What says so is named nowhere else in the text.
TEST(PreludeParts, EmulatedProgramsReadHeadersOfCAlone) {
  const codegen::GeneratedProgram code =
      generate_code(parse_text("graph(x: f32[4]) { y: f32[4] = aten::exp(x) return y }"), {.target = codegen::Target::EmulatedCuda});
  const std::string prelude = code.unit_prelude->used_by(code.units[0]);
  const size_t option = prelude.find("#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS"), header = prelude.find("#include <math.h>");
  EXPECT_LT(option, header) << prelude;
  EXPECT_NE(header, std::string::npos) << prelude;
}

}  // namespace
}  // namespace toroid
