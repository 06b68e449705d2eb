// Models of this process: the functions of the compiler's table that make them, of graphs and of files (include/toroid/toroid_compiler.h).
#pragma once

#include <filesystem>

#include "driver/compile.h"
#include "toroid/toroid_compiler.h"

namespace toroid::compiler {

ToroidStatus compile_graph(const char* text, size_t text_size, const ToroidGraphOptions* options, ToroidModel** model,
                           ToroidGraphFacts* facts, char* message, size_t message_size);
ToroidStatus compile_model(const char* path, const ToroidCompileOptions* options, ToroidModel** model, ToroidGraphFacts* facts,
                           char* message, size_t message_size);
int32_t has_operator(const char* name);
int32_t has_attention_gradient(const char* dtype, int32_t rank, int64_t width, int64_t value_width);

// The options of the interface as the driver's; output: "" for a program of this process (api.cpp).
CompileModelOptions driver_options(const ToroidCompileOptions& asked, const std::filesystem::path& output);

}  // namespace toroid::compiler
