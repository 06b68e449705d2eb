#include "library/collectives/collectives.h"

#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "library/collectives/mpi.h"

namespace toroid::collectives {
namespace {

std::vector<int64_t> integers(std::span<const double> numbers) {
  std::vector<int64_t> result;
  for (double each : numbers) result.push_back(static_cast<int64_t>(each));
  return result;
}

const Group& group_of(const LibraryCall& call, size_t at) { return collectives::group_of(call.attributes, at); }

int64_t elements_of(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}
int64_t bytes_of(const LibraryInput& x) { return elements_of(x.sizes) * size_bytes(x.dtype); }

Reduction reduction_of(const LibraryCall& call) { return static_cast<Reduction>(call.attributes[0]); }

void check_rows(const Group& group, int64_t part, int64_t whole, const char* what) {
  if (part * group.size() == whole) return;
  throw Error(ErrorKind::InvalidInput, formatted("{} of {} and {} elements, among {} processes", what, part, whole, group.size()));
}

void give_token(const LibraryCall& call) { std::memset(call.outputs[1].data, 0, sizeof(int64_t)); }

}  // namespace

const Group& group_of(std::span<const double> attributes, size_t at) {
  const std::vector<int64_t> numbers = integers(attributes.subspan(at));
  return Group::of(std::span(numbers).subspan(1), numbers[0]);
}

Exchange::Exchange(std::span<const double> attributes) {
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
  group_of(call, 1).all_reduce(reduction_of(call), x.dtype, x.data, call.outputs[0].data, elements_of(x.sizes));
  give_token(call);
}

void all_gather(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Group& group = group_of(call, 0);
  check_rows(group, elements_of(x.sizes), elements_of(call.outputs[0].sizes), "a gathering");
  group.all_gather(x.data, call.outputs[0].data, bytes_of(x));
  give_token(call);
}

void reduce_scatter(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Group& group = group_of(call, 1);
  const int64_t part = elements_of(call.outputs[0].sizes);
  check_rows(group, part, elements_of(x.sizes), "a scattering");
  group.reduce_scatter(reduction_of(call), x.dtype, x.data, call.outputs[0].data, part);
  give_token(call);
}

void all_to_all(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Exchange parts(call.attributes);
  const Group& group = group_of(call, parts.group_at);
  parts.check(group);
  int64_t row = size_bytes(x.dtype);
  for (int64_t size : x.sizes.subspan(1)) row *= size;
  group.all_to_all(x.data, call.outputs[0].data, parts.sent, parts.received, row);
  give_token(call);
}

void broadcast(const LibraryCall& call) {
  const LibraryInput& x = call.inputs[0];
  const Group& group = group_of(call, 1);
  const auto source = static_cast<int64_t>(call.attributes[0]);
  if (source < 0 || source >= group.size()) {
    throw Error(ErrorKind::InvalidInput, formatted("a broadcast from process {} of {}", source, group.size()));
  }
  std::memcpy(call.outputs[0].data, x.data, static_cast<size_t>(bytes_of(x)));
  group.broadcast(source, call.outputs[0].data, bytes_of(x));
  give_token(call);
}

}  // namespace toroid::collectives
