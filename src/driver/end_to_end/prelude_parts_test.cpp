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

}  // namespace
}  // namespace toroid
