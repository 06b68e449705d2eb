#include "library/collectives/collectives.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "library/collectives/mpi.h"
#include "tensor/host_tensor.h"

namespace toroid::collectives {
namespace {

std::vector<int64_t> integers(Span<const double> numbers) {
  std::vector<int64_t> result;
  for (double each : numbers) result.push_back(static_cast<int64_t>(each));
  return result;
}

const Group& group_of(const LibraryCall& call, size_t at) { return collectives::group_of(call.attributes, at); }

Reduction reduction_of(const LibraryCall& call) { return static_cast<Reduction>(call.attributes[0]); }

void check_rows(const Group& group, int64_t part, int64_t whole, const char* what) {
  if (part * group.size() == whole) return;
  throw Error(ErrorKind::InvalidInput, formatted("{} of {} and {} elements, among {} processes", what, part, whole, group.size()));
}

void give_token(const LibraryCall& call) { std::memset(call.outputs[1].data, 0, sizeof(int64_t)); }

}  // namespace

const Group& group_of(Span<const double> attributes, size_t at) {
  const std::vector<int64_t> numbers = integers(attributes.subspan(at));
  return Group::of(Span(numbers).subspan(2), numbers[0], numbers[1]);
}

int64_t source_of(Span<const double> attributes, const Group& group) {
  const auto source = static_cast<int64_t>(attributes[0]);
  if (source >= 0 && source < group.size()) return source;
  throw Error(ErrorKind::InvalidInput, formatted("a broadcast from process {} of {}", source, group.size()));
}

Exchange::Exchange(Span<const double> attributes) {
  const auto parts = static_cast<size_t>(attributes[0]);
  received = integers(attributes.subspan(1, parts));
  sent = integers(attributes.subspan(1 + parts, parts));
  group_at = 1 + 2 * parts;
}

void Exchange::check(const Group& group) const {
  if (static_cast<int64_t>(sent.size()) == group.size()) return;
  throw Error(ErrorKind::InvalidInput, formatted("an exchange of {} parts among {} processes", sent.size(), group.size()));
}

void all_reduce(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  group_of(call, 1).all_reduce(reduction_of(call), x.dtype, x.data, call.outputs[0].data, numel(x.sizes));
  give_token(call);
}

void all_gather(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Group& group = group_of(call, 0);
  check_rows(group, numel(x.sizes), numel(call.outputs[0].sizes), "a gathering");
  group.all_gather(x.data, call.outputs[0].data, bytes_of(x.dtype, x.sizes));
  give_token(call);
}

void reduce_scatter(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Group& group = group_of(call, 1);
  const int64_t part = numel(call.outputs[0].sizes);
  check_rows(group, part, numel(x.sizes), "a scattering");
  group.reduce_scatter(reduction_of(call), x.dtype, x.data, call.outputs[0].data, part);
  give_token(call);
}

void all_to_all(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Exchange parts(call.attributes);
  const Group& group = group_of(call, parts.group_at);
  parts.check(group);
  group.all_to_all(x.data, call.outputs[0].data, parts.sent, parts.received, bytes_of(x.dtype, x.sizes.subspan(1)));
  give_token(call);
}

void broadcast(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Group& group = group_of(call, 1);
  const int64_t source = source_of(call.attributes, group);
  std::memcpy(call.outputs[0].data, x.data, static_cast<size_t>(bytes_of(x.dtype, x.sizes)));
  group.broadcast(source, call.outputs[0].data, bytes_of(x.dtype, x.sizes));
  give_token(call);
}

int64_t other_of(const Group& group) {
  if (group.size() == 2) return 1 - group.rank();
  throw Error(ErrorKind::InvalidInput, formatted("a swap of two among {} processes", group.size()));
}

void swap(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Group& group = group_of(call, 0);
  std::array<int64_t, 2> elements{};
  elements[static_cast<size_t>(other_of(group))] = numel(x.sizes);
  group.all_to_all(x.data, call.outputs[0].data, elements, elements, size_bytes(x.dtype));
  give_token(call);
}

}  // namespace toroid::collectives
