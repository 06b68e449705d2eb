#include "runtime/kernels/onednn/onednn.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/onednn/onednn_library.h"
#include "runtime/kernels/registry/packed_operand.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

using Refusal = std::optional<std::string>;

Refusal refuses_operands(const Problem& problem) {
  if (Refusal absence = onednn_absence()) return absence;
  if (problem.outputs[0].elements() == 0) return "the result has no elements";
  for (const OperandMeta& operand : problem.inputs) {
    if (operand.elements() == 0) return "an input has no elements";
  }
  return std::nullopt;
}

// Is an element meant by several positions of the last dims?
bool repeats(const OperandMeta& operand, size_t dims) {
  for (size_t d = operand.sizes.size() - dims; d < operand.sizes.size(); ++d) {
    if (operand.sizes[d] > 1 && operand.strides[d] == 0) return true;
  }
  return false;
}

// The channels of a position next to each other, and positions without gaps.
bool has_channels_innermost(const OperandMeta& image) {
  int64_t expected = image.sizes[1];
  for (size_t d = image.sizes.size(); d-- > 2; expected *= image.sizes[d]) {
    if (image.sizes[d] != 1 && image.strides[d] != expected) return false;
  }
  return image.strides[1] == 1 && (image.sizes[0] == 1 || image.strides[0] == expected);
}

}  // namespace

Refusal onednn_refuses_matmul(const Problem& problem) {
  if (Refusal refusal = refuses_operands(problem)) return refusal;
  for (size_t i = 0; i < 2; ++i) {
    if (repeats(problem.inputs[i], 2)) return formatted("input {} repeats its elements", i);
    if (problem.inputs[i].stride(-1) != 1 && problem.inputs[i].stride(-2) != 1) {
      return formatted("neither rows nor columns of input {} are contiguous", i);
    }
  }
  return std::nullopt;
}

Refusal onednn_refuses_convolution(const Problem& problem) {
  if (Refusal refusal = refuses_operands(problem)) return refusal;
  if (problem.integers[0] != 0) return "it is not for transposed convolutions";
  if (!has_channels_innermost(problem.inputs[0])) return "the image's channels are not next to each other";
  if (!has_channels_innermost(problem.outputs[0])) return "the output's channels are not next to each other";
  if (repeats(problem.inputs[1], problem.inputs[1].sizes.size())) return "the filters repeat their elements";
  if (problem.outputs[0].sizes.size() > 4) return "it is for one or two spatial dims";
  if (problem.inputs.size() > 2) return "it adds no bias";
  return std::nullopt;
}

#if TOROID_HAS_ONEDNN
namespace {

using namespace onednn;

// Sizes and strides as oneDNN is to see them.
struct View {
  dnnl_data_type_t type;
  std::vector<int64_t> sizes, strides;

  bool operator==(const View&) const = default;
  MemoryDesc as_it_lies() const { return {type, sizes, strides}; }
  MemoryDesc as_preferred() const { return {type, sizes, {}}; }
};

dnnl_data_type_t type_of(const ToroidOperand& operand) { return static_cast<DType>(operand.dtype) == DType::BF16 ? dnnl_bf16 : dnnl_f32; }
View view_of(const ToroidOperand& operand) {
  return {type_of(operand), {operand.sizes, operand.sizes + operand.rank}, {operand.strides, operand.strides + operand.rank}};
}

int64_t floats_of(DescPointer desc) {
  return static_cast<int64_t>((functions().memory_desc_get_size(desc) + sizeof(float) - 1) / sizeof(float));
}

// What oneDNN compiled for a part of a problem.
struct Operation {
  Owned<dnnl_primitive_desc_t> desc;
  Owned<dnnl_primitive_t> primitive;

  explicit Operation(Owned<dnnl_primitive_desc_t> described) : desc(std::move(described)) {
    dnnl_primitive_t made = nullptr;
    check(functions().primitive_create(&made, desc.get()), "kernel");
    primitive.reset(made);
  }
  DescPointer weights() const { return layout(desc, dnnl_query_weights_md); }
};

struct Argument {
  int role;
  DescPointer desc;
  const void* data;
};

void execute(const Operation& operation, std::initializer_list<Argument> arguments) {
  const OneThread one_thread;
  std::vector<Owned<dnnl_memory_t>> memories;
  std::vector<dnnl_exec_arg_t> given;
  auto give = [&](const Argument& argument) {
    dnnl_memory_t memory = nullptr;
    check(functions().memory_create(&memory, argument.desc, engine(), const_cast<void*>(argument.data)), "memory");
    memories.emplace_back(memory);
    given.push_back({argument.role, memory});
  };
  for (const Argument& argument : arguments) give(argument);
  static Scratch scratch;
  const DescPointer scratchpad = layout(operation.desc, dnnl_query_scratchpad_md);
  if (const int64_t floats = floats_of(scratchpad); floats > 0) give({DNNL_ARG_SCRATCHPAD, scratchpad, scratch.get(floats)});
  dnnl_stream_t made = nullptr;
  check(functions().stream_create(&made, engine(), dnnl_stream_default_flags), "stream");
  const Owned<dnnl_stream_t> stream(made);
  check(functions().primitive_execute(operation.primitive.get(), stream.get(), static_cast<int>(given.size()), given.data()), "way to run");
  check(functions().stream_wait(stream.get()), "way to run");
}

void reorder(const MemoryDesc& given, const void* data, DescPointer wanted, float* to) {
  const OneThread one_thread;
  execute(Operation(describe_reorder(given.get(), wanted)), {{DNNL_ARG_FROM, given.get(), data}, {DNNL_ARG_TO, wanted, to}});
}

// The constant at `data` in the layout that `operation` wants; `made_for`: what decides that layout, and the view. Null: it lies so
// already.
template <class Layout>
const void* prepared_weights(const KernelCall& call, const Operation& operation, const View& weights, const void* data,
                             const Layout& made_for) {
  const MemoryDesc given = weights.as_it_lies();
  const DescPointer wanted = operation.weights();
  if (functions().memory_desc_equal(given.get(), wanted) != 0) return nullptr;
  return call.prepared->get(data, made_for, floats_of(wanted), [&](float* to) { reorder(given, data, wanted, to); });
}

Scratch scratch_for_part, scratch_for_weights;

// Where a part of the result goes: [rows, columns] at `data`, or, when there is an epilogue, in a buffer of this thread.
class PartOfResult {
 public:
  PartOfResult(const ToroidEpilogue* epilogue, void* data, Range rows, Range columns)
      : epilogue_(epilogue), rows_(rows), columns_(columns), data_(data) {
    if (epilogue != nullptr) data_ = scratch_for_part.get(rows.size() * columns.size() + kReadBeyond);
  }
  void* data() const { return data_; }
  void finish() const {
    if (epilogue_ == nullptr) return;
    run_epilogue(*epilogue_, static_cast<const float*>(data_), columns_.size(), rows_, columns_);
  }

 private:
  const ToroidEpilogue* epilogue_;
  Range rows_, columns_;
  void* data_;
};

constexpr int64_t kMostRows = 256;  // of a part

// ---- products

// A matrix with one row or column has no order of its own, but oneDNN asks for strides.
void tidy(View& matrix) {
  if (matrix.sizes[1] == 1) matrix.strides[1] = matrix.sizes[0] == 1 || matrix.strides[0] != 1 ? 1 : matrix.sizes[0];
  if (matrix.sizes[0] == 1) matrix.strides[0] = matrix.strides[1] == 1 ? matrix.sizes[1] : 1;
}

int64_t bytes_of(const View& view) { return view.type == dnnl_bf16 ? 2 : 4; }

View matrix_of(const ToroidOperand& operand, int64_t rows, int64_t columns) {
  View view = {type_of(operand), {rows, columns}, {operand.strides[operand.rank - 2], operand.strides[operand.rank - 1]}};
  tidy(view);
  return view;
}

class Matmul final : public KernelPlan {
 public:
  explicit Matmul(const KernelCall& call)
      : s_(product_sizes(call.inputs[0], call.inputs[1], call.outputs[0])),
        has_epilogue_(call.epilogue != nullptr),
        a_(matrix_of(call.inputs[0], s_.m, s_.k)),
        b_(matrix_of(call.inputs[1], s_.k, s_.n)),
        c_({type_of(call.outputs[0]), {s_.m, s_.n}, {s_.n, 1}}) {
    // Some rows for each thread, or, of few rows, some columns.
    constexpr int64_t kFewRows = 8, kColumns = 64;
    const int64_t threads = call.pool.threads();
    auto divided = [](int64_t whole, int64_t parts, int64_t multiple) { return divide_up(divide_up(whole, parts), multiple) * multiple; };
    by_rows_ = s_.m >= kFewRows * threads;
    at_once_ = by_rows_ ? std::min(kMostRows, divided(s_.m, threads, 1)) : divided(s_.n, threads, kColumns);
    parts_ = divide_up(by_rows_ ? s_.m : s_.n, at_once_);

    const OneThread one_thread;
    const bool keeps = call.keeps(call.inputs[1]);
    const Part first = part(0), last = part(parts_ - 1);
    operations_.push_back(describe(first, keeps));
    if (last.rows.size() != first.rows.size() || last.columns.size() != first.columns.size()) {
      // The layout that the first rows want serves all.
      operations_.push_back(by_rows_ ? describe(last, operations_[0].weights()) : describe(last, keeps));
    }
    if (!keeps) return;
    for (int64_t batch = 0; batch < s_.batches; ++batch) {
      for (int64_t i = 0; i < (by_rows_ ? 1 : parts_); ++i) {
        const Part of = part(i);
        const Weights made_for = {has_epilogue_, of.rows.size(), of.columns.size(), a_, b_, c_};
        weights_.push_back(prepared_weights(call, operation(i), right_of(of), right_data(call, batch, of), made_for));
      }
    }
  }

  void run(const KernelCall& call) const override {
    const ToroidOperand& c = call.outputs[0];
    for_each_product(call.pool, s_.batches, s_.m * s_.n * s_.k, [&](int64_t batch) {
      const auto* const left = static_cast<const std::byte*>(data_of_batch(call.inputs[0], batch));
      std::byte* const out = call.epilogue != nullptr ? nullptr : static_cast<std::byte*>(c.data) + batch * s_.m * s_.n * bytes_of(c_);
      call.pool.parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) run_part(i, left, weights_of(call, batch, i), out, call.epilogue, batch * s_.m);
      });
    });
  }

 private:
  struct Part {
    Range rows, columns;
  };
  Part part(int64_t i) const {
    const Range some = {i * at_once_, std::min((i + 1) * at_once_, by_rows_ ? s_.m : s_.n)};
    return by_rows_ ? Part{some, {0, s_.n}} : Part{{0, s_.m}, some};
  }
  // What decides the layout of packed weights: that of a part of so many rows and columns.
  struct Weights {
    bool has_epilogue;
    int64_t rows, columns;
    View a, b, c;
    bool operator==(const Weights&) const = default;
  };

  View right_of(const Part& part) const {
    View right = b_;
    right.sizes[1] = part.columns.size();
    return right;
  }
  const std::byte* right_data(const KernelCall& call, int64_t batch, const Part& part) const {
    return static_cast<const std::byte*>(data_of_batch(call.inputs[1], batch)) + part.columns.first * b_.strides[1] * bytes_of(b_);
  }
  const void* weights_of(const KernelCall& call, int64_t batch, int64_t i) const {
    const void* const prepared = weights_.empty() ? nullptr : weights_[static_cast<size_t>(by_rows_ ? batch : batch * parts_ + i)];
    return prepared != nullptr ? prepared : right_data(call, batch, part(i));
  }

  Operation describe(const Part& part, bool keeps) const {
    const View right = right_of(part);
    return describe(part, keeps ? right.as_preferred().get() : right.as_it_lies().get());
  }
  Operation describe(const Part& part, DescPointer weights) const {
    View left = a_, out = c_;
    left.sizes[0] = part.rows.size();
    out.sizes = {part.rows.size(), part.columns.size()};
    if (has_epilogue_) out = {dnnl_f32, out.sizes, {part.columns.size(), 1}};
    for (View* view : {&left, &out}) tidy(*view);
    return Operation(describe_matmul(left.as_it_lies().get(), weights, out.as_it_lies().get()));
  }
  const Operation& operation(int64_t i) const { return i + 1 == parts_ ? operations_.back() : operations_.front(); }

  // `first_row`: of the epilogue's product, where this one begins.
  void run_part(int64_t i, const std::byte* left, const void* weights, std::byte* out, const ToroidEpilogue* epilogue,
                int64_t first_row) const {
    const auto [rows, columns] = part(i);
    const PartOfResult result(epilogue, out == nullptr ? nullptr : out + (rows.first * c_.strides[0] + columns.first) * bytes_of(c_),
                              {first_row + rows.first, first_row + rows.last}, columns);
    const Operation& with = operation(i);
    execute(with, {{DNNL_ARG_SRC, layout(with.desc, dnnl_query_src_md), left + rows.first * a_.strides[0] * bytes_of(a_)},
                   {DNNL_ARG_WEIGHTS, with.weights(), weights},
                   {DNNL_ARG_DST, layout(with.desc, dnnl_query_dst_md), result.data()}});
    result.finish();
  }

  ProductSizes s_;
  bool has_epilogue_;
  View a_, b_, c_;  // matrices
  bool by_rows_;
  int64_t at_once_, parts_;            // rows or columns of a part
  std::vector<Operation> operations_;  // of all parts, or of those before the last and the last
  std::vector<const void*> weights_;   // of a constant: of each batch, by columns of each part; null where they lie as they are wanted
};

// ---- convolutions

// Rows of an image's result, and what they see of the image.
struct Band {
  Range out, in;
  int64_t padding_before, padding_after;

  bool is_like(const Band& other) const {
    return out.size() == other.out.size() && in.size() == other.in.size() && padding_before == other.padding_before &&
           padding_after == other.padding_after;
  }
};

class Convolution final : public KernelPlan {
 public:
  explicit Convolution(const KernelCall& call)
      : x_(view_of(call.inputs[0])), w_(view_of(call.inputs[1])), y_(view_of(call.outputs[0])), spatial_(x_.sizes.size() - 2) {
    if (const int64_t groups = call.integers[1]; groups > 1) {
      w_.sizes.insert(w_.sizes.begin(), groups);
      w_.sizes[1] /= groups;
      w_.strides.insert(w_.strides.begin(), w_.strides[0] * w_.sizes[1]);
    }
    // Where a dim of size 1 lies says nothing, but oneDNN compares.
    for (View* image : {&x_, &y_}) {
      int64_t stride = image->sizes[1];
      for (size_t d = image->sizes.size(); d-- > 2; stride *= image->sizes[d]) image->strides[d] = stride;
      image->strides[0] = stride;
    }
    auto list = [&](size_t which) {
      const auto first = call.integers.begin() + static_cast<ptrdiff_t>(2 + which * spatial_);
      return std::vector<int64_t>(first, first + static_cast<ptrdiff_t>(spatial_));
    };
    windows_ = {.strides = list(0), .dilations = list(2), .padding_before = list(1), .padding_after = {}};
    for (int64_t& dilation : windows_.dilations) --dilation;  // oneDNN counts what lies between
    for (size_t d = 0; d < spatial_; ++d) windows_.padding_after.push_back(padding_after(d, y_.sizes[2 + d], 0));
    cut_into_bands(call.pool.threads());

    const OneThread one_thread;
    for (const Band& band : bands_) {
      const auto same = std::find_if(bands_.begin(), bands_.end(), [&](const Band& other) { return other.is_like(band); });
      if (const auto before = static_cast<size_t>(same - bands_.begin()); before < operation_of_band_.size()) {
        operation_of_band_.push_back(operation_of_band_[before]);
        continue;
      }
      operation_of_band_.push_back(operations_.size());
      operations_.push_back(describe(band, operations_.empty() ? w_.as_preferred().get() : operations_[0].weights()));
    }
    const Band& first = bands_[0];
    const Weights made_for = {first.out.size(),
                              first.in.size(),
                              first.padding_before,
                              first.padding_after,
                              {call.integers.begin(), call.integers.end()},
                              x_,
                              w_,
                              y_};
    if (call.keeps(call.inputs[1])) weights_ = prepared_weights(call, operations_[0], w_, call.inputs[1].data, made_for);
  }

  void run(const KernelCall& call) const override {
    const int64_t batch = y_.sizes[0], rows = y_.sizes[2], positions = positions_of_row(), count = std::ssize(bands_),
                  channels = y_.sizes[1];
    const void* const weights = weights_ != nullptr ? weights_ : reordered_weights(call);
    call.pool.parallel_for(batch * count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const auto number = static_cast<size_t>(task % count);
        const Band& band = bands_[number];
        const Operation& operation = operations_[operation_of_band_[number]];
        const int64_t image = task / count;
        const auto* x = static_cast<const float*>(call.inputs[0].data) + image * x_.strides[0] + band.in.first * x_.strides[2];
        const int64_t first_position = (image * rows + band.out.first) * positions;
        const PartOfResult result(call.epilogue, call.epilogue != nullptr ? nullptr : data_of(call.outputs[0]) + first_position * channels,
                                  {first_position, first_position + band.out.size() * positions}, {0, channels});
        execute(operation, {{DNNL_ARG_SRC, layout(operation.desc, dnnl_query_src_md), x},
                            {DNNL_ARG_WEIGHTS, operation.weights(), weights},
                            {DNNL_ARG_DST, layout(operation.desc, dnnl_query_dst_md), result.data()}});
        result.finish();
      }
    });
  }

 private:
  // What decides the layout of packed weights: that of the first band.
  struct Weights {
    int64_t out_rows, in_rows, padding_before, padding_after;
    std::vector<int64_t> integers;
    View x, w, y;
    bool operator==(const Weights&) const = default;
  };

  // Of what is no constant; this thread's.
  const void* reordered_weights(const KernelCall& call) const {
    const void* const data = call.inputs[1].data;
    const MemoryDesc given = w_.as_it_lies();
    const DescPointer wanted = operations_[0].weights();
    if (functions().memory_desc_equal(given.get(), wanted) != 0) return data;
    float* const to = scratch_for_weights.get(floats_of(wanted));
    reorder(given, data, wanted, to);
    return to;
  }

  int64_t reach(size_t d) const { return (w_.sizes[w_.sizes.size() - spatial_ + d] - 1) * (windows_.dilations[d] + 1) + 1; }
  // What the last of `outputs` positions reads beyond the image's end, which it may fall short of.
  int64_t padding_after(size_t d, int64_t outputs, int64_t first) const {
    return (first + outputs - 1) * windows_.strides[d] - windows_.padding_before[d] + reach(d) - x_.sizes[2 + d];
  }
  int64_t positions_of_row() const { return y_.sizes.size() > 3 ? y_.sizes[3] : 1; }

  Band band_of(Range out) const {
    const int64_t begin = out.first * windows_.strides[0] - windows_.padding_before[0];
    const int64_t after = padding_after(0, out.size(), out.first), end = x_.sizes[2] + after;
    return {out, {std::max<int64_t>(begin, 0), std::min(end, x_.sizes[2])}, std::max<int64_t>(-begin, 0), std::max<int64_t>(after, 0)};
  }
  void cut_into_bands(int64_t threads) {
    const int64_t batch = y_.sizes[0], rows = y_.sizes[2];
    const int64_t bands_wanted = std::clamp<int64_t>(divide_up(threads, batch), 1, rows);
    const int64_t at_once = std::max<int64_t>(1, std::min(divide_up(rows, bands_wanted), 4 * kMostRows / positions_of_row()));
    for (int64_t first = 0; first < rows; first += at_once) bands_.push_back(band_of({first, std::min(rows, first + at_once)}));
    // Rows that see nothing but padding have no image to give to oneDNN.
    if (std::any_of(bands_.begin(), bands_.end(), [](const Band& band) { return band.in.size() <= 0; })) bands_ = {band_of({0, rows})};
  }

  Operation describe(const Band& band, DescPointer weights) const {
    View x = x_, y = y_;
    x.sizes[0] = y.sizes[0] = 1;
    x.sizes[2] = band.in.size();
    y.sizes[2] = band.out.size();
    x.strides[0] = x.sizes[2] * x.strides[2];
    y.strides[0] = y.sizes[2] * y.strides[2];
    Windows windows = windows_;
    windows.padding_before[0] = band.padding_before;
    windows.padding_after[0] = band.padding_after;
    return Operation(describe_convolution(x.as_it_lies().get(), weights, y.as_it_lies().get(), windows));
  }

  View x_, w_, y_;
  size_t spatial_;
  Windows windows_;
  std::vector<Band> bands_;
  std::vector<Operation> operations_;
  std::vector<size_t> operation_of_band_;
  const void* weights_ = nullptr;  // of a constant that does not lie as they are wanted
};

}  // namespace

std::unique_ptr<const KernelPlan> plan_matmul_onednn(const KernelCall& call) { return std::make_unique<const Matmul>(call); }
std::unique_ptr<const KernelPlan> plan_convolution_onednn(const KernelCall& call) { return std::make_unique<const Convolution>(call); }

#else

std::unique_ptr<const KernelPlan> plan_matmul_onednn(const KernelCall&) { throw Error(ErrorKind::Environment, *onednn_absence()); }
std::unique_ptr<const KernelPlan> plan_convolution_onednn(const KernelCall&) { throw Error(ErrorKind::Environment, *onednn_absence()); }

#endif

}  // namespace toroid
