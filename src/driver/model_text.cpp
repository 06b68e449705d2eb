#include "driver/model_text.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text_cursor.h"
#include "graph/text/text.h"

namespace toroid {

bool is_model_text(const std::filesystem::path& path) { return path.extension() == ".txt"; }

Program read_model_text(const MappedFile& file, std::shared_ptr<CustomOperators> operators) {
  const std::filesystem::path path = file.path();
  ErrorContext context("reading {}", path.string());
  const std::string_view text = file.text();
  size_t end = 0;
  Program program = parse_text_prefix(text, end, {}, std::move(operators));
  Cursor rest(text);
  rest.move_to(end);
  if (!rest.at_end()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("the text goes on behind its graph, with '{}'", rest.next_word()))
        .help("a model is a graph alone; 'toroid opt' takes texts of loops, schedules and programs");
  }
  if (program.name.empty()) program.name = path.filename().string();
  return program;
}

}  // namespace toroid
