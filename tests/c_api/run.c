/* Runs: outputs of all owners, inputs of all layouts, state, randomness, late sizes. */
#include "check.h"

static const float kX[6] = {1, 2, 3, 4, 5, 6}, kScaled[6] = {1, 4, 9, 4, 10, 18};

static void run_scaled(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float data[6];
  int64_t shape[2] = {2, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor *first[1], *second[1];
  inputs[0] = &x;
  memcpy(data, kX, sizeof data);
  CHECK_TEXT("", api->context_message(context));
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, first, 1, NULL));
  CHECK(first[0] != NULL);
  if (first[0] != NULL) {
    const DLTensor* const y = &first[0]->dl_tensor;
    CHECK(y->ndim == 2 && y->shape[0] == 2 && y->shape[1] == 3 && y->strides[0] == 3 && y->strides[1] == 1 && y->byte_offset == 0);
    CHECK(y->device.device_type == kDLCPU && y->dtype.code == kDLFloat && y->dtype.bits == 32);
    CHECK(memcmp(y->data, kScaled, sizeof kScaled) == 0);
  }
  shape[0] = 1;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, second, 1, NULL));
  CHECK(second[0] != NULL && second[0]->dl_tensor.shape[0] == 1);
  /* Outputs outlive the context and the model. */
  api->context_destroy(context);
  api->model_close(model);
  CHECK(first[0] != NULL && memcmp(first[0]->dl_tensor.data, kScaled, sizeof kScaled) == 0);
  delete_tensor(first[0]);
  delete_tensor(second[0]);
}

/* A model that is closed first lives on in its contexts. */
static void run_after_close(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float data[6];
  int64_t shape[2] = {2, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  inputs[0] = &x;
  memcpy(data, kX, sizeof data);
  api->model_close(model);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(outputs[0] != NULL && memcmp(outputs[0]->dl_tensor.data, kScaled, sizeof kScaled) == 0);
  delete_tensor(outputs[0]);
  api->context_destroy(context);
}

/* The transpose of a matrix, every second element, a misaligned one: all as if they were in rows. */
static void run_strided(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float turned[6] = {1, 4, 2, 5, 3, 6}, wide[12];
  char bytes[sizeof kX + 1];
  int64_t shape[2] = {2, 3}, columns[2] = {1, 2}, gaps[2] = {6, 2};
  DLTensor x = tensor_of(turned, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  int i;
  inputs[0] = &x;
  x.strides = columns;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(outputs[0] != NULL && memcmp(outputs[0]->dl_tensor.data, kScaled, sizeof kScaled) == 0);
  delete_tensor(outputs[0]);
  for (i = 0; i < 6; ++i) wide[2 * i] = kX[i], wide[2 * i + 1] = -1;
  x.data = wide;
  x.strides = gaps;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(outputs[0] != NULL && memcmp(outputs[0]->dl_tensor.data, kScaled, sizeof kScaled) == 0);
  delete_tensor(outputs[0]);
  memcpy(bytes + 1, kX, sizeof kX);
  x.data = bytes;
  x.byte_offset = 1;
  x.strides = NULL;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(outputs[0] != NULL && memcmp(outputs[0]->dl_tensor.data, kScaled, sizeof kScaled) == 0);
  delete_tensor(outputs[0]);
  api->context_destroy(context);
  api->model_close(model);
}

static void run_into(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float data[6], y[6] = {0}, turned[6] = {0};
  int64_t shape[2] = {2, 3}, columns[2] = {1, 2}, overlapping[2] = {1, 1}, large[2] = {3, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2), into = tensor_of(y, kF32, shape, 2);
  const DLTensor *inputs[1], *intos[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  inputs[0] = &x;
  intos[0] = &into;
  options.into = intos;
  memcpy(data, kX, sizeof data);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(outputs[0] == NULL && memcmp(y, kScaled, sizeof y) == 0);
  into.data = turned;
  into.strides = columns;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(turned[0] == 1 && turned[1] == 4 && turned[2] == 4 && turned[3] == 10 && turned[4] == 9 && turned[5] == 18);

  into.strides = overlapping;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, &options));
  into.strides = NULL;
  into.data = data;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK_TEXT("the memory for output 0 overlaps input 0\n  help: give each memory of its own", api->context_message(context));
  into.data = y;
  into.shape = large;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK_TEXT("the memory for output 0 is f32[3, 3], and the output is f32[2, 3]", api->context_message(context));
  CHECK(outputs[0] == NULL);
  api->context_destroy(context);
  api->model_close(model);
}

static float given[64];
static int asked = 0;

static void* give(void* user, int32_t output, const DLTensor* tensor, size_t bytes) {
  CHECK(user == &asked);
  CHECK(output == 0 && tensor->ndim == 2 && tensor->shape[0] == 2 && tensor->shape[1] == 3 && tensor->data == NULL && bytes == 24);
  ++asked;
  return asked == 2 ? NULL : given;
}

static void run_with_callback(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float data[6];
  int64_t shape[2] = {2, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  inputs[0] = &x;
  options.allocate_output = give;
  options.allocate_user = &asked;
  memcpy(data, kX, sizeof data);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(asked == 1 && outputs[0] == NULL && memcmp(given, kScaled, sizeof kScaled) == 0);
  CHECK_STATUS(TOROID_ERROR_MEMORY, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(asked == 2);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  api->context_destroy(context);
  api->model_close(model);
}

static int32_t squared_count(const ToroidApi* api, ToroidContext* context) {
  int32_t data[4] = {1, 2, 3, 4}, value = -1;
  int64_t four = 4;
  DLTensor x = tensor_of(data, kI32, &four, 1);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  inputs[0] = &x;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  if (outputs[0] != NULL) value = ((const int32_t*)outputs[0]->dl_tensor.data)[0];
  delete_tensor(outputs[0]);
  return value;
}

static void run_with_state(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "counter", NULL);
  ToroidContext *const one = context_or_exit(api, model, NULL), *const other = context_or_exit(api, model, NULL);
  ToroidWeightInfo weight = {sizeof weight};
  int32_t count[4];
  CHECK_STATUS(TOROID_OK, api->model_weight(model, 0, &weight));
  CHECK(weight.is_mutable == 1);
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(one, "count", count, sizeof count));
  CHECK(count[0] == 100 && count[3] == 0);
  CHECK(squared_count(api, one) == 101 * 101);
  CHECK(squared_count(api, one) == 102 * 102);
  CHECK(squared_count(api, other) == 101 * 101);
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(one, "count", count, sizeof count));
  CHECK(count[0] == 102 && count[3] == 8);
  CHECK_STATUS(TOROID_OK, api->context_reset_buffer(one, NULL));
  CHECK(squared_count(api, one) == 101 * 101);
  CHECK(squared_count(api, other) == 102 * 102);
  CHECK_STATUS(TOROID_OK, api->context_reset_buffer(one, "count"));
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(one, "count", count, sizeof count));
  CHECK(count[0] == 100);
  CHECK_STATUS(TOROID_ERROR_NOT_FOUND, api->context_reset_buffer(one, "cuont"));
  CHECK_TEXT("the model has no mutable buffer 'cuont'", api->context_message(one));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_read_buffer(one, "count", count, 15));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_read_buffer(one, "count", NULL, sizeof count));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_read_buffer(one, NULL, count, sizeof count));
  api->context_destroy(one);
  api->context_destroy(other);
  api->model_close(model);
}

static void draw(const ToroidApi* api, ToroidContext* context, float* numbers) {
  float data[300] = {0};
  int64_t size = 300;
  DLTensor x = tensor_of(data, kF32, &size, 1), into = tensor_of(numbers, kF32, &size, 1);
  const DLTensor *inputs[1], *intos[1];
  DLManagedTensor* outputs[1];
  ToroidRunOptions options = {sizeof options};
  inputs[0] = &x;
  intos[0] = &into;
  options.into = intos;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
}

static void run_with_seed(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "random", NULL);
  ToroidContextOptions options = {sizeof options};
  ToroidContext *one, *other;
  float a[300], b[300], c[300];
  options.seed = 7;
  one = context_or_exit(api, model, &options);
  other = context_or_exit(api, model, NULL);
  draw(api, one, a);
  draw(api, one, b);
  draw(api, other, c);
  CHECK(memcmp(a, b, sizeof a) != 0 && memcmp(a, c, sizeof a) != 0);
  CHECK_STATUS(TOROID_OK, api->context_seed(other, 7));
  draw(api, other, c);
  CHECK(memcmp(a, c, sizeof a) == 0);
  draw(api, other, c);
  CHECK(memcmp(b, c, sizeof b) == 0);
  api->context_destroy(one);
  api->context_destroy(other);
  api->model_close(model);
}

static void run_late(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "places", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float data[8] = {0, 1, 0, 0, 2, 0, 0, 3};
  int64_t indices[2] = {7, 4}, eight = 8, two = 2, where[3] = {0, 0, 0}, three[2] = {3, 1}, four[2] = {4, 1};
  DLTensor x = tensor_of(data, kF32, &eight, 1), i = tensor_of(indices, kI64, &two, 1), into = tensor_of(where, kI64, three, 2);
  const DLTensor *inputs[2], *intos[2] = {NULL, NULL};
  DLManagedTensor* outputs[2];
  ToroidRunOptions options = {sizeof options};
  inputs[0] = &x;
  inputs[1] = &i;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 2, NULL));
  if (outputs[0] != NULL) {
    const int64_t* const n = (const int64_t*)outputs[0]->dl_tensor.data;
    CHECK(outputs[0]->dl_tensor.shape[0] == 3 && n[0] == 1 && n[1] == 4 && n[2] == 7);
  }
  CHECK(outputs[1] != NULL && ((const float*)outputs[1]->dl_tensor.data)[0] == 3);
  delete_tensor(outputs[0]);
  delete_tensor(outputs[1]);

  options.into = intos;
  intos[0] = &into;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 2, &options));
  CHECK(outputs[0] == NULL && where[0] == 1 && where[1] == 4 && where[2] == 7);
  delete_tensor(outputs[1]);
  into.shape = four;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 2, outputs, 2, &options));
  CHECK(outputs[0] == NULL && outputs[1] == NULL);

  indices[1] = 8;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 2, outputs, 2, NULL));
  CHECK(strstr(api->context_message(context), "an index read from a tensor is out of bounds: 8, where 0 to 7 are allowed") != NULL);
  CHECK(outputs[0] == NULL && outputs[1] == NULL);
  indices[1] = 0;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 2, NULL));
  delete_tensor(outputs[0]);
  delete_tensor(outputs[1]);
  api->context_destroy(context);
  api->model_close(model);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  use_all();
  if (argc != 2 || api == NULL) return 2;
  run_scaled(api, argv[1]);
  run_after_close(api, argv[1]);
  run_strided(api, argv[1]);
  run_into(api, argv[1]);
  run_with_callback(api, argv[1]);
  run_with_state(api, argv[1]);
  run_with_seed(api, argv[1]);
  run_late(api, argv[1]);
  return result();
}
