// toroid compare, and run --expect.
#include "cli/cli_for_test.h"

namespace toroid {
namespace {

class Compare : public Cli {
 protected:
  void write(const std::string& file, const std::vector<std::pair<std::string, std::vector<float>>>& tensors) const {
    std::vector<SafeTensor> list;
    for (const auto& [name, values] : tensors) {
      list.push_back({name, DType::F32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values))});
    }
    write_safetensors(path(file), list);
  }
};

TEST_F(Compare, EqualWithinTheTolerancesOfConform) {
  write("a", {{"x", {1.0f, 200.0f}}, {"y", {0.0f}}});
  write("b", {{"x", {1.001f, 200.0f}}, {"y", {0.000001f}}});  // 1e-4 of 200, and 1e-5
  const Outcome outcome = toroid({"compare", "a", "b"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output,
            "same   x f32[2]: within tolerance; largest difference 0.001, relative 0.000999\n"
            "same   y f32[1]: within tolerance; largest difference 1e-06, relative 1\n"
            "2 tensors, 0 differ\n");
}

TEST_F(Compare, NamesTheWorstElement) {
  write("a", {{"x", {1.0f, 2.5f, 3.1f}}});
  write("b", {{"x", {1.0f, 2.0f, 3.0f}}});
  const Outcome outcome = toroid({"compare", "a", "b"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(
      outcome.output,
      "DIFFER x f32[3]: 2 of 3 elements differ; worst [1] is 2.5, expected 2 (allowed 0.00031); largest difference 0.5, relative 0.25\n"
      "1 tensors, 1 differ\n");
  const nlohmann::json json = nlohmann::json::parse(toroid({"compare", "a", "b", "--json"}).output);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["tensors"][0]["differing"], 2);
  EXPECT_EQ(json["tensors"][0]["worst"]["element"], 1);
}

TEST_F(Compare, TakesTolerancesElementByElement) {
  write("a", {{"x", {1.0f, 100.0f}}});
  write("b", {{"x", {1.01f, 100.0f}}});
  EXPECT_EQ(toroid({"compare", "a", "b", "--rtol", "0.02"}).exit_code, 0);
  EXPECT_EQ(toroid({"compare", "a", "b", "--rtol", "0.001"}).exit_code, 1) << "not relative to the 100 beside it";
  EXPECT_EQ(toroid({"compare", "a", "b", "--atol", "0.02"}).exit_code, 0);
}

TEST_F(Compare, NaNsInfinitiesAndWhatIsMissingDiffer) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  write("a", {{"same", {nan, infinity}}, {"nan", {nan}}, {"extra", {1}}});
  write("b", {{"same", {nan, infinity}}, {"nan", {1}}, {"gone", {1}}});
  const Outcome outcome = toroid({"compare", "a", "b"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output,
            "same   same f32[2]: within tolerance; largest difference 0, relative 0\n"
            "DIFFER nan f32[1]: 1 of 1 elements differ; worst [0] is nan, expected 1 (allowed 0.00011); largest difference 0, relative 0\n"
            "DIFFER gone is missing; there are: same, nan, extra\n"
            "       extra is not compared: nothing is expected of it\n"
            "3 tensors, 2 differ\n");
  write("c", {{"other", {1}}});
  expect_refusal({"compare", "a", "c"},
                 "error: no tensor can be compared: there are same, nan, extra, and expected are other\n"
                 "  help: name the tensors alike in both files\n");
}

TEST_F(Compare, ARunIsComparedWithWhatIsExpected) {
  ASSERT_EQ(toroid(run_on_input_of("one.safetensors")).exit_code, 0);
  std::vector<std::string> again = run_on_input_of("one.safetensors");
  again.insert(again.end(), {"--expect", "out.safetensors"});
  const Outcome same = toroid(again);
  EXPECT_EQ(same.exit_code, 0) << same.errors;
  EXPECT_TRUE(has_match(same.output, "^same   out0 f32\\[1, 10\\]: .*\n1 tensors, 0 differ\n$")) << same.output;
  write("wrong", {{"out0", {1, 2}}});
  const Outcome wrong =
      toroid({"run", (kDigits / "digits.pt2").string(), "--inputs", (kDigits / "one.safetensors").string(), "--expect", "wrong"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_EQ(wrong.output, "DIFFER out0 is f32[1, 10], expected f32[2]\n1 tensors, 1 differ\n") << wrong.errors;
  expect_refusal({"run", (kDigits / "digits.pt2").string(), "--inputs", (kDigits / "one.safetensors").string()},
                 "error: one of --outputs and --expect is needed, or both\n"
                 "  help: add --outputs OUT.safetensors to keep the results, --expect FILE to compare them\n");
}

}  // namespace
}  // namespace toroid
