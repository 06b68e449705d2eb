#include "driver/compiled_graph.h"

#include <cstring>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file/framing.h"
#include "frontend/json_reader.h"
#include "support/text/json_writer.h"

namespace toroid {
namespace {

constexpr std::string_view kMagic = "TOROIDG1";
constexpr const char* kPlaces[] = {"inline", "program", "file"};

[[noreturn]] void refuse(std::string_view why) {
  throw Error(ErrorKind::InvalidInput, fmt::format("a damaged entry of the cache: {}", why));
}

Span<const std::byte> range_of(Span<const std::byte> all, int64_t offset, int64_t size) {
  const auto count = static_cast<int64_t>(all.size());
  if (offset < 0 || size < 0 || offset > count || size > count - offset) refuse("a constant lies outside of its place");
  return all.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

}  // namespace

std::string to_bytes(const CompiledGraph& graph) {
  JsonWriter header;
  header.begin_object();
  header.add("library", graph.library_key);
  header.begin_array("constants");
  for (const ConstantSource& each : graph.constants) {
    header.begin_array();
    header.add(kPlaces[static_cast<size_t>(each.place)]);
    header.add(each.position);
    header.add(each.bytes);
    header.end();
  }
  header.end();
  header.add_all("guards", graph.guards);
  header.add("kernels", graph.kernels);
  header.add("kernel_calls", graph.kernel_calls);
  header.add("library_calls", graph.library_calls);
  header.add("seconds", graph.seconds);
  header.end();
  std::string bytes(kMagic);
  append_sized(bytes, header.take());
  return bytes + graph.inlined;
}

CompiledGraph parse_compiled_graph(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) refuse("it does not start as one");
  bytes.remove_prefix(kMagic.size());
  const std::optional<std::string_view> text = take_sized(bytes);
  if (!text) refuse("it is cut short");
  CompiledGraph graph;
  try {
    const JsonDocument document = parse_json(*text, "the header");
    const JsonValue& header = document.root();
    graph.library_key = header.at("library").as_string();
    for (const JsonValue& each : header.at("constants").elements()) {
      const std::span<const JsonValue> parts = each.elements();
      if (parts.size() < 3) each.fail("too few parts");
      const auto place = std::find(std::begin(kPlaces), std::end(kPlaces), parts[0].as_string());
      if (place == std::end(kPlaces)) each.fail("no known place");
      graph.constants.push_back(
          {static_cast<ConstantSource::Place>(place - std::begin(kPlaces)), parts[1].as_integer(), parts[2].as_integer()});
    }
    for (const JsonValue& guard : header.at("guards").elements()) graph.guards.emplace_back(guard.as_string());
    graph.kernels = static_cast<int>(header.at("kernels").as_integer());
    graph.kernel_calls = static_cast<int>(header.at("kernel_calls").as_integer());
    graph.library_calls = static_cast<int>(header.at("library_calls").as_integer());
    graph.seconds = header.at("seconds").as_real();
  } catch (const Error& error) {
    refuse(error.message());
  }
  graph.inlined = bytes;
  return graph;
}

void locate_constants(CompiledGraph& graph, Span<const Span<const std::byte>> constants, std::span<const ConstantData> imported) {
  std::map<std::pair<const std::byte*, size_t>, int64_t> positions;
  for (size_t i = 0; i < imported.size(); ++i) {
    positions.try_emplace({imported[i].bytes.data(), imported[i].bytes.size()}, static_cast<int64_t>(i));
  }
  for (const Span<const std::byte> bytes : constants) {
    const auto size = static_cast<int64_t>(bytes.size());
    if (const auto found = positions.find({bytes.data(), bytes.size()}); found != positions.end()) {
      graph.constants.push_back({ConstantSource::Place::Program, found->second, size});
      continue;
    }
    // Kernels may read whole vectors of them.
    graph.inlined.resize((graph.inlined.size() + 63) / 64 * 64);
    graph.constants.push_back({ConstantSource::Place::Inline, static_cast<int64_t>(graph.inlined.size()), size});
    graph.inlined.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

bool locate_in_file(CompiledGraph& graph, std::span<const ConstantData> imported, Span<const std::byte> file) {
  for (ConstantSource& each : graph.constants) {
    if (each.place != ConstantSource::Place::Program) continue;
    const Span<const std::byte> bytes = imported[static_cast<size_t>(each.position)].bytes;
    const auto start = reinterpret_cast<uintptr_t>(file.data()), at = reinterpret_cast<uintptr_t>(bytes.data());
    if (at < start || at - start > file.size() || bytes.size() > file.size() - (at - start)) return false;
    each = {ConstantSource::Place::File, static_cast<int64_t>(at - start), each.bytes};
  }
  return true;
}

FoundConstants find_constants(CompiledGraph graph, std::span<const ConstantData> imported, Span<const std::byte> file,
                              std::shared_ptr<const void> file_owner) {
  struct Owners {
    std::vector<std::byte> inlined;
    size_t start = 0;
    std::vector<std::shared_ptr<const void>> others;
  };
  auto owners = std::make_shared<Owners>();
  owners->inlined.resize(graph.inlined.size() + 64);
  owners->start = (64 - reinterpret_cast<uintptr_t>(owners->inlined.data()) % 64) % 64;
  if (!graph.inlined.empty()) std::memcpy(owners->inlined.data() + owners->start, graph.inlined.data(), graph.inlined.size());
  owners->others.push_back(std::move(file_owner));
  FoundConstants found;
  for (const ConstantSource& each : graph.constants) {
    switch (each.place) {
      case ConstantSource::Place::Inline:
        found.bytes.push_back(range_of({owners->inlined.data() + owners->start, graph.inlined.size()}, each.position, each.bytes));
        break;
      case ConstantSource::Place::Program: {
        const auto position = static_cast<size_t>(each.position);
        if (each.position < 0 || position >= imported.size()) refuse("it names a weight that there is not");
        const ConstantData& data = imported[position];
        if (data.bytes.size() != static_cast<size_t>(each.bytes)) refuse("a weight has another size");
        found.bytes.push_back(data.bytes);
        owners->others.push_back(data.owner);
        break;
      }
      case ConstantSource::Place::File: found.bytes.push_back(range_of(file, each.position, each.bytes)); break;
    }
  }
  found.owner = std::move(owners);
  return found;
}

}  // namespace toroid
