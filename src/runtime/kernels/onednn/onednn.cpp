#include "runtime/kernels/onednn/onednn.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/format.h"
#include "runtime/kernels/epilogue/post_ops.h"
#include "runtime/kernels/gemm/macrokernel.h"
#include "runtime/kernels/onednn/onednn_library.h"
#include "runtime/kernels/registry/operands.h"
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

using Key = std::vector<int64_t>;
void add_to(Key& key, const View& view) {
  key.insert(key.end(), {view.type, static_cast<int64_t>(view.sizes.size())});
  key.insert(key.end(), view.sizes.begin(), view.sizes.end());
  key.insert(key.end(), view.strides.begin(), view.strides.end());
}

// Made once in the life of the process: compiling takes milliseconds.
template <class Describe>
const Operation& operation_of(const Key& key, const Describe& describe) {
  static std::mutex mutex;
  static auto& operations = *new std::map<Key, std::unique_ptr<const Operation>>();  // oneDNN may end before statics do
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Operation>& operation = operations[key];
  if (!operation) {
    const OneThread one_thread;
    operation = std::make_unique<const Operation>(describe());
  }
  return *operation;
}

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
  static thread_local Scratch scratch;
  const DescPointer scratchpad = layout(operation.desc, dnnl_query_scratchpad_md);
  if (const int64_t floats = floats_of(scratchpad); floats > 0) give({DNNL_ARG_SCRATCHPAD, scratchpad, scratch.get(floats)});
  dnnl_stream_t made = nullptr;
  check(functions().stream_create(&made, engine(), dnnl_stream_default_flags), "stream");
  const Owned<dnnl_stream_t> stream(made);
  check(functions().primitive_execute(operation.primitive.get(), stream.get(), static_cast<int>(given.size()), given.data()), "way to run");
  check(functions().stream_wait(stream.get()), "way to run");
}

// The right side's part at `data`, in the layout that `operation`, of this key, wants.
const void* weights_for(const KernelCall& call, const Operation& operation, const Key& key, const View& weights, const void* data) {
  const MemoryDesc given = weights.as_it_lies();
  const DescPointer wanted = operation.weights();
  if (functions().memory_desc_equal(given.get(), wanted) != 0) return data;
  return call.packed_or_scratch(call.inputs[1], data, key, floats_of(wanted), [&](float* to) {
    Key reordered = {'r'};
    reordered.insert(reordered.end(), key.begin(), key.end());
    const Operation& reorder = operation_of(reordered, [&] { return describe_reorder(given.get(), wanted); });
    execute(reorder, {{DNNL_ARG_FROM, given.get(), data}, {DNNL_ARG_TO, wanted, to}});
  });
}

thread_local Scratch scratch_for_part;

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

struct Product {
  View a, b, c;  // matrices
  const std::byte* left;
  const std::byte* right;
  std::byte* out;
  const ToroidEpilogue* epilogue;
  int64_t first_row;  // of the epilogue's product
};

// A matrix with one row or column has no order of its own, but oneDNN asks for strides.
void tidy(View& matrix) {
  if (matrix.sizes[1] == 1) matrix.strides[1] = matrix.sizes[0] == 1 || matrix.strides[0] != 1 ? 1 : matrix.sizes[0];
  if (matrix.sizes[0] == 1) matrix.strides[0] = matrix.strides[1] == 1 ? matrix.sizes[1] : 1;
}

int64_t bytes_of(const View& view) { return view.type == dnnl_bf16 ? 2 : 4; }

void multiply(const KernelCall& call, const Product& p) {
  const int64_t m = p.c.sizes[0], n = p.c.sizes[1], threads = call.pool.threads();
  // Some rows for each thread, or, of few rows, some columns.
  constexpr int64_t kFewRows = 8, kColumns = 64;
  const bool by_rows = m >= kFewRows * threads;
  auto divided = [](int64_t whole, int64_t parts, int64_t multiple) {
    return ((whole + parts - 1) / parts + multiple - 1) / multiple * multiple;
  };
  const int64_t at_once = by_rows ? std::min(kMostRows, divided(m, threads, 1)) : divided(n, threads, kColumns);
  const int64_t parts = ((by_rows ? m : n) + at_once - 1) / at_once;
  const bool keeps = call.keeps(call.inputs[1]);

  // The layout that the first part wants serves all.
  auto part_of_right = [&](Range columns) {
    View right = p.b;
    right.sizes[1] = columns.size();
    return right;
  };
  auto describe = [&](Range rows, Range columns, DescPointer weights) {
    View left = p.a, out = p.c;
    left.sizes[0] = rows.size();
    out.sizes = {rows.size(), columns.size()};
    if (p.epilogue != nullptr) out = {dnnl_f32, out.sizes, {columns.size(), 1}};
    for (View* view : {&left, &out}) tidy(*view);
    return describe_matmul(left.as_it_lies().get(), weights, out.as_it_lies().get());
  };
  auto key_of = [&](Range rows, Range columns) {
    Key key = {'m', p.epilogue != nullptr, keeps, rows.size(), columns.size(), at_once};
    for (const View* view : {&p.a, &p.b, &p.c}) add_to(key, *view);
    return key;
  };
  const Range first_rows = {0, by_rows ? std::min(at_once, m) : m}, first_columns = {0, by_rows ? n : std::min(at_once, n)};
  const Key first_key = key_of(first_rows, first_columns);
  const Operation& first = operation_of(first_key, [&] {
    const View right = part_of_right(first_columns);
    return describe(first_rows, first_columns, keeps ? right.as_preferred().get() : right.as_it_lies().get());
  });
  const void* shared = by_rows ? weights_for(call, first, first_key, p.b, p.right) : nullptr;
  call.pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t from = part * at_once, to = std::min(from + at_once, by_rows ? m : n);
      const Range rows = by_rows ? Range{from, to} : Range{0, m}, columns = by_rows ? Range{0, n} : Range{from, to};
      const Key key = key_of(rows, columns);
      const View right = part_of_right(columns);
      const Operation& operation = operation_of(key, [&] {
        if (by_rows) return describe(rows, columns, first.weights());
        return describe(rows, columns, keeps ? right.as_preferred().get() : right.as_it_lies().get());
      });
      const void* weights =
          by_rows ? shared : weights_for(call, operation, key, right, p.right + columns.first * p.b.strides[1] * bytes_of(p.b));
      const PartOfResult result(p.epilogue, p.out + (rows.first * p.c.strides[0] + columns.first) * bytes_of(p.c),
                                {p.first_row + rows.first, p.first_row + rows.last}, columns);
      execute(operation, {{DNNL_ARG_SRC, layout(operation.desc, dnnl_query_src_md), p.left + rows.first * p.a.strides[0] * bytes_of(p.a)},
                          {DNNL_ARG_WEIGHTS, operation.weights(), weights},
                          {DNNL_ARG_DST, layout(operation.desc, dnnl_query_dst_md), result.data()}});
      result.finish();
    }
  });
}

}  // namespace

void run_matmul_onednn(const KernelCall& call) {
  const ToroidOperand &a = call.inputs[0], &b = call.inputs[1], &c = call.outputs[0];
  const int32_t dims = a.rank - 2;
  const ProductSizes sizes = product_sizes(a, b, c);
  const int64_t batches = sizes.batches, m = sizes.m, n = sizes.n, k = sizes.k;
  auto matrix = [&](const ToroidOperand& operand, int64_t rows, int64_t columns) {
    View view = {type_of(operand), {rows, columns}, {operand.strides[dims], operand.strides[dims + 1]}};
    tidy(view);
    return view;
  };
  const View left = matrix(a, m, k), right = matrix(b, k, n), out = {type_of(c), {m, n}, {n, 1}};
  auto at = [&](const ToroidOperand& operand, int64_t batch) {
    return static_cast<std::byte*>(operand.data) + batch_offset(operand, dims, batch) * size_bytes(static_cast<DType>(operand.dtype));
  };
  for_each_product(call.pool, batches, m * n * k, [&](int64_t batch) {
    std::byte* const data = call.epilogue != nullptr ? nullptr : at(c, 0) + batch * m * n * bytes_of(out);
    multiply(call, {left, right, out, at(a, batch), at(b, batch), data, call.epilogue, batch * m});
  });
}

// ---- convolutions

namespace {

// Rows of an image's result, and what they see of the image.
struct Band {
  Range out, in;
  int64_t padding_before, padding_after;
};

class Convolver {
 public:
  explicit Convolver(const KernelCall& call)
      : call_(call), x_(view_of(call.inputs[0])), w_(view_of(call.inputs[1])), y_(view_of(call.outputs[0])) {
    spatial_ = x_.sizes.size() - 2;
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
    for (size_t d = 0; d < spatial_; ++d) windows_.padding_after.push_back(padding_after(d, y_.sizes[2 + d], 0));
    for (int64_t& dilation : windows_.dilations) --dilation;  // oneDNN counts what lies between
  }

  void run() {
    const int64_t batch = y_.sizes[0], rows = y_.sizes[2], positions = rows_of_result() / batch / rows;
    const int64_t bands_wanted = std::clamp<int64_t>((call_.pool.threads() + batch - 1) / batch, 1, rows);
    const int64_t at_once = std::max<int64_t>(1, std::min((rows + bands_wanted - 1) / bands_wanted, 4 * kMostRows / positions));
    std::vector<Band> bands;
    for (int64_t first = 0; first < rows; first += at_once) bands.push_back(band_of({first, std::min(rows, first + at_once)}));
    // Rows that see nothing but padding have no image to give to oneDNN.
    if (std::any_of(bands.begin(), bands.end(), [](const Band& band) { return band.in.size() <= 0; })) bands = {band_of({0, rows})};

    const Key first_key = key_of(bands[0], {});
    const Operation& first = operation_of(first_key, [&] { return describe(bands[0], w_.as_preferred().get()); });
    const void* weights = weights_for(call_, first, first_key, w_, call_.inputs[1].data);
    const auto count = static_cast<int64_t>(bands.size());
    call_.pool.parallel_for(batch * count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const Band& band = bands[static_cast<size_t>(task % count)];
        const Operation& operation = operation_of(key_of(band, first_key), [&] { return describe(band, first.weights()); });
        const int64_t image = task / count, channels = y_.sizes[1];
        const auto* x = static_cast<const float*>(call_.inputs[0].data) + image * x_.strides[0] + band.in.first * x_.strides[2];
        const int64_t first_position = (image * rows + band.out.first) * positions;
        const PartOfResult result(call_.epilogue,
                                  call_.epilogue != nullptr ? nullptr : data_of(call_.outputs[0]) + first_position * channels,
                                  {first_position, first_position + band.out.size() * positions}, {0, channels});
        execute(operation, {{DNNL_ARG_SRC, layout(operation.desc, dnnl_query_src_md), x},
                            {DNNL_ARG_WEIGHTS, operation.weights(), weights},
                            {DNNL_ARG_DST, layout(operation.desc, dnnl_query_dst_md), result.data()}});
        result.finish();
      }
    });
  }

 private:
  int64_t reach(size_t d) const { return (w_.sizes[w_.sizes.size() - spatial_ + d] - 1) * call_.integers[2 + 2 * spatial_ + d] + 1; }
  // What the last of `outputs` positions reads beyond the image's end, which it may fall short of.
  int64_t padding_after(size_t d, int64_t outputs, int64_t first) const {
    return (first + outputs - 1) * windows_.strides[d] - windows_.padding_before[d] + reach(d) - x_.sizes[2 + d];
  }
  int64_t rows_of_result() const {
    int64_t count = 1;
    for (size_t d = 0; d < y_.sizes.size(); ++d) count *= d == 1 ? 1 : y_.sizes[d];
    return count;
  }

  Band band_of(Range out) const {
    const int64_t begin = out.first * windows_.strides[0] - windows_.padding_before[0];
    const int64_t after = padding_after(0, out.size(), out.first), end = x_.sizes[2] + after;
    return {out, {std::max<int64_t>(begin, 0), std::min(end, x_.sizes[2])}, std::max<int64_t>(-begin, 0), std::max<int64_t>(after, 0)};
  }

  Owned<dnnl_primitive_desc_t> describe(const Band& band, DescPointer weights) const {
    View x = x_, y = y_;
    x.sizes[0] = y.sizes[0] = 1;
    x.sizes[2] = band.in.size();
    y.sizes[2] = band.out.size();
    x.strides[0] = x.sizes[2] * x.strides[2];
    y.strides[0] = y.sizes[2] * y.strides[2];
    Windows windows = windows_;
    windows.padding_before[0] = band.padding_before;
    windows.padding_after[0] = band.padding_after;
    return describe_convolution(x.as_it_lies().get(), weights, y.as_it_lies().get(), windows);
  }

  Key key_of(const Band& band, const Key& weights) const {
    Key key = {'c', band.out.size(), band.in.size(), band.padding_before, band.padding_after};
    for (const View* view : {&x_, &w_, &y_}) add_to(key, *view);
    key.insert(key.end(), call_.integers.begin(), call_.integers.end());
    key.insert(key.end(), weights.begin(), weights.end());
    return key;
  }

  const KernelCall& call_;
  View x_, w_, y_;
  size_t spatial_;
  Windows windows_;
};

}  // namespace

void run_convolution_onednn(const KernelCall& call) { Convolver(call).run(); }

#else

void run_matmul_onednn(const KernelCall&) { throw Error(ErrorKind::Environment, *onednn_absence()); }
void run_convolution_onednn(const KernelCall&) { throw Error(ErrorKind::Environment, *onednn_absence()); }

#endif

}  // namespace toroid
