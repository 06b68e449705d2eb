/* A process that opens, runs and closes again and again needs no more memory for it, also where runs fail. */
#include "check.h"
#include "resident.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { kIsMeasured = 0 }; /* which keep what was freed */
#else
enum { kIsMeasured = 1 };
#endif
enum { kRounds = 400, kMostGrowthKib = 256 };

/* A round: a right run, one with a size that the model refuses, and new weights. */
static void use(const ToroidApi* api, ToroidModel* model) {
  ToroidContext* const context = context_or_exit(api, model, NULL);
  float data[6] = {1, 2, 3, 4, 5, 6}, w[3] = {3, 2, 1};
  int64_t shape[2] = {2, 3}, three = 3;
  DLTensor x = tensor_of(data, kF32, shape, 2), value = tensor_of(w, kF32, &three, 1);
  const DLTensor *inputs[1], *values[1];
  const char* names[1] = {"w"};
  DLManagedTensor* outputs[1];
  inputs[0] = &x;
  values[0] = &value;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  delete_tensor(outputs[0]);
  shape[1] = 4;
  CHECK_STATUS(TOROID_ERROR_INPUT, api->context_run(context, inputs, 1, outputs, 1, NULL));
  shape[1] = 3;
  CHECK_STATUS(TOROID_OK, api->model_swap_weights(model, names, values, 1, NULL, 0));
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  api->context_destroy(context);
  delete_tensor(outputs[0]);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  long first_kib = 0, last_kib;
  int i;
  use_all();
  if (argc != 2 || api == NULL) return 2;
  for (i = 0; i < kRounds; ++i) {
    ToroidModel* const model = open_or_exit(api, argv[1], "scaled", NULL);
    use(api, model);
    api->model_close(model);
    if (i == kRounds / 4) first_kib = resident_kib();
  }
  last_kib = resident_kib();
  if (kIsMeasured && last_kib - first_kib > kMostGrowthKib) {
    printf("%ld KiB after %d rounds, %ld KiB after %d\n", first_kib, kRounds / 4, last_kib, kRounds);
    ++failures;
  }
  return result();
}
