// Edits of a program in text form.
#include <algorithm>

#include <fmt/format.h>

#include "mutate/edits.h"

namespace toroid::mutate {
namespace {

constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1",
                                    "2",
                                    "3",
                                    "7",
                                    "64",
                                    "2147483647",
                                    "2147483648",
                                    "4294967296",
                                    "1099511627776",
                                    "2305843009213693952",
                                    "4611686018427387904",
                                    "4611686018427387899",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "99999999999999999999",
                                    "1e308",
                                    "0.5",
                                    "nan",
                                    "inf",
                                    "none",
                                    "[]",
                                    "true",
                                    "\"x\"",
                                    "s0",
                                    "s0*s0",
                                    "u0",
                                    "(s0)"};
constexpr const char* kDtypes[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool", "u16", "c64", "c128", "f8e4m3fn"};
constexpr const char* kCalls[] = {"aten::add.Tensor",
                                  "aten::mul.Tensor",
                                  "aten::sum.dim_IntList",
                                  "aten::permute",
                                  "aten::expand",
                                  "aten::view",
                                  "aten::slice.Tensor",
                                  "aten::gather",
                                  "aten::mm",
                                  "aten::cumsum",
                                  "aten::as_strided",
                                  "aten::unfold",
                                  "aten::topk",
                                  "aten::sort",
                                  "aten::cat",
                                  "aten::nonzero",
                                  "aten::index.Tensor",
                                  "aten::constant_pad_nd",
                                  "aten::native_layer_norm",
                                  "aten::convolution",
                                  "exp",
                                  "reshape",
                                  "expand",
                                  "cast",
                                  "gather",
                                  "matmul",
                                  "reduce.sum",
                                  "slice",
                                  "pad",
                                  "iota"};

enum class Kind : uint8_t { Number, Dtype, Call, Value, Mark };
struct Word {
  size_t begin, end;
  Kind kind;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class TextSeed : public Seed {
 public:
  TextSeed(std::string name, std::string text) : Seed(std::move(name)), text_(std::move(text)) {}

  bool is_archive() const override { return false; }
  std::string plain() const override { return text_; }

  Spoilt spoil(uint64_t seed, int64_t number) override {
    Random random(seed * 0x10001 + static_cast<uint64_t>(number));
    std::string edits = apply(random);
    if (number % 4 == 3) edits += "; " + apply(random);
    return {text_, edits};
  }

 private:
  std::vector<Word> words() const {
    std::vector<Word> list;
    for (size_t at = 0; at < text_.size();) {
      if (text_[at] == '#') {  // a comment
        at = std::min(text_.find('\n', at), text_.size());
        continue;
      }
      if (std::string_view("[](),:@").find(text_[at]) != std::string_view::npos) list.push_back({at, at + 1, Kind::Mark});
      if (!is_word(text_[at])) {
        ++at;
        continue;
      }
      size_t end = at;
      const bool is_number = std::isdigit(static_cast<unsigned char>(text_[at])) != 0;
      while (end < text_.size() && (is_word(text_[end]) || text_[end] == '.' || (text_[end] == ':' && text_.substr(end, 2) == "::") ||
                                    (end > at && text_[end] == ':' && text_[end - 1] == ':'))) {
        ++end;
      }
      const std::string word = text_.substr(at, end - at);
      const bool is_dtype = std::find(std::begin(kDtypes), std::end(kDtypes), word) != std::end(kDtypes);
      const bool is_call = end < text_.size() && text_[end] == '(';
      list.push_back({at, end, is_number ? Kind::Number : is_dtype ? Kind::Dtype : is_call ? Kind::Call : Kind::Value});
      at = end;
    }
    return list;
  }

  std::string line_edit(Random& random) {
    std::vector<std::string> lines;
    for (size_t start = 0; start < text_.size();) {
      const size_t end = std::min(text_.find('\n', start), text_.size());
      lines.push_back(text_.substr(start, end - start));
      start = end + 1;
    }
    const auto first = random.below(static_cast<int64_t>(lines.size())), second = random.below(static_cast<int64_t>(lines.size()));
    const std::string line = lines[static_cast<size_t>(first)];
    std::string what;
    switch (random.below(3)) {
      case 0:
        lines.erase(lines.begin() + first);
        what = "without the line";
        break;
      case 1:
        lines.insert(lines.begin() + second, line);
        what = "again the line";
        break;
      default: std::swap(lines[static_cast<size_t>(first)], lines[static_cast<size_t>(second)]); what = "elsewhere the line";
    }
    text_ = fmt::format("{}\n", fmt::join(lines, "\n"));
    return fmt::format("{} '{}'", what, line.substr(0, 100));
  }

  std::string apply(Random& random) {
    const std::vector<Word> list = words();
    if (list.empty() || random.chance(0.1)) return line_edit(random);
    const Word word = random.pick(list);
    const std::string old = text_.substr(word.begin, word.end - word.begin);
    std::string replacement;
    const auto one_of = [&](auto& table) { return std::string(table[random.below(static_cast<int64_t>(std::size(table)))]); };
    const auto other = [&](Kind kind) {
      std::vector<Word> same;
      std::copy_if(list.begin(), list.end(), std::back_inserter(same), [&](const Word& w) { return w.kind == kind; });
      const Word chosen = random.pick(same);
      return text_.substr(chosen.begin, chosen.end - chosen.begin);
    };
    switch (word.kind) {
      case Kind::Number: replacement = one_of(kNumbers); break;
      case Kind::Dtype: replacement = one_of(kDtypes); break;
      case Kind::Call: replacement = random.chance(0.5) ? other(Kind::Call) : one_of(kCalls); break;
      case Kind::Value: replacement = random.chance(0.7) ? other(Kind::Value) : one_of(kNumbers); break;
      // An element more, less, or an end too early.
      case Kind::Mark:
        replacement = random.chance(0.3) ? ""
                      : old == "["       ? "[" + one_of(kNumbers) + ", "
                      : old == ","       ? ", " + one_of(kNumbers) + ","
                                         : old + old;
        break;
    }
    text_.replace(word.begin, word.end - word.begin, replacement);
    return fmt::format("byte {}: '{}' := '{}'", word.begin, old, replacement);
  }

  std::string text_;
};

}  // namespace

std::unique_ptr<Seed> text_seed(std::string name, std::string text) { return std::make_unique<TextSeed>(std::move(name), std::move(text)); }

}  // namespace toroid::mutate
