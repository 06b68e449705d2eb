/* What an attacker passes: each function of the table with null, misaligned, closed and foreign pointers, structs of other sizes, tensors that
 * lie nowhere, and calls from callbacks. All give a status; nothing crashes, and the model stays usable. */
#include <sys/stat.h>

#include "check.h"

static ToroidModel* model;
static ToroidContext* context;
static const ToroidApi* toroid;

static char room[256];
/* An address that no object with `alignment` may have. */
static void* misaligned(void) { return room + 1; }

/* What is no open model: null, misaligned, closed, a context, memory of zeros. */
static const void* bad_handles[5];

static void make_bad_handles(const char* folder) {
  ToroidModel* const closed = open_or_exit(toroid, folder, "scaled", NULL);
  static int64_t zeros[64];
  toroid->model_close(closed);
  bad_handles[0] = NULL;
  bad_handles[1] = misaligned();
  bad_handles[2] = closed;
  bad_handles[3] = zeros;
}

static void describe_badly(void) {
  ToroidModelInfo info = {sizeof info};
  ToroidTensorInfo tensor = {sizeof tensor};
  ToroidSymbolInfo symbol = {sizeof symbol};
  ToroidWeightInfo weight = {sizeof weight};
  ToroidVariantInfo variant = {sizeof variant};
  ToroidStepDescription step = {sizeof step};
  ToroidMemoryInfo memory = {sizeof memory};
  static const int32_t numbers[] = {-1, INT32_MIN, INT32_MAX, 100};
  const char* text = NULL;
  int64_t shape[2] = {2, 3}, sizes[2];
  DLTensor x = tensor_of(NULL, kF32, shape, 2);
  const DLTensor* inputs[1];
  char message[256];
  size_t k;
  inputs[0] = &x;
  bad_handles[4] = context;
  for (k = 0; k < sizeof bad_handles / sizeof bad_handles[0]; ++k) {
    const ToroidModel* const bad = (const ToroidModel*)bad_handles[k];
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_info(bad, &info));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_input(bad, 0, &tensor));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_output(bad, 0, &tensor));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_symbol(bad, 0, &symbol));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_guard(bad, 0, &text));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_weight(bad, 0, &weight));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_variant(bad, 0, &variant));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_step(bad, 0, 0, &step));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_output_sizes(bad, inputs, 1, 0, sizes, 2, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_memory(bad, inputs, 1, &memory, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_read_weight(bad, "w", sizes, 12, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_swap_weights((ToroidModel*)bad, NULL, NULL, 0, message, sizeof message));
    toroid->model_close((ToroidModel*)bad);
  }
  for (k = 0; k < sizeof numbers / sizeof numbers[0]; ++k) {
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_input(model, numbers[k], &tensor));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_output(model, numbers[k], &tensor));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_symbol(model, numbers[k], &symbol));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_guard(model, numbers[k], &text));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_weight(model, numbers[k], &weight));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_variant(model, numbers[k], &variant));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_step(model, 0, numbers[k], &step));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_step(model, numbers[k], 0, &step));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_output_sizes(model, inputs, 1, numbers[k], sizes, 2, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_output_sizes(model, inputs, 1, 0, sizes, numbers[k], message, sizeof message));
  }
  for (k = 0; k < 2; ++k) {
    void* const bad = k == 0 ? NULL : misaligned();
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_info(model, (ToroidModelInfo*)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_input(model, 0, (ToroidTensorInfo*)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_output(model, 0, (ToroidTensorInfo*)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_symbol(model, 0, (ToroidSymbolInfo*)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_guard(model, 0, (const char**)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_weight(model, 0, (ToroidWeightInfo*)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_variant(model, 0, (ToroidVariantInfo*)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_step(model, 0, 0, (ToroidStepDescription*)bad));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_memory(model, inputs, 1, (ToroidMemoryInfo*)bad, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_output_sizes(model, inputs, 1, 0, (int64_t*)bad, 2, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT,
                 toroid->model_output_sizes(model, (const DLTensor* const*)bad, 1, 0, sizes, 2, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_memory(model, (const DLTensor* const*)bad, 1, &memory, message, sizeof message));
    inputs[0] = (const DLTensor*)bad;
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_memory(model, inputs, 1, &memory, message, sizeof message));
    inputs[0] = &x;
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->measure_machine(1, (double*)bad, (double*)room, message, sizeof message));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->measure_machine(1, (double*)room, (double*)bad, message, sizeof message));
  }
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->measure_machine(-1, (double*)room, (double*)room + 1, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_memory(model, inputs, -1, &memory, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_read_weight(model, NULL, sizes, 12, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_NOT_FOUND, toroid->model_read_weight(model, "\xff\xfe%s%n", sizes, 12, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_read_weight(model, "w", sizes, SIZE_MAX, message, sizeof message));
}

/* Structs of callers that are older or newer, down to the size alone, and sizes that no struct has. */
static void give_structs_of_all_sizes(void) {
  static const size_t bad[] = {0, 1, sizeof(size_t) - 1, (size_t)1 << 16, SIZE_MAX};
  struct {
    ToroidRunOptions options;
    char more[128];
  } run;
  struct {
    ToroidContextOptions options;
    char more[128];
  } made;
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  ToroidContext* other;
  size_t size;
  inputs[0] = &x;
  memset(&run, 0, sizeof run);
  memset(&made, 0, sizeof made);
  for (size = sizeof(size_t); size <= sizeof run; ++size) {
    run.options.size = size;
    CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, &run.options));
    delete_tensor(outputs[0]);
    if (size > sizeof made) continue;
    made.options.size = size;
    CHECK_STATUS(TOROID_OK, toroid->context_create(model, &made.options, &other, NULL, 0));
    toroid->context_destroy(other);
  }
  run.more[sizeof run.more - 1] = 1;
  run.options.size = sizeof run;
  CHECK_STATUS(TOROID_ERROR_UNSUPPORTED, toroid->context_run(context, inputs, 1, outputs, 1, &run.options));
  for (size = 0; size < sizeof bad / sizeof bad[0]; ++size) {
    run.options.size = made.options.size = bad[size];
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(context, inputs, 1, outputs, 1, &run.options));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_create(model, &made.options, &other, NULL, 0));
  }
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(context, inputs, 1, outputs, 1, (ToroidRunOptions*)misaligned()));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_create(model, (ToroidContextOptions*)misaligned(), &other, NULL, 0));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_create(model, NULL, (ToroidContext**)misaligned(), NULL, 0));
}

static void use_no_context(void) {
  size_t k;
  DLManagedTensor* outputs[1];
  bad_handles[4] = model;
  for (k = 0; k < sizeof bad_handles / sizeof bad_handles[0]; ++k) {
    ToroidContext* const bad = (ToroidContext*)bad_handles[k];
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(bad, NULL, 0, outputs, 1, NULL));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_wait(bad));
    CHECK(toroid->context_has_failed(bad) == 0);
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_seed(bad, 1));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_read_buffer(bad, "count", room, 16));
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_reset_buffer(bad, NULL));
    CHECK_TEXT("", toroid->context_message(bad));
    toroid->context_destroy(bad);
  }
  CHECK_STATUS(TOROID_ERROR_NOT_FOUND, toroid->context_read_buffer(context, "w", room, 12));
  CHECK_STATUS(TOROID_ERROR_NOT_FOUND, toroid->context_reset_buffer(context, ""));
  CHECK_STATUS(TOROID_OK, toroid->context_reset_buffer(context, NULL));
  CHECK_STATUS(TOROID_OK, toroid->context_wait(context));
}

/* Strides: backwards and repeated ones are right, those that leave memory are not. */
static void run_strided(void) {
  static const int64_t far[] = {INT64_MAX, INT64_MIN, INT64_MAX / 4, INT64_MIN / 4, INT64_MAX / 8};
  float data[6] = {1, 2, 3, 4, 5, 6}, result[6] = {0};
  int64_t shape[2] = {2, 3}, strides[2] = {-3, -1}, reversed[2] = {-3, -1};
  const DLTensor good = tensor_of(data + 5, kF32, shape, 2);
  DLTensor x = good, into = tensor_of(result + 5, kF32, shape, 2);
  const DLTensor *inputs[1], *intos[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  size_t k;
  inputs[0] = &x;
  intos[0] = &into;
  x.strides = strides;
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
  if (outputs[0] != NULL) CHECK(((float*)outputs[0]->dl_tensor.data)[0] == 6 && ((float*)outputs[0]->dl_tensor.data)[5] == 3);
  delete_tensor(outputs[0]);

  /* Backwards into memory of the caller's. */
  options.into = intos;
  into.strides = reversed;
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(result[5] == 6 && result[4] == 10 && result[3] == 12 && result[2] == 3 && result[0] == 3);
  into.data = data + 5; /* over the input */
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(strstr(toroid->context_message(context), "overlaps input 0") != NULL);
  into.data = result + 5;
  reversed[0] = -1; /* several elements at one place */
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  reversed[0] = -3;

  strides[0] = 0, strides[1] = 0; /* one element six times */
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(result[5] == 6 && result[0] == 18);
  for (k = 0; k < sizeof far / sizeof far[0]; ++k) {
    strides[0] = far[k], strides[1] = 1;
    CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
    CHECK_TEXT("input 0 has elements beyond the end of memory", toroid->context_message(context));
    strides[0] = 3, strides[1] = far[k];
    CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
    strides[1] = 1, reversed[0] = far[k];
    x.data = data;
    CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
    x.data = data + 5, reversed[0] = -3;
  }
  shape[0] = 1, strides[0] = INT64_MIN, strides[1] = -1; /* which nobody follows */
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
  delete_tensor(outputs[0]);
  shape[0] = 2;
  x = tensor_of(data, kF32, shape, 2);
  x.byte_offset = UINT64_MAX - 64;
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
  x.byte_offset = (uint64_t)0 - (uint64_t)(uintptr_t)data; /* address 0, by way of the end */
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
  x.byte_offset = 0, x.strides = (int64_t*)misaligned();
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
  x.strides = NULL, x.shape = (int64_t*)misaligned();
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
}

static void place_badly(void) {
  static const DLDataType bad[] = {{kDLFloat, 64, 1}, {kDLFloat, 32, 2}, {200, 32, 1}, {kDLFloat, 0, 1}, {kDLInt, 32, 1}};
  float data[6] = {1, 2, 3, 4, 5, 6}, result[7] = {0};
  int64_t shape[2] = {2, 3}, other[2] = {3, 2};
  DLTensor x = tensor_of(data, kF32, shape, 2), into = tensor_of(result, kF32, shape, 2);
  const DLTensor *inputs[1], *intos[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  size_t k;
  inputs[0] = &x;
  intos[0] = &into;
  options.into = (const DLTensor* const*)misaligned();
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  options.into = intos;
  options.cancel = (const int32_t*)misaligned();
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  options.cancel = NULL;
  intos[0] = (const DLTensor*)misaligned();
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  intos[0] = &into;
  into.data = NULL;
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  into.data = result, into.device.device_type = kDLCUDA;
  CHECK_STATUS(TOROID_ERROR_DEVICE, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  into.device.device_type = -7;
  CHECK_STATUS(TOROID_ERROR_DEVICE, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  into.device.device_type = kDLCPU, into.shape = other;
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  into.shape = shape;
  for (k = 0; k < sizeof bad / sizeof bad[0]; ++k) {
    into.dtype = bad[k];
    CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
    into.dtype = kF32, x.dtype = bad[k];
    CHECK_STATUS(TOROID_ERROR_INPUT, toroid->context_run(context, inputs, 1, outputs, 1, &options));
    x.dtype = kF32;
  }
  into.data = (char*)result + 1; /* is right, if slow */
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, &options));
  {
    float first;
    memcpy(&first, (char*)result + 1 + 5 * sizeof(float), sizeof first);
    CHECK(first == 18);
  }
  x.data = (char*)room + 1;
  memcpy(room + 1, data, sizeof data);
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, &options));
}

/* ---- callbacks ------------------------------------------------------------------------------------------------------------------------- */

static ToroidContext* own;
static int num_called;

static void run_in_callback(void* user, const ToroidStepTime* time) {
  DLManagedTensor* outputs[1];
  (void)user, (void)time;
  ++num_called;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(own, NULL, 0, outputs, 1, NULL));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_seed(own, 1));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_reset_buffer(own, NULL));
}

static void* destroy_in_callback(void* user, int32_t output, const DLTensor* tensor, size_t bytes) {
  (void)output, (void)tensor, (void)bytes;
  ++num_called;
  toroid->context_destroy(own);
  toroid->context_destroy(own);
  return user;
}

static void call_from_callbacks(const char* folder) {
  ToroidModel* const its = open_or_exit(toroid, folder, "scaled", NULL);
  float data[6] = {1, 2, 3, 4, 5, 6}, result[6] = {0};
  int64_t shape[2] = {2, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  int i;
  inputs[0] = &x;
  own = context_or_exit(toroid, its, NULL);
  options.profile = run_in_callback;
  CHECK_STATUS(TOROID_OK, toroid->context_run(own, inputs, 1, outputs, 1, &options));
  CHECK(num_called > 0);
  delete_tensor(outputs[0]);
  options.profile = NULL;
  options.allocate_output = destroy_in_callback;
  options.allocate_user = result;
  for (i = 0; i < 300; ++i) { /* so that handles are used again */
    num_called = 0;
    memset(result, 0, sizeof result);
    CHECK_STATUS(TOROID_OK, toroid->context_run(own, inputs, 1, outputs, 1, &options));
    CHECK(num_called == 1 && result[5] == 18);
    CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->context_run(own, inputs, 1, outputs, 1, &options));
    own = context_or_exit(toroid, its, NULL);
  }
  toroid->context_destroy(own);
  toroid->model_close(its);
}

/* ---- files ----------------------------------------------------------------------------------------------------------------------------- */

static void open_what_is_no_file(const char* folder) {
  static const char* const names[] = {"/", "/dev/null", "/dev/zero", "/proc/self/mem", "", "\xff", "%s%n"};
  char path[4096], pipe[4096], message[1024];
  ToroidModelOptions options = {sizeof options};
  ToroidModel* made;
  size_t k;
  snprintf(pipe, sizeof pipe, "%s/pipe", folder);
  snprintf(path, sizeof path, "%s/scaled.so", folder);
  CHECK(mkfifo(pipe, 0600) == 0);
  for (k = 0; k <= sizeof names / sizeof names[0]; ++k) {
    const char* const name = k < sizeof names / sizeof names[0] ? names[k] : pipe;
    ToroidStatus status = toroid->model_open(name, NULL, &made, message, sizeof message);
    CHECK((status == TOROID_ERROR_ENVIRONMENT || status == TOROID_ERROR_PACKAGE) && made == NULL && message[0] != '\0');
    options.weights = name;
    status = toroid->model_open(path, &options, &made, message, sizeof message);
    CHECK(name[0] == '\0' ? status == TOROID_ERROR_ARGUMENT : status == TOROID_ERROR_ENVIRONMENT || status == TOROID_ERROR_PACKAGE);
    CHECK(name[0] != '\0' || strstr(message, "'weights' is an empty path") != NULL);
    CHECK(made == NULL);
  }
  CHECK_STATUS(TOROID_ERROR_UNSUPPORTED, toroid->model_open(NULL, NULL, &made, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_open(path, (ToroidModelOptions*)misaligned(), &made, message, sizeof message));
  options.weights = NULL;
  options.thread_pool = (const ToroidThreadPool*)misaligned();
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_open(path, &options, &made, message, sizeof message));
  options.thread_pool = NULL, options.allocator = (const ToroidAllocator*)misaligned();
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_open(path, &options, &made, message, sizeof message));
  options.allocator = NULL, options.num_trusted_keys = 1;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_open(path, &options, &made, message, sizeof message));
  options.num_trusted_keys = -1, options.trusted_keys = (const uint8_t*)room;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_open(path, &options, &made, message, sizeof message));
  remove(pipe);
}

static void swap_badly(void) {
  float w[3] = {1, 2, 3};
  int64_t three = 3, far = INT64_MAX;
  DLTensor value = tensor_of(w, kF32, &three, 1);
  const DLTensor* values[2];
  const char* names[2] = {"w", "w"};
  char message[256];
  values[0] = values[1] = &value;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT,
               toroid->model_swap_weights(model, (const char* const*)misaligned(), values, 1, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT,
               toroid->model_swap_weights(model, names, (const DLTensor* const*)misaligned(), 1, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_swap_weights(model, names, values, INT32_MIN, message, sizeof message));
  names[1] = NULL;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_swap_weights(model, names, values, 2, message, sizeof message));
  names[1] = "w", values[1] = NULL;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, toroid->model_swap_weights(model, names, values, 2, message, sizeof message));
  values[1] = &value, value.data = NULL;
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->model_swap_weights(model, names, values, 1, message, sizeof message));
  value.data = w, value.strides = &far;
  CHECK_STATUS(TOROID_ERROR_INPUT, toroid->model_swap_weights(model, names, values, 1, message, sizeof message));
  value.strides = NULL, value.device.device_type = kDLCUDA;
  CHECK_STATUS(TOROID_ERROR_DEVICE, toroid->model_swap_weights(model, names, values, 1, message, sizeof message));
  value.device.device_type = kDLCPU;
  CHECK_STATUS(TOROID_OK, toroid->model_swap_weights(model, names, values, 2, message, sizeof message)); /* the same one twice */
}

int main(int argc, char** argv) {
  toroid = toroid_api(TOROID_API_VERSION);
  use_all();
  if (argc != 2 || toroid == NULL) return 2;
  CHECK(toroid_api(UINT32_MAX) == NULL);
  model = open_or_exit(toroid, argv[1], "scaled", NULL);
  context = context_or_exit(toroid, model, NULL);
  make_bad_handles(argv[1]);
  describe_badly();
  give_structs_of_all_sizes();
  use_no_context();
  run_strided();
  place_badly();
  call_from_callbacks(argv[1]);
  open_what_is_no_file(argv[1]);
  swap_badly();
  give_structs_of_all_sizes(); /* it still runs */
  toroid->context_destroy(context);
  toroid->model_close(model);
  return result();
}
