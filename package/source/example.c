/* Opens the model, says what it takes and gives, and runs it once on zeros where all its sizes are known.
 *
 * usage: example MODEL.so */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "toroid/toroid.h"

/* The sizes in "f32[2, 3]"; 0 where one of them is a symbol. */
static int read_sizes(const char* type, int64_t* sizes, int rank) {
  int i;
  while (*type != '[' && *type != 0) ++type;
  for (i = 0; i < rank; ++i) {
    char* end;
    sizes[i] = strtoll(type + 1, &end, 10);
    if (end == type + 1) return 0;
    for (type = end; *type != ',' && *type != 0; ++type) {
    }
  }
  return 1;
}

static int run_on_zeros(const ToroidApi* toroid, ToroidModel* model, const ToroidModelInfo* info) {
  DLTensor* tensors = calloc((size_t)info->num_inputs + 1, sizeof *tensors);
  const DLTensor** inputs = calloc((size_t)info->num_inputs + 1, sizeof *inputs);
  DLManagedTensor** outputs = calloc((size_t)info->num_outputs + 1, sizeof *outputs);
  ToroidContext* context = NULL;
  char message[1024] = "";
  int32_t i, d;
  int status = 0, has_sizes = 1;
  for (i = 0; i < info->num_inputs && has_sizes; ++i) {
    ToroidTensorInfo input = {sizeof(ToroidTensorInfo)};
    size_t bytes;
    toroid->model_input(model, i, &input);
    bytes = (size_t)input.dtype.bits / 8;
    tensors[i].device.device_type = kDLCPU;
    tensors[i].dtype = input.dtype;
    tensors[i].ndim = input.rank;
    tensors[i].shape = calloc((size_t)input.rank + 1, sizeof(int64_t));
    has_sizes = read_sizes(input.type, tensors[i].shape, input.rank);
    for (d = 0; d < input.rank && has_sizes; ++d) bytes *= (size_t)tensors[i].shape[d];
    tensors[i].data = calloc(bytes + 1, 1);
    inputs[i] = &tensors[i];
  }
  if (has_sizes) {
    status = 1;
    if (toroid->context_create(model, NULL, &context, message, sizeof message) != TOROID_OK) {
      fprintf(stderr, "error: %s\n", message);
    } else if (toroid->context_run(context, inputs, info->num_inputs, outputs, info->num_outputs, NULL) != TOROID_OK) {
      fprintf(stderr, "error: %s\n", toroid->context_message(context));
    } else {
      printf("ran once on zeros\n");
      status = 0;
    }
  }
  for (i = 0; i < info->num_outputs; ++i) {
    if (outputs[i] != NULL) outputs[i]->deleter(outputs[i]);
  }
  for (i = 0; i < info->num_inputs; ++i) {
    free(tensors[i].shape);
    free(tensors[i].data);
  }
  free(tensors);
  free(inputs);
  free(outputs);
  toroid->context_destroy(context);
  return status;
}

int main(int argc, char** argv) {
  char message[1024] = "";
  ToroidModel* model = NULL;
  ToroidModelInfo info = {sizeof(ToroidModelInfo)};
  void* library;
  const ToroidApi* (*get)(uint32_t);
  const ToroidApi* toroid;
  int32_t i;
  int status;
  if (argc != 2 || (library = dlopen(argv[1], RTLD_NOW)) == NULL) {
    fprintf(stderr, "%s\n", argc != 2 ? "usage: example MODEL.so" : dlerror());
    return 2;
  }
  *(void**)&get = dlsym(library, "toroid_api");
  if (get == NULL || (toroid = get(TOROID_API_VERSION)) == NULL) return 2;
  if (toroid->model_open(NULL, NULL, &model, message, sizeof message) != TOROID_OK) {
    fprintf(stderr, "error: %s\n", message);
    return 1;
  }
  toroid->model_info(model, &info);
  printf("%s, for %s\n", info.name, info.isa);
  for (i = 0; i < info.num_inputs + info.num_outputs; ++i) {
    ToroidTensorInfo tensor = {sizeof(ToroidTensorInfo)};
    const int is_input = i < info.num_inputs;
    if (is_input) {
      toroid->model_input(model, i, &tensor);
    } else {
      toroid->model_output(model, i - info.num_inputs, &tensor);
    }
    printf("%s %s: %s\n", is_input ? "input" : "output", tensor.name, tensor.type);
  }
  status = run_on_zeros(toroid, model, &info);
  toroid->model_close(model);
  return status;
}
