// Which products a GPU's tensor cores make by a kernel of the program's own, with what follows, and why others are the library's.
#include "schedule/cuda/products/product_tiles.h"

#include <gtest/gtest.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct ProductCase {
  const char* name;
  const char* steps;   // "own": a call with tiles; "library": one without
  const char* reason;  // of the first product that is not the program's own
  const char* graph;
};
void PrintTo(const ProductCase& row, std::ostream* out) { *out << row.name; }

const ProductCase kProducts[] = {
    {"linear_with_gelu", "own+kernel", "", R"(
graph(x: bf16[512, 1024], w: bf16[768, 1024], b: bf16[768]) {
  y: bf16[512, 768] = aten::linear(x, w, b)
  z: bf16[512, 768] = aten::gelu(y)
  return z
})"},
    {"a_product_alone", "own", "", R"(
graph(x: f16[512, 1024], w: f16[1024, 768]) {
  y: f16[512, 768] = aten::mm(x, w)
  return y
})"},
    {"any_number_of_rows", "own+kernel", "", R"(
sym s0 in [1, 4096] hint 512
graph(x: bf16[s0, 1024], w: bf16[768, 1024], b: bf16[768]) {
  y: bf16[s0, 768] = aten::linear(x, w, b)
  return y
})"},
    {"columns_in_several_dims", "own+kernel", "", R"(
graph(x: bf16[2, 256, 1024], w: bf16[768, 1024], b: bf16[768]) {
  y: bf16[2, 256, 768] = aten::linear(x, w, b)
  v: bf16[2, 256, 3, 4, 64] = aten::view(y, [2, 256, 3, 4, 64])
  z: bf16[2, 256, 3, 4, 64] = aten::relu(v)
  return z
})"},
    {"a_reduction_stays_behind", "own kernel", "", R"(
graph(x: bf16[512, 1024], w: bf16[1024, 768]) {
  y: bf16[512, 768] = aten::mm(x, w)
  z: bf16[512, 768] = aten::softmax.int(y, -1)
  return z
})"},
    {"floats_of_32_bits", "library kernel", "tensor cores multiply 16-bit floats and int8 only", R"(
graph(x: f32[512, 1024], w: f32[1024, 768]) {
  y: f32[512, 768] = aten::mm(x, w)
  z: f32[512, 768] = aten::relu(y)
  return z
})"},
    {"rows_that_begin_anywhere", "library kernel", "the product's rows do not begin at multiples of 16 bytes", R"(
graph(x: bf16[512, 1001], w: bf16[1001, 768]) {
  y: bf16[512, 768] = aten::mm(x, w)
  z: bf16[512, 768] = aten::relu(y)
  return z
})"},
    {"any_depth", "library kernel", "the product's rows do not begin at multiples of 16 bytes", R"(
sym s0 in [1, 4096]
graph(x: bf16[512, s0], w: bf16[768, s0]) {
  t: bf16[s0, 768] = aten::t(w)
  y: bf16[512, 768] = aten::mm(x, t)
  z: bf16[512, 768] = aten::relu(y)
  return z
})"},
};

class Products : public testing::TestWithParam<ProductCase> {};
TEST_P(Products, AreMadeInTilesOrByTheLibrary) {
  const Scheduled made = scheduled(GetParam().graph, cuda_planner(TensorCores::Hopper));
  std::string steps, reason;
  for (const Step& step : made.schedule.steps) {
    steps += steps.empty() ? "" : " ";
    const auto* call = std::get_if<CallStep>(&step);
    steps += call == nullptr ? "kernel" : call->gpu ? "own" : "library";
    if (call == nullptr) continue;
    if (call->epilogue) steps += "+kernel";
    const ProductAttempt attempt = as_product_of_tiles(*made.schedule.loops, call->call, call->outputs);
    EXPECT_TRUE(attempt.shape.has_value() || !call->gpu);
    if (reason.empty()) reason = attempt.reason;
  }
  EXPECT_EQ(steps, GetParam().steps);
  EXPECT_EQ(reason, GetParam().reason);
}
INSTANTIATE_TEST_SUITE_P(Rows, Products, testing::ValuesIn(kProducts), [](const auto& row) { return row.param.name; });

TEST(ProductsWithoutTensorCores, AreTheLibrarys) {
  for (const Step& step : scheduled(kProducts[0].graph, cuda_planner()).schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    EXPECT_FALSE(call != nullptr && (call->gpu || call->epilogue));
  }
}

// A batch's matrices lie one after the other in one dim, however many dims the model has of them.
TEST(ProductShapes, MergeBatchesThatHaveOneStride) {
  const Scheduled made = scheduled(R"(
graph(x: bf16[4, 6, 64, 32], y: bf16[4, 6, 32, 64], z: bf16[32, 8]) {
  a: bf16[4, 6, 64, 64] = aten::matmul(x, y)
  p: bf16[4, 64, 6, 32] = aten::permute(x, [0, 2, 1, 3])
  b: bf16[4, 64, 6, 8] = aten::matmul(p, z)
  return a, b
})",
                                   cuda_planner(TensorCores::Hopper));
  const auto& call = std::get<CallStep>(made.schedule.steps[0]);
  const ProductAttempt attempt = as_product_of_tiles(*made.schedule.loops, call.call, call.outputs);
  ASSERT_TRUE(attempt.shape.has_value());
  EXPECT_TRUE(attempt.shape->batches.is_const(24));
  EXPECT_TRUE(attempt.shape->inner_batches.is_const(24));
  EXPECT_TRUE(attempt.shape->a.inner_stride.is_const(64 * 32));
  EXPECT_TRUE(attempt.shape->a.outer_stride.is_const(0));
}

// Some 64 rows of a deep product with few columns: small tiles, of which more multiprocessors have one.
TEST(Tiles, OfSome64RowsAreSmall) {
  const auto tiles_of = [](int64_t rows, int64_t columns, int64_t depth) {
    ProductShape shape{.rows = rows, .columns = columns, .depth = depth};
    shape.b.transposed = true;
    const std::optional<GpuTiles> tiles = choose_tiles(shape, std::nullopt);
    return tiles ? fmt::format("{}x{}", tiles->rows, tiles->columns) : "library";
  };
  EXPECT_EQ(tiles_of(64, 4096, 14336), "64x64");
  EXPECT_EQ(tiles_of(64, 14336, 4096), "64x128");  // more tiles than multiprocessors
  EXPECT_NE(tiles_of(128, 4096, 14336), "64x64");
  EXPECT_NE(tiles_of(24, 4096, 14336), "64x64");
}

// The gradient of a layer's weights has few deep tiles: blocks have equal shares of their depth, where whole tiles leave many idle.
TEST(Tiles, OfFewDeepOnesAreShared) {
  const Scheduled made = scheduled(R"(
graph(g: bf16[8192, 3072], x: bf16[8192, 768]) {
  t: bf16[3072, 8192] = aten::t(g)
  w: bf16[3072, 768] = aten::mm(t, x)
  return w
})",
                                   cuda_planner(TensorCores::Hopper));
  const auto& call = std::get<CallStep>(made.schedule.steps[0]);
  ASSERT_TRUE(call.gpu.has_value());
  EXPECT_EQ(call.gpu->shares * call.gpu->cluster, 132);
  EXPECT_LE(shared_bytes_of(*call.gpu), kMostSharedBytes);
}

TEST(Tiles, FitAMultiprocessorsSharedMemory) {
  const Scheduled made = scheduled(kProducts[1].graph, cuda_planner(TensorCores::Hopper));
  const auto& call = std::get<CallStep>(made.schedule.steps[0]);
  EXPECT_LE(shared_bytes_of(*call.gpu), kMostSharedBytes);
}

TEST(ProductTiles, MapsOf8BitFloatsHaveStridesInPiecesOf16Bytes) {
  ProductShape shape{.rows = 200, .columns = 272, .depth = 144};
  shape.a.stride = 144;
  shape.b.transposed = true;
  shape.b.stride = 144;
  shape.factors = Factors::Floats8;
  const std::optional<GpuTiles> tiles = choose_tiles(shape, std::nullopt);
  ASSERT_TRUE(tiles.has_value());
  EXPECT_LE(shared_bytes_of(*tiles), kMostSharedBytes);
  for (const TensorMap& map : tensor_maps(shape, *tiles, has_permuted_columns(shape, *tiles, std::nullopt))) {
    EXPECT_EQ(map.box[0], 128) << "a line of shared memory";
    for (size_t d = 1; d < map.strides.size(); ++d) EXPECT_TRUE(sym::known_divisible(map.strides[d], 16)) << d;
  }
}

TEST(ProductTiles, PermuteContiguousColumnsOfOneMatrix) {
  ProductShape shape{.rows = 8192, .columns = 4096, .depth = 1024};
  shape.a.stride = 1024;
  shape.b = {.buffer = {}, .transposed = true, .stride = 1024};
  const GpuTiles tiles{.rows = 128, .columns = 192, .ping_pong = true};
  EXPECT_TRUE(has_permuted_columns(shape, tiles, std::nullopt));
  const GpuTiles low{.rows = 64, .columns = 256, .ping_pong = true};
  EXPECT_TRUE(has_permuted_columns(shape, low, std::nullopt));
  EXPECT_FALSE(has_permuted_columns(shape, low, EpilogueWork{.operations = 20})) << "few rows for what it loads of columns";
  // Row 48 j + 2 q + e in shared memory is column 8 q + 2 j + e: a thread's registers have 2 of each 8 rows.
  const TensorMap map = tensor_maps(shape, tiles, true)[1];
  EXPECT_EQ(map.box, (std::array{64, 2, 24, 4}));
  EXPECT_EQ(map.strides, (std::array<sym::Expr, 4>{1, 1024, 8192, 2048}));
  EXPECT_EQ(map.sizes, (std::array<sym::Expr, 4>{1024, 2, 512, 4}));

  EXPECT_TRUE(has_permuted_columns(shape, tiles, EpilogueWork{.operations = 20}));
  EXPECT_FALSE(has_permuted_columns(shape, tiles, EpilogueWork{.operations = 100})) << "its text would be there twenty times";
  const auto with = [&](auto change) {
    ProductShape changed = shape;
    change(changed);
    return has_permuted_columns(changed, tiles, std::nullopt);
  };
  EXPECT_FALSE(with([](ProductShape& s) { s.rows = 8200; }));
  EXPECT_FALSE(with([](ProductShape& s) { s.columns = 4104; }));
  EXPECT_FALSE(with([](ProductShape& s) { s.b.transposed = false; }));
  EXPECT_FALSE(with([](ProductShape& s) { s.b.inner_stride = 4096 * 1024; })) << "a matrix for each batch";
}

TEST(ProductTiles, Of8BitFloatsAreWideForManyRowsAndManyForFew) {
  ProductShape shape{.rows = 8192, .columns = 4096, .depth = 4096};
  shape.b.transposed = true;
  shape.factors = Factors::Floats8;
  EXPECT_EQ(choose_tiles(shape, std::nullopt)->columns, 256);
  shape.rows = 64;
  EXPECT_EQ(choose_tiles(shape, std::nullopt)->columns, 128);
  for (const TilesEstimate& each : estimated_tiles(shape, std::nullopt)) EXPECT_LE(shared_bytes_of(each.tiles), kMostSharedBytes);
}

}  // namespace
}  // namespace toroid::schedule
