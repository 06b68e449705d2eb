// Indented text, made line by line: what printers and code generators write into (feature C2).
//
//   TextBuffer text;
//   {
//     auto origin = text.context("model.layers.0: relu_4");     // for the line map
//     auto loop = text.block("for (int64_t i = 0; i < n; ++i) {");
//     text.format("out[i] = {};", value);
//   }                                                            // closes the block with "}"
//
// A deferred line gets its text when the buffer is finished, and may turn out to be no line at all: a declaration that
// is needed only if a later pass over the body used it.
//
//   text.defer([&]() -> std::optional<std::string> {
//     if (!uses_rng) return std::nullopt;
//     return "const uint64_t seed = *seed_pointer;";
//   });
//
// Scopes (indent, block, context) refer to the buffer: it must neither move nor die before them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace toroid {

// Which context each line of a finished text came from. Lines count from 1, as compilers and editors do.
class LineMap {
 public:
  struct Run {
    int first_line;       // this line and those up to the next run …
    std::string context;  // … come from here; empty when nothing was said
    bool operator==(const Run&) const = default;
  };

  // The context of a line; empty when it has none or is out of range.
  std::string_view context_of(int line) const;
  const std::vector<Run>& runs() const { return runs_; }
  int line_count() const { return line_count_; }

 private:
  friend class TextBuffer;
  std::vector<Run> runs_;
  int line_count_ = 0;
};

struct FinishedText {
  std::string text;  // ends with a newline unless it is empty
  LineMap lines;
};

// Removes the indentation that all non-blank lines share, leading and trailing blank lines, and trailing spaces, so
// that a raw string literal may be indented with the code around it.
std::string dedent(std::string_view raw);

class TextBuffer {
 public:
  enum class DeferredId : uint32_t {};
  using DeferredLine = std::function<std::optional<std::string>()>;

  explicit TextBuffer(int indent_width = 2) : indent_width_(indent_width) {}

  // Adds a line as it is, or several when the text holds newlines; braces mean nothing here.
  void write(std::string_view text);
  // Adds a line made by fmt.
  template <class... Args>
  void format(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void blank() { write(""); }
  // Adds a raw text, dedented first.
  void write_dedented(std::string_view raw) { write(dedent(raw)); }

  // Adds a line whose text is asked for by finish(): nullopt means no line. May hold newlines.
  DeferredId defer(DeferredLine line);
  // Takes a deferred line back.
  void unwrite(DeferredId id);

  // Adds the other buffer's lines, indented further by the current depth. Its deferred lines come along and can then
  // only be unwritten by their own callback; its lines without a context take the current one.
  void splice(const TextBuffer& other);

  class Scope {
   public:
    Scope(Scope&& other) noexcept;
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    friend class TextBuffer;
    Scope(TextBuffer* buffer, int levels, std::string closing) : buffer_(buffer), levels_(levels), closing_(std::move(closing)) {}
    TextBuffer* buffer_;
    int levels_;
    std::string closing_;
  };
  class ContextScope {
   public:
    ContextScope(ContextScope&& other) noexcept;
    ContextScope& operator=(ContextScope&&) = delete;
    ~ContextScope();

   private:
    friend class TextBuffer;
    ContextScope(TextBuffer* buffer, uint32_t outer) : buffer_(buffer), outer_(outer) {}
    TextBuffer* buffer_;
    uint32_t outer_;
  };

  // Lines written while the scope lives are indented further.
  [[nodiscard]] Scope indent(int levels = 1);
  // Writes `opening`, indents, and writes `closing` at the scope's end.
  [[nodiscard]] Scope block(std::string_view opening, std::string closing = "}");
  // Lines written while the scope lives come from `context` in the line map; the innermost scope counts.
  [[nodiscard]] ContextScope context(std::string_view context);

  bool empty() const { return lines_.empty(); }
  // The text and its line map; asks each deferred line once. Throws std::bad_alloc also where a scope lacked the memory for its closing
  // line.
  FinishedText finish() const;
  std::string str() const { return finish().text; }

 private:
  struct Line {
    int spaces;
    uint32_t context;  // index into contexts_
    std::string text;
    DeferredLine deferred;  // when set, makes the text
    bool dropped = false;
  };
  uint32_t context_id(std::string_view context);

  int indent_width_;
  int depth_ = 0;
  uint32_t current_context_ = 0;
  std::vector<std::string> contexts_ = {""};
  std::vector<Line> lines_;
  bool is_incomplete_ = false;  // a scope could not write its closing line
};

}  // namespace toroid
