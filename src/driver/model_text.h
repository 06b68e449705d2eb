// A model in text form: a file that ends in .txt and holds a graph of either level, as `toroid opt` and --dump-ir print them.
//
// Constants with many elements are `external` there: the text names them, and their elements are in the model that it was printed from.
// Such a text can be read and explained. Who needs the elements refuses it (require_elements in graph/text/text.h).
#pragma once

#include <filesystem>

#include "base/file/mapped_file.h"
#include "graph/graph.h"

namespace toroid {

bool is_model_text(const std::filesystem::path& path);

// Throws Error{InvalidModel} for what is no text of a graph, and where loops, a schedule or a program come behind the graph.
Program read_model_text(const MappedFile& file, std::shared_ptr<CustomOperators> operators = {});

}  // namespace toroid
