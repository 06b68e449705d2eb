/* A program in C99 that loads a package and runs it once on zeros and ones, by what toroid.h alone says.
 *
 * usage: first_steps PACKAGE.so      prints the sum of the first output, which is of float32 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "toroid/toroid.h"

int main(int argc, char** argv) {
  char message[1024] = "";
  ToroidModel* model = NULL;
  ToroidContext* context = NULL;
  ToroidModelInfo info = {sizeof(ToroidModelInfo)};
  DLManagedTensor* outputs[1] = {NULL};
  float numbers[4 * 8];
  int64_t sizes[] = {4, 8};
  DLTensor x = {numbers, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sizes, NULL, 0};
  const DLTensor* inputs[] = {&x};
  double sum = 0;
  int64_t i, count = 1;
  void* library;
  const ToroidApi* (*get)(uint32_t);
  const ToroidApi* toroid;

  if (argc < 2 || (library = dlopen(argv[1], RTLD_NOW)) == NULL) {
    fprintf(stderr, "%s\n", argc < 2 ? "give a package" : dlerror());
    return 2;
  }
  *(void**)&get = dlsym(library, "toroid_api");
  if (get == NULL || (toroid = get(TOROID_API_VERSION)) == NULL) return 3;
  for (i = 0; i < 4 * 8; ++i) numbers[i] = (float)(i % 2);
  if (toroid->model_open(NULL, NULL, &model, message, sizeof message) != TOROID_OK ||
      toroid->context_create(model, NULL, &context, message, sizeof message) != TOROID_OK) {
    fprintf(stderr, "%s\n", message);
    return 4;
  }
  toroid->model_info(model, &info);
  if (toroid->context_run(context, inputs, 1, outputs, 1, NULL) != TOROID_OK) {
    fprintf(stderr, "%s\n", toroid->context_message(context));
    return 5;
  }
  for (i = 0; i < outputs[0]->dl_tensor.ndim; ++i) count *= outputs[0]->dl_tensor.shape[i];
  for (i = 0; i < count; ++i) sum += ((const float*)outputs[0]->dl_tensor.data)[i];
  printf("%s %.6f\n", info.isa, sum);
  outputs[0]->deleter(outputs[0]);
  toroid->context_destroy(context);
  toroid->model_close(model);
  return dlclose(library);
}
