#include "frontend/json_reader.h"

#include <cstring>
#include <limits>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

namespace toroid {
namespace {

std::string_view describe(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::Null: return "null";
    case JsonValue::Kind::Bool: return "a boolean";
    case JsonValue::Kind::Integer: return "an integer";
    case JsonValue::Kind::Real: return "a number";
    case JsonValue::Kind::String: return "a string";
    case JsonValue::Kind::Array: return "an array";
    case JsonValue::Kind::Object: return "an object";
  }
  return "";
}

[[noreturn]] void fail_at(size_t offset, std::string message) {
  throw Error(ErrorKind::InvalidModel, std::move(message))
      .at(fmt::format("at byte {} of the JSON text", offset))
      .help("write the file again: it is damaged, or comes from a version that this toroid does not know");
}

// Walks the text and publishes how far the lexer has come, which nlohmann's SAX events do not tell.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* position, const char** reached) : position_(position), reached_(reached) {}
  reference operator*() const { return *position_; }
  TrackedIterator& operator++() {
    *reached_ = ++position_;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackedIterator& other) const { return position_ == other.position_; }
  bool operator!=(const TrackedIterator& other) const { return position_ != other.position_; }

 private:
  const char* position_;
  const char** reached_;
};

// The message without nlohmann's "[json.exception.…] " prefix, and without bytes that are not printable ASCII.
std::string plain_message(std::string_view what) {
  if (const size_t end = what.find("] "); what.starts_with("[json.") && end != what.npos) what.remove_prefix(end + 2);
  std::string plain;
  for (char c : what.substr(0, 300)) plain += c >= ' ' && c <= '~' ? c : '?';
  return plain;
}

}  // namespace

// Receives the parser's events. Finished children wait on `pending_` until their array or object ends, and are then
// moved to the arena in one piece.
class JsonTreeBuilder {
 public:
  explicit JsonTreeBuilder(std::string_view text) : begin_(text.data()), reached_(text.data()) {
    // A tree is a few times its text; one block avoids most of the arena's growth.
    document_.arena_ = std::make_unique<std::pmr::monotonic_buffer_resource>(text.size() * 2 + 64);
    const bool complete =
        nlohmann::json::sax_parse(TrackedIterator(text.data(), &reached_), TrackedIterator(text.data() + text.size(), &reached_), this);
    if (!complete || pending_.size() != 1) fail_at(offset(), "invalid JSON");
    document_.root_ = pending_.front().value;
  }

  JsonDocument take() { return std::move(document_); }

  // nlohmann's SAX interface.
  bool null() { return add(make(JsonValue::Kind::Null)); }
  bool boolean(bool value) {
    JsonValue v = make(JsonValue::Kind::Bool);
    v.payload_.boolean = value;
    return add(v);
  }
  bool number_integer(int64_t value) {
    JsonValue v = make_number(JsonValue::Kind::Integer);
    v.payload_.integer = value;
    return add(v);
  }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail_at(offset(), fmt::format("integer {} does not fit in 64 bits", value));
    }
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string& text) {
    if (text.find_first_of(".eE") == std::string::npos) {
      fail_at(offset(), fmt::format("integer {} does not fit in 64 bits", text.substr(0, 40)));
    }
    JsonValue v = make_number(JsonValue::Kind::Real);
    v.payload_.real = value;
    return add(v);
  }
  bool string(std::string& value) {
    JsonValue v = make(JsonValue::Kind::String);
    const std::string_view kept = keep(value);
    v.count_ = static_cast<uint32_t>(kept.size());
    v.payload_.text = kept.data();
    return add(v);
  }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return start(JsonValue::Kind::Object); }
  bool start_array(size_t) { return start(JsonValue::Kind::Array); }
  bool key(std::string& name) {
    key_ = keep(name);
    return true;
  }
  bool end_array() {
    const size_t first = open_.back() + 1;
    const size_t count = pending_.size() - first;
    JsonValue* values = allocate<JsonValue>(count);
    for (size_t i = 0; i < count; ++i) values[i] = pending_[first + i].value;
    JsonValue& array = pending_[open_.back()].value;
    array.count_ = static_cast<uint32_t>(count);
    array.payload_.values = values;
    return finish();
  }
  bool end_object() {
    const size_t first = open_.back() + 1;
    const size_t count = pending_.size() - first;
    JsonMember* fields = allocate<JsonMember>(count);
    std::copy(pending_.begin() + static_cast<ptrdiff_t>(first), pending_.end(), fields);
    refuse_duplicates({fields, count});
    JsonValue& object = pending_[open_.back()].value;
    object.count_ = static_cast<uint32_t>(count);
    object.payload_.fields = fields;
    return finish();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    fail_at(position, fmt::format("invalid JSON: {}", plain_message(error.what())));
  }

 private:
  size_t offset() const { return static_cast<size_t>(reached_ - begin_); }

  JsonValue make(JsonValue::Kind kind) const {
    JsonValue value;
    value.kind_ = kind;
    value.offset_ = static_cast<uint32_t>(offset() - 1);
    return value;
  }
  // The lexer has looked one byte past a number to see its end.
  JsonValue make_number(JsonValue::Kind kind) const {
    JsonValue value = make(kind);
    if (value.offset_ > 0) --value.offset_;
    return value;
  }
  bool add(const JsonValue& value) {
    pending_.push_back({key_, value});
    key_ = {};
    return true;
  }
  bool start(JsonValue::Kind kind) {
    if (open_.size() == kMaxJsonDepth) fail_at(offset(), fmt::format("JSON is nested deeper than {}", kMaxJsonDepth));
    add(make(kind));
    open_.push_back(pending_.size() - 1);
    return true;
  }
  bool finish() {
    pending_.resize(open_.back() + 1);
    open_.pop_back();
    return true;
  }

  void refuse_duplicates(std::span<const JsonMember> members) const {
    const auto refuse = [](const JsonMember& again) {
      fail_at(again.value.offset(), fmt::format("duplicate key '{}'", plain_message(again.key)));
    };
    if (members.size() <= 8) {
      for (size_t i = 1; i < members.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          if (members[i].key == members[j].key) refuse(members[i]);
        }
      }
      return;
    }
    std::unordered_set<std::string_view> seen;
    seen.reserve(members.size());
    for (const JsonMember& member : members) {
      if (!seen.insert(member.key).second) refuse(member);
    }
  }

  template <class T>
  T* allocate(size_t count) {
    return static_cast<T*>(document_.arena_->allocate(std::max<size_t>(count, 1) * sizeof(T), alignof(T)));
  }
  std::string_view keep(std::string_view text) {
    char* copy = static_cast<char*>(document_.arena_->allocate(text.size() + 1, 1));
    std::memcpy(copy, text.data(), text.size());
    return {copy, text.size()};
  }

  const char* begin_;
  const char* reached_;
  JsonDocument document_;
  std::string_view key_;
  std::vector<JsonMember> pending_;
  std::vector<size_t> open_;  // positions in pending_ of the arrays and objects not yet ended
};

void JsonValue::fail(std::string message) const { fail_at(offset_, std::move(message)); }

void JsonValue::expect(Kind kind) const {
  if (kind_ != kind) fail(fmt::format("expected {}, found {}", describe(kind), describe(kind_)));
}

bool JsonValue::as_bool() const {
  expect(Kind::Bool);
  return payload_.boolean;
}

int64_t JsonValue::as_integer() const {
  expect(Kind::Integer);
  return payload_.integer;
}

double JsonValue::as_real() const {
  if (kind_ == Kind::Integer) return static_cast<double>(payload_.integer);
  expect(Kind::Real);
  return payload_.real;
}

std::string_view JsonValue::as_string() const {
  expect(Kind::String);
  return {payload_.text, count_};
}

std::span<const JsonValue> JsonValue::elements() const {
  expect(Kind::Array);
  return {payload_.values, count_};
}

std::span<const JsonMember> JsonValue::members() const {
  expect(Kind::Object);
  return {payload_.fields, count_};
}

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const JsonMember& member : members()) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

const JsonValue* JsonValue::find_value(std::string_view key) const {
  const JsonValue* value = find(key);
  return value && !value->is_null() ? value : nullptr;
}

const JsonValue& JsonValue::at(std::string_view key) const {
  const JsonValue* value = find(key);
  if (!value) fail(fmt::format("an object lacks the key '{}'", key));
  return *value;
}

JsonDocument parse_json(std::string_view text, std::string_view name) {
  ErrorContext context("reading {}", name);
  if (text.size() >= std::numeric_limits<uint32_t>::max()) {
    throw Error(ErrorKind::InvalidModel, fmt::format("a JSON text of {} bytes is over the limit of 4 GiB", text.size()));
  }
  return JsonTreeBuilder(text).take();
}

}  // namespace toroid
