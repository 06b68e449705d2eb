// Reads JSON from untrusted files into a compact tree.
//
// nlohmann's SAX parser does the reading; the tree is ours because a model's JSON holds 10^5 small values: here a
// value is 24 bytes in one arena, knows its byte offset for error messages, and is never copied. Refused: nesting
// deeper than 100, duplicate keys, numbers beyond a double, integers beyond 64 bits, invalid UTF-8, and anything
// after the document.
//
//   JsonDocument document = parse_json(text, "mlp.pt2: models/model.json");
//   for (const JsonMember& member : document.root().at("config").members()) member.value.at("path_name").as_string();
//
// Accessors throw Error{InvalidModel} with the value's offset when the value is not what was asked for; callers name
// the file with an ErrorContext.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace toroid {

inline constexpr int kMaxJsonDepth = 100;

struct JsonMember;

class JsonValue {
 public:
  enum class Kind : uint8_t { Null, Bool, Integer, Real, String, Array, Object };

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::Null; }
  uint32_t offset() const { return offset_; }  // of the value's last byte, or of the bracket that opens it

  bool as_bool() const;
  int64_t as_integer() const;
  double as_real() const;                       // also takes integers
  std::string_view as_string() const;           // lives as long as the document
  std::span<const JsonValue> elements() const;  // of an array
  std::span<const JsonMember> members() const;  // of an object, in the order of the text

  const JsonValue* find(std::string_view key) const;  // in an object; null when absent. Linear in the number of members.
  const JsonValue& at(std::string_view key) const;    // throws when absent
  // `find`, with an explicit null counting as absent.
  const JsonValue* find_value(std::string_view key) const;

  // Throws Error{InvalidModel}: "MESSAGE" at this value's offset.
  [[noreturn]] void fail(std::string message) const;

 private:
  friend class JsonTreeBuilder;
  void expect(Kind kind) const;

  Kind kind_ = Kind::Null;
  uint32_t count_ = 0;  // bytes of a string, elements of an array, members of an object
  uint32_t offset_ = 0;
  union {
    bool boolean;
    int64_t integer;
    double real;
    const char* text;
    const JsonValue* values;
    const JsonMember* fields;
  } payload_ = {.integer = 0};
};

struct JsonMember {
  std::string_view key;
  JsonValue value;
};

class JsonDocument {
 public:
  const JsonValue& root() const { return root_; }

 private:
  friend class JsonTreeBuilder;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> arena_;
  JsonValue root_;
};

// `name` says in errors which text this is. The document does not refer to `text` afterwards.
JsonDocument parse_json(std::string_view text, std::string_view name);

}  // namespace toroid
