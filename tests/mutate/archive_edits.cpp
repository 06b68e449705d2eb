// Edits of the JSON of an archive.
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "mutate/edits.h"

namespace toroid::mutate {
namespace {

// What no reader computes with.
constexpr std::string_view kUnread[] = {"metadata",          "stack_trace", "nn_module_stack", "torch_fn",
                                        "module_call_graph", "verifiers",   "torch_version"};
constexpr const char* kOperators[] = {"torch.ops.aten.add.Tensor",
                                      "torch.ops.aten.permute.default",
                                      "torch.ops.aten.as_strided.default",
                                      "torch.ops.aten.slice.Tensor",
                                      "torch.ops.aten.select.int",
                                      "torch.ops.aten.gather.default",
                                      "torch.ops.aten.sort.default",
                                      "torch.ops.aten.topk.default",
                                      "torch.ops.aten.view.default",
                                      "torch.ops.aten.expand.default",
                                      "torch.ops.aten.mm.default",
                                      "torch.ops.aten.cumsum.default",
                                      "torch.ops.aten.sum.dim_IntList",
                                      "torch.ops.aten.repeat.default",
                                      "torch.ops.aten.unfold.default",
                                      "torch.ops.aten.diagonal.default",
                                      "torch.ops.aten.convolution.default",
                                      "torch.ops.aten.constant_pad_nd.default",
                                      "torch.ops.aten.nonzero.default",
                                      "torch.ops.aten.index_put_.default",
                                      "torch.ops.higher_order.cond",
                                      "torch.ops.higher_order.scan",
                                      "_operator.getitem",
                                      "_operator.floordiv"};
constexpr const char* kExpressions[] = {"s0",    "u0",        "s0*s0",       "2**(2**(2**99))",       "Mod(s0,0)",
                                        "s0//0", "Max(s0,1)", "s0**1000000", "99999999999999999999",  "-1",
                                        "oo",    "zoo",       "nan",         "4611686018427387904*s0"};
constexpr int64_t kWhole = int64_t{1} << 62;

Json nested(int depth) {
  Json value = Json::object();
  for (int i = 0; i < depth; ++i) value = Json{{"a", std::move(value)}};
  return value;
}

// What a value may be replaced by: as many for each value of a type.
std::vector<Json> hostile_values(const Json& value, const std::vector<std::string>& names, Random& random) {
  const auto name = [&] { return names.empty() ? std::string("x") : random.pick(names); };
  const auto argument = [](const char* kind, Json held) { return Json{{kind, std::move(held)}}; };
  const auto tensor = [&](std::string called) { return argument("as_tensor", Json{{"name", std::move(called)}}); };
  std::vector<Json> list = {nullptr};
  const auto add = [&](auto... values) { (list.emplace_back(std::move(values)), ...); };
  if (value.is_boolean()) {
    add(!value.get<bool>(), 7, "x", Json::array());
  } else if (value.is_number_integer()) {
    const auto number = static_cast<uint64_t>(value.get<int64_t>());
    for (uint64_t same : {number + 1, number - 1, 0 - number, number * 1000003}) add(static_cast<int64_t>(same));
    for (int64_t other : {int64_t{0},
                          int64_t{-1},
                          int64_t{1},
                          int64_t{2},
                          int64_t{3},
                          int64_t{5},
                          int64_t{12},
                          int64_t{2147483647},
                          int64_t{2147483648},
                          int64_t{1} << 32,
                          int64_t{1} << 40,
                          int64_t{1} << 60,
                          int64_t{1} << 61,
                          kWhole - 300,
                          kWhole - 5,
                          kWhole,
                          kWhole + 3,
                          std::numeric_limits<int64_t>::max() - 1,
                          std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min(),
                          int64_t{-2147483648LL}}) {
      add(other);
    }
    add(std::numeric_limits<uint64_t>::max(), 1e308, 0.5, "7", true, Json::array(), Json::object());
  } else if (value.is_number_float()) {
    add(0.0, -0.0, 1e308, -1e308, 5e-324, 1, std::numeric_limits<int64_t>::max(), "NaN", "Infinity", "-Infinity", "x");
  } else if (value.is_string()) {
    add("", name(), name(), random.pick(std::vector<const char*>(std::begin(kOperators), std::end(kOperators))),
        value.get<std::string>() + "x", random.pick(std::vector<const char*>(std::begin(kExpressions), std::end(kExpressions))),
        random.pick(std::vector<const char*>(std::begin(kExpressions), std::end(kExpressions))), "../../etc/passwd", "/etc/passwd",
        std::string("a\0b", 3), "weight_0", std::string(100000, 'x'), std::string(5000, '('), "as_none", 5, Json::array(), Json::object());
  } else if (value.is_null()) {
    add(1, "x", Json::object(), Json::array(), true, argument("as_int", 3), argument("as_none", true));
  } else if (value.is_array()) {
    Json twice = value, back = Json::array(), shorter = value, later = Json::array(), many = Json::array(), longer = value;
    for (size_t i = 0; i < value.size(); ++i) {
      twice.push_back(value[i]);
      back.push_back(value[value.size() - 1 - i]);
      if (i > 0) later.push_back(value[i]);
    }
    for (int i = 0; i < 50 && value.size() < 8; ++i) many.insert(many.end(), value.begin(), value.end());
    if (!value.empty()) shorter.erase(value.size() - 1);
    longer.push_back(nullptr);
    add(Json::array(), twice, back, shorter, later, many, Json::array({value}), Json::object(), "x", longer);
  } else {
    Json counted = Json::array();
    for (int i = 0; i < 70; ++i) counted.push_back(i);
    add(Json::object(), Json::array(), "x", 0, nested(150), argument("as_none", true), argument("as_int", 0), argument("as_int", -1),
        argument("as_int", kWhole), argument("as_int", 2147483648), argument("as_float", 1e308), argument("as_float", 0.5),
        argument("as_bool", true), argument("as_string", "x"), tensor(name()), tensor("nosuch"),
        argument("as_tensors", Json::array({Json{{"name", name()}}, Json{{"name", name()}}})), argument("as_ints", Json::array({0})),
        argument("as_ints", Json::array({1, 0})), argument("as_ints", Json::array({0, 0})), argument("as_ints", Json::array({-1, -1})),
        argument("as_ints", Json::array({kWhole, kWhole, 4})), argument("as_ints", Json::array()), argument("as_ints", counted),
        argument("as_expr", Json{{"expr_str", "s0*s0"}, {"hint", nullptr}}), argument("as_scalar_type", 99), argument("as_scalar_type", 4),
        argument("as_sym_int", Json{{"as_name", "s0"}}), argument("as_sym_int", Json{{"as_int", -5}}),
        argument("as_sym_ints", Json::array({Json{{"as_int", 2}}, Json{{"as_name", "zz"}}})),
        argument("as_optional_tensors", Json::array({argument("as_none", true), tensor(name())})),
        argument("as_graph", Json{{"name", "g"}, {"graph", Json::object()}}));
  }
  return list;
}

class ArchiveSeed : public Seed {
 public:
  explicit ArchiveSeed(const std::filesystem::path& path) : Seed(path.string()), archive_(path) {
    Random random(0);
    for (size_t d = 0; d < archive_.documents().size(); ++d) add_places(d, Json::json_pointer(), archive_.documents()[d].json, random);
    for (const auto& document : archive_.documents()) {
      const auto graph = Json::json_pointer("/graph_module/graph/tensor_values");
      if (!document.json.contains(graph)) continue;
      for (const auto& [name, meta] : document.json.at(graph).items()) names_.push_back(name);
    }
  }

  bool is_archive() const override { return true; }
  std::string plain() const override { return archive_.build(); }

  Spoilt spoil(uint64_t seed, int64_t number) override {
    Random random(seed * 0x10001 + static_cast<uint64_t>(number));
    const int64_t count = places_.back().end;
    if (const std::optional<int64_t> single = single_edit(seed, number, count)) {
      const std::string edit = apply(*single, random);
      return {archive_.build(), edit};
    }
    std::string edits = apply(random.below(count), random);
    edits += "; " + apply(random.below(count), random);
    return {archive_.build(), edits};
  }

 private:
  // A place in a document with its edits, which have the numbers below `end`: its hostile values, then leaving it out and having it twice.
  struct Place {
    size_t document;
    Json::json_pointer path;
    int64_t end;
  };

  void add_places(size_t document, const Json::json_pointer& path, const Json& value, Random& random) {
    const int64_t before = places_.empty() ? 0 : places_.back().end;
    if (!path.empty()) places_.push_back({document, path, before + static_cast<int64_t>(hostile_values(value, {}, random).size()) + 2});
    if (value.is_object()) {
      for (const auto& [key, member] : value.items()) {
        if (std::find(std::begin(kUnread), std::end(kUnread), key) == std::end(kUnread)) add_places(document, path / key, member, random);
      }
    } else if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) add_places(document, path / i, value[i], random);
    }
  }

  std::string apply(int64_t edit, Random& random) {
    const auto place = std::upper_bound(places_.begin(), places_.end(), edit, [](int64_t e, const Place& p) { return e < p.end; });
    auto& document = archive_.documents()[place->document];
    const std::string where = fmt::format("{} {}", archive_.name_of(document), place->path.to_string());
    if (!document.json.contains(place->path)) return where + " is gone";  // after the first of a pair
    const int64_t from_end = place->end - edit;
    Json& parent = document.json.at(place->path.parent_pointer());
    const std::string key = place->path.back();
    if (from_end == 1) {
      if (parent.is_object()) {
        parent.erase(key);
      } else {
        parent.erase(static_cast<size_t>(std::stoull(key)));
      }
      return where + " left out";
    }
    Json& value = document.json.at(place->path);
    if (from_end == 2) {
      const Json copy = value;
      if (parent.is_object()) {
        auto& members = static_cast<std::vector<Json::object_t::value_type>&>(parent.get_ref<Json::object_t&>());
        members.emplace_back(key, copy);
      } else {
        parent.push_back(copy);
      }
      return where + " twice";
    }
    const std::vector<Json> values = hostile_values(value, names_, random);
    value = values[static_cast<size_t>(std::max<int64_t>(0, static_cast<int64_t>(values.size()) + 2 - from_end)) % values.size()];
    return fmt::format("{} := {}", where, value.dump(-1, ' ', true).substr(0, 120));
  }

  EditableArchive archive_;
  std::vector<Place> places_;
  std::vector<std::string> names_;  // of tensors
};

}  // namespace

std::unique_ptr<Seed> archive_seed(const std::filesystem::path& path) { return std::make_unique<ArchiveSeed>(path); }

std::optional<int64_t> single_edit(uint64_t seed, int64_t number, int64_t count) {
  if (number % 4 == 3) return std::nullopt;
  // All numbers below a count, in steps that have no factor in common with it.
  auto step = static_cast<int64_t>(Random(seed).bits() % static_cast<uint64_t>(count)) | 1;
  while (std::gcd(step, count) != 1) ++step;
  const int64_t position = number / 4 * 3 + number % 4;
  return static_cast<int64_t>(static_cast<__int128>(position) * step % count);
}

}  // namespace toroid::mutate
