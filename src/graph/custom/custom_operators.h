// Finds the files of custom operators. "mylib::swiglu" is in mylib.swiglu.op, "mylib::norm.out" in mylib.norm.out.op, in the first of the
// folders that has it, else beside the model.
//
// What lies beside a model comes with it, perhaps from a stranger: a formula is taken from there, code is not.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/custom/custom_operator.h"

namespace toroid {

struct OperatorFolders {
  std::vector<std::filesystem::path> trusted = {};  // in this order
  std::filesystem::path beside_model = {};          // empty: none
  bool for_gpu = false;                             // of several bodies, which one is taken: for a GPU CUDA's, else Triton's
  bool is_emulated = false;                         // … for which Triton has no code
  bool for_amd = false;                             // with for_gpu: kernels in CUDA are not taken, for they may know of NVIDIA's warps
};

// Those of one program. Not for several threads at once.
class CustomOperators {
 public:
  explicit CustomOperators(OperatorFolders folders) : folders_(std::move(folders)) {}
  CustomOperators(const CustomOperators&) = delete;

  // Null: there is no file. Throws what reading it does, and Error{InvalidOption} for code beside a model. It lives as long as this.
  const CustomOperator* find(std::string_view op);
  // The one that this schema is of, among those that were found; null: none.
  const CustomOperator* of(const Schema& schema) const;
  const CustomOperator* of_library(std::string_view library_name) const;  // "custom.mylib::swiglu", "custom.triton.mylib::swiglu"
  // The kernel that computes it; null: its formula does. Throws Error{Unsupported} where the file has a body for other devices alone.
  const CustomKernel* kernel_of(const CustomOperator& op) const;
  // Is that one in Triton?
  bool takes_triton(const CustomOperator& op) const;

  // By operator, those that were found.
  const std::map<std::string, std::unique_ptr<const CustomOperator>, std::less<>>& all() const { return found_; }
  // What the files of all folders hold, those of operators that were not asked for too: equal texts, equal programs. "" without any.
  std::string fingerprint() const;
  // Is one of those files a kernel in Triton's, which this program may take?
  bool may_take_triton() const;
  bool may_take_halide() const;  // the same of Halide

 private:
  // Is one of the files from trusted folders so?
  bool has_file(const std::function<bool(const CustomOperator&)>& wanted) const;
  std::vector<std::pair<std::filesystem::path, bool>> files() const;  // of all folders, in order; is it a trusted one?
  const OperatorFolders folders_;
  std::map<std::string, std::unique_ptr<const CustomOperator>, std::less<>> found_;
};

// Where `op` would be found: "mylib.swiglu.op". "" for a name that no file can have.
std::string operator_file_name(std::string_view op);

}  // namespace toroid
