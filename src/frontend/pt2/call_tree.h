// How a model is called in Python: the trees of its arguments and results, which torch.export keeps as `in_spec` and `out_spec` of the
// outermost call. toroid's own calls are flat; its Python package makes trees of them again (python/toroid/_tree.py).
#pragma once

#include <string>

#include "frontend/json_reader.h"

namespace toroid::pt2 {

// One line of JSON, "" where the file has no trees:
//
//   {"in_spec": S, "out_spec": S,      the file's own texts
//    "names": ["image", "mask"],       of the arguments of forward()
//    "namedtuples": {...},             the fields of each
//    "inputs": [0, {"as_int": 3}, 1],  a leaf of in_spec each: the number of the program's input, or the constant that it was exported with
//    "outputs": [0, null, {"number": 1}]}   a leaf of out_spec each: the number among the results and the loss; null: None; an int, float
//                                           or bool, which the program gives as a tensor of rank 0
//
// graph: the graph module's "graph". Also "" where the trees cannot be read, or are longer than a megabyte: a program is the same without.
std::string call_tree(const JsonValue& graph_module, const JsonValue& graph);

}  // namespace toroid::pt2
