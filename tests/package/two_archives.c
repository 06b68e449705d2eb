/* A program in C99 that is linked with two models, archives that `toroid compile -o FILE.a` made.
 *
 * prints the sum of the first output of each for zeros and ones, which is of float32, and the weight file's, if one is given, of the second */
#include <stdio.h>

#include "one.h"
#include "two.h"

static int run(const ToroidApi* toroid, const char* weights) {
  char message[1024] = "";
  ToroidModel* model = NULL;
  ToroidContext* context = NULL;
  ToroidModelOptions options = {sizeof(ToroidModelOptions)};
  DLManagedTensor* outputs[1] = {NULL};
  float numbers[4 * 8];
  int64_t sizes[] = {4, 8};
  DLTensor x = {numbers, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sizes, NULL, 0};
  const DLTensor* inputs[] = {&x};
  double sum = 0;
  int i;
  options.weights = weights;
  for (i = 0; i < 4 * 8; ++i) numbers[i] = (float)(i % 2);
  if (toroid->model_open(NULL, &options, &model, message, sizeof message) != TOROID_OK ||
      toroid->context_create(model, NULL, &context, message, sizeof message) != TOROID_OK) {
    printf("%s\n", message);
    return 1;
  }
  if (toroid->context_run(context, NULL, 0, outputs, 1, NULL) == TOROID_OK) return 2; /* an error comes back through the program's own frames */
  if (toroid->context_run(context, inputs, 1, outputs, 1, NULL) != TOROID_OK) {
    printf("%s\n", toroid->context_message(context));
    return 3;
  }
  for (i = 0; i < 4 * 8; ++i) sum += ((const float*)outputs[0]->dl_tensor.data)[i];
  printf("%.6f\n", sum);
  outputs[0]->deleter(outputs[0]);
  toroid->context_destroy(context);
  toroid->model_close(model);
  return 0;
}

int main(int argc, char** argv) {
  const int first = run(one_toroid_api(TOROID_API_VERSION), NULL);
  return first != 0 ? first : run(two_toroid_api(TOROID_API_VERSION), argc > 1 ? argv[1] : NULL);
}
