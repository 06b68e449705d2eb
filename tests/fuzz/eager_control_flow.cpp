// Control flow in the reference: bodies run operator by operator too, once for each slice or turn.
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "fuzz/eager.h"
#include "fuzz/exactness.h"
#include "fuzz/one_operator.h"

namespace toroid::fuzz {
namespace {

HostTensor slice_at(const HostTensor& x, int64_t position) {
  const std::vector<int64_t> sizes(x.sizes().begin() + 1, x.sizes().end());
  const auto bytes = static_cast<size_t>(numel(sizes) * size_bytes(x.dtype()));
  HostTensor slice(x.dtype(), sizes);
  if (bytes > 0) std::memcpy(slice.mutable_data<std::byte>(), x.bytes().data() + static_cast<size_t>(position) * bytes, bytes);
  return slice;
}

// Slices on top of each other; none gives a tensor of 0 slices of this type.
HostTensor stacked(const std::vector<HostTensor>& slices) {
  std::vector<int64_t> sizes = slices.at(0).sizes();
  sizes.insert(sizes.begin(), static_cast<int64_t>(slices.size()));
  HostTensor stack(slices[0].dtype(), sizes);
  const size_t bytes = slices[0].bytes().size();
  for (size_t i = 0; i < slices.size() && bytes > 0; ++i)
    std::memcpy(stack.mutable_data<std::byte>() + i * bytes, slices[i].bytes().data(), bytes);
  return stack;
}

void append(std::vector<HostTensor>& list, const std::vector<HostTensor>& more) { list.insert(list.end(), more.begin(), more.end()); }

// Draws of the body's own nodes, which are only counted: one operator may draw more than once.
void count_draws(const Body& body, const std::vector<Symbol>& symbols, RandomStreams& streams) {
  std::map<std::string, std::string> types(body.parameters.begin(), body.parameters.end());
  for (const Node& node : body.nodes) {
    if (node.bodies.empty() && is_random(base_of(node.call))) {
      Operands operands;
      for (const std::string& name : values_in(node.call)) {
        const bool is_new = std::none_of(operands.begin(), operands.end(), [&](const auto& each) { return each.first == name; });
        if (!types.contains(name)) throw Error(ErrorKind::InvalidInput, fmt::format("a body has no '{}'", name));
        if (is_new) operands.emplace_back(name, plain_type(types[name]));
      }
      streams.begin_node();
      one_operator({symbols, {}, &streams}, operands, node.call, node.results.size());
    }
    for (size_t i = 0; i < node.results.size(); ++i) types[node.results[i]] = node.types.at(i);
  }
}

void find_starts(const std::vector<Node>& nodes, const std::vector<Symbol>& symbols, StreamStarts& starts) {
  for (const Node& node : nodes) {
    for (const Body& body : node.bodies) {
      find_starts(body.nodes, symbols, starts);
      starts.bodies.emplace(&body, starts.main);
      count_draws(body, symbols, starts.main);
    }
  }
}

}  // namespace

StreamStarts stream_starts(const Program& program) {
  StreamStarts starts;
  find_starts(program.nodes, program.symbols, starts);
  return starts;
}

std::vector<HostTensor> Eager::operands_in(std::string_view arguments) const {
  std::vector<HostTensor> operands;
  for (const std::string& name : values_in(arguments)) operands.push_back(read(name));
  return operands;
}

std::vector<HostTensor> Eager::call(const Body& body, const std::vector<HostTensor>& operands, std::optional<uint64_t> again) {
  Program inside;
  inside.symbols = symbols_;
  Eager eager(inside, run_, options_, shared_);
  if (shared_.starts != nullptr) eager.streams_ = shared_.starts->bodies.at(&body);
  eager.random_ = again ? loop_random(random_, *again) : random_;
  eager.executed_ = executed_ += 101;  // other noise each time
  eager.elements_ = elements_;
  for (size_t i = 0; i < body.parameters.size(); ++i) eager.set(body.parameters[i].first, operands.at(i));
  for (const Node& node : body.nodes) eager.execute(node);
  std::vector<HostTensor> results;
  for (const std::string& output : body.outputs) results.push_back(eager.read(output));
  for (const auto& [name, type] : body.parameters) {
    if (eager.is_written(name)) throw Error(ErrorKind::InvalidInput, fmt::format("a body writes to {}", name));
  }
  elements_ = eager.elements_;
  draws_.insert(draws_.end(), eager.draws_.begin(), eager.draws_.end());
  return results;
}

std::vector<HostTensor> Eager::control_flow(const Node& node) {
  const std::string call_text = concrete(node.call);
  const std::vector<std::string> arguments = arguments_of(call_text);
  const std::string_view name = std::string_view(call_text).substr(0, call_text.find('('));
  if (name == "higher_order::cond") {
    const bool is_number = values_in(arguments.at(0)).empty();
    const bool taken = is_number ? size_in(arguments[0], {}) != 0 : operands_in(arguments[0]).at(0).bool_at(0);
    return call(node.bodies.at(taken ? 0 : 1), operands_in(arguments.at(3)));
  }
  if (name == "higher_order::while_loop") return loop(node, arguments);
  if (name == "higher_order::associative_scan") return associative_scan(node, arguments);
  return slices(node, arguments);
}

// while_loop(condition, body, carried, others)
std::vector<HostTensor> Eager::loop(const Node& node, const std::vector<std::string>& arguments) {
  constexpr uint64_t kMostTurns = 200;
  std::vector<HostTensor> carried = operands_in(arguments.at(2));
  const std::vector<HostTensor> others = operands_in(arguments.at(3));
  for (uint64_t turn = 0;; ++turn) {
    if (turn == kMostTurns) throw Error(ErrorKind::InvalidInput, "the loop takes too many turns");
    std::vector<HostTensor> operands = carried;
    append(operands, others);
    if (!call(node.bodies.at(0), operands, turn).at(0).bool_at(0)) return carried;
    carried = call(node.bodies.at(1), operands, turn);
  }
}

// map_impl(body, sliced, others), scan(body, carried, sliced, others)
std::vector<HostTensor> Eager::slices(const Node& node, const std::vector<std::string>& arguments) {
  const bool carries = arguments.size() == 4;
  std::vector<HostTensor> carried = carries ? operands_in(arguments[1]) : std::vector<HostTensor>{};
  const std::vector<HostTensor> sliced = operands_in(arguments.at(carries ? 2 : 1));
  const std::vector<HostTensor> others = operands_in(arguments.back());
  const int64_t steps = sliced.at(0).sizes().at(0);
  if (steps == 0) throw Error(ErrorKind::InvalidInput, "a map over nothing");
  std::vector<std::vector<HostTensor>> stacks;
  const size_t count = carried.size();
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<HostTensor> operands = carried;
    for (const HostTensor& x : sliced) operands.push_back(slice_at(x, step));
    append(operands, others);
    const std::vector<HostTensor> results = call(node.bodies.at(0), operands, static_cast<uint64_t>(step));
    stacks.resize(results.size() - count);
    for (size_t i = 0; i < results.size(); ++i) {
      if (i < count)
        carried[i] = results[i];
      else
        stacks[i - count].push_back(results[i]);
    }
  }
  for (const std::vector<HostTensor>& stack : stacks) carried.push_back(stacked(stack));
  return carried;
}

// associative_scan(body, sliced, others)
std::vector<HostTensor> Eager::associative_scan(const Node& node, const std::vector<std::string>& arguments) {
  const std::vector<HostTensor> sliced = operands_in(arguments.at(1));
  const std::vector<HostTensor> others = operands_in(arguments.at(2));
  std::vector<std::vector<HostTensor>> stacks(sliced.size());
  const int64_t steps = sliced.at(0).sizes().at(0);
  if (steps == 0) throw Error(ErrorKind::InvalidInput, "a scan over nothing");
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<HostTensor> now;
    for (const HostTensor& x : sliced) now.push_back(slice_at(x, step));
    if (step > 0) {
      std::vector<HostTensor> operands;
      for (const std::vector<HostTensor>& stack : stacks) operands.push_back(stack.back());
      append(operands, now);
      append(operands, others);
      now = call(node.bodies.at(0), operands, static_cast<uint64_t>(step));
    }
    for (size_t i = 0; i < sliced.size(); ++i) stacks[i].push_back(now.at(i));
  }
  std::vector<HostTensor> results;
  for (const std::vector<HostTensor>& stack : stacks) results.push_back(stacked(stack));
  return results;
}

}  // namespace toroid::fuzz
