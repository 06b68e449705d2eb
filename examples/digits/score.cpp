// Compares the network's answers with the labels and shows a few images as text.
//
//   digits_score heldout.safetensors answers.safetensors
//
// heldout: in0 [N, 1, 8, 8] and labels [N] as train.py wrote them. answers: out0 [N, 10], the probability of each digit.
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "frontend/safetensors.h"

namespace {

using namespace toroid;

constexpr int64_t kSide = 8;
constexpr int64_t kDigits = 10;
constexpr int64_t kShown = 6;

template <class T>
std::vector<T> values(const SafeTensors& file, std::string_view name, DType dtype, const std::vector<int64_t>& sizes) {
  const SafeTensor* tensor = file.find(name);
  if (!tensor || tensor->dtype != dtype || tensor->sizes != sizes) {
    throw Error(ErrorKind::InvalidInput, fmt::format("'{}' is not {}[{}]", name, to_string(dtype), fmt::join(sizes, ", ")))
        .help("give heldout.safetensors, then the outputs of 'toroid run' on it");
  }
  std::vector<T> result(tensor->bytes.size() / sizeof(T));
  std::memcpy(result.data(), tensor->bytes.data(), tensor->bytes.size());
  return result;
}

// Two columns a pixel, so that an image looks square.
void show(const std::vector<float>& images, const std::vector<int64_t>& picked, const std::vector<std::string>& captions) {
  constexpr std::string_view kInk = " .:-=+*#%@";
  for (int64_t row = 0; row < kSide; ++row) {
    std::string line = "  ";
    for (const int64_t image : picked) {
      for (int64_t column = 0; column < kSide; ++column) {
        const float grey = images[(image * kSide + row) * kSide + column];
        line.append(2, kInk[static_cast<size_t>(grey * static_cast<float>(kInk.size() - 1))]);
      }
      line += "  ";
    }
    fmt::print("{}\n", line);
  }
  std::string line = "  ";
  for (const std::string& caption : captions) line += fmt::format("{:<{}}", caption, 2 * kSide + 2);
  fmt::print("{}\n", line);
}

void score(const char* heldout_path, const char* answers_path) {
  const SafeTensors heldout = read_safetensors(heldout_path);
  const SafeTensors answers = read_safetensors(answers_path);
  const SafeTensor* labels_tensor = heldout.find("labels");
  const int64_t count = labels_tensor && !labels_tensor->sizes.empty() ? labels_tensor->sizes[0] : 0;
  const std::vector<int64_t> labels = values<int64_t>(heldout, "labels", DType::I64, {count});
  const std::vector<float> images = values<float>(heldout, "in0", DType::F32, {count, 1, kSide, kSide});
  const std::vector<float> chances = values<float>(answers, "out0", DType::F32, {count, kDigits});

  std::vector<int64_t> picked;  // what was read wrongly first, then whatever comes
  std::vector<int64_t> read(count);
  for (int64_t i = 0; i < count; ++i) {
    const float* row = &chances[i * kDigits];
    read[i] = std::max_element(row, row + kDigits) - row;
    if (read[i] != labels[i]) picked.push_back(i);
  }
  const int64_t wrong = static_cast<int64_t>(picked.size());
  for (int64_t i = 0; i < count; ++i) {
    if (read[i] == labels[i]) picked.push_back(i);
  }
  picked.resize(std::min<int64_t>(count, kShown));
  std::vector<std::string> captions;
  for (const int64_t i : picked) {
    captions.push_back(read[i] == labels[i] ? fmt::format("reads {}", read[i]) : fmt::format("reads {}, is {}", read[i], labels[i]));
  }
  show(images, picked, captions);
  fmt::print("\naccuracy: {} of {} held-out images, {:.2f} %\n", count - wrong, count,
             100.0 * static_cast<double>(count - wrong) / static_cast<double>(std::max<int64_t>(count, 1)));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw toroid::Error(toroid::ErrorKind::InvalidOption, "expected two files: the held-out images and the answers");
  score(argv[1], argv[2]);
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
