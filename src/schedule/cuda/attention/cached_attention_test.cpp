// Which attention writes the row of its cache itself, and makes its queries.
#include "schedule/cuda/attention/cached_attention.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "schedule/planner.h"
#include "schedule/scheduled_for_test.h"

namespace toroid::schedule {
namespace {

struct CacheCase {
  const char* name;
  const char* graph;
  const char* steps;
};
void PrintTo(const CacheCase& row, std::ostream* out) { *out << row.name; }

const CacheCase kCaches[] = {
    {"queries_are_made", R"(
buffer 0 "keys": bf16[1, 2, 512, 64] = external
buffer 1 "values": bf16[1, 2, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], n: bf16[1, 2, 1, 64], p: i64[1]) {
  k: bf16[1, 2, 512, 64] = constant(0)
  v: bf16[1, 2, 512, 64] = constant(1)
  q: bf16[1, 8, 1, 64] = aten::mul.Tensor(x, 4.0)
  m: bf16[1, 2, 1, 64] = aten::mul.Tensor(n, 8.0)
  l: bf16[1, 2, 512, 64] = aten::index_copy(k, 2, p, m)
  w: bf16[1, 2, 512, 64] = aten::index_copy(v, 2, p, n)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, l, w, enable_gqa=True)
  return y, l -> buffer "keys", w -> buffer "values"
})",
     "attention with 2 updates and a prologue of 8 by 16"},
    // Heads beside each other in each row, two batches; a tile of queries has sixteen of the 24 that share keys.
    {"queries_are_given", R"(
buffer 0 "keys": f16[2, 512, 2, 128] = external
buffer 1 "values": f16[2, 512, 2, 128] = external
graph(x: f16[2, 48, 1, 128], n: f16[2, 1, 2, 128], p: i64[3]) {
  k: f16[2, 512, 2, 128] = constant(0)
  v: f16[2, 512, 2, 128] = constant(1)
  i: i64[1] = aten::slice.Tensor(p, 0, 1, 2)
  m: f16[2, 1, 2, 128] = aten::mul.Tensor(n, 8.0)
  l: f16[2, 512, 2, 128] = aten::index_copy(k, 1, i, m)
  w: f16[2, 512, 2, 128] = aten::index_copy(v, 1, i, n)
  a: f16[2, 2, 512, 128] = aten::transpose.int(l, 1, 2)
  b: f16[2, 2, 512, 128] = aten::transpose.int(w, 1, 2)
  y: f16[2, 48, 1, 128] = aten::scaled_dot_product_attention(x, a, b, enable_gqa=True)
  return y, l -> buffer "keys", w -> buffer "values"
})",
     "attention with 2 updates of 16 by 16"},
    {"the_rows_of_keys_and_values_differ", R"(
buffer 0 "keys": bf16[1, 2, 512, 64] = external
buffer 1 "values": bf16[1, 2, 512, 64] = external
graph(q: bf16[1, 8, 1, 64], n: bf16[1, 2, 1, 64], p: i64[1], o: i64[1]) {
  k: bf16[1, 2, 512, 64] = constant(0)
  v: bf16[1, 2, 512, 64] = constant(1)
  l: bf16[1, 2, 512, 64] = aten::index_copy(k, 2, p, n)
  w: bf16[1, 2, 512, 64] = aten::index_copy(v, 2, o, n)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, l, w, enable_gqa=True)
  return y, l -> buffer "keys", w -> buffer "values"
})",
     "other, attention"},
    {"the_caller_gets_the_queries", R"(
buffer 0 "keys": bf16[1, 2, 512, 64] = external
buffer 1 "values": bf16[1, 2, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], n: bf16[1, 2, 1, 64], p: i64[1]) {
  k: bf16[1, 2, 512, 64] = constant(0)
  v: bf16[1, 2, 512, 64] = constant(1)
  q: bf16[1, 8, 1, 64] = aten::mul.Tensor(x, 4.0)
  l: bf16[1, 2, 512, 64] = aten::index_copy(k, 2, p, n)
  w: bf16[1, 2, 512, 64] = aten::index_copy(v, 2, p, n)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, l, w, enable_gqa=True)
  return y, q, l -> buffer "keys", w -> buffer "values"
})",
     "other, attention"},
    {"queries_are_sums", R"(
buffer 0 "keys": bf16[1, 2, 512, 64] = external
buffer 1 "values": bf16[1, 2, 512, 64] = external
graph(x: bf16[1, 8, 1, 64], n: bf16[1, 2, 1, 64], p: i64[1]) {
  k: bf16[1, 2, 512, 64] = constant(0)
  v: bf16[1, 2, 512, 64] = constant(1)
  q: bf16[1, 8, 1, 64] = aten::softmax.int(x, 3)
  l: bf16[1, 2, 512, 64] = aten::index_copy(k, 2, p, n)
  w: bf16[1, 2, 512, 64] = aten::index_copy(v, 2, p, n)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, l, w, enable_gqa=True)
  return y, l -> buffer "keys", w -> buffer "values"
})",
     "other, attention"},
    // What the queries are needs the row of keys.
    {"queries_are_of_the_new_keys", R"(
buffer 0 "keys": bf16[1, 2, 512, 64] = external
buffer 1 "values": bf16[1, 2, 512, 64] = external
graph(x: bf16[1, 2, 1, 64], n: bf16[1, 2, 1, 64], p: i64[1]) {
  k: bf16[1, 2, 512, 64] = constant(0)
  v: bf16[1, 2, 512, 64] = constant(1)
  l: bf16[1, 2, 512, 64] = aten::index_copy(k, 2, p, n)
  w: bf16[1, 2, 512, 64] = aten::index_copy(v, 2, p, n)
  f: bf16[1, 2, 1, 64] = aten::slice.Tensor(l, 2, 7, 8)
  q: bf16[1, 2, 1, 64] = aten::mul.Tensor(x, f)
  y: bf16[1, 2, 1, 64] = aten::scaled_dot_product_attention(q, l, w)
  return y, l -> buffer "keys", w -> buffer "values"
})",
     "other, other, attention"},
    // The cache is no state: its new value lies elsewhere.
    {"the_cache_is_copied", R"(
graph(q: bf16[1, 8, 1, 64], k: bf16[1, 2, 512, 64], v: bf16[1, 2, 512, 64], n: bf16[1, 2, 1, 64], p: i64[1]) {
  l: bf16[1, 2, 512, 64] = aten::index_copy(k, 2, p, n)
  w: bf16[1, 2, 512, 64] = aten::index_copy(v, 2, p, n)
  y: bf16[1, 8, 1, 64] = aten::scaled_dot_product_attention(q, l, w, enable_gqa=True)
  return y, l, w
})",
     "other, attention"},
};

class CachedAttentions : public testing::TestWithParam<CacheCase> {};
TEST_P(CachedAttentions, WriteTheirRows) {
  const Scheduled made = scheduled(GetParam().graph, cuda_planner(TensorCores::Hopper));
  std::string text;
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    text += text.empty() ? "" : ", ";
    if (call == nullptr) {
      text += "other";
      continue;
    }
    text += "attention";
    if (!call->updates.empty()) text += fmt::format(" with {} updates", call->updates.size());
    if (call->prologue) text += " and a prologue";
    if (call->gpu) text += fmt::format(" of {} by {}", call->gpu->rows, call->gpu->columns);
  }
  EXPECT_EQ(text, GetParam().steps);
}
INSTANTIATE_TEST_SUITE_P(Rows, CachedAttentions, testing::ValuesIn(kCaches), [](const auto& row) { return row.param.name; });

TEST(CachedAttentions, OtherGpusHaveNone) {
  const Scheduled made = scheduled(kCaches[0].graph, cuda_planner(TensorCores::Warps));
  for (const Step& step : made.schedule.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    EXPECT_TRUE(call == nullptr || call->updates.empty());
  }
}

}  // namespace
}  // namespace toroid::schedule
