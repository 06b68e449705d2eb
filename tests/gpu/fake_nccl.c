/* NCCL for one process, on the fake driver's streams: what is gathered or reduced is a copy, which takes a millisecond. TOROID_NCCL names the
 * library. */
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"

typedef int Status;
typedef struct UniqueId {
  char bytes[128];
} UniqueId;
typedef struct Copy {
  void* to;
  const void* from;
  size_t bytes;
} Copy;

static void copy(void* argument) {
  const Copy* it = argument;
  memcpy(it->to, it->from, it->bytes);
}
static Status start(const void* from, void* to, size_t bytes, void* stream) {
  Copy* it = malloc(sizeof *it); /* of a graph, too: lives as long as the process */
  *it = (Copy){to, from, bytes};
  fake_note(stream, 'c', 'C');
  return fake_start(stream, copy, it, 1);
}

Status ncclGetUniqueId(UniqueId* id) { return memset(id, 0, sizeof *id), 0; }
Status ncclCommInitRank(void** made, int size, UniqueId id, int rank) {
  static char one;
  (void)id;
  return *made = &one, size == 1 && rank == 0 ? 0 : 5;
}
const char* ncclGetErrorString(Status status) { return status == 0 ? "no error" : "invalid usage"; }
Status ncclGroupStart(void) { return 0; }
Status ncclGroupEnd(void) { return 0; }
/* Of these types a number has so many bytes; in the order of ncclDataType_t. */
static size_t width(int type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}
Status ncclAllReduce(const void* from, void* to, size_t count, int type, int how, void* all, void* stream) {
  return (void)how, (void)all, start(from, to, count * width(type), stream);
}
Status ncclReduceScatter(const void* from, void* to, size_t count, int type, int how, void* all, void* stream) {
  return (void)how, (void)all, start(from, to, count * width(type), stream);
}
Status ncclAllGather(const void* from, void* to, size_t count, int type, void* all, void* stream) {
  return (void)all, start(from, to, count * width(type), stream);
}
Status ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* all, void* stream) {
  return (void)root, (void)all, start(from, to, count * width(type), stream);
}
static const void* sent;
Status ncclSend(const void* from, size_t count, int type, int to, void* all, void* stream) {
  return (void)count, (void)type, (void)to, (void)all, (void)stream, sent = from, 0;
}
Status ncclRecv(void* to, size_t count, int type, int from, void* all, void* stream) {
  return (void)from, (void)all, start(sent, to, count * width(type), stream);
}
