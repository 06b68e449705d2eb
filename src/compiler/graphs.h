// Graphs that are in memory: the functions of the compiler's table that take them (include/toroid/toroid_compiler.h).
#pragma once

#include "toroid/toroid_compiler.h"

namespace toroid::compiler {

ToroidStatus compile_graph(const char* text, size_t text_size, const ToroidGraphOptions* options, ToroidModel** model,
                           ToroidGraphFacts* facts, char* message, size_t message_size);
int32_t has_operator(const char* name);

}  // namespace toroid::compiler
