/* toroid_compiler.h: compiles models of tests/c_api/programs and runs them. Arguments: that folder, and one to write to. */
#include "../c_api/check.h"
#include "toroid/toroid_compiler.h"

static char model[4096], output[4096], message[1024];

static const char* path_in(char* path, const char* folder, const char* name) {
  snprintf(path, 4096, "%s/%s", folder, name);
  return path;
}

static void compile_and_run(const ToroidCompilerApi* compiler, const char* folder) {
  const ToroidApi* const toroid = toroid_api(TOROID_API_VERSION);
  ToroidModel* opened = NULL;
  ToroidContext* context = NULL;
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1] = {NULL};
  inputs[0] = &x;
  CHECK_STATUS(TOROID_OK, compiler->compile(model, path_in(output, folder, "scaled.so"), NULL, message, sizeof message));
  CHECK_TEXT("", message);
  CHECK_STATUS(TOROID_OK, toroid->model_open(output, NULL, &opened, message, sizeof message));
  CHECK_STATUS(TOROID_OK, toroid->context_create(opened, NULL, &context, message, sizeof message));
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(outputs[0] != NULL && ((const float*)outputs[0]->dl_tensor.data)[5] == 18);
  delete_tensor(outputs[0]);
  toroid->context_destroy(context);
  toroid->model_close(opened);
}

static int is_there(const char* path) {
  FILE* const file = fopen(path, "rb");
  if (file != NULL) fclose(file);
  return file != NULL;
}

static void take_options(const ToroidCompilerApi* compiler, const char* folder) {
  ToroidCompileOptions options = {sizeof(ToroidCompileOptions)};
  char weights[4096], header[4096];
  options.cpu = "baseline,avx2";
  options.weights = path_in(weights, folder, "apart.safetensors");
  options.threads = 1;
  options.no_cache = 1;
  CHECK_STATUS(TOROID_OK, compiler->compile(model, path_in(output, folder, "apart.so"), &options, message, sizeof message));
  CHECK(is_there(output) && is_there(weights));
  options.weights = NULL;
  options.cpu = NULL;
  CHECK_STATUS(TOROID_OK, compiler->compile(model, path_in(output, folder, "scaled.a"), &options, message, sizeof message));
  CHECK(is_there(output) && is_there(path_in(header, folder, "scaled.h")));
  /* A part of two: its products by weights are cut. */
  options.tensor_parallel = 2;
  options.rank = 2;
  options.no_cache = 0;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, path_in(output, folder, "part.so"), &options, message, sizeof message));
  CHECK(strstr(message, "there is no process 2 of 2\n") == message);
  options.rank = 1;
  CHECK_STATUS(TOROID_OK, compiler->compile(model, path_in(output, folder, "part.so"), &options, message, sizeof message));
  options.tensor_parallel = 0;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, path_in(output, folder, "part.so"), &options, message, sizeof message));
  CHECK_TEXT("'rank' and 'shard_rules' are of a model that is cut: 'tensor_parallel' is 0", message);
  options.rank = 0;
  /* A caller that was built with an older header. */
  options.size = sizeof(size_t);
  options.threads = -1;
  CHECK_STATUS(TOROID_OK, compiler->compile(model, path_in(output, folder, "older.so"), &options, NULL, 0));
}

/* How often a file holds a text. */
static int count_in(const char* path, const char* text) {
  static char bytes[1 << 21];
  FILE* const file = fopen(path, "rb");
  const size_t length = strlen(text);
  size_t size = 0, i;
  int count = 0;
  if (file == NULL) return 0;
  size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (i = 0; i + length <= size; ++i) count += memcmp(bytes + i, text, length) == 0;
  return count;
}

/* With the driver and the compiler that tests/gpu/fake_gpu.c plays, whose binaries begin with these words. */
static void compile_for_gpus(const ToroidCompilerApi* compiler, const char* folder) {
  ToroidCompileOptions options = {sizeof(ToroidCompileOptions)};
  options.device = "cuda";
  CHECK_STATUS(TOROID_OK, compiler->compile(model, path_in(output, folder, "gpu.so"), &options, message, sizeof message));
  CHECK(count_in(output, "fake binary") == 1);
  options.arch = "sm_80,sm_90a,compute_90";
  CHECK_STATUS(TOROID_OK, compiler->compile(model, output, &options, message, sizeof message));
  CHECK_TEXT("", message);
  CHECK(count_in(output, "fake binary") == 3);
}

static void say_what_is_wrong(const ToroidCompilerApi* compiler, const char* folder) {
  struct {
    ToroidCompileOptions options;
    int64_t later;
  } newer = {{0}, 1};
  ToroidCompileOptions options = {sizeof(ToroidCompileOptions)};
  FILE* file;
  path_in(output, folder, "refused.so");
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(NULL, output, NULL, message, sizeof message));
  CHECK_TEXT("'model' is null", message);
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, NULL, NULL, message, sizeof message));
  CHECK_TEXT("'output' is null", message);
  options.threads = -1;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, output, &options, message, sizeof message));
  CHECK_TEXT("'threads' is -1", message);
  options.threads = 0;
  options.cpu = "pentium";
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, output, &options, message, sizeof message));
  options.cpu = NULL;
  options.device = "abacus";
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, output, &options, message, sizeof message));
  CHECK_TEXT("there is no device 'abacus'\n  help: devices: cpu, halide (a processor with kernels in Halide; or halide:adams2019, by its autoscheduler), cuda (or cuda:1, by its number), triton (a GPU of NVIDIA with kernels in Triton), "
             "as-exported (tensors stay on the CPU or the GPU, as the model has them), rocm (or rocm:1), emulated-cuda, "
             "emulated-as-exported, emulated-rocm (or emulated-rocm:gfx1100)", message);
  options.device = NULL;
  options.arch = "sm_80";
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, output, &options, message, sizeof message));
  CHECK_TEXT("'arch' is for programs for the device cuda", message);
  options.device = "cuda";
  options.arch = "sm_80,volta";
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, output, &options, message, sizeof message));
  CHECK(strstr(message, "'volta' is no architecture\n  help: ") == message);
  options.arch = NULL;
  options.cpu = "native";
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, output, &options, message, sizeof message));
  options.size = 0;
  CHECK_STATUS(TOROID_ERROR_ARGUMENT, compiler->compile(model, output, &options, message, sizeof message));
  newer.options.size = sizeof newer;
  CHECK_STATUS(TOROID_ERROR_UNSUPPORTED, compiler->compile(model, output, &newer.options, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ENVIRONMENT, compiler->compile("none.pt2", output, NULL, message, sizeof message));
  CHECK_STATUS(TOROID_ERROR_ENVIRONMENT, compiler->compile(model, "/none/m.so", NULL, message, sizeof message));
  path_in(model, folder, "damaged.pt2");
  file = fopen(model, "wb");
  CHECK(file != NULL && fputs("no archive", file) > 0 && fclose(file) == 0);
  CHECK_STATUS(TOROID_ERROR_PACKAGE, compiler->compile(model, output, NULL, message, sizeof message));
  CHECK(!is_there(output));
}

static void count_release(void* user) { ++*(int*)user; }

static void compile_graphs(const ToroidCompilerApi* compiler) {
  static const char text[] =
      "constant 0 \"w\": f32[3] = external\ngraph(x: f32[2, 3]) {\n  w: f32[3] = constant(0)\n"
      "  y: f32[2, 3] = aten::mul.Tensor(x, w)\n  return y\n}\n";
  static const char refused[] = "graph(x: f32[2, 3]) {\n  y: f32[2, 3] = aten::mul.Tensor(x, z)\n  return y\n}\n";
  const ToroidApi* const toroid = toroid_api(TOROID_API_VERSION);
  const float w[3] = {10, 20, 30};
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  const DLTensor x = tensor_of(data, kF32, shape, 2);
  const DLTensor* inputs[1];
  DLManagedTensor* outputs[1] = {NULL};
  const ToroidGraphConstant constant = {"w", w, sizeof w};
  ToroidGraphOptions options = {sizeof(ToroidGraphOptions)};
  ToroidGraphFacts facts = {sizeof(ToroidGraphFacts)};
  ToroidModel* opened = NULL;
  ToroidContext* context = NULL;
  int released = 0;
  inputs[0] = &x;
  options.release = count_release;
  options.release_user = &released;
  CHECK_STATUS(TOROID_ERROR_PACKAGE, compiler->compile_graph(text, sizeof text - 1, &options, &opened, NULL, message, sizeof message));
  CHECK(strstr(message, "the constant 'w' is external") != NULL && opened == NULL && released == 1);
  options.constants = &constant;
  options.num_constants = 1;
  CHECK_STATUS(TOROID_OK, compiler->compile_graph(text, sizeof text - 1, &options, &opened, &facts, message, sizeof message));
  CHECK(facts.kernels == 1 && facts.library_calls == 0 && facts.seconds > 0 && released == 1);
  CHECK_STATUS(TOROID_OK, toroid->context_create(opened, NULL, &context, message, sizeof message));
  CHECK_STATUS(TOROID_OK, toroid->context_run(context, inputs, 1, outputs, 1, NULL));
  CHECK(outputs[0] != NULL && ((const float*)outputs[0]->dl_tensor.data)[5] == 180);
  delete_tensor(outputs[0]);
  toroid->model_close(opened);
  CHECK(released == 1);
  toroid->context_destroy(context);
  CHECK(released == 2);
  CHECK_STATUS(TOROID_ERROR_PACKAGE, compiler->compile_graph(refused, sizeof refused - 1, NULL, &opened, NULL, message, sizeof message));
  CHECK(strstr(message, "2:38: no value is called 'z'") != NULL);
  CHECK(compiler->has_operator("aten::mul.Tensor") == 1 && compiler->has_operator("aten::no_such") == 0);
  CHECK(compiler->has_operator(NULL) == 0);
  CHECK(compiler->has_attention_gradient("bf16", 4, 64, 64) == 1 && compiler->has_attention_gradient("f16", 4, 128, 128) == 1);
  CHECK(compiler->has_attention_gradient("f32", 4, 64, 64) == 0 && compiler->has_attention_gradient("bf16", 3, 64, 64) == 0);
  CHECK(compiler->has_attention_gradient("bf16", 4, 64, 32) == 0 && compiler->has_attention_gradient("bf16", 4, 264, 264) == 0);
  CHECK(compiler->has_attention_gradient(NULL, 4, 64, 64) == 0 && compiler->has_attention_gradient("bf16", 0, 64, 64) == 0);
}

int main(int argc, char** argv) {
  const ToroidCompilerApi* const compiler = toroid_compiler(TOROID_COMPILER_VERSION);
  if (argc != 3) return 2;
  CHECK(toroid_compiler(0) == NULL && toroid_compiler(TOROID_COMPILER_VERSION + 1) == NULL);
  CHECK(compiler->size == sizeof *compiler && compiler->version == TOROID_COMPILER_VERSION);
  CHECK_TEXT(toroid_api(TOROID_API_VERSION)->description, compiler->description);
  path_in(model, argv[1], "scaled.txt");
  compile_and_run(compiler, argv[2]);
  take_options(compiler, argv[2]);
  compile_graphs(compiler);
  if (getenv("FAKE_GPU") != NULL) compile_for_gpus(compiler, argv[2]);
  say_what_is_wrong(compiler, argv[2]);
  use_all();
  return result();
}
