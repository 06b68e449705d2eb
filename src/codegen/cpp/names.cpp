#include "codegen/cpp/names.h"

#include <algorithm>
#include <array>

#include "support/error.h"

namespace toroid::codegen {

std::string identifier(std::string_view text) {
  std::string result;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    result += plain ? c : '_';
    if (result.size() >= 80) break;
  }
  // A trailing underscore would read like a member; leading digits and reserved or prelude names need a prefix.
  static constexpr std::array<std::string_view, 34> kTaken = {
      "auto",  "bool",   "break", "case",   "char",  "class", "const", "default", "delete", "do",    "double", "else",
      "enum",  "float",  "for",   "goto",   "if",    "int",   "long",  "new",     "return", "short", "signed", "sizeof",
      "static", "struct", "switch", "this", "union", "using", "void",  "while",   "main",   "exp"};
  if (result.empty() || (result[0] >= '0' && result[0] <= '9') || result[0] == '_' ||
      std::find(kTaken.begin(), kTaken.end(), result) != kTaken.end()) {
    result = "t_" + result;
  }
  return result;
}

std::string_view storage_type(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "bool";
    case DType::U8: return "uint8_t";
    case DType::I8: return "int8_t";
    case DType::I16: return "int16_t";
    case DType::I32: return "int32_t";
    case DType::I64: return "int64_t";
    case DType::F16: return "f16";
    case DType::BF16: return "bf16";
    case DType::F32: return "float";
    case DType::F64: return "double";
    default: throw Error(ErrorKind::Unsupported, fmt::format("dtype {} is not supported by the CPU backend", to_string(dtype)));
  }
}

std::string_view register_type(DType dtype) { return storage_type(compute_dtype(dtype)); }

std::string comment_text(std::string_view text, size_t limit) {
  std::string result;
  for (char c : text) {
    if (result.size() >= limit) {
      result += "...";
      break;
    }
    // A backslash at the end of a line would join the next one to the comment.
    result += c >= ' ' && c < 0x7f && c != '\\' && c != '?' ? c : ' ';
  }
  return result;
}

}  // namespace toroid::codegen
