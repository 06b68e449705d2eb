/* Many contexts of one model at the same time: results are those of one, and state is each context's own. */
#include "check.h"
#include "threads.h"

enum { kRuns = 200, kRows = 48 };

typedef struct Shared {
  const ToroidApi* api;
  ToroidModel *product, *counter;
  int32_t threads_of_context;
  float expected[kRows * 64];
  int bad[MOST_THREADS];
} Shared;

static void fill(float* x, int count) {
  int i;
  for (i = 0; i < count; ++i) x[i] = (float)((i * 13) % 29 - 14) / 16;
}

static ToroidStatus multiply(const ToroidApi* api, ToroidContext* context, float* x, int64_t rows, float* y) {
  int64_t in[2], out[2];
  DLTensor input = tensor_of(x, kF32, in, 2), into = tensor_of(y, kF32, out, 2);
  const DLTensor *inputs[1], *intos[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  in[0] = out[0] = rows;
  in[1] = 32;
  out[1] = 64;
  inputs[0] = &input;
  intos[0] = &into;
  options.into = intos;
  return api->context_run(context, inputs, 1, outputs, 1, &options);
}

/* Its own rows in turn, so that sizes change from call to call. */
static void work(void* argument, int i) {
  Shared* const shared = (Shared*)argument;
  const ToroidApi* const api = shared->api;
  ToroidContextOptions options = {sizeof options};
  ToroidContext *product, *counter;
  float x[kRows * 32], y[kRows * 64];
  int32_t data[4] = {1, 1, 1, 1};
  int64_t four = 4;
  DLTensor count = tensor_of(data, kI32, &four, 1);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  int run;
  options.threads = shared->threads_of_context;
  product = context_or_exit(api, shared->product, &options);
  counter = context_or_exit(api, shared->counter, &options);
  inputs[0] = &count;
  fill(x, kRows * 32);
  for (run = 0; run < kRuns; ++run) {
    const int64_t rows = 1 + (run + i) % kRows;
    memset(y, 0, sizeof y);
    if (multiply(api, product, x, rows, y) != TOROID_OK) ++shared->bad[i];
    if (memcmp(y, shared->expected, (size_t)rows * 64 * sizeof(float)) != 0) ++shared->bad[i];
    if (api->context_run(counter, inputs, 1, outputs, 1, NULL) != TOROID_OK) {
      ++shared->bad[i];
      continue;
    }
    if (((const int32_t*)outputs[0]->dl_tensor.data)[1] != (run + 1) * (run + 1)) ++shared->bad[i];
    delete_tensor(outputs[0]);
  }
  api->context_destroy(product);
  api->context_destroy(counter);
}

static int64_t packed_bytes(const Shared* shared) {
  ToroidMemoryInfo memory = {sizeof memory};
  int64_t shape[2] = {kRows, 32};
  DLTensor x = tensor_of(NULL, kF32, shape, 2);
  const DLTensor* inputs[1];
  inputs[0] = &x;
  CHECK_STATUS(TOROID_OK, shared->api->model_memory(shared->product, inputs, 1, &memory, NULL, 0));
  return memory.packed;
}

static void many(const ToroidApi* api, const char* folder, int32_t threads_of_model, int32_t threads_of_context) {
  static const int counts[] = {1, 2, 3, 8, 16};
  size_t c;
  for (c = 0; c < sizeof counts / sizeof counts[0]; ++c) {
    Shared shared;
    ToroidModelOptions options = {sizeof options};
    ToroidContext* first;
    float x[kRows * 32];
    int64_t packed;
    int i;
    memset(&shared, 0, sizeof shared);
    options.threads = threads_of_model;
    shared.api = api;
    shared.threads_of_context = threads_of_context;
    shared.product = open_or_exit(api, folder, "product", &options);
    shared.counter = open_or_exit(api, folder, "counter", &options);
    fill(x, kRows * 32);
    first = context_or_exit(api, shared.product, NULL);
    CHECK_STATUS(TOROID_OK, multiply(api, first, x, kRows, shared.expected));
    api->context_destroy(first);
    packed = packed_bytes(&shared);
    run_threads(counts[c], work, &shared);
    for (i = 0; i < counts[c]; ++i) CHECK(shared.bad[i] == 0);
    /* Weights are packed for a few ways to multiply, not for each context. */
    CHECK(packed > 0 && packed_bytes(&shared) <= 3 * packed);
    api->model_close(shared.product);
    api->model_close(shared.counter);
  }
}

/* The host's threads, here one after the other. */
static int64_t tasks = 0;

static void in_order(void* user, int64_t count, void (*task)(void* argument, int64_t i), void* argument) {
  int64_t i;
  CHECK(user == &tasks);
  for (i = count; i-- > 0;) task(argument, i);
  tasks += count;
}

static void lazy(void* user, int64_t count, void (*task)(void* argument, int64_t i), void* argument) {
  (void)user;
  if (count > 1) task(argument, 0);
}

static void with_threads_of_the_host(const ToroidApi* api, const char* folder) {
  ToroidThreadPool pool = {&tasks, 3, in_order}, bad = {NULL, 4, lazy}, none = {NULL, 0, in_order};
  ToroidModelOptions options = {sizeof options};
  ToroidModelInfo info = {sizeof info};
  ToroidModel *model, *refused;
  ToroidContext* context;
  static float x[1 << 20], y[1 << 20];
  int64_t size = 1 << 20;
  DLTensor input = tensor_of(x, kF32, &size, 1), into = tensor_of(y, kF32, &size, 1);
  const DLTensor *inputs[1], *intos[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions run = {sizeof run};
  char message[256], path[4096];
  inputs[0] = &input;
  intos[0] = &into;
  run.into = intos;
  fill(x, 1 << 20);
  options.thread_pool = &pool;
  model = open_or_exit(api, folder, "exponents", &options);
  context = context_or_exit(api, model, NULL);
  CHECK_STATUS(TOROID_OK, api->model_info(model, &info));
  CHECK(info.threads == 3);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &run));
  CHECK(tasks > 1 && y[14] > 0.3f && y[(1 << 20) - 1] > 0.3f);
  api->context_destroy(context);
  api->model_close(model);

  options.thread_pool = &bad;
  model = open_or_exit(api, folder, "exponents", &options);
  context = context_or_exit(api, model, NULL);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, inputs, 1, outputs, 1, &run));
  CHECK(strstr(api->context_message(context), "the host's parallel_for ran 1 of ") == api->context_message(context));
  api->context_destroy(context);
  api->model_close(model);

  options.thread_pool = &none;
  snprintf(path, sizeof path, "%s/exponents.so", folder);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open(path, &options, &refused, message, sizeof message));
}

/* Memory of the host's: all of it comes back, and a lack of it is an error of the call. */
static int64_t held = 0, most_held = 0, limit = INT64_MAX;

static void* take(void* user, size_t bytes, size_t alignment) {
  char* memory;
  size_t offset;
  CHECK(user == &held && alignment >= 64 && (alignment & (alignment - 1)) == 0);
  if (held + (int64_t)bytes > limit) return NULL;
  memory = (char*)malloc(bytes + 2 * alignment);
  if (memory == NULL) return NULL;
  offset = alignment + (alignment - ((uintptr_t)memory + alignment) % alignment) % alignment;
  memcpy(memory + offset - sizeof memory, &memory, sizeof memory);
  held += (int64_t)bytes;
  if (held > most_held) most_held = held;
  return memory + offset;
}

static void give_back(void* user, void* data, size_t bytes, size_t alignment) {
  char* memory;
  CHECK(user == &held && alignment >= 64);
  memcpy(&memory, (char*)data - sizeof memory, sizeof memory);
  held -= (int64_t)bytes;
  free(memory);
}

static void with_memory_of_the_host(const ToroidApi* api, const char* folder) {
  ToroidAllocator allocator = {&held, take, give_back}, none = {&held, take, NULL};
  ToroidModelOptions options = {sizeof options};
  ToroidModel *model, *refused;
  ToroidContext* context;
  static float x[1 << 20];
  int64_t size = 1 << 20, shape[2] = {64, 64};
  DLTensor input = tensor_of(x, kF32, &size, 1), square = tensor_of(x, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  char path[4096];
  inputs[0] = &input;
  options.allocator = &allocator;
  model = open_or_exit(api, folder, "exponents", &options);
  context = context_or_exit(api, model, NULL);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(held >= (4 << 20) && outputs[0] != NULL && ((const float*)outputs[0]->dl_tensor.data)[5] == 1);
  limit = held;
  {
    DLManagedTensor* const first = outputs[0];
    CHECK_STATUS(TOROID_ERROR_MEMORY, api->context_run(context, inputs, 1, outputs, 1, NULL));
    CHECK(strstr(api->context_message(context), "out of memory: ") == api->context_message(context) && outputs[0] == NULL);
    limit = INT64_MAX;
    api->context_destroy(context);
    api->model_close(model);
    delete_tensor(first);
  }
  CHECK(held == 0);

  inputs[0] = &square;
  most_held = 0;
  model = open_or_exit(api, folder, "loop", &options);
  context = context_or_exit(api, model, NULL);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(most_held >= 2 * 64 * 64 * 4); /* an output and temporaries */
  delete_tensor(outputs[0]);
  api->context_destroy(context);
  api->model_close(model);
  CHECK(held == 0);

  options.allocator = &none;
  snprintf(path, sizeof path, "%s/loop.so", folder);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open(path, &options, &refused, NULL, 0));
}

/* What is made of weights is the host's too: a lack of memory ends the run that packs them, the next one tries again, and new weights take
 * the place of the old ones. */
static void with_packed_weights_of_the_host(const ToroidApi* api, const char* folder) {
  ToroidAllocator allocator = {&held, take, give_back};
  Shared shared;
  ToroidModelOptions options = {sizeof options};
  ToroidContext *context, *own_context;
  ToroidModel* own;
  float x[kRows * 32], y[kRows * 64], w[64 * 32];
  int64_t shape[2] = {64, 32}, packed;
  DLTensor value = tensor_of(w, kF32, shape, 2);
  const DLTensor* values[1];
  const char* names[1] = {"w"};
  values[0] = &value;
  memset(&shared, 0, sizeof shared);
  shared.api = api;
  fill(x, kRows * 32);
  own = open_or_exit(api, folder, "product", NULL);
  own_context = context_or_exit(api, own, NULL);
  CHECK_STATUS(TOROID_OK, multiply(api, own_context, x, kRows, shared.expected));

  options.allocator = &allocator;
  shared.product = open_or_exit(api, folder, "product", &options);
  context = context_or_exit(api, shared.product, NULL);
  limit = held;
  CHECK_STATUS(TOROID_ERROR_MEMORY, multiply(api, context, x, kRows, y));
  CHECK(strstr(api->context_message(context), "out of memory: ") == api->context_message(context));
  CHECK(packed_bytes(&shared) == 0);
  limit = INT64_MAX;
  CHECK_STATUS(TOROID_OK, multiply(api, context, x, kRows, y));
  CHECK(memcmp(y, shared.expected, sizeof y) == 0);
  packed = packed_bytes(&shared);
  CHECK(packed >= 64 * 32 * 4 && held >= packed && held < packed + (1 << 20));

  fill(w, 64 * 32);
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(shared.product, names, values, 1, NULL, 0));
  CHECK(held >= packed + 64 * 32 * 4);
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(own, names, values, 1, NULL, 0));
  CHECK_STATUS(TOROID_OK, multiply(api, context, x, kRows, y));
  CHECK_STATUS(TOROID_OK, multiply(api, own_context, x, kRows, shared.expected));
  CHECK(memcmp(y, shared.expected, sizeof y) == 0);
  CHECK(packed_bytes(&shared) == packed && held >= packed + 64 * 32 * 4 && held < packed + (1 << 20));
  api->context_destroy(context);
  api->model_close(shared.product);
  CHECK(held == 0);
  api->context_destroy(own_context);
  api->model_close(own);
}

/* One context in two threads: one of them is told so. */
static void* blocked_until = NULL;

typedef struct Clash {
  const ToroidApi* api;
  ToroidContext* context;
  ToroidStatus status;
} Clash;

static void* run_in_another_thread(void* argument) {
  Clash* const clash = (Clash*)argument;
  clash->status = clash->api->context_seed(clash->context, 1);
  return NULL;
}

static void* clashing(void* user, int32_t output, const DLTensor* tensor, size_t bytes) {
  pthread_t thread;
  (void)output, (void)tensor, (void)bytes;
  if (pthread_create(&thread, NULL, run_in_another_thread, user) != 0) abort();
  pthread_join(thread, NULL);
  return blocked_until;
}

static void in_two_threads(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  float data[3] = {1, 1, 1}, y[3];
  int64_t shape[2] = {1, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  Clash clash;
  clash.api = api;
  clash.context = context_or_exit(api, model, NULL);
  clash.status = TOROID_OK;
  inputs[0] = &x;
  blocked_until = y;
  options.allocate_output = clashing;
  options.allocate_user = &clash;
  CHECK_STATUS(TOROID_OK, api->context_run(clash.context, inputs, 1, outputs, 1, &options));
  CHECK(clash.status == TOROID_ERROR_ARGUMENT && y[2] == 3);
  api->context_destroy(clash.context);
  api->model_close(model);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  use_all();
  if (argc != 2 || api == NULL) return 2;
  many(api, argv[1], 2, 0);
  many(api, argv[1], 0, 1);
  many(api, argv[1], 1, 3);
  with_threads_of_the_host(api, argv[1]);
  with_memory_of_the_host(api, argv[1]);
  with_packed_weights_of_the_host(api, argv[1]);
  in_two_threads(api, argv[1]);
  return result();
}
