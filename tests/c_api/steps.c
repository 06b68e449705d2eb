/* Between steps: a run can be cancelled, has a deadline, and tells how long each step took. */
#include "check.h"

static int32_t cancelled = 0;
static int steps = 0, last_step = -1;
static int64_t all_ns = 0;

static void tell(void* user, const ToroidStepTime* time) {
  CHECK(user == &steps && time->size >= sizeof(ToroidStepTime));
  CHECK(time->step > last_step && time->name != NULL && time->name[0] != '\0' && time->origin != NULL && time->nanoseconds >= 0);
  last_step = time->step;
  all_ns += time->nanoseconds;
  ++steps;
}

static void tell_and_cancel(void* user, const ToroidStepTime* time) {
  (void)user, (void)time;
  ++steps;
  if (steps == 2) __atomic_store_n(&cancelled, 1, __ATOMIC_RELAXED);
}

int main(int argc, char** argv) {
  const ToroidApi* const api = toroid_api(TOROID_API_VERSION);
  ToroidModel* model;
  ToroidContext* context;
  ToroidModelInfo info = {sizeof info};
  ToroidVariantInfo variant = {sizeof variant};
  ToroidRunOptions options = {sizeof options};
  static float data[64 * 64], first[64 * 64];
  int64_t shape[2] = {64, 64};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1];
  int i;
  use_all();
  if (argc != 2 || api == NULL) return 2;
  inputs[0] = &x;
  for (i = 0; i < 64 * 64; ++i) data[i] = (float)(i % 17 - 8) / 64;
  model = open_or_exit(api, argv[1], "loop", NULL);
  context = context_or_exit(api, model, NULL);
  CHECK_STATUS(TOROID_OK, api->model_info(model, &info));
  CHECK_STATUS(TOROID_OK, api->model_variant(model, info.num_variants - 1, &variant));
  CHECK(variant.num_steps >= 4);
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, NULL));
  if (outputs[0] == NULL) return 1;
  memcpy(first, outputs[0]->dl_tensor.data, sizeof first);
  delete_tensor(outputs[0]);

  options.profile = tell;
  options.profile_user = &steps;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(steps == variant.num_steps && all_ns > 0);
  CHECK(outputs[0] != NULL && memcmp(first, outputs[0]->dl_tensor.data, sizeof first) == 0);
  delete_tensor(outputs[0]);

  steps = 0;
  options.profile = tell_and_cancel;
  options.cancel = &cancelled;
  CHECK_STATUS(TOROID_ERROR_CANCELLED, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(steps == 2 && outputs[0] == NULL);
  CHECK_TEXT("the run was cancelled", api->context_message(context));
  CHECK_STATUS(TOROID_ERROR_CANCELLED, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(steps == 2);

  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.deadline_ns = 1;
  CHECK_STATUS(TOROID_ERROR_DEADLINE, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(outputs[0] == NULL);
  options.deadline_ns = INT64_MAX;
  CHECK_STATUS(TOROID_OK, api->context_run(context, inputs, 1, outputs, 1, &options));
  CHECK(outputs[0] != NULL && memcmp(first, outputs[0]->dl_tensor.data, sizeof first) == 0);
  delete_tensor(outputs[0]);
  api->context_destroy(context);
  api->model_close(model);
  return result();
}
