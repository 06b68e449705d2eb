// Indented text, made line by line: what printers and code generators write into.
//
//   TextBuffer text;
//   {
//     auto loop = text.block("for (int64_t i = 0; i < n; ++i) {");
//     text.write("out[i] = 0;");
//   }                                     // closes the block with "}"
//
// Scopes refer to the buffer: it must neither move nor die before them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toroid {

class TextBuffer {
 public:
  // Adds a line as it is, or several when the text holds newlines; braces mean nothing here.
  void write(std::string_view text);
  // Adds the other buffer's lines, indented further by the current depth.
  void splice(const TextBuffer& other);

  class Scope {
   public:
    Scope(Scope&& other) noexcept;
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    friend class TextBuffer;
    Scope(TextBuffer* buffer, std::string closing) : buffer_(buffer), closing_(std::move(closing)) {}
    TextBuffer* buffer_;
    std::string closing_;
  };
  // Writes `opening`, indents what is written while the scope lives, and writes `closing` at its end.
  [[nodiscard]] Scope block(std::string_view opening, std::string closing = "}");

  bool empty() const { return lines_.empty(); }
  // Ends with a newline unless it is empty; no line ends with blanks. Throws std::bad_alloc also where a scope lacked the memory for its
  // closing line.
  std::string str() const;

 private:
  struct Line {
    int depth;
    std::string text;
  };
  int depth_ = 0;
  std::vector<Line> lines_;
  bool is_incomplete_ = false;  // a scope could not write its closing line
};

}  // namespace toroid
