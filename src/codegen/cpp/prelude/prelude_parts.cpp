#include "codegen/cpp/prelude/prelude_parts.h"

#include <algorithm>
#include <optional>

namespace toroid::codegen {
namespace {

enum class TokenKind : char { Identifier, Sign, Literal, Directive, NewLine };
struct Token {
  TokenKind kind;
  std::string_view text;  // of a directive the whole line, with those that continue it
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_identifier(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_identifier(char c) { return begins_identifier(c) || is_digit(c); }

// Reads tokens of C++, signs a character at a time. Comments are left out.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  bool done() {
    skip_blanks();
    return at_ == text_.size();
  }
  size_t position() const { return at_; }

  Token next() {  // where it is not done()
    const size_t begin = at_;
    const char c = text_[at_];
    TokenKind kind = TokenKind::Sign;
    if (c == '\n') {
      ++at_;
      line_begins_ = true;
      return {TokenKind::NewLine, text_.substr(begin, 1)};
    }
    if (c == '#' && line_begins_) {
      kind = TokenKind::Directive;
      while (at_ < text_.size() && (text_[at_] != '\n' || text_[at_ - 1] == '\\')) ++at_;
    } else if (begins_identifier(c)) {
      kind = TokenKind::Identifier;
      while (at_ < text_.size() && continues_identifier(text_[at_])) ++at_;
    } else if (is_digit(c)) {
      kind = TokenKind::Literal;
      while (at_ < text_.size() && (continues_identifier(text_[at_]) || text_[at_] == '.')) ++at_;
    } else if (c == '"' || c == '\'') {
      kind = TokenKind::Literal;
      ++at_;
      while (at_ < text_.size() && text_[at_] != c) at_ += text_[at_] == '\\' ? 2 : 1;
      at_ = std::min(at_ + 1, text_.size());
    } else {
      ++at_;
    }
    line_begins_ = false;
    return {kind, text_.substr(begin, at_ - begin)};
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r') {
        ++at_;
      } else if (rest.starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (rest.starts_with("/*")) {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool line_begins_ = true;
};

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (Lexer lexer(text); !lexer.done();) tokens.push_back(lexer.next());
  return tokens;
}

bool is(const Token& token, char sign) { return token.kind == TokenKind::Sign && token.text[0] == sign; }
bool is(const Token& token, std::string_view text) { return token.text == text; }

// The word behind the # of a directive.
std::string_view word_of(std::string_view directive) {
  const size_t begin = directive.find_first_not_of(" \t", 1);
  if (begin == std::string_view::npos) return {};
  size_t end = begin;
  while (end < directive.size() && continues_identifier(directive[end])) ++end;
  return directive.substr(begin, end - begin);
}
std::string_view behind_word(std::string_view directive) {
  const std::string_view word = word_of(directive);
  return directive.substr(static_cast<size_t>(word.data() - directive.data()) + word.size());
}

// A definition of a name that is reserved for the compiler's library, as _GNU_SOURCE: its headers read it, the text does not.
bool sets_up_headers(std::string_view directive) {
  const std::string_view rest = behind_word(directive);
  const size_t begin = rest.find_first_not_of(" \t");
  return word_of(directive) == "define" && begin + 1 < rest.size() && rest[begin] == '_' && rest[begin + 1] >= 'A' &&
         rest[begin + 1] <= 'Z';
}

struct Macro {
  std::vector<std::string_view> parameters;
  std::vector<Token> body;
};

// How deep in brackets a text is.
struct Depth {
  int braces = 0, parentheses = 0;
  void add(const Token& token) {
    if (token.kind != TokenKind::Sign) return;
    braces += is(token, '{') ? 1 : is(token, '}') ? -1 : 0;
    parentheses += is(token, '(') ? 1 : is(token, ')') ? -1 : 0;
  }
  bool is_none() const { return braces == 0 && parentheses == 0; }
};

// Behind the bracket that closes the one at `at`.
size_t behind_brackets(const std::vector<Token>& tokens, size_t at, char open, char close) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    depth += is(tokens[at], open) ? 1 : is(tokens[at], close) ? -1 : 0;
    if (depth == 0) return at + 1;
  }
  return at;
}

// The names of the declaration that begins at `at`, which moves behind it.
void take_declaration(const std::vector<Token>& tokens, size_t& at, std::vector<std::string_view>& names) {
  std::string_view name;
  bool is_named = false;  // what follows is a type, a value or a body
  int angles = 0;
  const auto take = [&] {
    if (!name.empty()) names.push_back(name);
    name = {};
  };
  while (at < tokens.size()) {
    const Token& token = tokens[at];
    if (is(token, '{')) {
      at = behind_brackets(tokens, at, '{', '}');
      if (at < tokens.size() && is(tokens[at], ';')) ++at;
      break;
    }
    if (is(token, "template") && at + 1 < tokens.size() && is(tokens[at + 1], '<')) {
      at = behind_brackets(tokens, at + 1, '<', '>');
    } else if (is(token, "__attribute__") || is(token, "alignas")) {
      at = behind_brackets(tokens, at + 1, '(', ')');
    } else if (is(token, '(')) {
      is_named = true;
      at = behind_brackets(tokens, at, '(', ')');
    } else {
      ++at;
      if (is(token, ';')) break;
      angles += is(token, '<') ? 1 : is(token, '>') ? -1 : 0;
      if (angles > 0) continue;
      if (is(token, ',')) {
        take();
        is_named = false;
      } else if (is(token, '=') || is(token, '[') || is(token, ':')) {
        is_named = true;
      } else if (token.kind == TokenKind::Identifier && !is_named) {
        name = token.text;
      }
    }
  }
  take();
}

// What a macro's body is for these arguments, each one token. Names that it joins, as op_##name##_v, are put into `joined`.
std::vector<Token> expanded(const Macro& macro, const std::vector<Token>& arguments, std::deque<std::string>& joined) {
  const auto substituted = [&](const Token& token) {
    const auto found = std::find(macro.parameters.begin(), macro.parameters.end(), token.text);
    const size_t i = static_cast<size_t>(found - macro.parameters.begin());
    return i < std::min(arguments.size(), macro.parameters.size()) ? arguments[i] : token;
  };
  std::vector<Token> result;
  for (size_t i = 0; i < macro.body.size(); ++i) {
    Token token = substituted(macro.body[i]);
    std::string name;
    for (; i + 3 < macro.body.size() && is(macro.body[i + 1], '#') && is(macro.body[i + 2], '#'); i += 3) {
      name.append(name.empty() ? token.text : "").append(substituted(macro.body[i + 3]).text);
    }
    if (!name.empty()) token.text = joined.emplace_back(std::move(name));
    result.push_back(token);
  }
  return result;
}

// Declarations as if they had C++'s linkage, which says nothing of names.
std::vector<Token> without_linkage(std::vector<Token> tokens) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!is(tokens[i], "extern") || !is(tokens[i + 1], "\"C\"")) continue;
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(i);
    const bool has_braces = i + 2 < tokens.size() && is(tokens[i + 2], '{');
    if (has_braces) tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(behind_brackets(tokens, i + 2, '{', '}')) - 1);
    tokens.erase(from, from + (has_braces ? 3 : 2));
  }
  return tokens;
}

// Of a #define without its first word: `tokens` begin with the name. Empty for one without parameters.
std::optional<Macro> macro_of(const std::vector<Token>& tokens) {
  const bool has_parameters =
      tokens.size() > 1 && is(tokens[1], '(') && tokens[1].text.data() == tokens[0].text.data() + tokens[0].text.size();
  if (!has_parameters) return std::nullopt;
  Macro macro;
  size_t at = 2;
  for (; at < tokens.size() && !is(tokens[at], ')'); ++at) {
    if (tokens[at].kind == TokenKind::Identifier) macro.parameters.push_back(tokens[at].text);
  }
  for (++at; at < tokens.size(); ++at) {
    if (!is(tokens[at], '\\') && tokens[at].kind != TokenKind::NewLine) macro.body.push_back(tokens[at]);
  }
  return macro;
}

void add_identifiers(const std::vector<Token>& tokens, std::vector<std::string_view>& names) {
  for (const Token& token : tokens) {
    if (token.kind == TokenKind::Identifier) names.push_back(token.text);
  }
}

}  // namespace

// Cuts a prelude into its parts.
class PreludeParts::Reader {
 public:
  explicit Reader(PreludeParts& result) : result_(result), lexer_(result.prelude_) {}

  void read() {
    int conditions = 0;  // how many #if are open
    Depth depth;
    while (!lexer_.done()) {
      const Token token = lexer_.next();
      if (token.kind == TokenKind::NewLine) {
        // A part ends with the line in which a declaration ends.
        if (tokens_.empty() || conditions > 0 || !depth.is_none() || is_macro_call_) continue;
        const Token& last = tokens_.back();
        if (is(last, ';') || is(last, '}') || last.kind == TokenKind::Directive) finish_part();
        continue;
      }
      if (token.kind == TokenKind::Directive) {
        const std::string_view word = word_of(token.text);
        conditions += word.starts_with("if") ? 1 : word == "endif" ? -1 : 0;
      }
      if (tokens_.empty() && conditions == 0) is_macro_call_ = macros_.contains(token.text);
      tokens_.push_back(token);
      depth.add(token);
      if (is_macro_call_ && tokens_.size() > 1 && depth.is_none()) finish_part();
    }
    if (!tokens_.empty()) finish_part();
  }

 private:
  void finish_part() {
    Part part;
    part.text = std::string_view(result_.prelude_).substr(begin_, lexer_.position() - begin_);
    bool is_kept = false;
    std::vector<Token> declarations;
    for (const Token& token : tokens_) {
      if (token.kind == TokenKind::Directive) {
        is_kept = is_kept || word_of(token.text) == "include" || sets_up_headers(token.text);
        take_directive(token.text, part);
      } else {
        declarations.push_back(token);
      }
    }
    add_identifiers(declarations, part.uses);
    if (is_macro_call_) {
      std::vector<Token> arguments(declarations.begin() + 2, declarations.end() - 1);
      std::erase_if(arguments, [](const Token& token) { return is(token, ','); });
      declarations = expanded(macros_.at(tokens_[0].text), arguments, result_.joined_);
      add_identifiers(declarations, part.uses);
    }
    declarations = without_linkage(without_macro_calls(declarations));
    for (size_t at = 0; at < declarations.size();) take_declaration(declarations, at, part.defines);
    if (is_kept) part.defines.clear();
    result_.parts_.push_back(std::move(part));
    tokens_.clear();
    begin_ = lexer_.position();
    is_macro_call_ = false;
  }

  // What a macro declares for another macro's text is named nowhere else.
  std::vector<Token> without_macro_calls(const std::vector<Token>& tokens) const {
    std::vector<Token> kept;
    for (size_t i = 0; i < tokens.size();) {
      const bool is_call = i + 1 < tokens.size() && is(tokens[i + 1], '(') && macros_.contains(tokens[i].text);
      if (!is_call) kept.push_back(tokens[i]);
      i = is_call ? behind_brackets(tokens, i + 1, '(', ')') : i + 1;
    }
    return kept;
  }

  void take_directive(std::string_view directive, Part& part) {
    const std::vector<Token> tokens = tokens_of(behind_word(directive));
    add_identifiers(tokens, part.uses);
    if (word_of(directive) != "define") return;
    part.defines.push_back(tokens.at(0).text);
    if (std::optional<Macro> macro = macro_of(tokens)) macros_[tokens[0].text] = std::move(*macro);
  }

  PreludeParts& result_;
  Lexer lexer_;
  std::unordered_map<std::string_view, Macro> macros_;
  size_t begin_ = 0;           // of the part at hand
  std::vector<Token> tokens_;  // of it
  bool is_macro_call_ = false;
};

PreludeParts::PreludeParts(std::string prelude) : prelude_(std::move(prelude)) {
  Reader(*this).read();
  for (size_t i = 0; i < parts_.size(); ++i) {
    for (const std::string_view name : parts_[i].defines) definitions_[name].push_back(i);
  }
}

std::string PreludeParts::used_by(std::string_view text) const {
  std::vector<bool> is_used(parts_.size(), false);
  std::vector<size_t> open;  // used parts whose own uses are to be looked at
  const auto use = [&](size_t i) {
    if (!is_used[i]) open.push_back(i);
    is_used[i] = true;
  };
  const auto use_name = [&](std::string_view name) {
    const auto found = definitions_.find(name);
    if (found == definitions_.end()) return;
    for (const size_t i : found->second) use(i);
  };
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].defines.empty()) use(i);
  }
  for (Lexer lexer(text); !lexer.done();) {
    const Token token = lexer.next();
    if (token.kind == TokenKind::Identifier) use_name(token.text);
    if (token.kind != TokenKind::Directive) continue;
    for (const Token& each : tokens_of(token.text.substr(1))) {
      if (each.kind == TokenKind::Identifier) use_name(each.text);
    }
  }
  while (!open.empty()) {
    const Part& part = parts_[open.back()];
    open.pop_back();
    for (const std::string_view name : part.uses) use_name(name);
  }
  std::string result;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!is_used[i]) continue;
    result += parts_[i].text;
    if (!result.ends_with('\n')) result += '\n';  // several calls of macros may be in a line
  }
  return result;
}

std::vector<std::string_view> PreludeParts::names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, parts] : definitions_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace toroid::codegen
