#include "support/text/text_buffer.h"

#include <gtest/gtest.h>

namespace toroid {
namespace {

TEST(TextBuffer, IndentsInsideBlocks) {
  TextBuffer text;
  {
    auto function = text.block("void f() {");
    auto loop = text.block("for (;;) {", "}  // forever");
    text.write("x[3] = y;");
    text.write("");
    text.write("a;\nb;");
  }
  EXPECT_EQ(text.str(),
            "void f() {\n"
            "  for (;;) {\n"
            "    x[3] = y;\n"
            "\n"
            "    a;\n"
            "    b;\n"
            "  }  // forever\n"
            "}\n");
}

TEST(TextBuffer, SplicesWithItsOwnIndent) {
  TextBuffer inner;
  {
    auto block = inner.block("if (x) {");
    inner.write("y;  ");
  }
  TextBuffer outer;
  {
    auto block = outer.block("{");
    outer.splice(inner);
    outer.write("z;");
  }
  EXPECT_EQ(outer.str(), "{\n  if (x) {\n    y;\n  }\n  z;\n}\n");
}

}  // namespace
}  // namespace toroid
