// Writes JSON, member by member, as one line:
//
//   JsonWriter json;
//   json.begin_object();
//   json.add("name", name);
//   json.begin_array("sizes");
//   for (int64_t size : sizes) json.add(size);
//   json.end();
//   json.end();
//   write(json.take());                       {"name":"x","sizes":[2,3]}
//
// A text, not a tree: a tree's destructor may need memory, and where there is none the process would end. Bytes that are no UTF-8 become
// U+FFFD, so that every reader takes the result. Who writes a key twice, or ends what has not begun, gets what was asked for.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace toroid {

// In quotes, escaped.
std::string json_string(std::string_view text);

class JsonWriter {
 public:
  void begin_object() { begin('{'); }
  void begin_object(std::string_view key) { write_key(key), begin('{'); }
  void begin_array() { begin('['); }
  void begin_array(std::string_view key) { write_key(key), begin('['); }
  // The innermost object or array that is not ended yet.
  void end();

  // An element of an array: a text, a truth value, an integer or a number.
  template <class T>
  void add(const T& value) {
    if constexpr (std::same_as<T, bool>) {
      write(value ? "true" : "false");
    } else if constexpr (std::integral<T>) {
      write(std::to_string(value));
    } else if constexpr (std::floating_point<T>) {
      write_number(value);
    } else {
      write(json_string(std::string_view(value)));
    }
  }
  // A member of an object.
  template <class T>
  void add(std::string_view key, const T& value) {
    write_key(key);
    add(value);
  }
  // A whole array of elements.
  template <class List>
  void add_all(const List& values) {
    begin_array();
    for (const auto& value : values) add(value);
    end();
  }
  template <class List>
  void add_all(std::string_view key, const List& values) {
    write_key(key);
    add_all(values);
  }

  std::string take() { return std::move(text_); }

 private:
  void begin(char bracket);
  void write(std::string_view text);
  void write_key(std::string_view key);
  void write_number(double value);  // null for what is no number

  std::string text_;
  std::string open_;  // the brackets that are not closed
};

}  // namespace toroid
