#include "support/text_buffer.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace toroid {
namespace {

TEST(TextBuffer, IndentsInsideBlocks) {
  TextBuffer text;
  {
    auto function = text.block("void f() {");
    auto loop = text.block("for (;;) {", "}  // forever");
    text.format("x[{}] = {};", 3, "y");
    text.blank();
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

TEST(TextBuffer, DeferredLinesAreMadeAtTheEndOrNotAtAll) {
  TextBuffer text;
  int uses = 0;
  auto scope = text.indent();
  text.defer([&]() -> std::optional<std::string> {
    if (uses == 0) return std::nullopt;
    return fmt::format("int temporaries[{}];", uses);
  });
  const auto taken_back = text.defer([] { return std::string("taken_back;"); });
  text.write("body;");
  EXPECT_EQ(text.str(), "  taken_back;\n  body;\n");
  uses = 2;
  EXPECT_EQ(text.str(), "  int temporaries[2];\n  taken_back;\n  body;\n");
  text.unwrite(taken_back);
  EXPECT_EQ(text.str(), "  int temporaries[2];\n  body;\n");
}

TEST(TextBuffer, SplicesWithIndentContextsAndDeferredLines) {
  TextBuffer inner;
  bool wanted = false;
  {
    auto from = inner.context("node exp");
    inner.write("exp;");
  }
  inner.defer([&]() -> std::optional<std::string> { return wanted ? std::optional<std::string>("late;") : std::nullopt; });
  TextBuffer outer;
  {
    auto from = outer.context("node add");
    auto block = outer.block("{");
    outer.splice(inner);
  }
  wanted = true;
  const FinishedText finished = outer.finish();
  EXPECT_EQ(finished.text, "{\n  exp;\n  late;\n}\n");
  EXPECT_EQ(finished.lines.context_of(1), "node add");
  EXPECT_EQ(finished.lines.context_of(2), "node exp");
  EXPECT_EQ(finished.lines.context_of(3), "node add");
}

TEST(TextBuffer, LineMapCountsLinesFromOneAndSkipsDroppedOnes) {
  TextBuffer text;
  text.write("// header");
  {
    auto outer = text.context("layer 0");
    text.defer([]() -> std::optional<std::string> { return std::nullopt; });
    text.write("a;\nb;");
    {
      auto inner = text.context("layer 0: relu");
      text.write("c;");
    }
    text.write("d;");
  }
  const LineMap lines = text.finish().lines;
  const std::vector<LineMap::Run> runs = {{1, ""}, {2, "layer 0"}, {4, "layer 0: relu"}, {5, "layer 0"}};
  EXPECT_EQ(lines.runs(), runs);
  EXPECT_EQ(lines.line_count(), 5);
  EXPECT_EQ(lines.context_of(3), "layer 0");
  EXPECT_EQ(lines.context_of(0), "");
  EXPECT_EQ(lines.context_of(6), "");
}

TEST(TextBuffer, DedentsRawText) {
  EXPECT_EQ(dedent(R"(

      if (x)
        y;

      z;   
  )"),
            "if (x)\n  y;\n\nz;\n");
  EXPECT_EQ(dedent(""), "");
  EXPECT_EQ(dedent("  \n \n"), "");
  TextBuffer text;
  auto scope = text.indent();
  text.write_dedented("\n      a;\n        b;\n");
  EXPECT_EQ(text.str(), "  a;\n    b;\n");
}

}  // namespace
}  // namespace toroid
