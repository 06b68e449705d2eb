// What an operator gives, for arguments of which only the types are known. A model that was exported records this; who calls one
// operator by itself has no record.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace toroid {

// The types of the results, lists flattened, as the operator's decomposition gives them; nothing for one that it leaves undefined. With
// strides neither given nor implied: contiguous. `arguments`: one per parameter, whose InputRefs count in `inputs`. Sizes that only the
// values of tensors tell are new data-dependent symbols of `program`. Where integers among the arguments are symbolic, the guards of
// `program` grow by what makes them positions within the tensors, as an exporter would have recorded it; nothing else changes.
//
// Throws Error{Unsupported} for operators without a decomposition, for complex and 8-bit float tensors, for results that are no
// tensors, and for symbolic integers whose positions cannot be told to be within the tensors; Error{InvalidModel} for arguments that do not
// go together, in the words of the decomposition.
std::vector<std::optional<TensorType>> infer_result_types(Program& program, const Schema& schema, const std::vector<Argument>& arguments,
                                                          const std::vector<TensorType>& inputs);

}  // namespace toroid
