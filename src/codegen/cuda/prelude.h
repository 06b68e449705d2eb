// The text that every file of kernels for GPUs starts with: types, loads and stores, scalar operators, and threads that share a row.
//
// It includes no header, because those for 16-bit floats and for C++'s library cost more than a kernel. NVIDIA's and AMD's GPUs share it:
// for AMD's, what CUDA has beside C++ is defined before it in terms of clang's built-ins, and elementary functions are of its own. The same
// text is compiled for a processor behind an emulation, to test kernels where there is no GPU.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace toroid::codegen::cuda {

// What a kernel's file has besides, when it needs it.
struct Preludes {
  bool special = false;             // the special functions: library/special/, as it is
  bool products = false;            // products on tensor cores
  bool convolutions = false;        // the same of images and filters; with `products`
  bool filter_gradients = false;    // with `convolutions`
  bool group_convolutions = false;  // of groups with few channels; with `convolutions`
  bool few_rows = false;            // products of few rows
  bool grouped_products = false;
  bool plain_products = false;  // on plain cores
  bool attention = false;
  bool hopper_attention = false;  // with attention
  bool written_scores = false;    // with attention
  bool order = false;             // sorting and selection
  bool scans = false;
  bool split_attention = false;            // of few queries; with attention
  bool attention_gradient = false;         // with attention
  bool hopper_attention_gradient = false;  // with hopper_attention and attention_gradient
  void add(const Preludes& other) {
    special |= other.special;
    products |= other.products;
    convolutions |= other.convolutions;
    filter_gradients |= other.filter_gradients;
    group_convolutions |= other.group_convolutions;
    few_rows |= other.few_rows;
    grouped_products |= other.grouped_products;
    plain_products |= other.plain_products;
    attention |= other.attention;
    hopper_attention |= other.hopper_attention;
    written_scores |= other.written_scores;
    order |= other.order;
    scans |= other.scans;
    split_attention |= other.split_attention;
    attention_gradient |= other.attention_gradient;
    hopper_attention_gradient |= other.hopper_attention_gradient;
  }
  auto operator<=>(const Preludes&) const = default;
};
// What the text is compiled as.
struct Language {
  bool is_amd = false;       // HIP by clang, and AMD's own elementary functions
  bool is_emulated = false;  // C++ for a processor; then emulation() stands before it
};
std::string prelude_of(const Preludes& preludes, const Language& language);

extern const std::string_view kSpecialPrelude;
// In front of a wrapper whose kernels are CUDA's.
extern const std::string_view kHostPrelude;
// In front of the prelude, to compile for a processor: what the language CUDA has beside C++, and blocks whose threads are fibers. `wave`:
// threads that run together, 32 or 64.
std::string emulation(int wave);

}  // namespace toroid::codegen::cuda
