// A place in a text, moved forward by what is read: the lexical part of the text form.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

#include "base/affixes.h"
#include "base/error.h"
#include "base/format.h"

namespace toroid {

// The text and a place in it. Every failure names the line and column.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail_at(size_t place, std::string_view message) const {
    const std::string_view before = text_.substr(0, place);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    throw Error(ErrorKind::InvalidModel, formatted("{}:{}: {}", line, place - line_start + 1, message));
  }
  [[noreturn]] void fail(std::string_view message) const { fail_at(at_, message); }

  // Spaces, line ends and comments mean nothing.
  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  size_t place() {
    skip();
    return at_;
  }
  // Where reading stopped, before any spaces.
  size_t here() const { return at_; }
  bool at_end() { return place() == text_.size(); }
  bool next_is(std::string_view token) { return starts_with(text_.substr(place()), token); }
  bool accept(std::string_view token) {
    if (!next_is(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(formatted("expected '{}'", token));
  }
  // Like accept, for words: "in" does not match the start of "index".
  bool accept_word(std::string_view word) {
    const size_t after = place() + word.size();
    if (!next_is(word) || (after < text_.size() && is_word_part(text_[after]))) return false;
    at_ = after;
    return true;
  }
  void expect_word(std::string_view word) {
    if (!accept_word(word)) fail(formatted("expected '{}'", word));
  }

  static bool is_word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

  // Letters, digits, '_', '.' and, in an operation's name, "::".
  std::string word(std::string_view wanted, bool with_colons = false) {
    const size_t start = place();
    while (at_ < text_.size() && (is_word_part(text_[at_]) || (with_colons && starts_with(text_.substr(at_), "::")))) {
      at_ += text_[at_] == ':' ? 2 : 1;
    }
    if (at_ == start) fail(formatted("expected {}", wanted));
    return std::string(text_.substr(start, at_ - start));
  }

  std::string string_literal() {
    expect("\"");
    std::string value;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
      if (text_[at_] != '\\') {
        value += text_[at_++];
        continue;
      }
      const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (kind == '"' || kind == '\\') {
        value += kind;
        at_ += 2;
        continue;
      }
      unsigned byte = 0;
      const std::string_view digits = text_.substr(std::min(at_ + 2, text_.size()), 2);
      if (kind != 'x' || digits.size() != 2 || std::from_chars(digits.data(), digits.data() + 2, byte, 16).ptr != digits.data() + 2) {
        fail("unknown escape in a string");
      }
      value += static_cast<char>(byte);
      at_ += 4;
    }
    if (at_ >= text_.size() || text_[at_] != '"') fail("expected '\"'");
    ++at_;
    return value;
  }

  // The text up to a character of `stops`, a comment or a line's end, outside of parentheses and brackets.
  std::string_view raw(std::string_view stops) {
    const size_t start = place();
    int depth = 0;
    size_t end = start;
    for (; end < text_.size(); ++end) {
      const char c = text_[end];
      if (c == '\n' || c == '#' || (depth == 0 && stops.find(c) != std::string_view::npos)) break;
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (depth < 0) break;
    }
    at_ = end;
    while (end > start && text_[end - 1] == ' ') --end;
    if (end == start) fail("expected a value");
    return text_.substr(start, end - start);
  }

  // The word that comes, which may be none.
  std::string_view next_word() {
    const size_t start = place();
    size_t end = start;
    while (end < text_.size() && is_word_part(text_[end])) ++end;
    return text_.substr(start, end - start);
  }

  // Back to, or on to, a place that place() gave.
  void move_to(size_t place) { at_ = place; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace toroid
