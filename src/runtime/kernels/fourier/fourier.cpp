#include "runtime/kernels/fourier/fourier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "library/roots_of_unity.h"
#include "runtime/kernels/fourier/any_length.h"
#include "runtime/kernels/fourier/mixed_radix_plan.h"
#include "runtime/kernels/fourier/mixed_radix_stages.h"
#include "runtime/kernels/linked/library_calls.h"
#include "runtime/kernels/linked/linked_kernels.h"
#include "runtime/kernels/registry/operands.h"
#include "runtime/memory/scratch.h"

namespace toroid {
namespace {

using mixed_radix::Arrays, mixed_radix::Kernel, mixed_radix::Plan, mixed_radix::Work;

// Beyond it Bluestein's three transforms cost less than sums of so many terms.
constexpr int64_t kLargestFactor = 1021;
// What the four arrays of the rows at hand may take, so that they stay in the second-level cache.
constexpr int64_t kBlockBytes = 256 << 10;
// Fewer are not worth the steps around a block: short rows come in several vectors.
constexpr int64_t kFewElements = 1 << 10;
// Less work than this is not worth a second thread.
constexpr int64_t kElementsPerThread = 16 << 10;

enum class Form { Complex, Half, Real };  // fourier.transform, .half, .real

// Where a row of an operand of any strides begins.
template <class T>
const T* row_of(const ToroidOperand& operand, int64_t row) {
  int64_t at = 0;
  for (int32_t d = operand.rank - 1; d-- > 0;) {
    at += row % operand.sizes[d] * operand.strides[d];
    row /= operand.sizes[d];
  }
  return static_cast<const T*>(operand.data) + at;
}

constexpr int64_t kMostLanes = 16;

template <class T>
class Rows {
 public:
  Rows(Form form, const KernelCall& call, int64_t n, const Plan<T>& plan)
      : form_(form), call_(call), n_(n), is_forward_(call.numbers[0] != 0), is_packed_(form != Form::Complex && n % 2 == 0), plan_(plan) {}

  int64_t together(int64_t rows) const {
    int64_t most = kernel_.lanes;
    while (most * n_ < kFewElements) most *= 2;
    most = std::min(most, rows);
    while (most > 1 && 4 * plan_.n * most * static_cast<int64_t>(sizeof(T)) > kBlockBytes) most /= 2;
    return most;
  }

  void run(int64_t begin, int64_t count) const {
    static Scratch scratch;
    const int64_t floats = sizeof(T) / sizeof(float), each = padded_stride((plan_.n + 1) * count * floats);
    const int64_t terms = (plan_.radices.empty() ? 0 : plan_.radices.back() / 2) * 4 * kMostLanes;
    float* const memory = scratch.get(6 * each + terms);
    const auto array = [&](int64_t i) { return reinterpret_cast<T*>(memory + i * each); };
    const Work<T> work = {/*plan=*/plan_,
                          /*x=*/{array(0), array(1)},
                          /*y=*/{array(2), array(3)},
                          /*all=*/array(4),
                          /*terms=*/array(6),
                          /*rows=*/count,
                          /*is_packed=*/is_packed_,
                          /*is_real=*/form_ == Form::Half && !is_packed_};
    std::vector<std::vector<any_length_fourier::Term>> rest;
    read(work, begin, rest);
    write(work, kernel_.compute(work, form_ == Form::Real), begin, rest);
  }

 private:
  // The input's parts; exchanged for a transform back.
  const ToroidOperand& input(size_t part) const { return call_.inputs[form_ == Form::Complex && !is_forward_ ? 1 - part : part]; }
  T* output(size_t part) const { return static_cast<T*>(call_.outputs[form_ == Form::Complex && !is_forward_ ? 1 - part : part].data); }

  // Rows begin..begin + count of an input, interleaved: to[j * count + l].
  void interleave(const ToroidOperand& operand, int64_t begin, int64_t count, int64_t elements, T* to) const {
    const int64_t stride = operand.strides[operand.rank - 1];
    const T* const first = row_of<T>(operand, begin);
    // Rows of one matrix have the same distance.
    const int64_t neighbours = operand.rank > 1 ? operand.sizes[operand.rank - 2] : 1;
    const int64_t row = operand.rank > 1 ? operand.strides[operand.rank - 2] : 0;
    const bool is_even = count == 1 || begin % neighbours + count <= neighbours;
    if (is_even && stride == 1) return kernel_.turn({first, row, to, count, count, elements});
    for (int64_t l = 0; l < count && !(is_even && row == 1); ++l) {
      const T* const from = row_of<T>(operand, begin + l);
      for (int64_t j = 0; j < elements; ++j) to[j * count + l] = from[j * stride];
    }
    if (!is_even || row != 1) return;
    for (int64_t j = 0; j < elements; ++j) std::memcpy(to + j * count, first + j * stride, static_cast<size_t>(count) * sizeof(T));
  }

  // The other way, to contiguous rows of so many elements.
  void separate(const T* from, int64_t begin, int64_t count, int64_t elements, T* to) const {
    kernel_.turn({from, count, to + begin * elements, elements, elements, count});
  }

  // Elements at even places, and those at odd ones, of `count` interleaved rows.
  void split_places(const T* from, int64_t count, int64_t pairs, Arrays<T> to) const {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    for (int64_t j = 0; j < pairs; ++j) {
      std::memcpy(to.re + j * count, from + 2 * j * count, bytes);
      std::memcpy(to.im + j * count, from + (2 * j + 1) * count, bytes);
    }
  }
  void join_places(Arrays<T> from, int64_t count, int64_t pairs, T* to) const {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    for (int64_t j = 0; j < pairs; ++j) {
      std::memcpy(to + 2 * j * count, from.re + j * count, bytes);
      std::memcpy(to + (2 * j + 1) * count, from.im + j * count, bytes);
    }
  }

  void read(const Work<T>& work, int64_t begin, std::vector<std::vector<any_length_fourier::Term>>& rest) const {
    const int64_t count = work.rows;
    const Arrays<T> x = work.x;
    int64_t elements = n_;
    if (form_ == Form::Complex) {
      interleave(input(0), begin, count, n_, x.re);
      interleave(input(1), begin, count, n_, x.im);
    } else if (form_ == Form::Half && is_packed_) {
      elements = n_ / 2;
      interleave(input(0), begin, count, n_, work.all);
      split_places(work.all, count, elements, x);
    } else if (form_ == Form::Half) {
      interleave(input(0), begin, count, n_, x.re);
      std::fill(x.im, x.im + n_ * count, T(0));
    } else {
      elements = n_ / 2 + 1;
      interleave(input(0), begin, count, elements, x.re);
      interleave(input(1), begin, count, elements, x.im);
      for (int64_t l = 0; l < count; ++l) {
        x.im[l] = 0;
        if (n_ % 2 == 0) x.im[n_ / 2 * count + l] = 0;
      }
    }
    if (!kernel_.are_finite(x.re, elements * count) || !kernel_.are_finite(x.im, elements * count)) take_out(x, elements, count, rest);
    if (form_ != Form::Real) return;
    // Packed halves are transformed back, whole spectra forward.
    if (is_forward_ == is_packed_) {
      for (int64_t i = 0; i < elements * count; ++i) x.im[i] = -x.im[i];
    }
    if (is_packed_) return;
    for (int64_t k = 1; k < elements; ++k) {
      for (int64_t l = 0; l < count; ++l) {
        x.re[(n_ - k) * count + l] = x.re[k * count + l];
        x.im[(n_ - k) * count + l] = -x.im[k * count + l];
      }
    }
  }

  void take_out(Arrays<T> x, int64_t elements, int64_t count, std::vector<std::vector<any_length_fourier::Term>>& rest) const {
    rest.resize(static_cast<size_t>(count));
    const auto taken = [](T& value) {
      const T was = value;
      if (std::isfinite(was)) return 0.0;
      value = 0;
      return static_cast<double>(was);
    };
    for (int64_t i = 0; i < elements * count; ++i) {
      const double re = taken(x.re[i]), im = taken(x.im[i]);
      if (re == 0 && im == 0) continue;
      const int64_t j = i / count;
      std::vector<any_length_fourier::Term>& terms = rest[static_cast<size_t>(i % count)];
      if (form_ == Form::Complex) {
        terms.push_back({j, re, im});
      } else if (form_ == Form::Half) {
        if (re != 0) terms.push_back({is_packed_ ? 2 * j : j, re, 0});
        if (im != 0) terms.push_back({2 * j + 1, im, 0});
      } else {
        const double turned = is_forward_ ? im : -im;
        terms.push_back({j, re, turned});
        if (!is_own_conjugate(j, n_)) terms.push_back({n_ - j, re, -turned});
      }
    }
  }

  void write(const Work<T>& work, Arrays<T> result, int64_t begin, const std::vector<std::vector<any_length_fourier::Term>>& rest) const {
    const int64_t count = work.rows, length = form_ == Form::Half ? n_ / 2 + 1 : n_;
    T* const re = output(0) + begin * length;
    T* const im = form_ == Form::Real ? nullptr : output(1) + begin * length;
    if (form_ == Form::Real && is_packed_) {
      join_places(result, count, n_ / 2, work.all);
      separate(work.all, begin, count, length, output(0));
    } else {
      separate(result.re, begin, count, length, output(0));
      if (im != nullptr) separate(result.im, begin, count, length, output(1));
    }
    for (size_t l = 0; l < rest.size(); ++l) {
      if (rest[l].empty()) continue;
      const int64_t at = static_cast<int64_t>(l) * length;
      any_length_fourier::add_terms(rest[l], n_, re + at, im == nullptr ? nullptr : im + at, length);
    }
    if (form_ != Form::Half) return;
    for (int64_t l = 0; l < count; ++l) {
      T* const row = im + l * length;
      if (!is_forward_) std::transform(row, row + length, row, [](T value) { return -value; });
      row[0] = 0;
      if (n_ % 2 == 0) row[n_ / 2] = 0;
    }
  }

  Form form_;
  const KernelCall& call_;
  int64_t n_;
  bool is_forward_, is_packed_;
  const Plan<T>& plan_;
  Kernel<T> kernel_ = mixed_radix::kernel_for_this_machine<T>();
};

const ToroidOperand& whole_rows(Form form, const KernelCall& call) { return form == Form::Half ? call.inputs[0] : call.outputs[0]; }

template <class T>
void run_rows(Form form, const KernelCall& call, const Plan<T>& plan) {
  const ToroidOperand& whole = whole_rows(form, call);
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < whole.rank; ++d) rows *= whole.sizes[d];
  const int64_t n = whole.sizes[whole.rank - 1];
  const Rows<T> work(form, call, n, plan);
  const int64_t together = work.together(rows), blocks = (rows + together - 1) / together;
  call.pool.parallel_for(blocks, std::max<int64_t>(1, kElementsPerThread / (together * n)), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) work.run(block * together, std::min(together, rows - block * together));
  });
}

template <class T>
std::unique_ptr<const KernelPlan> plan_rows(Form form, const KernelCall& call) {
  const ToroidOperand& whole = whole_rows(form, call);
  const int64_t n = whole.sizes[whole.rank - 1];
  if (std::any_of(whole.sizes, whole.sizes + whole.rank, [](int64_t size) { return size == 0; }))
    return plan_that_runs([](const KernelCall&) {});
  return plan_that_runs([form, plan = mixed_radix::plan_of<T>(form != Form::Complex && n % 2 == 0 ? n / 2 : n)](const KernelCall& each) {
    run_rows<T>(form, each, *plan);
  });
}

std::optional<Form> form_of(std::string_view name) {
  if (name == "fourier.transform") return Form::Complex;
  if (name == "fourier.half") return Form::Half;
  if (name == "fourier.real") return Form::Real;
  return std::nullopt;
}

}  // namespace

bool can_run_fourier(std::string_view name, const KernelCall& call) {
  const std::optional<Form> form = form_of(name);
  if (!form) return false;
  const DType dtype = dtype_of(call.outputs[0]);
  if (dtype != DType::F32 && dtype != DType::F64) return false;
  const ToroidOperand& whole = *form == Form::Half ? call.inputs[0] : call.outputs[0];
  const int64_t n = whole.sizes[whole.rank - 1];
  if (n <= 0) return true;
  const std::vector<int64_t> radices = mixed_radix::radices_of(n);
  return radices.empty() || radices.back() <= kLargestFactor;
}

namespace {

template <const char* kName, LibraryKernel kOfAnyLength>
std::unique_ptr<const KernelPlan> plan_fourier(const KernelCall& call) {
  if (!can_run_fourier(kName, call)) return plan_on_contiguous<kOfAnyLength>(call);
  const Form form = form_of(kName).value();
  return dtype_of(call.outputs[0]) == DType::F32 ? plan_rows<float>(form, call) : plan_rows<double>(form, call);
}
constexpr char kTransform[] = "fourier.transform", kHalf[] = "fourier.half", kReal[] = "fourier.real";

}  // namespace

TOROID_LINKED_KERNEL(fourier_transform, "library.fourier.transform", nullptr, plan_fourier<kTransform, any_length_fourier::transform>);
TOROID_LINKED_KERNEL(fourier_half, "library.fourier.half", nullptr, plan_fourier<kHalf, any_length_fourier::half>);
TOROID_LINKED_KERNEL(fourier_real, "library.fourier.real", nullptr, plan_fourier<kReal, any_length_fourier::real>);

}  // namespace toroid
