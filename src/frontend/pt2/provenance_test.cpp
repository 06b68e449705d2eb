#include "frontend/pt2/provenance.h"

#include <gtest/gtest.h>

namespace toroid::pt2 {
namespace {

TEST(Provenance, TakesTheInnermostFrameOfTheUser) {
  EXPECT_EQ(source_of("File \"/home/me/train.py\", line 60, in forward\n    return self.m(x)\n"
                      "  File \"/venv/lib/python3.12/site-packages/transformers/models/bert.py\", line 350, in forward\n"
                      "    h = self.dropout(h)\n"
                      "  File \"/venv/lib/python3.12/site-packages/torch/nn/modules/dropout.py\", line 73, in forward\n"
                      "    return F.dropout(input, self.p)"),
            "transformers/models/bert.py:350, in forward: h = self.dropout(h)");
  EXPECT_EQ(source_of("File \"net.py\", line 3, in f\n    cond(x)\n  File \"<eval_with_key>.8\", line 13, in forward\n    y"),
            "net.py:3, in f: cond(x)");
  EXPECT_EQ(source_of(""), "");
  EXPECT_EQ(source_of("File \"<string>\", line 1, in f"), "");
  EXPECT_EQ(source_of("File \"a.py\", line 1"), "a.py:1");
  EXPECT_EQ(source_of("File \"a.py"), "");
}

TEST(Provenance, ShortensCodeAndDropsControlCharacters) {
  EXPECT_EQ(source_of("File \"a.py\", line 1, in f\n  x\x1b[31m = 1"), "a.py:1, in f: x [31m = 1");
  const std::string code(159, 'x');
  const std::string text = source_of("File \"a.py\", line 1, in f\n  " + code + "\xc3\xa9 and more");
  EXPECT_EQ(text, "a.py:1, in f: " + code + "…") << "characters are not split";
}

TEST(Provenance, NamesTheInnermostModule) {
  EXPECT_EQ(module_of("L__self__,,model.Net"), "Net");
  EXPECT_EQ(module_of("L__self__,,model.Net;L__self___a,encoder.layer.0,bert.BertLayer"), "encoder.layer.0 (BertLayer)");
  EXPECT_EQ(module_of(""), "");
  EXPECT_EQ(module_of("no commas"), "");
  EXPECT_EQ(module_of("one, comma"), "");
}

}  // namespace
}  // namespace toroid::pt2
