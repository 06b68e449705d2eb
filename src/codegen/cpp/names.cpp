#include "codegen/cpp/names.h"

#include <algorithm>
#include <iterator>

#include "support/error.h"
#include "support/hash.h"

namespace toroid::codegen {

std::string identifier(std::string_view text) {
  constexpr size_t kMostBytes = 78, kKeptBytes = 61;
  std::string result;
  for (char c : text.substr(0, text.size() > kMostBytes ? kKeptBytes : kMostBytes)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    result += plain ? c : '_';
  }
  // Long names often differ in their ends alone.
  if (text.size() > kMostBytes) result += "_" + sha256(text).hex().substr(0, 16);
  // Keywords, and what the prelude, the wrapper or a kernel's own loops call something.
  static constexpr std::string_view kTaken[] = {"auto",
                                                "bool",
                                                "break",
                                                "case",
                                                "char",
                                                "class",
                                                "const",
                                                "default",
                                                "delete",
                                                "do",
                                                "double",
                                                "else",
                                                "enum",
                                                "float",
                                                "for",
                                                "goto",
                                                "if",
                                                "int",
                                                "long",
                                                "new",
                                                "return",
                                                "short",
                                                "signed",
                                                "sizeof",
                                                "static",
                                                "struct",
                                                "switch",
                                                "this",
                                                "union",
                                                "using",
                                                "void",
                                                "while",
                                                "main",
                                                "template",
                                                "typename",
                                                "namespace",
                                                "operator",
                                                "private",
                                                "public",
                                                "protected",
                                                "virtual",
                                                "volatile",
                                                "unsigned",
                                                "typedef",
                                                "try",
                                                "throw",
                                                "catch",
                                                "true",
                                                "false",
                                                "nullptr",
                                                "and",
                                                "or",
                                                "not",
                                                "xor",
                                                "inline",
                                                "extern",
                                                "register",
                                                "friend",
                                                "export",
                                                "explicit",
                                                "mutable",
                                                "asm",
                                                "concept",
                                                "requires",
                                                "constexpr",
                                                "decltype",
                                                "vec",
                                                "mask",
                                                "elem",
                                                "splat",
                                                "splat_mask",
                                                "ramp",
                                                "convert",
                                                "active",
                                                "widen",
                                                "select",
                                                "to_mask",
                                                "load",
                                                "store",
                                                "load1",
                                                "store1",
                                                "load_raw",
                                                "store_raw",
                                                "load_where",
                                                "gather",
                                                "scatter",
                                                "mask_of",
                                                "index_of",
                                                "bit_cast",
                                                "Row",
                                                "checked_index",
                                                "toroid_bad_index",
                                                "nonzero",
                                                "report",
                                                "bits16",
                                                "bytes",
                                                "failed",
                                                "graph",
                                                "Graph",
                                                "Block",
                                                "while_loop",
                                                "scan_loop",
                                                "rounded",
                                                "form",
                                                "in_best_form",
                                                "associative_scan",
                                                "floordiv",
                                                "floormod",
                                                "min64",
                                                "max64",
                                                "lanewise",
                                                "for_lanes",
                                                "fetch",
                                                "fetch_run",
                                                "fetch_near",
                                                "fetch_to_write",
                                                "INLINE_BODY",
                                                "to_integer",
                                                "fold",
                                                "any_lane",
                                                "all_lanes",
                                                "parallel",
                                                "runtime",
                                                "error",
                                                "begin",
                                                "end",
                                                "task",
                                                "block",
                                                "rows",
                                                "first",
                                                "last",
                                                "call",
                                                "symbols",
                                                "lanes",
                                                "running",
                                                "position",
                                                "inputs",
                                                "outputs",
                                                "integers",
                                                "numbers",
                                                "int8_t",
                                                "int16_t",
                                                "int32_t",
                                                "int64_t",
                                                "uint8_t",
                                                "uint16_t",
                                                "uint32_t",
                                                "uint64_t",
                                                "is_float",
                                                "is_f32",
                                                "VecOf",
                                                "lanes_of",
                                                "width_of",
                                                "Around",
                                                "around",
                                                "store_fence",
                                                "TileAt",
                                                "next",
                                                "next_row",
                                                "next_first",
                                                "widen16",
                                                "narrow16",
                                                "to_bits",
                                                "from_bits",
                                                "turn_tile",
                                                "turn_square",
                                                "FirstLanes",
                                                "exchange_halves",
                                                "float_mod",
                                                "float_floor_div",
                                                "is_minus_one",
                                                "ToroidRuntime",
                                                "ToroidOperand",
                                                "ToroidCall",
                                                "Signed",
                                                "divided",
                                                "fold_turns",
                                                "for_rows",
                                                "for_lanes_in_turn",
                                                "gather_runs",
                                                "lanes_to",
                                                "load_backward",
                                                "lane_at",
                                                "load_every_second",
                                                "load_repeated",
                                                "repeat_lanes",
                                                "LaneList",
                                                "keep_extremum",
                                                "fold_position",
                                                "in_doubles",
                                                "polynomial",
                                                "infinity_of",
                                                "nearest_whole",
                                                "within",
                                                "exchanged",
                                                "times_power_of_two",
                                                "any_at_least",
                                                "lgamma_from_half",
                                                "bessel_i0",
                                                "bessel_i1",
                                                "bessel_j0",
                                                "bessel_j1",
                                                "bessel_y0",
                                                "bessel_y1",
                                                "bessel_k0",
                                                "bessel_k1",
                                                "near_or_far",
                                                "bessel_size0",
                                                "bessel_size1",
                                                "bessel_angle0",
                                                "bessel_angle1",
                                                "bessel_j0_near",
                                                "bessel_j1_near",
                                                "at",
                                                "part",
                                                "copy_end",
                                                "passed",
                                                "epilogue",
                                                "row",
                                                "row_stride",
                                                "first_row",
                                                "last_row",
                                                "ToroidEpilogue",
                                                "Checked",
                                                "CheckedRow",
                                                "Checks",
                                                "checks",
                                                "copy_elements",
                                                "out_of_bounds",
                                                "names",
                                                "origins",
                                                "from",
                                                "to",
                                                "for_blocks",
                                                "Total",
                                                "add_to",
                                                "sum_of",
                                                "begin_totals",
                                                "add_to_totals",
                                                "take_totals",
                                                "complete_totals",
                                                "lanes_from",
                                                "some_lanes",
                                                "in_halves",
                                                "takes_two_registers",
                                                "rounded_register",
                                                "fma_register",
                                                "turn",
                                                "each",
                                                "W",
                                                "l",
                                                "Full",
                                                "Part",
                                                "Same",
                                                "Plain",
                                                "INLINE",
                                                "EXPORT",
                                                "WRAPPER",
                                                "f16",
                                                "bf16"};
  const bool prelude_pattern = result.starts_with("op_") || result.starts_with("sum") || result.starts_with("result") ||
                               result.starts_with("stash") || result.starts_with("best") || result.starts_with("body") ||
                               result.starts_with("sizes") || result.starts_with("tile") || result.starts_with("argument") ||
                               result.starts_with("graph_") || result.starts_with("strides") || result.starts_with("k");
  if (result.empty() || (result[0] >= '0' && result[0] <= '9') || result[0] == '_' || prelude_pattern ||
      std::find(std::begin(kTaken), std::end(kTaken), result) != std::end(kTaken)) {
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
