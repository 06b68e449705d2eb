#include "driver/package/absent_code.h"

#include <gtest/gtest.h>

#include "base/error_for_test.h"
#include "base/machine/machine_for_test.h"

namespace toroid {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kLevels =
    "baseline a toroid::softmax_levels::scale_baseline(float*)\n"
    "avx2 b toroid::softmax_levels::scale_avx2(float*)\n"
    "avx512 c toroid::softmax_levels::scale_avx512(float*)\n"
    "amx d toroid::multiply_tiles(int)\n"
    "emulated-amx e toroid::emulated_tiles::zero(int)\n";

// Of products alone.
Names absent(std::string_view lines, std::vector<codegen::ProductShape> products, std::vector<std::string_view> machines = {"avx512"},
             std::set<std::string> kernels = {"matmul.f32"}) {
  PackageNeeds needs{.code = {}, .linked_kernels = std::move(kernels), .products = std::move(products)};
  for (const std::string_view name : machines) needs.code.push_back(parse_machine(name));
  return absent_code(needs, lines);
}

TEST(AbsentCode, IsThatOfOtherLevels) {
  EXPECT_EQ(absent(kLevels, {}, {"avx512"}), (Names{"a", "b", "d", "e"}));
  EXPECT_EQ(absent(kLevels, {}, {"avx2", "baseline"}), (Names{"c", "d", "e"}));
  EXPECT_EQ(absent(kLevels, {}, {"avx512+amx"}), (Names{"a", "b", "e"}));
  EXPECT_EQ(absent(kLevels, {}, {"avx512+emulated-amx"}), (Names{"a", "b"})) << "it is entered as AMX's is";
}

// AVX-512 has 16 lanes and panels of 4 vectors; other kernels of products and attention take any.
TEST(AbsentCode, IsThatOfPanelsAndRowsThatNoProductHas) {
  constexpr std::string_view kStrips =
      "avx512 whole6 toroid::microkernel_f32_levels::Avx512::multiply<6, 4>(std::span<toroid::Run const>)\n"
      "avx512 whole1 toroid::microkernel_f32_levels::Avx512::multiply<1, 4>(std::span<toroid::Run const>)\n"
      "avx512 narrow6 toroid::microkernel_f32_levels::Avx512::multiply<6, 1>(std::span<toroid::Run const>)\n"
      "avx512 scattered toroid::microkernel_f32_levels::Avx512::multiply_scattered<6, 4>(std::span<long const>)\n"
      "avx512 pairs toroid::microkernel_f32_levels::avx512_pairs<6, 1>(std::span<toroid::Run const>)\n"
      "avx512 store toroid::microkernel_f32_levels::Avx512::store_from_memory(toroid::StripOutputOf<float> const&)\n";
  EXPECT_EQ(absent(kStrips, {{.rows = {}, .columns = 64, .depth = 100}}), (Names{"narrow6", "scattered", "pairs"}));
  EXPECT_EQ(absent(kStrips, {{.rows = 5, .columns = 64, .depth = 100}}), (Names{"whole6", "narrow6", "scattered", "pairs"}));
  EXPECT_EQ(absent(kStrips, {{.rows = {}, .columns = 10, .depth = 100}}), (Names{"whole6", "whole1", "scattered", "pairs"}));
  EXPECT_EQ(absent(kStrips, {{.rows = {}, .columns = 64, .depth = 4}}), (Names{"narrow6", "pairs"}));
  EXPECT_EQ(absent(kStrips, {{.rows = {}, .columns = {}, .depth = 100}}), (Names{"scattered", "pairs"}));
  EXPECT_EQ(absent(kStrips, {{.rows = 1, .columns = 64, .depth = 9}, {.rows = {}, .columns = 10, .depth = 9}}),
            (Names{"whole6", "scattered", "pairs"}));
  EXPECT_EQ(absent(kStrips, {}, {"avx512"}, {"convolution.f32"}), Names{});
  EXPECT_EQ(absent(kStrips, {{.rows = {}, .columns = 64, .depth = 100}}, {"avx512+amx"}), (Names{"narrow6", "scattered", "pairs"}))
      << "rows and columns that tiles do not fill go to the same panels";
}

TEST(AbsentCode, IsThatOfMatricesThatLieOtherwise) {
  constexpr std::string_view kFewRows =
      "avx512 rows toroid::small_m_levels::Avx512::sum_rows<2>(long)\n"
      "avx512 columns toroid::small_m_levels::Avx512::dots<2, 4>(long)\n";
  EXPECT_EQ(absent(kFewRows, {{.right_by_rows = false}}), Names{"rows"});
  EXPECT_EQ(absent(kFewRows, {{.right_by_columns = false}}), Names{"columns"});
  EXPECT_EQ(absent(kFewRows, {{.rows = 1}}), (Names{"rows", "columns"}));
}

TEST(AbsentCode, IsThatOfSingleColumnsWhereThereAreFour) {
  constexpr std::string_view kColumns =
      "avx512 single toroid::small_m_levels::Avx512::dots<2, 1>(long)\n"
      "avx512 columns toroid::small_m_levels::Avx512::dots<2, 4>(long)\n";
  EXPECT_EQ(absent(kColumns, {{.columns = 4}}), Names{"single"});
  EXPECT_EQ(absent(kColumns, {{.columns = 3}}), Names{});
  EXPECT_EQ(absent(kColumns, {{.columns = {}}}), Names{});
}

// Strips of one vector have rows in pairs.
TEST(AbsentCode, KeepsThePairThatAnOddRowIsIn) {
  constexpr std::string_view kStrips =
      "avx512 narrow6 toroid::microkernel_f32_levels::Avx512::multiply<6, 1>(std::span<toroid::Run const>)\n"
      "avx512 narrow8 toroid::microkernel_f32_levels::Avx512::multiply<8, 1>(std::span<toroid::Run const>)\n";
  EXPECT_EQ(absent(kStrips, {{.rows = 5, .columns = 10, .depth = 100}}), Names{"narrow8"});
  EXPECT_EQ(absent(kStrips, {{.rows = 4, .columns = 10, .depth = 100}}), (Names{"narrow6", "narrow8"}));
}

TEST(AbsentCode, OfAPortablePackageIsEmulationAlone) {
  const Isa levels[] = {parse_isa("avx512"), parse_isa("avx2"), parse_isa("baseline")};
  const std::vector<Machine> code = code_of_levels(levels, true);
  EXPECT_EQ(linked_code_text(code), "avx512,avx2,baseline,avx512+vnni+bf16+fp16+amx");
  PackageNeeds needs{.code = code, .linked_kernels = {}, .products = {}};
  EXPECT_EQ(absent_code(needs, kLevels), Names{"e"});
}

TEST(AbsentCode, ALineThatIsNoneIsAnError) {
  EXPECT_EQ(error_of([] { absent("avx2", {}); }).kind(), ErrorKind::Internal);
}

TEST(AbsentCode, MachinesUseWhatIsThere) {
  const auto with = [](std::string_view machine, std::string_view linked) { return with_code_of(parse_machine(machine), linked).name(); };
  EXPECT_EQ(with("avx512+vnni+amx", "avx512"), "avx512");
  EXPECT_EQ(with("avx512+vnni+amx", "avx512,avx2,avx512+vnni+bf16+fp16+amx"), "avx512+vnni+amx");
  EXPECT_EQ(with("avx512+bf16", "avx2,baseline"), "avx2");
  EXPECT_EQ(with("avx2", "baseline,avx512"), "baseline");
  EXPECT_EQ(with("avx512+emulated-amx", "avx512"), "avx512");
  EXPECT_EQ(with("avx512+emulated-amx", "avx512+emulated-amx"), "avx512+emulated-amx");
  EXPECT_EQ(with("baseline", "avx2"), "baseline") << "its program is refused, and says what is missing";
}

}  // namespace
}  // namespace toroid
