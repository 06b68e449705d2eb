// Reads what text.h writes: the parts that the texts of loops and of schedules share.
//
// What is read is checked here as far as one buffer or expression goes: operands and dtypes as the compiler makes them, indices of as many
// dims as the buffer has. Every failure is an Error{InvalidModel} that starts with line:column.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "graph/text/operation_reader.h"
#include "loop/loop.h"

namespace toroid::loop {

class LoopTextReader : protected OperationReader {
 protected:
  using OperationReader::OperationReader;

  // Reads the program at the head of the text; the cursor is behind it then.
  void read_head(std::string_view text);
  // What read_graph gives for the main graph and each subgraph, whose sections begin with `word`: "loops {…}", "loops of subgraph 0 {…}".
  template <class ReadGraph>
  auto read_sections(std::string_view word, const ReadGraph& read_graph) {
    std::vector<decltype(read_graph(program_.graph))> graphs;
    cursor_.expect_word(word);
    graphs.push_back(read_graph(program_.graph));
    for (size_t i = 0; i < program_.subgraphs.size(); ++i) {
      expect_subgraph(word, i);
      graphs.push_back(read_graph(program_.subgraphs[i]));
    }
    return graphs;
  }

  // From here on for the graph and its loops, whose buffers may be referred to; both outlive what is read.
  void begin(Graph& graph, LoopProgram& loops);

  // Reads an origin, buffers, axes, a value or a named expression, if one comes.
  bool declaration();
  // The name of a computation or step.
  std::string step_name();
  std::vector<ProvenanceId> origins();  // "from 1, 2", or nothing
  static ProvenanceId origin_of_line(const std::vector<ProvenanceId>& origins) { return origins.empty() ? ProvenanceId{} : origins.back(); }

  ExprId expression(ProvenanceId origin) { return expression(origin, 0); }
  ExprId named_expression();  // "e0"
  BufferId buffer();
  std::vector<BufferId> buffers();      // "x, y"
  std::vector<sym::Expr> index_list();  // "[i0, 3]"
  std::vector<sym::Expr> axis_names();  // "i0, i1": axes
  sym::Expr axis();
  SumCare care();
  Call call(ProvenanceId origin);  // "matmul() on x[8, 64], w[64, 128]"
  Operand operand();               // "x[8, 64] strides [1, 8] offset(3)"

  int number(std::string_view wanted);  // a small one that is not negative
  sym::Expr bracketed();                // "[2*i0]"
  sym::Expr offset();                   // "offset(3)"; 0 where there is none
  // What a word names, as `parse` knows the names.
  template <class Op>
  Op kind_of(std::optional<Op> (*parse)(std::string_view), std::string_view wanted) {
    const size_t place = cursor_.place();
    const std::string name = cursor_.word(wanted);
    const std::optional<Op> op = parse(name);
    if (!op) cursor_.fail_at(place, fmt::format("'{}' is no {}", name, wanted));
    return *op;
  }
  // A float or double, an infinity too, up to one of these characters.
  template <class Number>
  Number real(std::string_view stops) {
    const size_t place = cursor_.place();
    const std::string_view text = cursor_.raw(stops);
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      cursor_.fail_at(place, "expected a number, not '" + std::string(text) + "'");
    return value;
  }
  // Runs `read`, which knows no place; its Error becomes one at this place.
  template <class Read>
  auto at(size_t place, Read read) {
    try {
      return read();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Internal) throw;
      cursor_.fail_at(place, error.message());
    }
  }

  ProvenanceId origin_now() const { return origin_now_; }
  LoopProgram& loops() { return *loops_; }
  Graph& graph() { return *graph_; }

 private:
  void expect_subgraph(std::string_view word, size_t index);
  void origin();
  ProvenanceId origin_number();
  void declare_buffer();
  void declare_axes();
  void declare_value();
  ExprId expression(ProvenanceId origin, int depth);
  ExprId literal(size_t place, ProvenanceId origin);
  ExprId operation(size_t place, const std::string& name, ProvenanceId origin, int depth);
  std::vector<ExprId> operands(size_t place, size_t count, ProvenanceId origin, int depth);
  ExprId add(ExprOp op, DType dtype, ProvenanceId origin);

  LoopProgram* loops_ = nullptr;
  Graph* graph_ = nullptr;
  std::unordered_map<std::string, BufferId> buffers_;  // by their text
  std::vector<ExprId> named_;
  ProvenanceId origin_now_{0};
};

}  // namespace toroid::loop
