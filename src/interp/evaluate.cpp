#include "interp/evaluate.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/machine/memory.h"
#include "base/machine/out_of_memory.h"
#include "base/philox.h"
#include "graph/builder.h"
#include "graph/custom/custom_operator.h"
#include "graph/number.h"
#include "graph/text/text.h"
#include "interp/library_kernels.h"
#include "interp/movement.h"
#include "interp/products.h"
#include "interp/reductions.h"
#include "library/special/scalar.h"
#include "signature/symbol_values.h"
#include "support/match.h"

namespace toroid {
namespace {

double number(const Scalar& scalar, const SymbolValues& symbols) {
  return match(
      scalar, [](bool b) { return b ? 1.0 : 0.0; }, [&](sym::Expr e) { return static_cast<double>(symbols.evaluate(e)); },
      [](double d) { return d; });
}

int64_t whole_number(const Scalar& scalar, DType dtype, const SymbolValues& symbols) {
  return match(
      scalar, [](bool b) { return int64_t{b}; }, [&](sym::Expr e) { return wrapped_to(dtype, symbols.evaluate(e)); },
      [&](double d) { return truncated_to(dtype, d); });
}

HostTensor full(DType dtype, std::vector<int64_t> sizes, const Scalar& value, const SymbolValues& symbols) {
  HostTensor one = is_floating(dtype) ? HostTensor::from_doubles(dtype, {}, std::vector<double>{number(value, symbols)})
                                      : HostTensor::from_ints(dtype, {}, std::vector<int64_t>{whole_number(value, dtype, symbols)});
  return expand(one.reshaped(std::vector<int64_t>(sizes.size(), 1)), sizes);
}

HostTensor iota(DType dtype, std::vector<int64_t> sizes, int dim) {
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(numel(sizes)));
  for_each_index(sizes, [&](std::span<const int64_t> index) { values.push_back(index[static_cast<size_t>(dim)]); });
  if (!is_floating(dtype)) {
    for (int64_t& value : values) value = wrapped_to(dtype, value);
    return HostTensor::from_ints(dtype, std::move(sizes), values);
  }
  return HostTensor::from_doubles(dtype, std::move(sizes), std::vector<double>(values.begin(), values.end()));
}

HostTensor cast(const HostTensor& x, DType dtype) {
  if (is_floating(x.dtype())) {
    std::vector<double> values = x.to_doubles();
    if (is_floating(dtype)) return HostTensor::from_doubles(dtype, x.sizes(), values);
    std::vector<int64_t> integers;
    integers.reserve(values.size());
    for (double value : values) integers.push_back(truncated_to(dtype, value));
    return HostTensor::from_ints(dtype, x.sizes(), integers);
  }
  std::vector<int64_t> integers = x.to_ints();
  if (!is_floating(dtype)) {
    for (int64_t& value : integers) value = wrapped_to(dtype, value);
    return HostTensor::from_ints(dtype, x.sizes(), integers);
  }
  if (x.dtype() == DType::U64) return HostTensor::from_doubles(dtype, x.sizes(), x.to_doubles());
  return HostTensor::from_doubles(dtype, x.sizes(), std::vector<double>(integers.begin(), integers.end()));
}

template <class Wide>
std::vector<Wide> apply_all(ScalarOp op, DType dtype, std::vector<Wide> a, const std::vector<Wide>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = apply(op, dtype, a[i], b.empty() ? Wide{0} : b[i]);
  return a;
}

HostTensor where(const HostTensor& condition, const HostTensor& a, const HostTensor& b) {
  const int64_t width = size_bytes(a.dtype());
  HostTensor out(a.dtype(), a.sizes());
  std::byte* to = out.mutable_data<std::byte>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    const HostTensor& from = condition.bytes()[static_cast<size_t>(i)] != std::byte{0} ? a : b;
    std::copy_n(from.bytes().data() + i * width, width, to + i * width);
  }
  return out;
}

HostTensor philox(ScalarOp op, std::span<const HostTensor> operands) {
  std::vector<int64_t> bits = operands[0].to_ints();
  const std::vector<int64_t> key = operands[1].to_ints();
  const std::vector<int64_t> high = operands[2].to_ints();
  for (size_t i = 0; i < bits.size(); ++i) {
    const PhiloxBlock block = philox_4x32_10(static_cast<uint64_t>(bits[i]), static_cast<uint64_t>(high[i]), static_cast<uint64_t>(key[i]));
    bits[i] = static_cast<int64_t>(op == ScalarOp::PhiloxLow ? block.low() : block.high());
  }
  return HostTensor::from_ints(DType::I64, operands[0].sizes(), bits);
}

HostTensor pointwise(ScalarOp op, std::span<const HostTensor> operands) {
  if (op == ScalarOp::PhiloxLow || op == ScalarOp::PhiloxHigh) return philox(op, operands);
  if (op == ScalarOp::Where) return where(operands[0], operands[1], operands[2]);
  const HostTensor& a = operands[0];
  const DType dtype = a.dtype();
  const DType out = result_dtype(op, dtype);
  const bool binary = operands.size() > 1;
  if (!is_floating(dtype)) {
    std::vector<int64_t> results = apply_all(op, dtype, a.to_ints(), binary ? operands[1].to_ints() : std::vector<int64_t>());
    for (int64_t& result : results) result = wrapped_to(out, result);
    return HostTensor::from_ints(out, a.sizes(), results);
  }
  const std::vector<double> results = apply_all(op, dtype, a.to_doubles(), binary ? operands[1].to_doubles() : std::vector<double>());
  if (out == DType::Bool) {
    return HostTensor::from_ints(out, a.sizes(), std::vector<int64_t>(results.begin(), results.end()));
  }
  return HostTensor::from_doubles(out, a.sizes(), results);
}

// Evaluates an index expression of a Remap for given axis values; tabulated when it depends on one axis only.
IndexFunction index_function(sym::Expr expr, const std::vector<sym::Expr>& axes, std::span<const int64_t> sizes,
                             const SymbolValues& symbols) {
  auto value_at = [expr, axes, &symbols](std::span<const int64_t> values) {
    return sym::evaluate(expr, [&](sym::Expr symbol) -> std::optional<int64_t> {
      const auto axis = std::find(axes.begin(), axes.end(), symbol);
      if (axis != axes.end()) return values[static_cast<size_t>(axis - axes.begin())];
      return symbols.find(symbol);
    });
  };
  std::vector<size_t> used;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (sym::depends_on(expr, axes[d])) used.push_back(d);
  }
  if (used.size() > 1 || numel(sizes) == 0) return value_at;
  std::vector<int64_t> values(axes.size(), 0);
  const size_t axis = used.empty() ? 0 : used[0];
  std::vector<int64_t> table;
  for (int64_t i = 0; i < (used.empty() ? 1 : sizes[axis]); ++i) {
    if (!used.empty()) values[axis] = i;
    table.push_back(value_at(values));
  }
  if (used.empty()) return [only = table[0]](std::span<const int64_t>) { return only; };
  return [table, axis](std::span<const int64_t> index) { return table[static_cast<size_t>(index[axis])]; };
}

// Runs one graph. A subgraph runs in an evaluator of its own, with a copy of the symbols: each run may define its
// data-dependent sizes anew.
class Evaluator {
 public:
  Evaluator(const Program& program, const Graph& graph, SymbolValues symbols, const EvaluateOptions& options)
      : program_(program), graph_(graph), symbols_(std::move(symbols)), options_(options) {}

  std::vector<HostTensor> run(std::span<const HostTensor> inputs) {
    inputs_ = inputs;
    values_.assign(graph_.num_values(), {});
    uses_.assign(graph_.num_values(), 0);
    for (const Node& node : graph_.nodes()) {
      for (ValueId input : node.inputs) ++uses_[static_cast<size_t>(input)];
    }
    for (ValueId output : graph_.outputs) ++uses_[static_cast<size_t>(output)];

    for (const Node& node : graph_.nodes()) run_node(node);

    std::vector<HostTensor> outputs;
    for (ValueId output : graph_.outputs) outputs.push_back(values_[static_cast<size_t>(output)]);
    return outputs;
  }

 private:
  void run_node(const Node& node) {
    const Provenance& origin = graph_.provenance(node.provenance);
    ErrorContext context("computing '{}' = {}{}{}", node.outputs.empty() ? "()" : graph_.value(node.outputs[0]).name, op_name(node),
                         origin.op.empty() ? "" : ", part of " + origin.op, origin.source.empty() ? "" : " at " + origin.source);
    std::vector<HostTensor> operands;
    for (ValueId input : node.inputs) operands.push_back(values_[static_cast<size_t>(input)]);
    require_memory(node, operands);
    std::vector<HostTensor> results = compute(node, operands);
    operands.clear();
    TOROID_CHECK(results.size() == node.outputs.size(), "{} results for {} outputs", results.size(), node.outputs.size());
    for (size_t i = 0; i < results.size(); ++i) check_type(graph_.type(node.outputs[i]), results[i]);
    for (const SymbolBinding& binding : graph_.bindings) {
      for (size_t i = 0; i < results.size(); ++i) {
        if (binding.value == node.outputs[i]) symbols_.bind(binding.expr, results[i].int_at(0));
      }
    }
    if (options_.after_node) options_.after_node(graph_, node, results);
    for (size_t i = 0; i < results.size(); ++i) {
      const auto output = static_cast<size_t>(node.outputs[i]);
      if (uses_[output] > 0) values_[output] = std::move(results[i]);
    }
    for (ValueId input : node.inputs) {
      const auto index = static_cast<size_t>(input);
      if (--uses_[index] == 0) values_[index] = {};
    }
  }

  // How many elements a result has, if its sizes are known before it is computed.
  std::optional<double> count_of(const TensorType& type) const {
    double count = 1;
    for (sym::Expr size : type.sizes) {
      const std::vector<sym::Expr> symbols = size.is_const() ? std::vector<sym::Expr>() : sym::free_symbols(size);
      if (!std::all_of(symbols.begin(), symbols.end(), [&](sym::Expr symbol) { return symbols_.find(symbol).has_value(); })) return {};
      count *= static_cast<double>(symbols_.evaluate(size));
    }
    return count;
  }

  // What computing `node` takes beside its operands: its results, and numbers of 64 bits where it computes with those.
  double bytes_for(const Node& node, std::span<const HostTensor> in) const {
    if (is_any<Input, Constant, Reshape, Bitcast, HigherOrder>(node.op)) return 0;
    double bytes = 0, count = 0;
    for (ValueId output : node.outputs) {
      const TensorType& type = graph_.type(output);
      const double elements = count_of(type).value_or(0);
      bytes += elements * static_cast<double>(size_bytes(type.dtype));
      if (std::holds_alternative<Iota>(node.op)) count += elements;
    }
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    const bool moves = is_any<Expand, Permute, Slice, Remap, Pad, Cat, Library>(node.op) || (pointwise && pointwise->op == ScalarOp::Where);
    const size_t first = std::holds_alternative<Gather>(node.op) ? 1 : std::holds_alternative<Scatter>(node.op) ? 2 : 0;
    for (size_t i = first; i < in.size() && !moves; ++i) count += static_cast<double>(in[i].numel());
    return bytes + count * 8;
  }

  // Sizes that the machine does not hold are refused before the work.
  void require_memory(const Node& node, std::span<const HostTensor> in) const {
    constexpr double kSmall = 1 << 28;
    const double bytes = bytes_for(node, in);
    if (bytes < kSmall || bytes <= static_cast<double>(total_memory_bytes())) return;
    out_of_memory(static_cast<uint64_t>(bytes),
                  fmt::format("'{}' of shape {}", graph_.value(node.outputs[0]).name, shape_text(sizes(node))));
  }

  // Sizes that depend on data are defined by the first result that has them.
  void check_type(const TensorType& type, const HostTensor& result) {
    TOROID_CHECK(type.dtype == result.dtype() && type.rank() == result.rank(), "computed {}, typed {}", to_string(result), to_string(type));
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      const sym::Expr size = type.sizes[d];
      if (size.is_symbol() && size.node()->symbol_kind == sym::SymbolKind::DataDependent && !symbols_.find(size)) {
        symbols_.set(size, result.sizes()[d]);
      }
      TOROID_CHECK(symbols_.evaluate(size) == result.sizes()[d], "computed {}, typed {}", to_string(result), to_string(type));
    }
  }

  static std::string op_name(const Node& node) {
    std::string text = to_string(node.op);
    return text.substr(0, text.find('('));
  }

  const TensorType& type(const Node& node) const { return graph_.type(node.outputs[0]); }
  std::vector<int64_t> sizes(const Node& node) const { return symbols_.evaluate(type(node).sizes); }

  std::vector<HostTensor> compute(const Node& node, std::span<const HostTensor> in) {
    using Results = std::vector<HostTensor>;
    return match(
        node.op,  //
        [&](const Input& op) { return Results{inputs_[op.index]}; },
        [&](const Constant& op) { return Results{constant_tensor(program_.constant(op.id))}; },
        [&](const Aten& op) -> Results {
          throw Error(ErrorKind::Unsupported, fmt::format("operator '{}' was not decomposed", op.schema->name));
        },
        [&](const HigherOrder& op) { return higher_order(node, op, in); },
        [&](const Full& op) { return Results{full(type(node).dtype, sizes(node), op.value, symbols_)}; },
        [&](const Iota& op) { return Results{iota(type(node).dtype, sizes(node), op.dim)}; },
        [&](const RandomState&) {
          const int64_t state[] = {static_cast<int64_t>(options_.random.seed), static_cast<int64_t>(options_.random.call)};
          return Results{HostTensor::from_ints(DType::I64, {2}, state)};
        },
        [&](const Pointwise& op) { return Results{pointwise(op.op, in)}; },
        [&](const Cast&) { return Results{cast(in[0], type(node).dtype)}; },
        [&](const Bitcast&) { return Results{in[0].bitcast(type(node).dtype)}; },
        [&](const Expand&) { return Results{expand(in[0], sizes(node))}; },
        [&](const Permute& op) { return Results{permute(in[0], op.dims)}; },
        [&](const Reshape&) { return Results{in[0].reshaped(sizes(node))}; },
        [&](const Slice& op) { return Results{slice(in[0], symbols_.evaluate(op.starts), symbols_.evaluate(op.steps), sizes(node))}; },
        [&](const Remap& op) {
          const std::vector<int64_t> out_sizes = sizes(node);
          std::vector<IndexFunction> index;
          for (sym::Expr expr : op.index) index.push_back(index_function(expr, op.axes, out_sizes, symbols_));
          return Results{remap(in[0], index, out_sizes)};
        },
        [&](const Pad& op) {
          const HostTensor value = full(type(node).dtype, {}, op.value, symbols_);
          return Results{pad(in[0], symbols_.evaluate(op.low), value, sizes(node))};
        },
        [&](const Cat& op) { return Results{cat(in, op.dim, sizes(node))}; },
        [&](const Gather&) { return Results{gather(in[0], in.subspan(1))}; },
        [&](const Scatter& op) { return Results{scatter(in[0], in[1], in.subspan(2), op.mode)}; },
        [&](const Reduce& op) {
          const bool is_wide = in[0].dtype() == DType::F32 && type(node).dtype == DType::F64;
          return reduce(op.op, is_wide ? cast(in[0], DType::F64) : in[0], op.dims);
        },
        [&](const Scan& op) { return scan(op.op, in[0], op.dim); }, [&](const Sort& op) { return sort(in[0], op.dim, op.descending); },
        [&](const Matmul&) { return Results{matmul(in[0], in[1])}; },
        [&](const Convolution& op) {
          const ConvolutionSizes how{symbols_.evaluate(op.stride), symbols_.evaluate(op.padding), symbols_.evaluate(op.dilation),
                                     op.transposed, symbols_.evaluate(op.groups)};
          return Results{convolution(in[0], in[1], in.size() > 2 ? &in[2] : nullptr, how, sizes(node))};
        },
        [&](const Attention& op) { return Results{attention(in[0], in[1], in[2], in.size() > 3 ? &in[3] : nullptr, op.causal, op.scale)}; },
        [&](const Library& op) { return library(node, op, in); });
  }

  std::vector<HostTensor> library(const Node& node, const Library& op, std::span<const HostTensor> in) {
    if (op.name.starts_with(kCustomPrefix)) {
      const size_t prefix = op.name.starts_with(kTritonPrefix) ? kTritonPrefix.size() : kCustomPrefix.size();
      throw Error(ErrorKind::Unsupported,
                  fmt::format("{} is computed by code of its own, which the evaluator does not run", op.name.substr(prefix)))
          .help("compile the model, or give the operator a formula");
    }
    if (op.name == kAttentionProduct) return {attention_product(in[0], in[1])};
    if (op.name == kAttentionOfScores) return {attention_of_scores(in[3], in[2], std::get<bool>(op.attributes[0]))};
    const LibraryKernel kernel = find_evaluated_kernel(op.name);
    if (kernel == nullptr) throw Error(ErrorKind::Unsupported, fmt::format("there is no library kernel '{}'", op.name));
    std::vector<double> attributes;
    for (const Scalar& attribute : op.attributes) attributes.push_back(number(attribute, symbols_));
    std::vector<HostTensor> aligned;  // kernels read through typed pointers, which a file's bytes may not suit
    std::vector<LibraryInput> inputs;
    for (const HostTensor& x : in) {
      aligned.push_back(copy_strided(x, 0, strides_of(x.sizes()), x.sizes()));
      inputs.push_back({x.dtype(), x.sizes(), aligned.back().bytes().data()});
    }
    std::vector<HostTensor> results;
    for (ValueId output : node.outputs) {
      const TensorType& output_type = graph_.type(output);
      results.emplace_back(output_type.dtype, symbols_.evaluate(output_type.sizes));
    }
    std::vector<LibraryOutput> outputs;
    for (HostTensor& result : results) {
      outputs.push_back({result.dtype(), result.sizes(), result.mutable_data<std::byte>()});
    }
    kernel({inputs, outputs, attributes});
    return results;
  }

  // ---- control flow: subgraphs with arguments (predicate, subgraphs…, operands) as torch.export writes them
  // -----------------

  std::vector<HostTensor> call(const Argument& subgraph, std::span<const HostTensor> operands) {
    return call(subgraph, operands, options_);
  }
  // The run-th time that a loop calls it.
  std::vector<HostTensor> call_again(const Argument& subgraph, std::span<const HostTensor> operands, int64_t run) {
    EvaluateOptions options = options_;
    options.random = loop_random(options_.random, static_cast<uint64_t>(run));
    return call(subgraph, operands, options);
  }
  std::vector<HostTensor> call(const Argument& subgraph, std::span<const HostTensor> operands, const EvaluateOptions& options) {
    const auto* ref = std::get_if<SubgraphRef>(&subgraph);
    TOROID_CHECK(ref != nullptr, "a higher-order argument that should be a subgraph is none");
    return Evaluator(program_, program_.subgraphs[ref->index], symbols_, options).run(operands);
  }

  static std::vector<HostTensor> operands(const HigherOrder& op, size_t first, std::span<const HostTensor> in) {
    std::vector<HostTensor> result;
    for (size_t i = first; i < op.arguments.size(); ++i) {
      if (const auto* one = std::get_if<InputRef>(&op.arguments[i])) result.push_back(in[one->index]);
      const auto* list = std::get_if<InputList>(&op.arguments[i]);
      if (list == nullptr) continue;
      for (const std::optional<InputRef>& ref : *list) result.push_back(in[ref->index]);
    }
    return result;
  }

  std::vector<HostTensor> higher_order(const Node&, const HigherOrder& op, std::span<const HostTensor> in) {
    if (op.name == "cond") return cond(op, in);
    if (op.name == "while_loop") return while_loop(op, in);
    if (op.name == "scan" || op.name == "map_impl") return scan_slices(op, in);
    if (op.name == "associative_scan") return scan_associatively(op, in);
    throw Error(ErrorKind::Unsupported, fmt::format("the higher-order operator '{}' is not supported", op.name));
  }

  // cond(predicate, true_graph, false_graph, operands)
  std::vector<HostTensor> cond(const HigherOrder& op, std::span<const HostTensor> in) {
    const auto* predicate = std::get_if<InputRef>(&op.arguments[0]);
    bool taken = false;
    if (predicate != nullptr) {
      taken = in[predicate->index].bool_at(0);
    } else if (const auto* expr = std::get_if<sym::Expr>(&op.arguments[0])) {
      taken = symbols_.evaluate(*expr) != 0;
    } else if (const auto* flag = std::get_if<bool>(&op.arguments[0])) {
      taken = *flag;
    } else {
      TOROID_CHECK(false, "the predicate of cond is neither a tensor nor a number");
    }
    return call(op.arguments[taken ? 1 : 2], operands(op, 3, in));
  }

  // while_loop(cond_graph, body_graph, carried, additional): the body gives new carried values from (carried,
  // additional).
  std::vector<HostTensor> while_loop(const HigherOrder& op, std::span<const HostTensor> in) {
    std::vector<HostTensor> state = operands(op, 2, in);
    const auto* list = std::get_if<InputList>(&op.arguments[2]);
    TOROID_CHECK(list != nullptr, "while_loop carries a list of tensors");
    const size_t carried = list->size();
    for (int64_t run = 0; call_again(op.arguments[0], state, run)[0].bool_at(0); ++run) {
      std::vector<HostTensor> next = call_again(op.arguments[1], state, run);
      TOROID_CHECK(next.size() == carried, "while_loop carries {} values, its body gives {}", carried, next.size());
      std::move(next.begin(), next.end(), state.begin());
    }
    state.resize(carried);
    return state;
  }

  static size_t length_of(const Argument& list) {
    const auto* inputs = std::get_if<InputList>(&list);
    TOROID_CHECK(inputs != nullptr, "control flow over what is no list of tensors");
    return inputs->size();
  }

  static HostTensor slice_of(const HostTensor& x, int64_t position) {
    const std::vector<int64_t> sizes = slice_sizes(x);
    return copy_strided(x, position * numel(sizes), strides_of(sizes), sizes);
  }

  // scan(body, carried, sliced, others) and map_impl(body, sliced, others): the body gives new carried values and a slice of each
  // result from (carried, slices, others).
  std::vector<HostTensor> scan_slices(const HigherOrder& op, std::span<const HostTensor> in) {
    const bool carries = op.name == "scan";
    const size_t carried = carries ? length_of(op.arguments[1]) : 0;
    const size_t sliced = length_of(op.arguments[carries ? 2 : 1]);
    TOROID_CHECK(sliced > 0, "{} over no tensors", op.name);
    const std::vector<HostTensor> all = operands(op, 1, in);
    std::vector<HostTensor> now = all;
    std::vector<HostTensor> results(all.begin(), all.begin() + static_cast<ptrdiff_t>(carried));
    const int64_t steps = all[carried].sizes()[0];
    for (int64_t s = 0; s < steps; ++s) {
      for (size_t i = carried; i < carried + sliced; ++i) now[i] = slice_of(all[i], s);
      std::vector<HostTensor> next = call_again(op.arguments[0], now, s);
      for (size_t i = carried; i < next.size(); ++i) {
        if (s == 0) results.push_back(stack_of(next[i].dtype(), steps, next[i].sizes()));
        put_slice(results[i], s, next[i]);
      }
      for (size_t i = 0; i < carried; ++i) results[i] = now[i] = next[i];
    }
    if (steps == 0) {
      const auto* body = std::get_if<SubgraphRef>(&op.arguments[0]);
      const Graph& graph = program_.subgraphs[body->index];
      for (size_t i = carried; i < graph.outputs.size(); ++i) {
        const TensorType& type = graph.type(graph.outputs[i]);
        results.push_back(stack_of(type.dtype, 0, symbols_.evaluate(type.sizes)));
      }
    }
    return results;
  }

  static HostTensor stack_of(DType dtype, int64_t count, const std::vector<int64_t>& slice) {
    std::vector<int64_t> sizes = {count};
    sizes.insert(sizes.end(), slice.begin(), slice.end());
    return HostTensor(dtype, sizes);
  }
  static void put_slice(HostTensor& stack, int64_t position, const HostTensor& slice) {
    const size_t bytes = slice.bytes().size();
    if (bytes > 0) std::memcpy(stack.mutable_data<std::byte>() + static_cast<size_t>(position) * bytes, slice.bytes().data(), bytes);
  }

  // associative_scan(body, sliced, others): result[s] = body(result[s-1], sliced[s], others), from the first slice on.
  std::vector<HostTensor> scan_associatively(const HigherOrder& op, std::span<const HostTensor> in) {
    const size_t sliced = length_of(op.arguments[1]);
    TOROID_CHECK(sliced > 0, "associative_scan over no tensors");
    const std::vector<HostTensor> all = operands(op, 1, in);
    std::vector<HostTensor> results;
    std::vector<HostTensor> last;
    for (size_t i = 0; i < sliced; ++i) results.push_back(stack_of(all[i].dtype(), all[i].sizes()[0], slice_sizes(all[i])));
    for (int64_t s = 0; s < all[0].sizes()[0]; ++s) {
      std::vector<HostTensor> next;
      for (size_t i = 0; i < sliced; ++i) next.push_back(slice_of(all[i], s));
      if (s > 0) {
        std::vector<HostTensor> now = std::move(last);
        now.insert(now.end(), next.begin(), next.end());
        now.insert(now.end(), all.begin() + static_cast<ptrdiff_t>(sliced), all.end());
        next = call_again(op.arguments[0], now, s);
      }
      for (size_t i = 0; i < sliced; ++i) put_slice(results[i], s, next[i]);
      last = std::move(next);
    }
    return results;
  }
  static std::vector<int64_t> slice_sizes(const HostTensor& x) { return {x.sizes().begin() + 1, x.sizes().end()}; }

  const Program& program_;
  const Graph& graph_;
  SymbolValues symbols_;
  const EvaluateOptions& options_;
  std::span<const HostTensor> inputs_;
  std::vector<HostTensor> values_;  // by ValueId
  std::vector<uint32_t> uses_;      // by ValueId: how many are still to come
};

}  // namespace

RandomSeed loop_random(RandomSeed outer, uint64_t run) {
  const PhiloxBlock block = philox_4x32_10(~run, outer.call, outer.seed);
  return {block.low(), block.high()};
}

HostTensor constant_tensor(const ConstantData& constant) {
  require_elements(constant);
  const SymbolValues no_symbols;
  const std::vector<int64_t> sizes = no_symbols.evaluate(constant.type.sizes);
  const auto contiguous_bytes = static_cast<size_t>(bytes_of(constant.type.dtype, sizes));
  const std::vector<int64_t> strides = no_symbols.evaluate(constant.type.strides);
  if (strides.empty() || strides == strides_of(sizes)) {
    return HostTensor(constant.type.dtype, sizes, constant.bytes.first(contiguous_bytes), constant.owner);
  }
  // A view of the whole storage as one row, from which the strides pick.
  const auto storage = static_cast<int64_t>(constant.bytes.size()) / size_bytes(constant.type.dtype);
  const auto whole = constant.bytes.first(static_cast<size_t>(storage * size_bytes(constant.type.dtype)));
  return copy_strided(HostTensor(constant.type.dtype, {storage}, whole, constant.owner), 0, strides, sizes);
}

std::vector<HostTensor> evaluate(const Program& program, std::span<const HostTensor> inputs, const EvaluateOptions& options) {
  std::vector<InputShape> shapes;
  for (const HostTensor& input : inputs) shapes.push_back({input.dtype(), input.sizes()});
  return Evaluator(program, program.graph, bind_symbols(program, plan_bindings(program), shapes), options).run(inputs);
}

}  // namespace toroid
