/* What a caller may do wrong gives a status. */
#include "check.h"

static void open_badly(const ToroidApi* api, const char* folder) {
  ToroidModel* model = (ToroidModel*)&model;
  ToroidModelOptions options = {sizeof options};
  char message[1024] = "", small[8], path[4096];
  struct {
    ToroidModelOptions options;
    int64_t newer;
  } longer;
  CHECK_STATUS(TOROID_ERROR_ENVIRONMENT, api->model_open("/nowhere/m.so", NULL, &model, message, sizeof message));
  CHECK(model == NULL && strstr(message, "/nowhere/m.so") != NULL);
  CHECK_STATUS(TOROID_ERROR_ENVIRONMENT, api->model_open("/nowhere/m.so", NULL, &model, small, sizeof small));
  CHECK(strlen(small) == 7 && strncmp(small, message, 7) == 0);
  CHECK_STATUS(TOROID_ERROR_ENVIRONMENT, api->model_open("/nowhere/m.so", NULL, &model, NULL, 0));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open("/nowhere/m.so", NULL, NULL, message, sizeof message));
  CHECK_TEXT("'model' is null", message);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open("/nowhere/m.so", NULL, (ToroidModel**)(path + 1), message, sizeof message));

  snprintf(path, sizeof path, "%s/scaled.so", folder);
  options.size = 0;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open(path, &options, &model, message, sizeof message));
  CHECK_TEXT("the struct 'options' has the size 0\n  help: set its field 'size' to its sizeof", message);
  options.size = sizeof options;
  options.threads = -1;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_open(path, &options, &model, message, sizeof message));
  memset(&longer, 0, sizeof longer);
  longer.options.size = sizeof longer;
  CHECK_STATUS(TOROID_OK, api->model_open(path, &longer.options, &model, message, sizeof message));
  api->model_close(model);
  longer.newer = 1;
  CHECK_STATUS(TOROID_ERROR_UNSUPPORTED, api->model_open(path, &longer.options, &model, message, sizeof message));
  CHECK(model == NULL);
  api->model_close(NULL);
  api->context_destroy(NULL);
}

/* A file that is no package, and packages cut short or with a byte changed. */
static void open_damaged(const ToroidApi* api, const char* folder) {
  char path[4096], damaged[4096], message[1024];
  char* bytes;
  long size, i;
  FILE* file;
  ToroidModel* model;
  snprintf(path, sizeof path, "%s/scaled.so", folder);
  snprintf(damaged, sizeof damaged, "%s/damaged.so", folder);
  file = fopen(path, "rb");
  if (file == NULL) exit(1);
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  rewind(file);
  bytes = (char*)malloc((size_t)size);
  CHECK(fread(bytes, 1, (size_t)size, file) == (size_t)size);
  fclose(file);
  for (i = 0; i < 60; ++i) {
    const long at = i * (size - 1) / 59;
    bytes[at] = (char)(bytes[at] ^ 0x10);
    file = fopen(damaged, "wb");
    CHECK(fwrite(bytes, 1, (size_t)(i % 3 == 0 ? at : size), file) == (size_t)(i % 3 == 0 ? at : size));
    fclose(file);
    bytes[at] = (char)(bytes[at] ^ 0x10);
    CHECK_STATUS(TOROID_ERROR_PACKAGE, api->model_open(damaged, NULL, &model, message, sizeof message));
    CHECK(model == NULL && strstr(message, "damaged.so") != NULL);
  }
  free(bytes);
}

static void run_badly(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext* const context = context_or_exit(api, model, NULL);
  ToroidContext* none;
  ToroidContextOptions bad_options = {sizeof bad_options};
  const int32_t processor = 60000;
  ToroidRunOptions options = {sizeof options};
  float data[9] = {0};
  int64_t shape[3] = {2, 3, 1}, huge[2] = {INT64_MAX / 2, 3}, negative[2] = {-1, 3};
  const DLTensor good = tensor_of(data, kF32, shape, 2);
  DLTensor x = good;
  const DLTensor *inputs[1], *misaligned[1];
  DLManagedTensor* outputs[1];
  char message[1024];
  inputs[0] = &x;

  bad_options.threads = -2;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(model, &bad_options, &none, message, sizeof message));
  CHECK_TEXT("'threads' is -2", message);
  CHECK(none == NULL);
  bad_options.threads = 0;
  bad_options.processors = &processor;
  bad_options.num_processors = 1;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(model, &bad_options, &none, message, sizeof message));
  CHECK_TEXT("'processors' are of a context's own threads, and 'threads' is 0", message);
  bad_options.threads = 2;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(model, &bad_options, &none, message, sizeof message));
  CHECK_TEXT("'processors' has 60000, which the process may not run on", message);
  bad_options.num_processors = 0;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(model, &bad_options, &none, message, sizeof message));
  CHECK_TEXT("'processors' and 'num_processors' go together", message);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(NULL, NULL, &none, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create((ToroidModel*)context, NULL, &none, message, sizeof message));
  CHECK_TEXT("'model' was closed, or is none", message);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(model, NULL, NULL, message, sizeof message));

  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(NULL, inputs, 1, outputs, 1, NULL));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run((ToroidContext*)model, inputs, 1, outputs, 1, NULL));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, NULL, 1, outputs, 1, NULL));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, inputs, 1, NULL, 1, NULL));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, inputs, 1, outputs, 2, NULL));
  CHECK_TEXT("'num_outputs' is 2, and the model has 1", api->context_message(context));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, inputs, -1, outputs, 1, NULL));
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 0, outputs, 1, NULL));
  CHECK(strstr(api->context_message(context), "the program takes 1 input, 0 were given") != NULL);
  inputs[0] = NULL;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK_TEXT("input 0 is null", api->context_message(context));
  misaligned[0] = (const DLTensor*)((const char*)&x + 1);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, misaligned, 1, outputs, 1, NULL));
  inputs[0] = &x;
  x.shape = NULL;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  x = good, x.data = NULL;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK_TEXT("input 0 has no data", api->context_message(context));
  x = good, x.device.device_type = kDLCUDA;
  CHECK_STATUS(TOROID_ERROR_DEVICE, api->context_run(context, inputs, 1, outputs, 1, NULL));
  x = good, x.dtype.lanes = 4;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  x = good, x.dtype = kI32;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK_TEXT("input 'x' has dtype i32, the program needs f32\n  help: the program takes x: f32[s0, 3]", api->context_message(context));
  x = good, x.ndim = 3;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  x = good, x.ndim = -1;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  x = good, x.shape = huge;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  x = good, x.shape = negative;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  x = good;
  shape[0] = 65;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  shape[0] = 2;
  options.size = 1;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(outputs[0] == NULL);

  /* And it stays usable. */
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  delete_tensor(outputs[0]);
  CHECK_TEXT("", api->context_message(NULL));
  api->context_destroy(context);
  api->model_close(model);
}

/* What was closed is known to be so. */
static void use_after_close(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidContext *const context = context_or_exit(api, model, NULL), *other;
  ToroidModelInfo info = {sizeof info};
  char message[256] = "";
  DLManagedTensor* outputs[1];
  int i;
  api->context_destroy(context);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_run(context, NULL, 0, outputs, 1, NULL));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_seed(context, 1));
  CHECK_TEXT("", api->context_message(context));
  api->context_destroy(context);
  api->model_close(model);
  api->model_close(model);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_info(model, &info));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->context_create(model, NULL, &other, message, sizeof message));
  CHECK_TEXT("'model' was closed, or is none", message);
  for (i = 0; i < 100; ++i) {
    ToroidModel* const another = open_or_exit(api, folder, "scaled", NULL);
    CHECK(another != model);
    api->context_destroy(context_or_exit(api, another, NULL));
    api->model_close(another);
  }
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_info(model, &info));
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  use_all();
  if (argc != 2 || api == NULL) return 2;
  open_badly(api, argv[1]);
  open_damaged(api, argv[1]);
  run_badly(api, argv[1]);
  use_after_close(api, argv[1]);
  return result();
}
