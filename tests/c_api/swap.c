/* Weights: read, and replaced while calls run. Each call has wholly old or wholly new ones. */
#include "check.h"
#include "threads.h"

enum { kThreads = 3, kSwaps = 300 };

static void read_and_swap(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float w[3] = {0}, spread[6] = {10, -1, 20, -1, 30, -1}, data[3] = {1, 1, 1}, y[3];
  int64_t three = 3, four = 4, two = 2, shape[2] = {1, 3};
  DLTensor value = tensor_of(spread, kF32, &three, 1), x = tensor_of(data, kF32, shape, 2), into = tensor_of(y, kF32, shape, 2);
  const DLTensor *values[2], *inputs[1], *intos[1];
  const char* names[2] = {"w", "none"};
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  char message[256] = "";
  values[0] = values[1] = &value;
  inputs[0] = &x;
  intos[0] = &into;
  options.into = intos;
  CHECK_STATUS(TOROID_OK, api->model_read_weight(model, "w", w, sizeof w, message, sizeof message));
  CHECK(w[0] == 1 && w[1] == 2 && w[2] == 3);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(y[0] == 1 && y[2] == 3);
  value.strides = &two;
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, names, values, 1, message, sizeof message));
  CHECK_STATUS(TOROID_OK, api->model_read_weight(model, "w", w, sizeof w, message, sizeof message));
  CHECK(w[0] == 10 && w[1] == 20 && w[2] == 30);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(y[0] == 10 && y[1] == 20 && y[2] == 30);

  CHECK_STATUS(TOROID_ERROR_NOT_FOUND, api->model_swap_weights(model, names, values, 2, message, sizeof message));
  CHECK_TEXT("the model has no weight 'none'", message);
  CHECK_STATUS(TOROID_ERROR_NOT_FOUND, api->model_read_weight(model, "", w, sizeof w, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_read_weight(model, "w", w, 11, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_read_weight(model, "w", NULL, sizeof w, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_swap_weights(model, NULL, values, 1, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_swap_weights(model, names, values, -1, message, sizeof message));
  value.shape = &four;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->model_swap_weights(model, names, values, 1, message, sizeof message));
  CHECK_TEXT("the new value of weight 'w' is f32[4], and the weight is f32[3]", message);
  value.shape = &three;
  value.dtype = kI32;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->model_swap_weights(model, names, values, 1, message, sizeof message));
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, NULL, NULL, 0, message, sizeof message));
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(y[0] == 10);
  api->context_destroy(context);
  api->model_close(model);
}

/* Of a buffer it is what it begins with: a context that has counted counts on. */
static void swap_a_buffer(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "counter", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  int32_t data[4] = {1, 1, 1, 1}, start[4] = {7, 7, 7, 7}, count[4];
  int64_t four = 4;
  DLTensor x = tensor_of(data, kI32, &four, 1), value = tensor_of(start, kI32, &four, 1);
  const DLTensor *inputs[1], *values[1];
  const char* names[1] = {"count"};
  DLManagedTensor* outputs[1];
  inputs[0] = &x;
  values[0] = &value;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  delete_tensor(outputs[0]);
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, names, values, 1, NULL, 0));
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  delete_tensor(outputs[0]);
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(context, "count", count, sizeof count));
  CHECK(count[0] == 102 && count[1] == 2);
  CHECK_STATUS(TOROID_OK, api->context_reset_buffer(context, "count"));
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(context, "count", count, sizeof count));
  CHECK(count[0] == 7 && count[1] == 7);
  api->context_destroy(context);
  api->model_close(model);
}

/* All weights of the product are one number: so are all results of a call, whichever it is. */
typedef struct Shared {
  const ToroidApi* api;
  ToroidModel* model;
  int done, seen[MOST_THREADS]; /* atomic; seen: how often a thread found other weights than before */
  int bad[MOST_THREADS];
} Shared;

static ToroidStatus set_all(const Shared* shared, float number) {
  static float values[64 * 32];
  int64_t shape[2] = {64, 32};
  DLTensor value = tensor_of(values, kF32, shape, 2);
  const DLTensor* tensors[1];
  const char* names[1] = {"w"};
  int i;
  tensors[0] = &value;
  for (i = 0; i < 64 * 32; ++i) values[i] = number;
  return shared->api->model_swap_weights(shared->model, names, tensors, 1, NULL, 0);
}

static void work(void* argument, int i) {
  Shared* const shared = (Shared*)argument;
  const ToroidApi* const api = shared->api;
  if (i == 0) {
    int swap, thread, all_saw = 0;
    for (swap = 1; swap <= kSwaps || !all_saw; ++swap) {
      if (set_all(shared, (float)(swap % 50 + 1)) != TOROID_OK) ++shared->bad[0];
      all_saw = 1;
      for (thread = 1; thread <= kThreads; ++thread) {
        if (__atomic_load_n(&shared->seen[thread], __ATOMIC_RELAXED) < 5) all_saw = 0;
      }
    }
    if (set_all(shared, 77) != TOROID_OK) ++shared->bad[0];
    __atomic_store_n(&shared->done, 1, __ATOMIC_RELEASE);
  } else {
    ToroidContext* const context = context_or_exit(api, shared->model, NULL);
    float x[8 * 32], last = 0;
    int64_t shape[2] = {8, 32};
    DLTensor input = tensor_of(x, kF32, shape, 2);
    const DLTensor* inputs[1];
    DLManagedTensor* outputs[1];
    int k, is_done;
    inputs[0] = &input;
    for (k = 0; k < 8 * 32; ++k) x[k] = 1;
    do {
      const float* y;
      is_done = __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE);
      if (api->context_run(context, inputs, 1, outputs, 1, NULL) != TOROID_OK) {
        ++shared->bad[i];
        break;
      }
      y = (const float*)outputs[0]->dl_tensor.data;
      for (k = 1; k < 8 * 64; ++k) {
        if (y[k] != y[0]) ++shared->bad[i];
      }
      if (y[0] != last) __atomic_add_fetch(&shared->seen[i], 1, __ATOMIC_RELAXED);
      last = y[0];
      if (is_done && y[0] != 32 * 77) ++shared->bad[i];
      delete_tensor(outputs[0]);
    } while (!is_done);
    api->context_destroy(context);
  }
}

static void swap_under_load(const ToroidApi* api, const char* folder) {
  ToroidModelOptions options = {sizeof options};
  Shared shared;
  int i;
  memset(&shared, 0, sizeof shared);
  shared.api = api;
  options.threads = 1;
  shared.model = open_or_exit(api, folder, "product", &options);
  CHECK_STATUS(TOROID_OK, set_all(&shared, 1));
  run_threads(1 + kThreads, work, &shared);
  CHECK(shared.bad[0] == 0);
  for (i = 1; i <= kThreads; ++i) CHECK(shared.bad[i] == 0);
  api->model_close(shared.model);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  use_all();
  if (argc != 2 || api == NULL) return 2;
  read_and_swap(api, argv[1]);
  swap_a_buffer(api, argv[1]);
  swap_under_load(api, argv[1]);
  return result();
}
