/* The weights of programs for GPUs: one copy on each GPU for all contexts there, replaced by name while they run. A fake plays the driver
 * (tests/gpu/fake_gpu.c): a kernel writes the sum of the first words that it reads, and one. The model adds a number and two weights,
 * one of which is a buffer that it does not update.
 *
 * usage: c_api_gpu_weights FOLDER [own] */
#define _POSIX_C_SOURCE 200112L

#include "fake_gpu.h"
#include "threads.h"

enum { kWeightBytes = 1300, kThreads = 3, kSwaps = 200 };

static ToroidContext* context_on(const ToroidApi* api, ToroidModel* model, int gpu) {
  ToroidContextOptions options = {sizeof options};
  options.has_gpu = 1;
  options.gpu = gpu;
  return context_or_exit(api, model, &options);
}

/* x and the weights' first words, and one; -1 after an error. */
static int32_t run_one(const ToroidApi* api, ToroidContext* context, int32_t x) {
  int64_t one = 1;
  DLTensor input = tensor_of(&x, kI32, &one, 1);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  int32_t sum;
  inputs[0] = &input;
  if (api->context_run(context, inputs, 1, outputs, 1, NULL) != TOROID_OK) return -1;
  sum = *(const int32_t*)outputs[0]->dl_tensor.data;
  delete_tensor(outputs[0]);
  return sum;
}

static ToroidStatus swap(const ToroidApi* api, ToroidModel* model, const char* const* names, const int32_t* values, int count) {
  static int32_t data[2][kWeightBytes / 4];
  int64_t sizes = kWeightBytes / 4;
  DLTensor tensors[2];
  const DLTensor* pointers[2];
  int i;
  for (i = 0; i < count; ++i) {
    data[i][0] = values[i];
    tensors[i] = tensor_of(data[i], kI32, &sizes, 1);
    pointers[i] = &tensors[i];
  }
  return api->model_swap_weights(model, names, pointers, count, NULL, 0);
}

static void share(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "weights_on_gpu");
  ToroidContext *const one = context_or_exit(api, model, NULL), *const other = context_or_exit(api, model, NULL);
  ToroidContext* const third = context_on(api, model, 1);
  const char* const a = "a";
  int32_t value = 501;
  CHECK(run_one(api, one, 10) == 1011 && run_one(api, other, 20) == 1021);
  CHECK(blocks_on(0, kWeightBytes) == 2 && blocks_on(1, kWeightBytes) == 0);
  CHECK(run_one(api, third, 30) == 1031);
  CHECK(blocks_on(0, kWeightBytes) == 2 && blocks_on(1, kWeightBytes) == 2);

  /* New weights are beside the old ones until the last context has made a call with them; what both have is there once. */
  CHECK_STATUS(TOROID_OK, swap(api, model, &a, &value, 1));
  CHECK(blocks_on(0, kWeightBytes) == 2);
  CHECK(run_one(api, one, 10) == 1511);
  CHECK(blocks_on(0, kWeightBytes) == 3);
  CHECK(run_one(api, third, 10) == 1511);
  CHECK(blocks_on(1, kWeightBytes) == 2);
  CHECK(run_one(api, other, 10) == 1511);
  CHECK(blocks_on(0, kWeightBytes) == 2);

  api->context_destroy(one);
  CHECK(blocks_on(0, kWeightBytes) == 2);
  api->context_destroy(other);
  CHECK(blocks_on(0, kWeightBytes) == 0 && blocks_on(1, kWeightBytes) == 2);
  api->context_destroy(third);
  CHECK(blocks_on(1, kWeightBytes) == 0);
  api->model_close(model);
}

/* On streams of the caller's, which nobody has waited for when weights change. */
static void swap_between_streams(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "weights_on_gpu");
  ToroidContext* const context = context_on(api, model, 1);
  const char* const b = "b";
  ToroidRunOptions options = {sizeof options};
  int64_t one = 1;
  DLTensor x = on_gpu(words_on(1, 1, 5), &one);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[4];
  int32_t i;
  x.device.device_id = 1;
  inputs[0] = &x;
  find("cuStreamCreate");
  found.create(&options.stream, 0);
  for (i = 0; i < 4; ++i) {
    const int32_t value = 100 * i;
    CHECK_STATUS(TOROID_OK, swap(api, model, &b, &value, 1));
    CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, &outputs[i], 1, &options));
  }
  CHECK_STATUS(TOROID_OK, api->context_wait(context));
  for (i = 0; i < 4; ++i) {
    CHECK(outputs[i]->dl_tensor.device.device_id == 1 && *(const int32_t*)outputs[i]->dl_tensor.data == 5 + 1 + 100 * i + 1);
    delete_tensor(outputs[i]);
  }
  x.device.device_id = 0;
  CHECK_STATUS(TOROID_ERROR_DEVICE, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK_TEXT("input 0 is on the device (2, 0) instead of (2, 1)", api->context_message(context));
  x.device.device_id = 1;
  x.data = words_on(0, 1, 5); /* it is not what it says */
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(strstr(api->context_message(context), "input 'x' is on GPU 0, and the program on GPU 1") == api->context_message(context));
  api->context_destroy(context);
  api->model_close(model);
}

static void refuse(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "weights_on_gpu");
  ToroidContextOptions options = {sizeof options};
  ToroidContext* context = NULL;
  const char* const a = "a";
  const int32_t value = 2;
  char message[256] = "";
  options.has_gpu = 2;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(model, &options, &context, message, sizeof message));
  CHECK_TEXT("'has_gpu' is 2, and may be 0 or 1", message);
  options.has_gpu = 1;
  options.gpu = 7;
  CHECK(api->context_create(model, &options, &context, message, sizeof message) != TOROID_OK && context == NULL);
  CHECK(strstr(message, "there is no GPU 7: the driver sees 2") == message);

  /* New weights for which there is no memory: the call fails, and one behind it has them when there is. */
  context = context_or_exit(api, model, NULL);
  CHECK(run_one(api, context, 1) == 1002);
  CHECK_STATUS(TOROID_OK, swap(api, model, &a, &value, 1));
  setenv("FAKE_GPU", "full", 1);
  CHECK(run_one(api, context, 1) == -1);
  CHECK(strstr(api->context_message(context), "asking the GPU for 1300 bytes fails: CUDA_ERROR_OUT_OF_MEMORY (out of memory)") ==
        api->context_message(context));
  setenv("FAKE_GPU", "two", 1);
  CHECK(run_one(api, context, 1) == 1003);
  api->context_destroy(context);
  api->model_close(model);
}

/* New values that lie on a GPU, which need not be the one that the model runs on. */
static void swap_from_gpus(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "weights_on_gpu");
  ToroidContext* const context = context_or_exit(api, model, NULL);
  const char* const a = "a";
  int64_t sizes = kWeightBytes / 4, stride = 2, backwards = -1;
  const DLTensor* values[1];
  char message[256] = "";
  DLTensor tensor;
  int32_t* words = words_on(1, 2 * (size_t)sizes, 501);
  values[0] = &tensor;
  tensor = on_gpu(words, &sizes);
  tensor.device.device_id = 1;
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, &a, values, 1, message, sizeof message));
  words[0] = 7; /* it was copied */
  CHECK(run_one(api, context, 10) == 1511);
  tensor.strides = &stride;
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, &a, values, 1, message, sizeof message));
  CHECK(run_one(api, context, 10) == 1017);
  words[sizes - 1] = 300;
  tensor.byte_offset = 4 * (uint64_t)(sizes - 1);
  tensor.strides = &backwards;
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, &a, values, 1, message, sizeof message));
  CHECK(run_one(api, context, 10) == 1310);

  tensor.byte_offset = 4 * (uint64_t)sizes + 4;
  tensor.strides = NULL;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->model_swap_weights(model, &a, values, 1, message, sizeof message));
  CHECK(strstr(message, "tensor 0 needs 1300 bytes, and its memory ends after 1296\n") == message);
  tensor.byte_offset = 0;
  tensor.device.device_id = 0;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->model_swap_weights(model, &a, values, 1, message, sizeof message));
  CHECK(strstr(message, "tensor 0 is on GPU 1, and said to be on GPU 0\n") == message);
  tensor.data = words + 1;
  tensor.dtype = kF32;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->model_swap_weights(model, &a, values, 1, message, sizeof message));
  CHECK(strstr(message, "the new value of weight 'a' is f32[325], and the weight is i32[325]") == message);
  tensor.dtype = kI32;
  tensor.data = &sizes;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->model_swap_weights(model, &a, values, 1, message, sizeof message));
  CHECK(strstr(message, "tensor 0 is not in a GPU's memory\n") == message);
  tensor.device.device_id = 7;
  CHECK(api->model_swap_weights(model, &a, values, 1, message, sizeof message) != TOROID_OK);
  CHECK(strstr(message, "there is no GPU 7: the driver sees 2") == message);
  CHECK(run_one(api, context, 10) == 1310);
  api->context_destroy(context);
  api->model_close(model);
}

typedef struct Shared {
  const ToroidApi* api;
  ToroidModel* model;
  int done, bad[1 + kThreads], seen[1 + kThreads]; /* atomic; seen: how often a thread had other weights than before */
} Shared;

/* The weights' sum is the same in each pair, and no other pair's mixture has it. */
static void work(void* argument, int i) {
  static const char* const names[] = {"a", "b"};
  Shared* const shared = (Shared*)argument;
  const ToroidApi* const api = shared->api;
  if (i == 0) {
    int k, thread, all_ran = 0;
    for (k = 0; k < kSwaps || !all_ran; ++k) {
      int32_t values[2];
      values[0] = k * 1000;
      values[1] = 77 - k * 1000;
      if (swap(api, shared->model, names, values, 2) != TOROID_OK) ++shared->bad[0];
      all_ran = 1;
      for (thread = 1; thread <= kThreads; ++thread) {
        if (__atomic_load_n(&shared->seen[thread], __ATOMIC_RELAXED) < 20) all_ran = 0;
      }
    }
    __atomic_store_n(&shared->done, 1, __ATOMIC_RELEASE);
  } else {
    ToroidContext* const context = context_on(api, shared->model, i % 2);
    int is_done;
    do {
      is_done = __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE);
      if (run_one(api, context, i) != 77 + i + 1) ++shared->bad[i];
      __atomic_add_fetch(&shared->seen[i], 1, __ATOMIC_RELAXED);
    } while (!is_done);
    api->context_destroy(context);
  }
}

static void swap_under_load(const ToroidApi* api, const char* folder) {
  static const char* const names[] = {"a", "b"};
  static const int32_t values[] = {0, 77};
  Shared shared;
  int i;
  memset(&shared, 0, sizeof shared);
  shared.model = open_package(&api, folder, "weights_on_gpu");
  shared.api = api;
  CHECK_STATUS(TOROID_OK, swap(api, shared.model, names, values, 2));
  run_threads(1 + kThreads, work, &shared);
  for (i = 0; i <= kThreads; ++i) CHECK(shared.bad[i] == 0);
  CHECK(blocks_on(0, kWeightBytes) == 0 && blocks_on(1, kWeightBytes) == 0);
  api->model_close(shared.model);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  use_all();
  use_all_of_fake();
  if (argc < 2 || api == NULL) return 2;
  is_by_own = argc > 2;
  open_fake();
  share(api, argv[1]);
  swap_between_streams(api, argv[1]);
  swap_from_gpus(api, argv[1]);
  refuse(api, argv[1]);
  swap_under_load(api, argv[1]);
  return result();
}
