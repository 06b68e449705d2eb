/* What a model says about itself. */
#include "check.h"

static void describe_scaled(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  ToroidModelInfo info = {sizeof info};
  ToroidTensorInfo tensor = {sizeof tensor};
  ToroidSymbolInfo symbol = {sizeof symbol};
  ToroidWeightInfo weight = {sizeof weight};
  ToroidVariantInfo variant = {sizeof variant};
  ToroidStepDescription step = {sizeof step};
  ToroidMemoryInfo memory = {sizeof memory};
  const char* guard = NULL;
  int64_t shape[2] = {5, 3}, sizes[2] = {0, 0};
  DLTensor x = tensor_of(NULL, kF32, shape, 2);
  const DLTensor* inputs[1];
  char message[256] = "";
  inputs[0] = &x;

  CHECK_STATUS(TOROID_OK, api->model_info(model, &info));
  CHECK(strstr(info.provenance, "compiler ") != NULL && strstr(info.provenance, "\ntoroid ") != NULL);
  CHECK(strstr(info.provenance, "\nmodel scaled.txt\nsha256 ") != NULL);
  CHECK_TEXT("scaled.so", info.name);
  CHECK(info.isa != NULL && info.isa[0] != '\0');
  CHECK(info.device_type == kDLCPU);
  CHECK(info.num_inputs == 1 && info.num_outputs == 1 && info.num_symbols == 1 && info.num_weights == 1);
  CHECK(info.num_variants >= 1 && info.threads >= 1);
  CHECK(info.weight_bytes == 12);

  CHECK_STATUS(TOROID_OK, api->model_input(model, 0, &tensor));
  CHECK_TEXT("x", tensor.name);
  CHECK_TEXT("f32[s0, 3]", tensor.type);
  CHECK(tensor.rank == 2 && tensor.dtype.code == kDLFloat && tensor.dtype.bits == 32 && tensor.dtype.lanes == 1);
  CHECK_STATUS(TOROID_OK, api->model_output(model, 0, &tensor));
  CHECK_TEXT("out0", tensor.name);
  CHECK(tensor.kind == TOROID_RESULT && tensor.is_late == 0);
  CHECK_STATUS(TOROID_OK, api->model_symbol(model, 0, &symbol));
  CHECK_TEXT("s0", symbol.name);
  CHECK(symbol.least == 1 && symbol.most == 64);
  CHECK_STATUS(TOROID_OK, api->model_weight(model, 0, &weight));
  CHECK_TEXT("w", weight.name);
  CHECK(weight.bytes == 12 && weight.is_mutable == 0);
  CHECK_STATUS(TOROID_OK, api->model_variant(model, info.num_variants - 1, &variant));
  CHECK_TEXT("", variant.conditions);
  CHECK(variant.num_steps == 1);
  CHECK_STATUS(TOROID_OK, api->model_step(model, info.num_variants - 1, 0, &step));
  CHECK(step.name[0] != '\0');

  CHECK_STATUS(TOROID_OK, api->model_output_sizes(model, inputs, 1, 0, sizes, 2, message, sizeof message));
  CHECK(sizes[0] == 5 && sizes[1] == 3);
  CHECK_STATUS(TOROID_OK, api->model_memory(model, inputs, 1, &memory, message, sizeof message));
  CHECK(memory.outputs == 60 && memory.weights == 12);
  shape[0] = 65;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->model_output_sizes(model, inputs, 1, 0, sizes, 2, message, sizeof message));
  CHECK(strstr(message, "input 'x' has size 65 in dimension 0, the program needs at most 64") == message);

  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_input(model, 1, &tensor));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_input(model, -1, &tensor));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_guard(model, info.num_guards, &guard));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_info(NULL, &info));
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_info(model, NULL));
  api->model_close(model);
}

/* A caller that was built with an older header has a shorter struct: nothing behind it is written. One with a newer header has a longer
 * one: nothing that this library does not know is written. */
static void describe_other_versions(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "scaled", NULL);
  struct {
    ToroidWeightInfo info;
    int64_t behind;
  } longer;
  ToroidWeightInfo shorter;
  memset(&shorter, 0x55, sizeof shorter);
  shorter.size = offsetof(ToroidWeightInfo, bytes);
  CHECK_STATUS(TOROID_OK, api->model_weight(model, 0, &shorter));
  CHECK_TEXT("w", shorter.name);
  CHECK(shorter.bytes == 0x5555555555555555 && shorter.size == offsetof(ToroidWeightInfo, bytes));
  memset(&longer, 0x55, sizeof longer);
  longer.info.size = sizeof longer;
  CHECK_STATUS(TOROID_OK, api->model_weight(model, 0, &longer.info));
  CHECK(longer.info.bytes == 12 && longer.behind == 0x5555555555555555 && longer.info.size == sizeof longer);
  shorter.size = 0;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, api->model_weight(model, 0, &shorter));
  api->model_close(model);
}

static void describe_late(const ToroidApi* api, const char* folder) {
  ToroidModel* const model = open_or_exit(api, folder, "places", NULL);
  ToroidTensorInfo tensor = {sizeof tensor};
  int64_t eight = 8, two = 2, sizes[2];
  DLTensor x = tensor_of(NULL, kF32, &eight, 1), i = tensor_of(NULL, kI64, &two, 1);
  const DLTensor* inputs[2];
  char message[256] = "";
  inputs[0] = &x;
  inputs[1] = &i;
  CHECK_STATUS(TOROID_OK, api->model_output(model, 0, &tensor));
  CHECK(tensor.is_late == 1 && tensor.rank == 2);
  CHECK_STATUS(TOROID_ERROR_UNSUPPORTED, api->model_output_sizes(model, inputs, 2, 0, sizes, 2, message, sizeof message));
  CHECK_STATUS(TOROID_OK, api->model_output_sizes(model, inputs, 2, 1, sizes, 1, message, sizeof message));
  CHECK(sizes[0] == 2);
  api->model_close(model);
}

static char lines[1024];
static int num_lines = 0;

static void keep_line(void* user, int32_t level, const char* line) {
  CHECK(user == lines && level == TOROID_LOG_INFO && strchr(line, '\n') == NULL);
  if (strlen(lines) + strlen(line) + 2 < sizeof lines) strcat(strcat(lines, line), ";");
  ++num_lines;
}

static void tell_a_log(const ToroidApi* api, const char* folder) {
  ToroidModelOptions options = {sizeof options};
  ToroidModel* model;
  float w[3] = {1, 2, 3};
  int64_t three = 3;
  DLTensor value = tensor_of(w, kF32, &three, 1);
  const DLTensor* values[1];
  const char* names[1] = {"w"};
  values[0] = &value;
  options.log = keep_line;
  options.log_user = lines;
  model = open_or_exit(api, folder, "scaled", &options);
  CHECK_TEXT("scaled.so is open;", lines);
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, names, values, 1, NULL, 0));
  CHECK_TEXT("scaled.so is open;1 weights of scaled.so are new;", lines);
  api->model_close(model);
  CHECK(num_lines == 2);
}

static void measure(const ToroidApi* api) {
  double bytes_per_s = 0, flops_per_s = 0;
  char message[256] = "";
  CHECK_STATUS(TOROID_OK, api->measure_machine(1, &bytes_per_s, &flops_per_s, message, sizeof message));
  CHECK(bytes_per_s > 1e6 && bytes_per_s < 1e14 && flops_per_s > 1e6 && flops_per_s < 1e15);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  use_all();
  if (argc != 2 || api == NULL) return 2;
  CHECK(api->size >= sizeof(ToroidApi) && api->version >= TOROID_API_VERSION);
  CHECK(strncmp(api->description, "toroid ", 7) == 0);
  CHECK(toroid_api(0) == NULL && toroid_api(api->version + 1) == NULL);
  describe_scaled(api, argv[1]);
  describe_other_versions(api, argv[1]);
  describe_late(api, argv[1]);
  tell_a_log(api, argv[1]);
  measure(api);
  return result();
}
