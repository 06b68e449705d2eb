#include "fuzz/program_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/random.h"
#include "symbolic/expr.h"

namespace toroid::fuzz {
namespace {

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

template <class F>
void visit_words(std::string_view text, F f) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_word_character(text[end])) ++end;
    if (end == i) ++end;
    f(text.substr(i, end - i));
    i = end;
  }
}

bool is_value_name(std::string_view word) {
  return word.size() > 1 && word[0] == 'v' && word.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

[[noreturn]] void malformed(std::string_view line) {
  throw Error(ErrorKind::InvalidInput, fmt::format("not a line of a random program: {}", line))
      .help("tests/fuzz/program_text.h describes the file");
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Cuts at `separator` outside brackets.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '[' || text[i] == '(')) ++depth;
    if (i < text.size() && (text[i] == ']' || text[i] == ')')) --depth;
    if (i < text.size() && (text[i] != separator || depth > 0)) continue;
    if (const std::string_view part = trimmed(text.substr(start, i - start)); !part.empty()) parts.emplace_back(part);
    start = i + 1;
  }
  return parts;
}

int64_t number(std::string_view text) {
  int64_t value = 0;
  text = trimmed(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) malformed(text);
  return value;
}

std::string_view between(std::string_view text, std::string_view open, std::string_view close) {
  const size_t start = text.find(open);
  const size_t end = text.rfind(close);
  if (start == std::string_view::npos || end == std::string_view::npos || end < start) malformed(text);
  return text.substr(start + open.size(), end - start - open.size());
}

// "v0: f32[s0, 3] strides [1, s0]"
Input parse_input(std::string_view text, InputKind kind = InputKind::Argument) {
  Input input;
  const size_t colon = text.find(':');
  const size_t bracket = text.find('[');
  const size_t close = text.find(']');
  if (colon == std::string_view::npos || bracket == std::string_view::npos || close == std::string_view::npos) malformed(text);
  input.name = trimmed(text.substr(0, colon));
  input.kind = kind;
  const auto dtype = parse_dtype(trimmed(text.substr(colon + 1, bracket - colon - 1)));
  if (!dtype) malformed(text);
  input.dtype = *dtype;
  input.sizes = split(text.substr(bracket + 1, close - bracket - 1), ',');
  if (const size_t strides = text.find("strides ["); strides != std::string_view::npos) {
    input.strides = split(between(text.substr(strides), "[", "]"), ',');
  }
  return input;
}

Node parse_node(std::string_view line) {
  const size_t equals = line.find(" = ");
  Node node;
  if (equals == std::string_view::npos) {
    if (!is_in_place(line)) malformed(line);
    node.call = line;
    return node;
  }
  for (const std::string& result : split(line.substr(0, equals), ',')) {
    const size_t colon = result.find(':');
    if (colon == std::string::npos) malformed(line);
    node.results.emplace_back(trimmed(std::string_view(result).substr(0, colon)));
    node.types.emplace_back(trimmed(std::string_view(result).substr(colon + 1)));
  }
  node.call = trimmed(line.substr(equals + 3));
  return node;
}

Symbol parse_symbol(std::string_view line) {
  const auto bounds = split(between(line, "[", "]"), ',');
  const size_t hint = line.find("hint ");
  const bool from_data = line.ends_with(" from data");
  if (bounds.size() != 2 || (hint == std::string_view::npos) != from_data) malformed(line);
  return {std::string(trimmed(line.substr(4, line.find(" in ") - 4))), number(bounds[0]), number(bounds[1]),
          from_data ? 0 : number(line.substr(hint + 5)), from_data};
}

// "@3" everywhere in a call, as a number, through `f`.
template <class F>
std::string with_subgraphs(std::string_view call, F f) {
  std::string result;
  for (size_t i = 0; i < call.size();) {
    result += call[i++];
    if (call[i - 1] != '@') continue;
    size_t end = i;
    while (end < call.size() && std::isdigit(static_cast<unsigned char>(call[end])) != 0) ++end;
    result += std::to_string(f(static_cast<size_t>(number(call.substr(i, end - i)))));
    i = end;
  }
  return result;
}

// The text of nodes; their bodies, and the bodies within these, become subgraphs.
std::string nodes_text(const std::vector<Node>& nodes, std::vector<std::string>& subgraphs) {
  std::string text;
  for (const Node& node : nodes) {
    std::vector<size_t> numbers;
    for (const Body& body : node.bodies) {
      const std::string inside = nodes_text(body.nodes, subgraphs);
      std::vector<std::string> parameters;
      for (const auto& [name, type] : body.parameters) parameters.push_back(name + ": " + type);
      numbers.push_back(subgraphs.size());
      subgraphs.push_back(fmt::format("subgraph {}({}) {{\n{}  return {}\n}}\n", subgraphs.size(), fmt::join(parameters, ", "), inside,
                                      fmt::join(body.outputs, ", ")));
    }
    std::vector<std::string> results;
    for (size_t i = 0; i < node.results.size(); ++i) results.push_back(node.results[i] + ": " + node.types[i]);
    text += fmt::format("  {}{}{}\n", fmt::join(results, ", "), results.empty() ? "" : " = ",
                        with_subgraphs(node.call, [&](size_t local) { return numbers[local]; }));
    if (!node.bound.empty()) text += fmt::format("  sym {} = {}\n", node.bound, node.results[0]);
  }
  return text;
}

}  // namespace

std::string type_text(DType dtype, const std::vector<std::string>& sizes) {
  return fmt::format("{}[{}]", to_string(dtype), fmt::join(sizes, ", "));
}

std::string to_text(const Program& program) {
  std::string text;
  for (const std::string& comment : program.comments) text += "# " + comment + "\n";
  for (const bool is_argument : {false, true}) {
    for (const Input& input : program.inputs) {
      if ((input.kind == InputKind::Argument) == is_argument) text += fmt::format("# values {}: {}\n", input.name, input.values);
    }
  }
  for (const Run& run : program.runs) {
    text += "# run";
    for (const auto& [name, value] : run) text += fmt::format("{} {}={}", &name == &run[0].first ? "" : ",", name, value);
    text += "\n";
  }
  for (const Symbol& symbol : program.symbols) {
    text += fmt::format("sym {} in [{}, {}] {}\n", symbol.name, symbol.least, symbol.most,
                        symbol.from_data ? "from data" : fmt::format("hint {}", symbol.hint));
  }
  std::vector<std::string> inputs;
  std::string constants;
  std::string graph;
  int count = 0;
  for (const Input& input : program.inputs) {
    const std::string type =
        type_text(input.dtype, input.sizes) + (input.strides.empty() ? "" : fmt::format(" strides [{}]", fmt::join(input.strides, ", ")));
    if (input.kind == InputKind::Argument) {
      inputs.push_back(input.name + ": " + type);
      continue;
    }
    constants +=
        fmt::format("{} {} \"{}\": {} = external\n", input.kind == InputKind::Buffer ? "buffer" : "constant", count, input.name, type);
    graph += fmt::format("  {}: {} = constant({})\n", input.name, type, count++);
  }
  std::vector<std::string> subgraphs;
  graph += nodes_text(program.nodes, subgraphs);
  return fmt::format("{}{}{}graph({}) {{\n{}  return {}\n}}\n", text, constants, fmt::join(subgraphs, ""), fmt::join(inputs, ", "), graph,
                     fmt::join(program.outputs, ", "));
}

namespace {

class Reader {
 public:
  Program read(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      if (const std::string_view line = trimmed(text.substr(0, end)); !line.empty() && line != "}") read_line(line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (Input& input : program_.inputs) {
      for (const auto& [name, kind] : values_) {
        if (name == input.name) input.values = kind;
      }
      if (input.values.empty()) malformed(fmt::format("{}: has no '# values' line", input.name));
    }
    if (program_.runs.empty()) program_.runs.emplace_back();
    return std::move(program_);
  }

 private:
  void read_line(std::string_view line) {
    std::vector<Node>& nodes = in_subgraph_ ? subgraphs_.back().nodes : program_.nodes;
    if (line.starts_with("# values ")) {
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos) malformed(line);
      values_.emplace_back(line.substr(9, colon - 9), trimmed(line.substr(colon + 1)));
    } else if (line.starts_with("# run")) {
      Run run;
      for (const std::string& each : split(line.substr(5), ',')) {
        const size_t equals = each.find('=');
        if (equals == std::string::npos) malformed(line);
        run.emplace_back(each.substr(0, equals), number(std::string_view(each).substr(equals + 1)));
      }
      program_.runs.push_back(std::move(run));
    } else if (line.starts_with("#")) {
      program_.comments.emplace_back(trimmed(line.substr(1)));
    } else if (line.starts_with("sym ") && line.find(" in [") != std::string_view::npos) {
      program_.symbols.push_back(parse_symbol(line));
    } else if (line.starts_with("sym ")) {
      if (nodes.empty()) malformed(line);
      nodes.back().bound = trimmed(line.substr(4, line.find('=') - 4));
    } else if (line.starts_with("constant ") || line.starts_with("buffer ")) {
      std::string input(between(line, "\"", " = external"));
      std::erase(input, '"');
      program_.inputs.push_back(parse_input(input, line.starts_with("buffer ") ? InputKind::Buffer : InputKind::Weight));
    } else if (line.starts_with("subgraph ")) {
      in_subgraph_ = true;
      Body body;
      for (const std::string& parameter : split(between(line, "(", ") {"), ',')) {
        const size_t colon = parameter.find(':');
        if (colon == std::string::npos) malformed(line);
        body.parameters.emplace_back(parameter.substr(0, colon), trimmed(std::string_view(parameter).substr(colon + 1)));
      }
      subgraphs_.push_back(std::move(body));
    } else if (line.starts_with("graph(")) {
      in_subgraph_ = false;
      for (const std::string& input : split(between(line, "graph(", ") {"), ',')) program_.inputs.push_back(parse_input(input));
    } else if (line.starts_with("return")) {
      (in_subgraph_ ? subgraphs_.back().outputs : program_.outputs) = split(line.substr(6), ',');
    } else if (line.find(" = constant(") == std::string_view::npos) {
      Node node = parse_node(line);
      node.call = with_subgraphs(node.call, [&](size_t global) {
        if (global >= subgraphs_.size()) malformed(line);
        node.bodies.push_back(subgraphs_[global]);
        return node.bodies.size() - 1;
      });
      nodes.push_back(std::move(node));
    }
  }

  Program program_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<Body> subgraphs_;
  bool in_subgraph_ = false;
};

}  // namespace

Program parse_program(std::string_view text) { return Reader().read(text); }

DType dtype_of(const std::string& type) {
  const std::optional<DType> dtype = parse_dtype(type.substr(0, type.find('[')));
  if (!dtype) malformed(type);
  return *dtype;
}

std::vector<std::string> sizes_of(const std::string& type) {
  const size_t open = type.find('[');
  const size_t close = type.find(']');
  if (open == std::string::npos || close == std::string::npos) malformed(type);
  return split(std::string_view(type).substr(open + 1, close - open - 1), ',');
}

bool is_in_place(std::string_view call) {
  const std::string_view op = call.substr(0, call.find('('));
  return op.substr(0, op.find('.')).ends_with("_");
}

std::string plain_type(const std::string& type) { return type.substr(0, type.find(']') + 1); }

std::vector<std::string> arguments_of(std::string_view call) { return split(between(call, "(", ")"), ','); }

std::vector<std::string> values_in(std::string_view call) {
  std::vector<std::string> names;
  visit_words(call, [&](std::string_view word) {
    if (is_value_name(word)) names.emplace_back(word);
  });
  return names;
}

std::string replace_words(std::string_view text, const std::vector<std::pair<std::string, std::string>>& replacements) {
  std::string result;
  visit_words(text, [&](std::string_view word) {
    for (const auto& [from, to] : replacements) {
      if (word == from) {
        result += to;
        return;
      }
    }
    result += word;
  });
  return result;
}

int64_t size_in(const std::string& expression, const Run& run) {
  sym::Context context;
  const sym::Expr value = sym::parse(expression, context, [&](std::string_view name) -> sym::Expr {
    for (const auto& [symbol, number] : run) {
      if (symbol == name) return number;
    }
    throw Error(ErrorKind::InvalidInput, fmt::format("the run gives no value for '{}'", name));
  });
  return value.value();
}

std::vector<int64_t> sizes_in(const std::vector<std::string>& expressions, const Run& run) {
  std::vector<int64_t> sizes;
  for (const std::string& each : expressions) sizes.push_back(size_in(each, run));
  return sizes;
}

// ---- elements ------------------------------------------------------------------------------------------------------------

namespace {

double float_element(std::string_view kind, Random& random, DType dtype) {
  const double grid = static_cast<double>(random.between(-16, 16)) / 4;
  if (kind == "grid" || kind == "sorted") return grid;
  if (kind == "chance") return random.unit();
  if (kind == "unit") return random.unit() * 4 - 2;
  if (kind == "positive") return random.unit() * 3.75 + 0.25;
  if (kind == "negative") return random.unit() * -3.75 - 0.25;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (kind == "ties") return random.chance(0.04) ? std::nan("") : random.pick({-1.0, 0.0, 0.5, 1.0});
  if (kind == "signs")
    return random.chance(0.06) ? random.pick({std::nan(""), kInf, -kInf}) : random.pick({-0.0, 0.0, -0.0, 0.0, -1.0, 1.0, 0.5});
  // special
  if (!random.chance(0.15)) return grid;
  const bool is_f16 = dtype == DType::F16;
  const double largest = dtype == DType::F64 ? std::numeric_limits<double>::max()
                         : is_f16            ? 65504
                                             : static_cast<double>(std::numeric_limits<float>::max());
  const double denormal = dtype == DType::F64 ? 0x1p-1060 : is_f16 ? 0x1p-20 : 0x1p-135;
  return random.pick({std::nan(""), kInf, -kInf, -0.0, 0.0, largest, -largest, denormal, -denormal});
}

int64_t int_element(std::string_view kind, int64_t bound, Random& random, DType dtype) {
  const bool is_unsigned = !is_signed(dtype);
  if (dtype == DType::Bool) return random.below(2);
  if (kind == "index") return random.below(bound);
  if (kind == "wrap") return random.between(-bound, bound - 1);
  if (kind == "shift") return random.chance(0.5) ? random.between(0, 7) : random.between(is_unsigned ? 0 : -8, 70);
  if (kind == "ties") return random.below(3) - (is_unsigned ? 0 : 1);
  if (kind == "negative" && !is_unsigned) return random.between(-9, -1);
  const int64_t small = is_unsigned ? random.between(0, 16) : random.between(-8, 8);
  const bool is_divisor = kind == "nonzero";
  if ((kind != "extreme" && !is_divisor) || !random.chance(is_divisor ? 0.1 : 0.3)) return is_divisor && small == 0 ? -1 : small;
  const int64_t bits = size_bytes(dtype) * 8 - (is_unsigned ? 0 : 1);
  const int64_t most = bits == 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
  const int64_t least = is_unsigned ? 0 : -most - 1;
  return random.pick({is_divisor && least == 0 ? most : least, most, least + 1, most - 1, most / 2});
}

// Logical elements of a tensor that lies in memory with these strides: those at the same place are equal.
template <class T>
void share(std::vector<T>& values, const std::vector<int64_t>& places) {
  std::unordered_map<int64_t, T> memory;
  for (size_t i = 0; i < values.size(); ++i) values[i] = memory.try_emplace(places[i], values[i]).first->second;
}

}  // namespace

std::vector<int64_t> places_in_memory(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<int64_t> places(static_cast<size_t>(numel(sizes)));
  std::vector<int64_t> index(sizes.size());
  for (int64_t& place : places) {
    place = std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
  return places;
}

HostTensor memory_of(const Input& input, const Run& run) {
  const HostTensor elements = elements_of(input, run);
  if (input.strides.empty()) return elements;
  const std::vector<int64_t> places = places_in_memory(elements.sizes(), sizes_in(input.strides, run));
  const int64_t span = places.empty() ? 0 : *std::max_element(places.begin(), places.end()) + 1;
  HostTensor memory(elements.dtype(), {span});
  const auto width = static_cast<size_t>(size_bytes(elements.dtype()));
  auto* to = memory.mutable_data<std::byte>();
  std::fill_n(to, memory.bytes().size(), std::byte{0});
  for (size_t i = 0; i < places.size(); ++i)
    std::copy_n(elements.bytes().data() + i * width, width, to + static_cast<size_t>(places[i]) * width);
  return memory;
}

HostTensor elements_of(const Input& input, const Run& run) {
  const std::vector<std::string> words = split(input.values, ' ');
  if (words.size() < 2) malformed(input.values);
  const std::string& kind = words[0];
  const int64_t bound = words.size() > 2 ? number(words[1]) : 1;
  auto seed = static_cast<uint64_t>(number(words.back()));
  for (const auto& [name, value] : run) {
    if (name == kData && input.kind == InputKind::Argument) seed += 1000003 * static_cast<uint64_t>(value);
  }
  Random random(seed);
  const std::vector<int64_t> sizes = sizes_in(input.sizes, run);
  const auto count = static_cast<size_t>(numel(sizes));
  const std::vector<int64_t> places =
      input.strides.empty() ? std::vector<int64_t>{} : places_in_memory(sizes, sizes_in(input.strides, run));
  const size_t row = sizes.empty() || sizes.back() == 0 ? 1 : static_cast<size_t>(sizes.back());
  auto shuffle = [&](auto& values, size_t begin, size_t end) {
    for (size_t i = end; i-- > begin + 1;)
      std::swap(values[i], values[begin + static_cast<size_t>(random.below(static_cast<int64_t>(i - begin + 1)))]);
  };
  if (is_floating(input.dtype)) {
    std::vector<double> values(count);
    if (kind == "distinct") {
      std::iota(values.begin(), values.end(), -static_cast<double>(count / 2));
      shuffle(values, 0, count);
    } else {
      for (double& value : values) value = float_element(kind, random, input.dtype);
    }
    if (kind == "sorted") {
      for (size_t begin = 0; begin + row <= count; begin += row)
        std::sort(values.begin() + static_cast<ptrdiff_t>(begin), values.begin() + static_cast<ptrdiff_t>(begin + row));
    }
    if (!places.empty()) share(values, places);
    return HostTensor::from_doubles(input.dtype, sizes, values);
  }
  std::vector<int64_t> values(count);
  if (kind == "permute") {
    for (size_t begin = 0; begin < count; begin += row) {
      std::iota(values.begin() + static_cast<ptrdiff_t>(begin), values.begin() + static_cast<ptrdiff_t>(begin + row), 0);
      shuffle(values, begin, begin + row);
    }
  } else {
    for (int64_t& value : values) value = int_element(kind, bound, random, input.dtype);
  }
  if (!places.empty()) share(values, places);
  return HostTensor::from_ints(input.dtype, sizes, values);
}

}  // namespace toroid::fuzz
