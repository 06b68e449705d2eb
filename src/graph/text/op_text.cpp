// Text of operations and types: what the printer writes and the builder compares nodes by.
#include <cmath>

#include <fmt/format.h>

#include "graph/builder.h"
#include "graph/text/text_names.h"
#include "support/match.h"

namespace toroid {
namespace {

template <class List>
std::string list(const List& items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    if constexpr (requires { sym::to_string(items[i]); }) {
      text += sym::to_string(items[i]);
    } else {
      text += fmt::format("{}", items[i]);
    }
  }
  return text + "]";
}

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string to_string(const Argument& value) {
  return match(
      value, [](const None&) -> std::string { return "none"; }, [](const InputRef& ref) { return fmt::format("%{}", ref.index); },
      [](const InputList& refs) {
        std::string text = "[";
        for (size_t i = 0; i < refs.size(); ++i) {
          if (i > 0) text += ", ";
          text += refs[i] ? fmt::format("%{}", refs[i]->index) : "none";
        }
        return text + "]";
      },
      [](const sym::Expr& expr) { return sym::to_string(expr); }, [](const ExprList& exprs) { return list(exprs); },
      [](double v) { return number(v); },
      [](const std::vector<double>& values) {
        std::string text = "[";
        for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + number(values[i]);
        return text + "]";
      },
      [](bool v) -> std::string { return v ? "true" : "false"; },
      [](const std::vector<bool>& values) {
        std::string text = "[";
        for (size_t i = 0; i < values.size(); ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", values[i] ? "true" : "false");
        return text + "]";
      },
      [](const std::string& text) { return quote(text); },
      [](const std::vector<std::string>& texts) {
        std::string text = "[";
        for (size_t i = 0; i < texts.size(); ++i) text += (i > 0 ? ", " : "") + quote(texts[i]);
        return text + "]";
      },
      [](DType dtype) { return fmt::format("dtype.{}", to_string(dtype)); },
      [](Layout layout) -> std::string { return layout == Layout::Strided ? "layout.strided" : "layout.other"; },
      [](Device device) { return fmt::format("device.{}", to_string(device)); },
      [](MemoryFormat format) {
        constexpr std::string_view names[] = {"contiguous", "channels_last", "channels_last_3d", "preserve"};
        return fmt::format("format.{}", names[static_cast<size_t>(format)]);
      },
      [](const SubgraphRef& ref) { return fmt::format("@{}", ref.index); });
}

namespace {

std::string arguments(const std::vector<Argument>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + to_string(values[i]);
  return text;
}

}  // namespace

std::string to_string(Device device) { return device.type == Device::Type::Cpu ? "cpu" : fmt::format("cuda:{}", device.index); }

std::string to_string(const Scalar& scalar) {
  return match(
      scalar, [](bool v) -> std::string { return v ? "true" : "false"; }, [](const sym::Expr& expr) { return sym::to_string(expr); },
      [](double v) { return number(v); });
}

std::string to_string(const TensorType& type) {
  std::string text = fmt::format("{}{}", to_string(type.dtype), list(type.sizes));
  if (!type.strides.empty() && type.strides != contiguous_strides(type.sizes)) text += " strides " + list(type.strides);
  if (!type.storage_offset.is_const(0)) text += fmt::format(" offset({})", sym::to_string(type.storage_offset));
  if (type.device.type != Device::Type::Cpu) text += " on " + to_string(type.device);
  return text;
}

std::string to_string(const Op& op) {
  return match(
      op, [](const Input& o) { return fmt::format("input({})", o.index); },
      [](const Constant& o) { return fmt::format("constant({})", static_cast<uint32_t>(o.id)); },
      [](const Aten& o) { return fmt::format("{}({})", o.schema->name, arguments(o.arguments)); },
      [](const HigherOrder& o) { return fmt::format("higher_order::{}({})", o.name, arguments(o.arguments)); },
      [](const Full& o) { return fmt::format("full(value={})", to_string(o.value)); },
      [](const Iota& o) { return fmt::format("iota(dim={})", o.dim); }, [](const RandomState&) -> std::string { return "random_state"; },
      [](const Pointwise& o) { return std::string(to_string(o.op)); }, [](const Cast&) -> std::string { return "cast"; },
      [](const Bitcast&) -> std::string { return "bitcast"; }, [](const Expand&) -> std::string { return "expand"; },
      [](const Permute& o) { return fmt::format("permute(dims={})", list(o.dims)); },
      [](const Reshape&) -> std::string { return "reshape"; },
      [](const Slice& o) { return fmt::format("slice(starts={}, steps={})", list(o.starts), list(o.steps)); },
      [](const Remap& o) { return fmt::format("remap(axes={}, index={})", list(o.axes), list(o.index)); },
      [](const Pad& o) { return fmt::format("pad(low={}, value={})", list(o.low), to_string(o.value)); },
      [](const Cat& o) { return fmt::format("cat(dim={})", o.dim); }, [](const Gather&) -> std::string { return "gather"; },
      [](const Scatter& o) { return fmt::format("scatter.{}", to_string(o.mode)); },
      [](const Reduce& o) { return fmt::format("reduce.{}(dims={})", to_string(o.op), list(o.dims)); },
      [](const Scan& o) { return fmt::format("scan.{}(dim={})", to_string(o.op), o.dim); },
      [](const Sort& o) { return fmt::format("sort(dim={}, descending={}, stable={})", o.dim, o.descending, o.stable); },
      [](const Matmul& o) {
        const std::string sides = fmt::format(".float8(left_e5m2={}, right_e5m2={})", o.left_e5m2, o.right_e5m2);
        return "matmul" + (o.left_e5m2 || o.right_e5m2 ? sides : "");
      },
      [](const Convolution& o) {
        return fmt::format("convolution(stride={}, padding={}, dilation={}, output_padding={}, transposed={}, groups={})", list(o.stride),
                           list(o.padding), list(o.dilation), list(o.output_padding), o.transposed, sym::to_string(o.groups));
      },
      [](const Attention& o) { return fmt::format("attention(causal={}, scale={})", o.causal, number(o.scale)); },
      [](const Library& o) {
        std::string text = fmt::format("library.{}", o.name);
        for (size_t i = 0; i < o.attributes.size(); ++i) text += (i > 0 ? ", " : "(attributes=[") + to_string(o.attributes[i]);
        return text + (o.attributes.empty() ? "" : "])");
      });
}

}  // namespace toroid
