/* Programs for GPUs, on a driver without one (tests/gpu/fake_gpu.c): memory is the process's, and a kernel writes the sum of the first
 * words that it reads, and one.
 *
 * usage: c_api_gpu FOLDER [own]      own: each package by its own run side */
#include "fake_gpu.h"

static void run_sum(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "sum");
  ToroidContext* const context = context_or_exit(api, model, NULL);
  ToroidModelInfo info = {sizeof info};
  ToroidRunOptions options = {sizeof options};
  int64_t four = 4;
  int32_t here[4] = {3, 0, 0, 0}, *const place = words_on_gpu(0);
  DLTensor x = on_gpu(words_on_gpu(10), &four), y = on_gpu(words_on_gpu(20), &four), into = on_gpu(place, &four);
  DLTensor on_host = tensor_of(here, kI32, &four, 1);
  const DLTensor *inputs[2], *intos[1];
  DLManagedTensor* outputs[1];
  CHECK_STATUS(TOROID_OK, api->model_info(model, &info));
  CHECK(info.device_type == kDLCUDA);

  /* Tensors of the host are copied there and back. */
  inputs[0] = inputs[1] = &on_host;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 1, NULL));
  CHECK(outputs[0] != NULL && outputs[0]->dl_tensor.device.device_type == kDLCPU && *(const int32_t*)outputs[0]->dl_tensor.data == 7);
  delete_tensor(outputs[0]);

  /* Those of the GPU stay there. */
  inputs[0] = &x;
  inputs[1] = &y;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 1, NULL));
  CHECK_STATUS(TOROID_OK, api->context_wait(context));
  CHECK(api->context_has_failed(context) == 0);
  CHECK(outputs[0] != NULL && outputs[0]->dl_tensor.device.device_type == kDLCUDA && *(const int32_t*)outputs[0]->dl_tensor.data == 31);
  find("cuStreamCreate");
  found.create(&options.stream, 0);
  intos[0] = &into;
  options.into = intos;
  x.data = outputs[0]->dl_tensor.data;
  {
    DLManagedTensor* const first = outputs[0];
    CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 1, &options));
    CHECK_STATUS(TOROID_OK, api->context_wait(context));
    CHECK(outputs[0] == NULL && place[0] == 52);
    api->context_destroy(context);
    api->model_close(model);
    delete_tensor(first);
  }
}

static void refuse(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "sum");
  ToroidContext* const context = context_or_exit(api, model, NULL);
  int64_t four = 4;
  int32_t here[4] = {3, 0, 0, 0};
  DLTensor x = on_gpu(words_on_gpu(10), &four), y = tensor_of(here, kI32, &four, 1);
  const DLTensor* inputs[2];
  DLManagedTensor* outputs[1];
  inputs[0] = &x;
  inputs[1] = &y;
  CHECK_STATUS(TOROID_ERROR_DEVICE, api->context_run(context, inputs, 2, outputs, 1, NULL));
  CHECK_TEXT("input 1 is on the device (1, 0) instead of (2, 0)", api->context_message(context));
  y = x;
  y.device.device_id = 1;
  CHECK_STATUS(TOROID_ERROR_DEVICE, api->context_run(context, inputs, 2, outputs, 1, NULL));
  y.device.device_id = 0;
  y.data = here; /* it is not what it says */
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 2, outputs, 1, NULL));
  CHECK(strstr(api->context_message(context), "input 'y' is not in a GPU's memory") == api->context_message(context));
  CHECK(outputs[0] == NULL);
  y = x;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 1, NULL));
  CHECK_STATUS(TOROID_OK, api->context_wait(context));
  delete_tensor(outputs[0]);
  api->context_destroy(context);
  api->model_close(model);
}

static void count(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "counter_on_gpu");
  ToroidContext *const one = context_or_exit(api, model, NULL), *const other = context_or_exit(api, model, NULL);
  int64_t four = 4;
  int32_t value[4];
  DLTensor x = on_gpu(words_on_gpu(5), &four);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  int i;
  inputs[0] = &x;
  for (i = 1; i <= 4; ++i) {
    CHECK_STATUS(TOROID_OK, api->context_run(one, inputs, 1, outputs, 1, NULL));
    delete_tensor(outputs[0]);
    CHECK_STATUS(TOROID_OK, api->context_read_buffer(one, "count", value, sizeof value));
    CHECK(value[0] == 100 + 6 * i);
  }
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(other, "count", value, sizeof value));
  CHECK(value[0] == 100);
  CHECK_STATUS(TOROID_OK, api->context_reset_buffer(one, NULL));
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(one, "count", value, sizeof value));
  CHECK(value[0] == 100);
  CHECK_STATUS(TOROID_OK, api->context_run(one, inputs, 1, outputs, 1, NULL));
  delete_tensor(outputs[0]);
  CHECK_STATUS(TOROID_OK, api->context_read_buffer(one, "count", value, sizeof value));
  CHECK(value[0] == 106);
  api->context_destroy(one);
  api->context_destroy(other);
  api->model_close(model);
}

/* Of a program with tensors on both each is where its description says, or all are the host's. */
static void run_mixed(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "mixed");
  ToroidContext* const context = context_or_exit(api, model, NULL);
  ToroidTensorInfo tensor = {sizeof tensor};
  int64_t four = 4;
  int32_t here[4] = {4, 0, 0, 0}, ten[4] = {10, 0, 0, 0};
  DLTensor x = tensor_of(here, kI32, &four, 1), g = tensor_of(ten, kI32, &four, 1), on_device = on_gpu(words_on_gpu(10), &four);
  const DLTensor* inputs[2];
  DLManagedTensor* outputs[2];
  CHECK_STATUS(TOROID_OK, api->model_input(model, 0, &tensor));
  CHECK(tensor.device_type == kDLCPU);
  CHECK_STATUS(TOROID_OK, api->model_input(model, 1, &tensor));
  CHECK(tensor.device_type == kDLCUDA);
  CHECK_STATUS(TOROID_OK, api->model_output(model, 0, &tensor));
  CHECK(tensor.device_type == kDLCUDA);
  CHECK_STATUS(TOROID_OK, api->model_output(model, 1, &tensor));
  CHECK(tensor.device_type == kDLCPU);

  inputs[0] = &x;
  inputs[1] = &g;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 2, NULL));
  CHECK(outputs[0]->dl_tensor.device.device_type == kDLCPU && *(const int32_t*)outputs[0]->dl_tensor.data == 19);
  CHECK(outputs[1]->dl_tensor.device.device_type == kDLCPU && *(const int32_t*)outputs[1]->dl_tensor.data == 76);
  delete_tensor(outputs[0]);
  delete_tensor(outputs[1]);

  inputs[1] = &on_device;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 2, outputs, 2, NULL));
  CHECK_STATUS(TOROID_OK, api->context_wait(context));
  CHECK(outputs[0]->dl_tensor.device.device_type == kDLCUDA && *(const int32_t*)outputs[0]->dl_tensor.data == 19);
  CHECK(outputs[1]->dl_tensor.device.device_type == kDLCPU && *(const int32_t*)outputs[1]->dl_tensor.data == 76);
  delete_tensor(outputs[0]);
  delete_tensor(outputs[1]);

  inputs[0] = &on_device;
  CHECK_STATUS(TOROID_ERROR_DEVICE, api->context_run(context, inputs, 2, outputs, 2, NULL));
  CHECK_TEXT("input 0 is on the device (2, 0) instead of (1, 0)", api->context_message(context));
  api->context_destroy(context);
  api->model_close(model);
}

/* A model is opened and described without a driver; a context needs one. */
static void do_without_driver(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_package(&api, folder, "counter_on_gpu");
  ToroidModelInfo info = {sizeof info};
  ToroidContext* context = NULL;
  char message[256] = "";
  int32_t count[4];
  CHECK_STATUS(TOROID_OK, api->model_info(model, &info));
  CHECK(info.device_type == kDLCUDA && info.num_inputs == 1);
  CHECK_STATUS(TOROID_OK, api->model_read_weight(model, "count", count, sizeof count, message, sizeof message));
  CHECK(count[0] == 100);
  CHECK_STATUS(TOROID_ERROR_ENVIRONMENT, api->context_create(model, NULL, &context, message, sizeof message));
  CHECK_TEXT("no NVIDIA driver: /no/driver.so cannot be opened\n  help: run with '--device cpu', or where a GPU and its driver are",
             message);
  CHECK(context == NULL);
  api->model_close(model);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  use_all();
  use_all_of_fake();
  if (argc < 2 || api == NULL) return 2;
  is_by_own = argc > 2;
  if (strcmp(getenv("TOROID_CUDA_DRIVER"), "/no/driver.so") == 0) {
    do_without_driver(api, argv[1]);
    return result();
  }
  open_fake();
  run_sum(api, argv[1]);
  refuse(api, argv[1]);
  count(api, argv[1]);
  run_mixed(api, argv[1]);
  return result();
}
