#include "codegen/halide/halide_pipeline.h"

#include <fmt/format.h>

#include "support/hash.h"
#include "support/text/json_writer.h"

namespace toroid::codegen {

HalidePipeline with_entry(HalidePipeline pipeline) {
  constexpr size_t kDigits = 16;
  const std::string digest = sha256(pipeline.autoscheduler + "\n" + pipeline.source).hex();
  pipeline.entry = "toroid_halide_" + digest.substr(0, kDigits);
  return pipeline;
}

std::string to_text(const HalidePipeline& pipeline) {
  return fmt::format(R"({{"entry": {}, "autoscheduler": {}, "file": {}, "line": {}, "source": {}}})", json_string(pipeline.entry),
                     json_string(pipeline.autoscheduler), json_string(pipeline.file), pipeline.line, json_string(pipeline.source));
}

}  // namespace toroid::codegen
