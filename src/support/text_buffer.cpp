#include "support/text_buffer.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"

namespace toroid {
namespace {

// Calls `use` with each line of the text, without its newline. "a\n" is one line, "" is one empty line.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  for (;;) {
    const size_t end = text.find('\n');
    use(text.substr(0, end));
    if (end == std::string_view::npos || end + 1 == text.size()) return;
    text.remove_prefix(end + 1);
  }
}

std::string_view without_trailing_space(std::string_view line) {
  const size_t last = line.find_last_not_of(" \t\r");
  return last == std::string_view::npos ? std::string_view{} : line.substr(0, last + 1);
}

}  // namespace

std::string_view LineMap::context_of(int line) const {
  if (line < 1 || line > line_count_) return {};
  auto after = std::upper_bound(runs_.begin(), runs_.end(), line, [](int wanted, const Run& run) { return wanted < run.first_line; });
  return after == runs_.begin() ? std::string_view{} : std::string_view(std::prev(after)->context);
}

std::string dedent(std::string_view raw) {
  std::vector<std::string_view> lines;
  size_t shared = std::string_view::npos;
  for_each_line(raw, [&](std::string_view line) {
    lines.push_back(without_trailing_space(line));
    if (!lines.back().empty()) shared = std::min(shared, lines.back().find_first_not_of(" \t"));
  });
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  auto first = std::find_if(lines.begin(), lines.end(), [](std::string_view line) { return !line.empty(); });
  std::string result;
  for (auto line = first; line != lines.end(); ++line) {
    if (!line->empty()) result += line->substr(shared);
    result += '\n';
  }
  return result;
}

void TextBuffer::write(std::string_view text) {
  for_each_line(text, [&](std::string_view line) {
    lines_.push_back({depth_ * indent_width_, current_context_, std::string(line), nullptr});
  });
}

TextBuffer::DeferredId TextBuffer::defer(DeferredLine line) {
  TOROID_CHECK(line != nullptr);
  lines_.push_back({depth_ * indent_width_, current_context_, "", std::move(line)});
  return static_cast<DeferredId>(lines_.size() - 1);
}

void TextBuffer::unwrite(DeferredId id) {
  const auto index = static_cast<size_t>(id);
  TOROID_CHECK(index < lines_.size() && lines_[index].deferred != nullptr, "not a deferred line of this buffer");
  lines_[index].dropped = true;
}

void TextBuffer::splice(const TextBuffer& other) {
  TOROID_CHECK(&other != this);
  is_incomplete_ = is_incomplete_ || other.is_incomplete_;
  lines_.reserve(lines_.size() + other.lines_.size());
  for (const Line& line : other.lines_) {
    Line copy = line;
    copy.spaces += depth_ * indent_width_;
    copy.context = line.context == 0 ? current_context_ : context_id(other.contexts_[line.context]);
    lines_.push_back(std::move(copy));
  }
}

TextBuffer::Scope TextBuffer::indent(int levels) {
  depth_ += levels;
  return Scope(this, levels, "");
}

TextBuffer::Scope TextBuffer::block(std::string_view opening, std::string closing) {
  write(opening);
  depth_ += 1;
  return Scope(this, 1, std::move(closing));
}

TextBuffer::Scope::Scope(Scope&& other) noexcept
    : buffer_(std::exchange(other.buffer_, nullptr)), levels_(other.levels_), closing_(std::move(other.closing_)) {}

TextBuffer::Scope::~Scope() {
  if (buffer_ == nullptr) return;
  buffer_->depth_ -= levels_;
  // Nothing may be thrown here; finish() says what is missing.
  try {
    if (!closing_.empty()) buffer_->write(closing_);
  } catch (const std::bad_alloc&) {
    buffer_->is_incomplete_ = true;
  }
}

TextBuffer::ContextScope TextBuffer::context(std::string_view context) {
  const uint32_t outer = current_context_;
  current_context_ = context_id(context);
  return ContextScope(this, outer);
}

TextBuffer::ContextScope::ContextScope(ContextScope&& other) noexcept
    : buffer_(std::exchange(other.buffer_, nullptr)), outer_(other.outer_) {}

TextBuffer::ContextScope::~ContextScope() {
  if (buffer_ != nullptr) buffer_->current_context_ = outer_;
}

uint32_t TextBuffer::context_id(std::string_view context) {
  // Neighbouring lines mostly share their origin, so the search from the end is short.
  for (size_t id = contexts_.size(); id-- > 0;) {
    if (contexts_[id] == context) return static_cast<uint32_t>(id);
  }
  contexts_.emplace_back(context);
  return static_cast<uint32_t>(contexts_.size() - 1);
}

FinishedText TextBuffer::finish() const {
  if (is_incomplete_) throw std::bad_alloc();
  FinishedText finished;
  LineMap& map = finished.lines;
  uint32_t run_context = 0;
  for (const Line& line : lines_) {
    if (line.dropped) continue;
    std::optional<std::string> made;
    if (line.deferred != nullptr) {
      made = line.deferred();
      if (!made) continue;
    }
    for_each_line(made ? std::string_view(*made) : std::string_view(line.text), [&](std::string_view text) {
      map.line_count_ += 1;
      if (line.context != run_context || map.runs_.empty()) {
        map.runs_.push_back({map.line_count_, contexts_[line.context]});
        run_context = line.context;
      }
      text = without_trailing_space(text);
      if (!text.empty()) finished.text.append(static_cast<size_t>(line.spaces), ' ').append(text);
      finished.text += '\n';
    });
  }
  return finished;
}

}  // namespace toroid
