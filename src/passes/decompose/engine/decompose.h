// Rewrites import-level operators (Aten) into core operations.
//
// A decomposition is a function from an operator's arguments to its results: it reads the arguments and calls a formula (formula/), or
// writes it over the Builder itself. One file per family holds the functions and one table of rows; registry.cpp joins the tables. A
// model's operators without a row are reported together.
//
//   std::vector<Tensor> elu(Decomposer&, const Args& a) {
//     return {formula::elu(a.tensor("self"), a.number("alpha"), a.number("scale"), a.number("input_scale"))};
//   }
//
// Views are ordinary functions here (aten::view is a reshape); what mutates (aten::relu_) is written as its functional form:
// functionalize.h keeps track of which tensor now holds which value, so a row for aten::relu also serves aten::relu_,
// aten::relu.out and aten::relu_copy.
//
// A function returns the tensors of the operator's results in order, lists flattened; a result that the operator leaves
// undefined (a gradient nobody asked for) is an undefined Tensor. An operator that updates arguments which are not among its
// results (aten::_foreach_add_, aten::_native_batch_norm_legit) returns their new values after the results; one whose
// schema hides the update (aten::batch_norm in training) says it with Decomposer::write.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formula/quantization/byte_convolutions.h"
#include "graph/builder.h"
#include "graph/graph.h"

namespace toroid {

// The arguments of one import-level node, by position or by schema name. Asking for the wrong kind throws
// Error{InvalidModel} that names the argument.
class Args {
 public:
  Args(Builder& builder, const Schema& schema, const std::vector<Argument>& arguments, std::vector<Tensor> inputs)
      : builder_(builder), schema_(schema), arguments_(arguments), inputs_(std::move(inputs)) {}

  const Schema& schema() const { return schema_; }
  size_t size() const { return arguments_.size(); }
  bool has(std::string_view name) const;  // the schema has it and it is not None
  const Argument& raw(std::string_view name) const;

  Tensor tensor(std::string_view name) const;                                                  // a number becomes a rank 0 tensor
  Tensor tensor_of_rank(std::string_view name, int64_t least, int64_t most = kAnyRank) const;  // throws outside
  Tensor optional_tensor(std::string_view name) const;                                         // undefined when None
  Tensors tensors(std::string_view name) const;                                                // Tensor[]; absent elements throw
  Tensors optional_tensors(std::string_view name) const;                                       // Tensor?[]; absent ones are undefined
  Tensors tensors_beside(std::string_view name, const Tensors& others) const;                  // Tensor[] as long as `others`, or an error
  sym::Expr integer(std::string_view name) const;                                              // int or SymInt
  int64_t constant(std::string_view name) const;                                               // an int that must not be symbolic
  int64_t constant_in(std::string_view name, int64_t least, int64_t most) const;               // … nor outside [least, most]
  Sizes integers(std::string_view name) const;                   // int[] or SymInt[]; of int[2] two: a single one stands for both
  Sizes integers_of(std::string_view name, size_t count) const;  // … and throws for another number of them
  Dims dims(std::string_view name) const;                        // int[] that must not be symbolic; None gives {}
  double number(std::string_view name) const;                    // float, or a constant integer or bool
  Scalar scalar(std::string_view name) const;                    // Scalar, float, int or bool
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;  // "dtype", when not given, is that of the tensor `out`

 private:
  static constexpr int64_t kAnyRank = std::numeric_limits<int64_t>::max();
  size_t position(std::string_view name) const;

  Builder& builder_;
  const Schema& schema_;
  const std::vector<Argument>& arguments_;
  std::vector<Tensor> inputs_;
};

// Numbers the draws of a program: each random operator by its place among them, each of an operator's draws within it. So an
// edit elsewhere in the model, or a pass, changes no stream.
class RandomStreams {
 public:
  void begin_node() { draws_ = 0; }
  // A stream that no other draw of the program has: below 2^24.
  int64_t next();

 private:
  int64_t nodes_ = 0;  // that drew
  int64_t draws_ = 0;  // of the node at hand
};

// What a decomposition may use beside its arguments.
struct Decomposer {
  Builder& b;
  Program& program;
  // Types of the node's results as the model records them (what PyTorch computed); may be empty for nodes made by toroid.
  std::vector<TensorType> recorded;
  // New values of arguments that the operator updates in place although its schema does not say so.
  std::vector<std::pair<std::string, Tensor>> writes = {};
  RandomStreams* streams = nullptr;  // null for a view applied again, which draws nothing
  // Types of the node's inputs as the model records them, complex ones and those with strides too. Empty for nodes made by toroid.
  std::vector<TensorType> argument_types = {};
  // For an operator that reads the memory behind its argument (aten::as_strided): the type of the tensor that owns this memory,
  // whose value stands in the place of the argument's.
  std::optional<TensorType> memory_type = {};
  // The graph computes forward-mode derivatives (forward_mode.h), which some operators end.
  bool has_duals = false;
  ByteConvolutions byte_convolutions = ByteConvolutions::None;  // this and the next ones: as of DecomposeOptions
  bool sums_elements = false, flips_filters = false, has_backward_weights = false, resamples_by_dims = false;
  bool in_subgraph = false;                                // of control flow
  const std::set<ConstantId>* written_in_place = nullptr;  // by nodes of the graph that is decomposed; null where there are none
  // The tensor passed as `parameter` holds `value` from now on. For the operator of the node itself: writes of an operator
  // applied through call() are dropped.
  void write(std::string_view parameter, Tensor value) { writes.emplace_back(parameter, value); }

  // Applies another operator's decomposition, its arguments by position; missing ones take their defaults.
  //   d.call("aten::mean.dim", {x, Dims{-1}, true})
  struct Value {
    std::variant<Argument, Tensor, std::vector<Tensor>> value;
    Value(Tensor t) : value(t.defined() ? std::variant<Argument, Tensor, std::vector<Tensor>>(t) : Argument(None{})) {}  // NOLINT
    Value(std::vector<Tensor> list) : value(std::move(list)) {}                                                          // NOLINT
    Value(Argument argument) : value(std::move(argument)) {}                                                             // NOLINT
    Value(Scalar scalar);                                                                                                // NOLINT
    Value(sym::Expr expr) : value(Argument(expr)) {}                                                                     // NOLINT
    Value(int v) : value(Argument(sym::Expr(v))) {}                                                                      // NOLINT
    Value(int64_t v) : value(Argument(sym::Expr(v))) {}                                                                  // NOLINT
    Value(double v) : value(Argument(v)) {}                                                                              // NOLINT
    Value(bool v) : value(Argument(v)) {}                                                                                // NOLINT
    Value(Sizes sizes) : value(Argument(ExprList(std::move(sizes)))) {}                                                  // NOLINT
    Value(const Dims& dims);                                                                                             // NOLINT
    Value(const char* text) : value(Argument(std::string(text))) {}                                                      // NOLINT
    Value(DType dtype) : value(Argument(dtype)) {}                                                                       // NOLINT
    Value(None) : value(Argument(None{})) {}                                                                             // NOLINT
  };
  Tensors call(std::string_view op, std::vector<Value> arguments);
  Tensor call1(std::string_view op, std::vector<Value> arguments) { return call(op, std::move(arguments))[0]; }
};

using Decomposition = std::vector<Tensor> (*)(Decomposer& d, const Args& a);
// `op` is the functional operator: "aten::relu" stands for its default overload, "aten::add.Tensor" for one overload,
// "aten::mean.*" for every overload of that name without a row of its own.
struct DecompositionRow {
  std::string_view op;
  Decomposition function;
};

// One table per family, defined in its file.
std::span<const DecompositionRow> collective_rows();              // collectives.cpp: operations among processes
std::span<const DecompositionRow> arithmetic_rows();              // arithmetic.cpp: add, div, pow, round
std::span<const DecompositionRow> comparison_rows();              // comparison.cpp: eq, where, clamp, isnan, bits
std::span<const DecompositionRow> special_rows();                 // special.cpp: exp, sin, erf, gamma and Bessel functions
std::span<const DecompositionRow> polynomial_rows();              // polynomial.cpp: Chebyshev, Hermite, Laguerre, Legendre
std::span<const DecompositionRow> activation_rows();              // activation.cpp
std::span<const DecompositionRow> creation_rows();                // creation.cpp: full, arange, linspace, windows
std::span<const DecompositionRow> conversion_rows();              // conversion.cpp: to, clone, resize, assertions
std::span<const DecompositionRow> view_rows();                    // view.cpp: reshape, permute, slice, flip
std::span<const DecompositionRow> joining_rows();                 // joining.cpp: cat, stack, split, chunk, meshgrid
std::span<const DecompositionRow> padding_rows();                 // padding.cpp: pad, roll, repeat, pixel_shuffle
std::span<const DecompositionRow> diagonal_rows();                // diagonal.cpp: diag, tril, trace, select_scatter
std::span<const DecompositionRow> reduction_rows();               // reduction.cpp: sums, means, extrema, variances, norms
std::span<const DecompositionRow> softmax_rows();                 // softmax.cpp: softmax, log_softmax, logsumexp
std::span<const DecompositionRow> scan_rows();                    // scan.cpp: cumsum, cummax
std::span<const DecompositionRow> difference_rows();              // differences.cpp: diff, trapezoid, gradient
std::span<const DecompositionRow> sorting_rows();                 // sorting.cpp: sort, topk, median, mode
std::span<const DecompositionRow> searching_rows();               // searching.cpp: searchsorted, bucketize
std::span<const DecompositionRow> histogram_rows();               // histogram.cpp
std::span<const DecompositionRow> indexing_rows();                // indexing.cpp: index, gather, take, searchsorted
std::span<const DecompositionRow> jagged_rows();                  // jagged.cpp: sequences padded to one length, and back
std::span<const DecompositionRow> scattering_rows();              // scattering.cpp: scatter, index_put, index_add, masked_fill
std::span<const DecompositionRow> data_dependent_rows();          // data_dependent.cpp: nonzero, unique, bincount
std::span<const DecompositionRow> segment_reduce_rows();          // segment_reduce.cpp
std::span<const DecompositionRow> embedding_rows();               // embedding.cpp: embedding, embedding_bag, one_hot
std::span<const DecompositionRow> matmul_rows();                  // matmul.cpp: mm, addmm, linear, …
std::span<const DecompositionRow> contraction_rows();             // contraction.cpp: einsum, tensordot, inner, bilinear
std::span<const DecompositionRow> convolution_rows();             // convolution.cpp: convolutions, im2col, col2im
std::span<const DecompositionRow> pooling_rows();                 // pooling.cpp: average, max and adaptive pooling
std::span<const DecompositionRow> resampling_rows();              // resampling.cpp: upsampling
std::span<const DecompositionRow> grid_sampling_rows();           // grid_sampling.cpp: grid_sampler, affine_grid
std::span<const DecompositionRow> normalization_rows();           // normalization.cpp: batch, layer, group, rms norm
std::span<const DecompositionRow> dropout_rows();                 // dropout.cpp: what training drops at random
std::span<const DecompositionRow> random_rows();                  // random.cpp: rand, normal, exponential, cauchy
std::span<const DecompositionRow> random_integer_rows();          // random_integers.cpp: bernoulli, randint, randperm, geometric
std::span<const DecompositionRow> sampling_rows();                // sampling.cpp: multinomial, poisson, binomial, gamma, dirichlet
std::span<const DecompositionRow> attention_rows();               // attention.cpp
std::span<const DecompositionRow> loss_rows();                    // loss.cpp: losses
std::span<const DecompositionRow> cross_entropy_rows();           // cross_entropy.cpp: nll_loss, cross_entropy_loss
std::span<const DecompositionRow> distance_rows();                // distance.cpp: cdist, cosine_similarity, …
std::span<const DecompositionRow> recurrent_rows();               // recurrent.cpp: rnn, lstm, gru
std::span<const DecompositionRow> linalg_rows();                  // linalg.cpp: decompositions and solvers through library kernels
std::span<const DecompositionRow> matrix_norm_rows();             // matrix_norm.cpp
std::span<const DecompositionRow> activation_backward_rows();     // activation_backward.cpp: activations, softmax
std::span<const DecompositionRow> convolution_backward_rows();    // convolution_backward.cpp
std::span<const DecompositionRow> ctc_loss_rows();                // ctc_loss.cpp: the loss and its gradient
std::span<const DecompositionRow> detection_rows();               // detection.cpp: torchvision's nms, roi_align, roi_pool, …
std::span<const DecompositionRow> deformable_convolution_rows();  // deformable_convolution.cpp: torchvision's deform_conv2d
std::span<const DecompositionRow> distance_backward_rows();       // distance_backward.cpp: cdist, pdist
std::span<const DecompositionRow> dual_tensor_rows();             // dual_tensors.cpp: forward mode
std::span<const DecompositionRow> embedding_backward_rows();      // embedding_backward.cpp
std::span<const DecompositionRow> grid_sampling_backward_rows();  // grid_sampling_backward.cpp
std::span<const DecompositionRow> indexing_backward_rows();       // indexing_backward.cpp: select, slice, masks, scans
std::span<const DecompositionRow> loss_backward_rows();           // loss_backward.cpp
std::span<const DecompositionRow> normalization_backward_rows();  // normalization_backward.cpp
std::span<const DecompositionRow> padding_backward_rows();        // padding_backward.cpp
std::span<const DecompositionRow> pooling_backward_rows();        // pooling_backward.cpp
std::span<const DecompositionRow> recurrent_cell_rows();          // recurrent_cells.cpp: fused cells, their gradients
std::span<const DecompositionRow> resampling_backward_rows();     // resampling_backward.cpp
std::span<const DecompositionRow> sampling_backward_rows();       // sampling_backward.cpp: gamma, Dirichlet
std::span<const DecompositionRow> foreach_rows();                 // foreach.cpp: operators over lists of tensors
std::span<const DecompositionRow> prims_rows();                   // prims.cpp: PyTorch's primitive operators
std::span<const DecompositionRow> second_name_rows();             // aliases.cpp: operators that are another one, or nearly
std::span<const DecompositionRow> statistics_rows();              // statistics.cpp: quantile, cov, corrcoef
std::span<const DecompositionRow> optimizer_rows();               // fused_optimizers.cpp: _fused_adam, _amp_update_scale
std::span<const DecompositionRow> named_conv_rows();              // convolution_names.cpp: slow_conv3d, conv_tbc
std::span<const DecompositionRow> norm_part_rows();               // batch_norm_parts.cpp: batch_norm_stats, cudnn_batch_norm
std::span<const DecompositionRow> quantization_rows();            // quantization.cpp: quantized_decomposed::*
std::span<const DecompositionRow> fake_quant_rows();              // fake_quantization.cpp
std::span<const DecompositionRow> mixed_matmul_rows();            // mixed_matmul.cpp: mm.dtype, _int_mm, _grouped_mm
std::span<const DecompositionRow> packed_weight_rows();           // packed_weights.cpp: int4 and int8 weights, 8-bit floats
std::span<const DecompositionRow> encoder_layer_rows();           // transformer_layer.cpp: _transformer_encoder_layer_fwd
std::span<const DecompositionRow> mutation_rows();                // mutation.cpp: copy, fill, zero: what only in-place spellings need

std::vector<std::span<const DecompositionRow>> decomposition_families();  // all of the tables

// The function that serves the operator called `schema_name` (any of its in-place, out or _copy spellings); null if none.
Decomposition find_decomposition(const Schema& schema);
// Whether there is one, or one for complex tensors (complex.h).
bool is_supported(const Schema& schema);

struct DecomposeOptions {
  // The convolutions of dequantised tensors that become products of bytes, since these are quicker than those of float32.
  ByteConvolutions byte_convolutions = ByteConvolutions::None;
  // Convolutions that multiply the margin for the most part are sums over their filters' elements (formula/convolution/filter_elements.h).
  bool sums_elements = false;
  // Transposed convolutions are slower than convolutions with flipped filters, of which a stride of more than 1 takes several: inputs'
  // gradients become those.
  bool flips_filters = false;
  // There is a kernel "convolution.backward_weights" (library/library_ops.h).
  bool has_backward_weights = false;
  // Several dims are resampled one after the other, with what lies between in memory (formula/nn/resampling.h).
  bool resamples_by_dims = false;
};

// The whole graph (and subgraphs) at core level. Takes a program as importers and the text reader make it, in which each node refers to
// nodes before it. Keeps inputs, outputs and names; where the model records a result's type, the decomposed type must agree (a disagreement
// is toroid's fault, or the model's). Verifies what it made: sizes that contradict each other throw Error{InvalidModel}.
// Throws Error{Unsupported} listing every operator without a decomposition.
void decompose(Program& program, const DecomposeOptions& options = {});

// An operator the program uses and toroid cannot compile.
struct MissingOp {
  std::string op;                    // "aten::foo.bar"
  std::vector<ProvenanceId> places;  // in program.graph
};
std::vector<MissingOp> missing_ops(const Program& program);

}  // namespace toroid
