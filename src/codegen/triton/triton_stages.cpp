#include "codegen/triton/triton_stages.h"

#include <algorithm>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "codegen/triton/triton_scalar.h"
#include "support/match.h"

namespace toroid::codegen {
namespace {

using schedule::Stage;

constexpr std::string_view kNoPlace = "9223372036854775807";
constexpr int64_t kChunk = 8;  // elements whose sum is a float, before sums are added in double

}  // namespace

void TritonStages::once_stage(const Stage& stage) {
  for (const schedule::Statement& statement : stage.statements) {
    match(
        statement, [&](const schedule::Store& s) { store(s, false); },
        [&](const schedule::Accumulate& s) {  // of one element
          if (gives_place(kernel_, s)) {
            const std::string place = fmt::format("({} + row * 0).to(tl.int64)", body_.printed(s.position));
            body_.set_accumulated(s.accumulator, body_.named("acc", place), DType::I64);
          } else {
            body_.set_accumulated(s.accumulator, body_.named("acc", body_.value(s.value)), exprs_.dtype(s.value));
          }
        },
        [&](const schedule::Keep& s) { body_.set_stashed(s.stash, body_.value(s.value)); });
  }
}

void TritonStages::row_stage(const Stage& stage) {
  if (tile_.is_looped) return looped_stage(stage);
  // One that may be left out changes nothing where it is not: what it computes is there already.
  const bool is_left_out = stage.condition && tile_.row_count == 1 && std::ranges::all_of(stage.statements, [&](const auto& each) {
                             const auto* s = std::get_if<schedule::Accumulate>(&each);
                             return s != nullptr && !gives_place(kernel_, *s);
                           });
  if (is_left_out) return stage_where(stage);
  for (const schedule::Statement& statement : stage.statements) {
    match(
        statement, [&](const schedule::Store& s) { store(s, true); },
        [&](const schedule::Accumulate& s) {
          const std::string element = element_of(s);
          reduce(s, element, gives_place(kernel_, s) ? place_of(s) : "");
        },
        [&](const schedule::Keep& s) { body_.set_stashed(s.stash, body_.value(s.value)); });
  }
}

void TritonStages::stage_where(const Stage& stage) {
  const std::string condition = body_.named("condition", fmt::format("tl.max({}.to(tl.int32))", body_.value(*stage.condition)));
  std::vector<std::string> names;
  for (const schedule::Statement& statement : stage.statements) {
    const auto& s = std::get<schedule::Accumulate>(statement);
    const auto& [op, dtype] = type_of(s);
    const DType of_sum = dtype_of_sum(s);
    names.push_back(body_.named("acc", fmt::format("tl.full([1, 1], {}, {})", triton_identity(op, dtype), triton_type(of_sum))));
  }
  body_.open_block(fmt::format("if {} != 0:", condition));
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& s = std::get<schedule::Accumulate>(stage.statements[i]);
    body_.line(fmt::format("{} = {}", names[i], reduced(s, element_of(s))));
  }
  body_.close_block();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& s = std::get<schedule::Accumulate>(stage.statements[i]);
    body_.set_accumulated(s.accumulator, names[i], dtype_of_sum(s));
  }
}

void TritonStages::looped_stage(const Stage& stage) {
  if (stage.condition) throw NotInTriton("a stage that may be left out and reads its row again");
  std::vector<std::string> partial(stage.statements.size()), places(stage.statements.size());
  for (size_t i = 0; i < stage.statements.size(); ++i) {
    const auto* s = std::get_if<schedule::Accumulate>(&stage.statements[i]);
    if (s == nullptr) continue;
    const auto& [op, dtype] = type_of(*s);
    partial[i] = body_.named(
        "lanes", fmt::format("tl.full([{}, {}], {}, {})", tile_.row_count, tile_.width, triton_identity(op, dtype), triton_type(dtype)));
    if (gives_place(kernel_, *s))
      places[i] = body_.named("places", fmt::format("tl.full([{}, {}], {}, tl.int64)", tile_.row_count, tile_.width, kNoPlace));
  }
  body_.open_block(fmt::format("for first in range(0, {}, {}):", body_.printed(tile_.length), tile_.width));
  body_.open_elements("first");
  for (size_t i = 0; i < stage.statements.size(); ++i) {
    match(
        stage.statements[i], [&](const schedule::Store& s) { store(s, true); },
        [&](const schedule::Accumulate& s) {
          const auto& [op, dtype] = type_of(s);
          const std::string element = element_of(s);
          if (gives_place(kernel_, s)) {
            const std::string at = place_of(s);
            body_.line(fmt::format("{0}, {1} = {2}({0}, {1}, {3}, {4})", partial[i], places[i], triton_better(op), element, at));
          } else {
            body_.line(fmt::format("{} = {}", partial[i], triton_combine(op, dtype, partial[i], element)));
          }
        },
        [&](const schedule::Keep&) { throw NotInTriton("a row that is kept and does not fit a tile"); });
  }
  body_.close_block();
  for (size_t i = 0; i < stage.statements.size(); ++i) {
    const auto* s = std::get_if<schedule::Accumulate>(&stage.statements[i]);
    if (s == nullptr) continue;
    reduce(*s, partial[i], places[i]);
  }
}

void TritonStages::reduce(const schedule::Accumulate& s, const std::string& tile, const std::string& places) {
  if (!places.empty()) {
    const std::string best =
        body_.named("best", fmt::format("tl.reduce(({}, {}), 1, {}, keep_dims=True)", tile, places, triton_better(type_of(s).first)));
    body_.set_accumulated(s.accumulator, best + "[1]", DType::I64);
    return;
  }
  body_.set_accumulated(s.accumulator, body_.named("acc", reduced(s, tile)), dtype_of_sum(s));
}

std::string TritonStages::element_of(const schedule::Accumulate& s) {
  const auto& [op, dtype] = type_of(s);
  const std::string wide = dtype == exprs_.dtype(s.value) ? "" : fmt::format(".to({})", triton_type(dtype));
  return body_.whole(body_.named("each", body_.element_or(body_.value(s.value) + wide, triton_identity(op, dtype))), dtype);
}

std::string TritonStages::reduced(const schedule::Accumulate& s, const std::string& tile) const {
  const auto& [op, dtype] = type_of(s);
  const DType of_sum = dtype_of_sum(s);
  if (of_sum == dtype) return triton_reduce(op, of_sum, tile);
  const bool in_chunks = op == ReduceOp::Sum && !kernel_.gpu->columns && tile_.width >= kChunk;
  return triton_reduce(
      op, of_sum,
      (in_chunks ? fmt::format("tl.sum(tl.reshape({}, [{}, {}, {}]), axis=2)", tile, tile_.row_count, tile_.width / kChunk, kChunk)
                 : tile) +
          ".to(tl.float64)");
}

std::string TritonStages::place_of(const schedule::Accumulate& s) {
  const std::string at = body_.element_or(fmt::format("({} + element * 0).to(tl.int64)", body_.printed(s.position)), std::string(kNoPlace));
  return body_.whole(body_.named("at", at), DType::I64);
}

DType TritonStages::dtype_of_sum(const schedule::Accumulate& s) const {
  const DType dtype = type_of(s).second;
  const bool is_finest = kernel_.accumulators[static_cast<size_t>(s.accumulator)].care == loop::SumCare::Finest;
  return is_finest && dtype == DType::F32 ? DType::F64 : dtype;
}

std::pair<ReduceOp, DType> TritonStages::type_of(const schedule::Accumulate& s) const {
  const auto& accumulator = kernel_.accumulators[static_cast<size_t>(s.accumulator)];
  const DType dtype = exprs_.dtype(s.value);
  return {accumulator.op, gives_place(kernel_, s) && size_bytes(dtype) < 4 ? DType::I32 : dtype};
}

}  // namespace toroid::codegen
