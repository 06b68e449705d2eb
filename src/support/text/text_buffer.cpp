#include "support/text/text_buffer.h"

#include <new>
#include <utility>

#include "base/error.h"

namespace toroid {

void TextBuffer::write(std::string_view text) {
  for (;;) {  // "a\n" is one line, "" is one empty line
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    lines_.push_back({depth_, std::string(line.substr(0, line.find_last_not_of(" \t\r") + 1))});
    if (end == std::string_view::npos || end + 1 == text.size()) return;
    text.remove_prefix(end + 1);
  }
}

void TextBuffer::splice(const TextBuffer& other) {
  TOROID_CHECK(&other != this);
  is_incomplete_ = is_incomplete_ || other.is_incomplete_;
  lines_.reserve(lines_.size() + other.lines_.size());
  for (const Line& line : other.lines_) lines_.push_back({line.depth + depth_, line.text});
}

TextBuffer::Scope TextBuffer::block(std::string_view opening, std::string closing) {
  write(opening);
  depth_ += 1;
  return Scope(this, std::move(closing));
}

TextBuffer::Scope::Scope(Scope&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)), closing_(std::move(other.closing_)) {}

TextBuffer::Scope::~Scope() {
  if (buffer_ == nullptr) return;
  buffer_->depth_ -= 1;
  // Nothing may be thrown here; str() says what is missing.
  try {
    if (!closing_.empty()) buffer_->write(closing_);
  } catch (const std::bad_alloc&) {
    buffer_->is_incomplete_ = true;
  }
}

std::string TextBuffer::str() const {
  if (is_incomplete_) throw std::bad_alloc();
  std::string text;
  for (const Line& line : lines_) {
    if (!line.text.empty()) text.append(static_cast<size_t>(2 * line.depth), ' ').append(line.text);
    text += '\n';
  }
  return text;
}

}  // namespace toroid
