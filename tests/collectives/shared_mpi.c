// MPI for the tests: what toroid calls of it, among at most eight processes of one machine that share a file, with MPICH's binary
// interface.
//
//   SHARED_MPI_FILE=FILE SHARED_MPI_SIZE=4 SHARED_MPI_RANK=0 TOROID_MPI=libshared_mpi.so …     each rank so; FILE has zeros at first
//
// A communicator is the set of its ranks, one bit each. An operation is: everybody writes what it sends to its own part of the file, waits
// for the others, reads theirs, and waits again. A wait that takes more than ten seconds ends the process: so a test never hangs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { kMostRanks = 8, kPart = 1 << 20, kWorld = 0x44000000, kByte = 0x4c00010d, kInPlace = -1, kFailed = 15 };

struct Part {
  int sent[kMostRanks];  // bytes before what is for each rank
  char bytes[kPart];
};
struct Shared {
  struct {
    atomic_int arrived, round;
  } barriers[1 << kMostRanks];
  struct Part parts[kMostRanks];
};
typedef void Combine(void*, void*, int*, void*);

static struct Shared* shared;
static int size, own, is_finalized;
static int64_t widths[64];
static Combine* operations[64];
static int types = 1, made_operations = 1;

static int bits_of(int communicator) { return communicator == kWorld ? (1 << size) - 1 : communicator & 0xff; }
static int count_of(int communicator) { return __builtin_popcount((unsigned)bits_of(communicator)); }
static int member(int communicator, int number) {  // the rank in the world
  for (int rank = 0, bits = bits_of(communicator);; ++rank) {
    if (bits >> rank & 1 && number-- == 0) return rank;
  }
}
static int number_of(int communicator, int rank) { return __builtin_popcount((unsigned)bits_of(communicator) & ((1u << rank) - 1)); }
static int64_t width(int type) { return type == kByte ? 1 : widths[type]; }

static void wait_for_all(int communicator) {
  const int bits = bits_of(communicator), round = atomic_load(&shared->barriers[bits].round);
  if (atomic_fetch_add(&shared->barriers[bits].arrived, 1) + 1 == count_of(communicator)) {
    atomic_store(&shared->barriers[bits].arrived, 0);
    atomic_fetch_add(&shared->barriers[bits].round, 1);
    return;
  }
  for (int tries = 0; atomic_load(&shared->barriers[bits].round) == round; ++tries) {
    const struct timespec little = {0, 100000};
    nanosleep(&little, NULL);
    if (tries == 100000) {
      fprintf(stderr, "shared_mpi: rank %d waited for others in vain\n", own);
      _exit(99);
    }
  }
}
static int send_bytes(const void* from, int64_t bytes) {
  if (bytes > kPart) return kFailed;
  memcpy(shared->parts[own].bytes, from, (size_t)bytes);
  return 0;
}

int MPI_Initialized(int* flag) { return *flag = shared != NULL, 0; }
int MPI_Init_thread(int* argc, char*** argv, int wanted, int* given) {
  (void)argc, (void)argv;
  const char *file = getenv("SHARED_MPI_FILE"), *count = getenv("SHARED_MPI_SIZE"), *rank = getenv("SHARED_MPI_RANK");
  size = count != NULL ? atoi(count) : 1;
  own = rank != NULL ? atoi(rank) : 0;
  const int fd = open(file != NULL ? file : "/dev/zero", O_RDWR);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, file != NULL ? MAP_SHARED : MAP_PRIVATE, fd, 0);
  close(fd);
  *given = wanted;
  return shared == MAP_FAILED || size > kMostRanks ? kFailed : 0;
}
int MPI_Finalized(int* flag) { return *flag = is_finalized, 0; }
int MPI_Finalize(void) {
  wait_for_all(kWorld);
  return is_finalized = 1, 0;
}
int MPI_Abort(int communicator, int status) {
  (void)communicator;
  fprintf(stderr, "shared_mpi: aborted\n");
  _exit(status);
}
int MPI_Error_string(int status, char* text, int* length) { return *length = sprintf(text, "shared_mpi's status %d", status), 0; }
int MPI_Comm_set_errhandler(int communicator, int handler) { return (void)communicator, (void)handler, 0; }
int MPI_Comm_size(int communicator, int* result) { return *result = count_of(communicator), 0; }
int MPI_Comm_rank(int communicator, int* rank) { return *rank = number_of(communicator, own), 0; }
int MPI_Comm_group(int communicator, int* group) { return *group = bits_of(communicator), 0; }
int MPI_Group_incl(int group, int count, const int* ranks, int* result) {
  (void)group;
  *result = 0x100;
  for (int i = 0; i < count; ++i) *result |= 1 << ranks[i];
  return 0;
}
int MPI_Comm_create_group(int communicator, int group, int tag, int* result) {
  (void)communicator, (void)tag;
  *result = group;
  wait_for_all(group);
  return 0;
}
int MPI_Type_contiguous(int count, int type, int* result) {
  *result = types++;
  return widths[*result] = count * width(type), 0;
}
int MPI_Type_commit(int* type) { return (void)type, 0; }
int MPI_Op_create(Combine* function, int commutes, int* result) {
  (void)commutes;
  *result = made_operations++;
  return operations[*result] = function, 0;
}

// Of everybody's elements from `first` on.
static void combine_all(int communicator, int64_t first, void* to, int count, int type, int operation) {
  memcpy(to, shared->parts[member(communicator, 0)].bytes + first, (size_t)(count * width(type)));
  for (int i = 1; i < count_of(communicator); ++i)
    operations[operation](shared->parts[member(communicator, i)].bytes + first, to, &count, &type);
}
int MPI_Allreduce(const void* from, void* to, int count, int type, int operation, int communicator) {
  if (send_bytes(from == (void*)kInPlace ? to : from, count * width(type)) != 0) return kFailed;
  wait_for_all(communicator);
  combine_all(communicator, 0, to, count, type, operation);
  wait_for_all(communicator);
  return 0;
}
int MPI_Reduce_scatter_block(const void* from, void* to, int count, int type, int operation, int communicator) {
  if (send_bytes(from, count_of(communicator) * count * width(type)) != 0) return kFailed;
  wait_for_all(communicator);
  combine_all(communicator, number_of(communicator, own) * count * width(type), to, count, type, operation);
  wait_for_all(communicator);
  return 0;
}
int MPI_Reduce(const void* from, void* to, int count, int type, int operation, int root, int communicator) {
  if (send_bytes(from, count * width(type)) != 0) return kFailed;
  wait_for_all(communicator);
  if (member(communicator, root) == own) combine_all(communicator, 0, to, count, type, operation);
  wait_for_all(communicator);
  return 0;
}
int MPI_Allgather(const void* from, int count, int type, void* to, int received, int to_type, int communicator) {
  if (send_bytes(from, count * width(type)) != 0) return kFailed;
  wait_for_all(communicator);
  for (int i = 0; i < count_of(communicator); ++i)
    memcpy((char*)to + i * received * width(to_type), shared->parts[member(communicator, i)].bytes, (size_t)(received * width(to_type)));
  wait_for_all(communicator);
  return 0;
}
int MPI_Alltoallv(const void* from, const int* counts, const int* places, int type, void* to, const int* received, const int* to_places,
                  int to_type, int communicator) {
  const int last = count_of(communicator) - 1;
  if (send_bytes(from, (places[last] + counts[last]) * width(type)) != 0) return kFailed;
  for (int i = 0; i <= last; ++i) shared->parts[own].sent[i] = (int)(places[i] * width(type));
  wait_for_all(communicator);
  for (int i = 0; i <= last; ++i) {
    const struct Part* part = &shared->parts[member(communicator, i)];
    memcpy((char*)to + to_places[i] * width(to_type), part->bytes + part->sent[number_of(communicator, own)],
           (size_t)(received[i] * width(to_type)));
  }
  wait_for_all(communicator);
  return 0;
}
int MPI_Bcast(void* data, int count, int type, int root, int communicator) {
  const int is_root = member(communicator, root) == own;
  if (is_root && send_bytes(data, count * width(type)) != 0) return kFailed;
  wait_for_all(communicator);
  if (!is_root) memcpy(data, shared->parts[member(communicator, root)].bytes, (size_t)(count * width(type)));
  wait_for_all(communicator);
  return 0;
}
