/* Programs of two processes whose communicators are the host's: four processes are forked, of which the first two run the program together,
 * and the last two. MPI is the tests' own (tests/collectives/shared_mpi.c), which TOROID_MPI in the environment names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kProcesses = 4, kWorld = 0x44000000 };

static int (*find(void* library, const char* name))() {
  int (*function)();
  void* const found = dlsym(library, name);
  memcpy(&function, &found, sizeof function);
  if (function == NULL) printf("no %s\n", name), exit(1);
  return function;
}

/* The communicator of this process's pair: the host starts MPI, and makes it. */
static ToroidCommunicator pair_of(int process) {
  ToroidCommunicator result;
  void* const mpi = dlopen(getenv("TOROID_MPI"), RTLD_NOW);
  int level = 0, everyone = 0, pair = 0, communicator = 0, ranks[2];
  if (mpi == NULL) printf("%s\n", dlerror()), exit(1);
  CHECK(find(mpi, "MPI_Init_thread")(NULL, NULL, 2, &level) == 0);
  ranks[0] = process / 2 * 2, ranks[1] = ranks[0] + 1;
  CHECK(find(mpi, "MPI_Comm_group")(kWorld, &everyone) == 0);
  CHECK(find(mpi, "MPI_Group_incl")(everyone, 2, ranks, &pair) == 0);
  CHECK(find(mpi, "MPI_Comm_create_group")(kWorld, pair, 0, &communicator) == 0);
  memset(&result, 0, sizeof result);
  result.size = sizeof result;
  result.mpi = (uintptr_t)communicator;
  result.rank = process % 2;
  result.processes = 2;
  return result;
}

/* What a run says, "" where it has the numbers of both. */
static const char* run(const ToroidApi* api, const char* folder, int process, const ToroidCommunicator* communicator) {
  static char said[1024];
  ToroidModelOptions options = {sizeof options};
  ToroidModel* model;
  ToroidContext* context = NULL;
  float data[2];
  int64_t shape[1] = {2};
  DLTensor x = tensor_of(data, kF32, shape, 1);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1] = {NULL};
  inputs[0] = &x;
  data[0] = (float)process, data[1] = (float)process + 100;
  options.communicator = communicator;
  model = open_or_exit(api, folder, "pair", &options);
  CHECK_STATUS(TOROID_OK, api->context_create(model, NULL, &context, said, sizeof said));
  snprintf(said, sizeof said, "%s", api->context_run(context, inputs, 1, outputs, 1, NULL) == TOROID_OK ? "" : api->context_message(context));
  if (outputs[0] != NULL) {
    const float* const y = outputs[0]->dl_tensor.data;
    const float first = (float)(process / 2 * 2);
    CHECK(y[0] == 10 * first && y[1] == 10 * first + 1000 && y[2] == 10 * first + 10 && y[3] == 10 * first + 1010);
    delete_tensor(outputs[0]);
  }
  api->context_destroy(context);
  api->model_close(model);
  return said;
}

static void be_process(const ToroidApi* api, const char* folder, int process) {
  ToroidCommunicator communicator = pair_of(process);
  ToroidModelOptions options = {sizeof options};
  ToroidModel* model = NULL;
  char path[4096], message[1024] = "";
  CHECK_TEXT("", run(api, folder, process, &communicator));
  /* All processes there are. */
  CHECK_TEXT("the program is one of 2 processes, of which 4 run\n  help: start it by MPI's launcher: mpirun -n 2 \xe2\x80\xa6",
             run(api, folder, process, NULL));
  /* Only NCCL's communicator, for a program that runs on the processor. */
  communicator.mpi = 0;
  communicator.nccl = &communicator;
  CHECK_TEXT("an operation on the host, of processes of which only NCCL's communicator is known\n  help: give MPI's, too",
             run(api, folder, process, &communicator));
  snprintf(path, sizeof path, "%s/pair.so", folder);
  options.communicator = &communicator;
  communicator.nccl = NULL;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open(path, &options, &model, message, sizeof message));
  CHECK_TEXT("'communicator' has neither MPI's nor NCCL's", message);
  communicator.rank = 2;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open(path, &options, &model, message, sizeof message));
  CHECK_TEXT("'communicator' is process 2 of 2", message);
}

int main(int count, char** arguments) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  char file[4096], number[16];
  pid_t processes[kProcesses];
  FILE* shared;
  int process;
  use_all();
  if (count < 2) return 1;
  snprintf(file, sizeof file, "%s/shared", arguments[1]);
  shared = fopen(file, "wb");
  CHECK(shared != NULL && ftruncate(fileno(shared), 16 << 20) == 0);
  if (shared != NULL) fclose(shared);
  setenv("SHARED_MPI_FILE", file, 1);
  setenv("SHARED_MPI_SIZE", "4", 1);
  for (process = 0; process < kProcesses; ++process) {
    fflush(stdout);
    processes[process] = fork();
    if (processes[process] != 0) continue;
    snprintf(number, sizeof number, "%d", process);
    setenv("SHARED_MPI_RANK", number, 1);
    be_process(api, arguments[1], process);
    fflush(stdout);
    _exit(failures == 0 ? 0 : 1);
  }
  for (process = 0; process < kProcesses; ++process) {
    int status = 0;
    CHECK(processes[process] > 0 && waitpid(processes[process], &status, 0) > 0 && status == 0);
  }
  return failures == 0 ? 0 : 1;
}
