// Imports what torch.export.save writes: a `.pt2` archive becomes a Program at import level.
//
// Each call in the exported graph becomes an Aten node with its arguments in schema order; symbolic integers
// disappear into expressions:
//
//   sym_size_int = torch.ops.aten.sym_size.int(x, 0)          (no node: its value is s0, the size in x's type)
//   view = torch.ops.aten.view(x, [sym_size_int, 12])    =>   view: f32[s0, 12] = aten::view(x, [s0, 12])
//
// Parameters, buffers and constants become Constant nodes whose bytes are ranges of the mapped file. cond, while_loop
// and their kin keep their bodies as subgraphs; regions that only switch gradients off are dissolved. Names, modules
// and source lines of the model are kept as provenance.
//
// Nothing is executed, and no pickle is read.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontend/operator_report.h"
#include "graph/graph.h"

namespace toroid {

struct Pt2Options {
  // Says whether the compiler can compile an operator. Operators that it cannot, and those that are not PyTorch's
  // own, are reported in one error. Empty: every operator of PyTorch is taken.
  std::function<bool(const Schema& schema)> is_supported;
  // Where operators are looked for that PyTorch does not have; those that are found are supported. Null: nowhere.
  std::shared_ptr<CustomOperators> operators = {};
};

Program import_pt2(const std::filesystem::path& path, const Pt2Options& options = {});
// From memory: `owner` keeps `bytes` alive, `file` names the model in errors.
Program import_pt2(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& file,
                   const Pt2Options& options = {});

// Every operator that the model uses, its subgraphs included, in order of first use. Needs no support for any of them.
std::vector<OperatorUse> pt2_operators(const std::filesystem::path& path);

}  // namespace toroid
