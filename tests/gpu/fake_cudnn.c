/* cuDNN's backend API as far as toroid calls it, on the memory of fake_gpu.c: graphs are computed here, operation after operation, in
 * float. Of each graph three kernels are suggested: one by Winograd's algorithm, which nobody should take, one that takes 3 milliseconds,
 * and one that takes 1. "no graphs" in FAKE_GPU: it has no kernel for anything; "no suggestions": only plans that it wrote. Numbers are
 * those of cudnn_graph.h. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"

enum { kMostAttributes = 32, kMostDims = 8, kMostOperations = 32, kMostTensors = 64 };

__extension__ typedef _Float16 Half;
typedef struct Descriptor Descriptor;
typedef struct Attribute {
  int name, type;
  int64_t count;
  union {
    int64_t integers[kMostOperations];
    int numbers[kMostOperations];
    float f;
    double d;
    void* pointers[kMostOperations];
    Descriptor* descriptors[kMostOperations];
  } value;
} Attribute;
struct Descriptor {
  int kind, finished, count;
  int suggestion; /* of an engine and its configuration */
  Descriptor* before; /* of all that were made */
  Attribute attributes[kMostAttributes];
};

static size_t size_of(int type) {
  switch (type) {
    case 2:
    case 24: return 1;
    case 0:
    case 6:
    case 15:
    case 3:
    case 5: return 8;
    default: return 4;
  }
}
static const Attribute* attribute(const Descriptor* it, int name) {
  for (int i = 0; i < it->count; ++i) {
    if (it->attributes[i].name == name) return &it->attributes[i];
  }
  return NULL;
}
static const Descriptor* part(const Descriptor* it, int name) {
  const Attribute* found = attribute(it, name);
  return found == NULL ? NULL : found->value.descriptors[0];
}
static int number(const Descriptor* it, int name, int otherwise) {
  const Attribute* found = attribute(it, name);
  return found == NULL ? otherwise : found->value.numbers[0];
}

size_t cudnnGetVersion(void) { return 91900; }
const char* cudnnGetErrorString(int status) { return status == 3000 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM"; }
static void* stream_of_handle;
int cudnnCreate(void** handle) { return *handle = &stream_of_handle, 0; }
int cudnnDestroy(void* handle) { return (void)handle, 0; }
int cudnnSetStream(void* handle, void* stream) { return *(void**)handle = stream, 0; }
static Descriptor* all;
int cudnnBackendCreateDescriptor(int kind, Descriptor** made) {
  *made = calloc(1, sizeof **made);
  (*made)->kind = kind;
  (*made)->before = all;
  all = *made;
  return 0;
}
/* They stay: what a plan was written as says where its configuration is. */
int cudnnBackendDestroyDescriptor(Descriptor* it) { return (void)it, 0; }
int cudnnBackendSetAttribute(Descriptor* it, int name, int type, int64_t count, const void* values) {
  if (it->finished || it->count == kMostAttributes || (size_t)count * size_of(type) > sizeof it->attributes[0].value) return 2000;
  Attribute* to = &it->attributes[it->count++];
  to->name = name, to->type = type, to->count = count;
  memcpy(&to->value, values, (size_t)count * size_of(type));
  if (name == 405) { /* a plan, as it was written */
    void* config = NULL;
    if (sscanf((const char*)values, "{\"plan\": %p}", &config) != 1) return 2000;
    to->name = 401, to->type = 15, to->count = 1, to->value.descriptors[0] = config;
    return 0;
  }
  if (type == 15) {
    for (int64_t i = 0; i < count; ++i) {
      if (!to->value.descriptors[i]->finished) return 2004;
    }
  }
  return 0;
}
int cudnnBackendFinalize(Descriptor* it) {
  const int needed[][2] = {{1, 106}, {10, 705}, {11, 715}, {13, 753}, {15, 801}, {16, 1000}, {17, 903}, {19, 1522}, {22, 1611}, {5, 401}};
  for (size_t i = 0; i < sizeof needed / sizeof needed[0]; ++i) {
    if (it->kind == needed[i][0] && attribute(it, needed[i][1]) == NULL) return 2000;
  }
  if (it->kind == 15 && fake_is("no graphs")) return 3000;
  return it->finished = 1, 0;
}
int cudnnBackendGetAttribute(Descriptor* it, int name, int type, int64_t most, int64_t* count, void* values) {
  (void)type;
  if (name == 202) { /* of a heuristic its suggestions: only mode A has some */
    *count = number(it, 200, 3) == 3 && !fake_is("no suggestions") ? (most < 3 ? most : 3) : 0;
    for (int64_t i = 0; i < *count; ++i) {
      Descriptor* config = ((Descriptor**)values)[i];
      config->suggestion = (int)i, config->finished = 1;
      config->attributes[config->count++] =
          (Attribute){.name = 201, .type = 15, .count = 1, .value.descriptors = {(Descriptor*)part(it, 201)}};
    }
    return 0;
  }
  if (name == 300) { /* of a configuration its engine */
    Descriptor* engine = *(Descriptor**)values;
    engine->suggestion = it->suggestion, engine->finished = 1;
    return *count = 1, 0;
  }
  if (name == 1303) { /* of an engine its notes */
    ((int*)values)[0] = it->suggestion == 0 ? 5 : 9;
    return *count = 1, 0;
  }
  if (name == 405) { /* a plan in writing */
    char text[64];
    *count = snprintf(text, sizeof text, "{\"plan\": %p}", (const void*)part(it, 401)) + 1;
    if (most >= *count) memcpy(values, text, (size_t)*count);
    return 0;
  }
  if (name == 402) { /* of a plan its workspace */
    *(int64_t*)values = 1024;
    return *count = 1, 0;
  }
  return 2000;
}

/* ---- what a graph computes */

typedef struct Tensor {
  int64_t id, rank, sizes[kMostDims], strides[kMostDims];
  int dtype;
  char* data;
  int is_own;
} Tensor;
typedef struct Work {
  Descriptor graph;
  Descriptor* operations[kMostOperations]; /* copies */
  int num_operations;
  int64_t ids[kMostTensors];
  char* places[kMostTensors];
  float values[kMostTensors]; /* of numbers, which are the host's */
  int64_t num_ids;
  char* workspace;
  Tensor tensors[kMostTensors];
  int num_tensors;
} Work;

static float load(const Tensor* t, int64_t at) {
  if (t->dtype == 2) return (float)((Half*)(void*)t->data)[at];
  if (t->dtype == 4) return (float)((int32_t*)(void*)t->data)[at];
  if (t->dtype == 11) return (float)t->data[at];
  if (t->dtype == 0) return ((float*)(void*)t->data)[at];
  const uint32_t bits = (uint32_t)((uint16_t*)(void*)t->data)[at] << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static void store(Tensor* t, int64_t at, float value) {
  if (t->dtype == 2) {
    ((Half*)(void*)t->data)[at] = (Half)value;
  } else if (t->dtype == 4) {
    ((int32_t*)(void*)t->data)[at] = (int32_t)value;
  } else if (t->dtype == 11) {
    t->data[at] = value != 0;
  } else if (t->dtype == 0) {
    ((float*)(void*)t->data)[at] = value;
  } else {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value == value) bits += 0x7fff + (bits >> 16 & 1);
    ((uint16_t*)(void*)t->data)[at] = (uint16_t)(bits >> 16);
  }
}
static int64_t count_of(const Tensor* t) {
  int64_t count = 1;
  for (int64_t d = 0; d < t->rank; ++d) count *= t->sizes[d];
  return count;
}
/* The place of the number-th element of a tensor with such sizes; dims of one element repeat. */
static int64_t place(const Tensor* t, const Tensor* like, int64_t number) {
  int64_t at = 0;
  for (int64_t d = like->rank; d-- > 0;) {
    const int64_t index = number % like->sizes[d];
    number /= like->sizes[d];
    if (t->sizes[d] > 1) at += index * t->strides[d];
  }
  return at;
}
static int64_t index_along(const Tensor* like, int64_t number, int64_t axis) {
  for (int64_t d = like->rank; --d > axis;) number /= like->sizes[d];
  return number % like->sizes[axis];
}

static Tensor* tensor(Work* work, const Descriptor* it) {
  const int64_t id = attribute(it, 906)->value.integers[0];
  for (int i = 0; i < work->num_tensors; ++i) {
    if (work->tensors[i].id == id) return &work->tensors[i];
  }
  Tensor* made = &work->tensors[work->num_tensors++];
  const Attribute *sizes = attribute(it, 902), *strides = attribute(it, 903);
  *made = (Tensor){.id = id, .rank = sizes->count, .dtype = number(it, 901, 0)};
  int64_t last = 0;
  for (int64_t d = 0; d < made->rank; ++d) {
    made->sizes[d] = sizes->value.integers[d], made->strides[d] = strides->value.integers[d];
    last += (made->sizes[d] - 1) * made->strides[d];
  }
  for (int64_t i = 0; i < work->num_ids; ++i) {
    if (work->ids[i] == id) made->data = attribute(it, 908) != NULL ? (char*)&work->values[i] : work->places[i];
  }
  if (attribute(it, 907) != NULL) made->data = calloc((size_t)(last + 1), 4), made->is_own = 1;
  return made;
}

static float point(int mode, float x, float b, float t) {
  switch (mode) {
    case 0: return x + b;
    case 1: return x * b;
    case 4: return sqrtf(x);
    case 6: return x / b;
    case 9: return x - b;
    case 10: return fabsf(x);
    case 13: return expf(x);
    case 15: return logf(x);
    case 16: return -x;
    case 17: return 1 / sqrtf(x);
    case 20: return erff(x);
    case 21: return x;
    case 22: return 1 / x;
    case 101: return tanhf(x);
    case 102: return 1 / (1 + expf(-x));
    case 303: return x >= b;
    case 601: return t != 0 ? x : b;
    default: return NAN;
  }
}
static void do_point(Work* work, const Descriptor* operation) {
  const Descriptor* how = part(operation, 750);
  Tensor *x = tensor(work, part(operation, 751)), *y = tensor(work, part(operation, 753));
  Tensor* b = part(operation, 752) != NULL ? tensor(work, part(operation, 752)) : NULL;
  Tensor* t = part(operation, 758) != NULL ? tensor(work, part(operation, 758)) : NULL;
  const int mode = number(how, 0, -1);
  const Attribute* upper = attribute(how, 4);
  for (int64_t i = 0; i < count_of(y); ++i) {
    const float value = load(x, place(x, y, i));
    float made;
    if (mode == 501) {
      made = (float)index_along(y, i, attribute(how, 9)->value.integers[0]);
    } else if (mode == 100) {
      made = value < 0 ? 0 : upper != NULL && value > upper->value.d ? (float)upper->value.d : value;
    } else {
      made = point(mode, value, b != NULL ? load(b, place(b, y, i)) : 0, t != NULL ? load(t, place(t, y, i)) : 0);
    }
    store(y, place(y, y, i), made);
  }
}

/* Images [N, C, H, W], filters [K, C / groups, R, S], results [N, K, P, Q]: into the results, or of the filters where is_gradient. */
static void do_convolution(Work* work, const Descriptor* how, Tensor* x, Tensor* w, Tensor* y, int is_gradient) {
  const int64_t *stride = attribute(how, 103)->value.integers, *padding = attribute(how, 105)->value.integers,
                *dilation = attribute(how, 102)->value.integers;
  (void)work;
  Tensor* const out = is_gradient ? w : y;
  const int64_t channels = w->sizes[1];
  double* const sums = calloc((size_t)count_of(out), sizeof *sums);
  for (int64_t i = 0; i < count_of(y); ++i) {
    const int64_t n = index_along(y, i, 0), k = index_along(y, i, 1), p = index_along(y, i, 2), q = index_along(y, i, 3);
    const int64_t first = k / (y->sizes[1] / (x->sizes[1] / channels)) * channels;
    for (int64_t j = 0; j < channels * w->sizes[2] * w->sizes[3]; ++j) {
      const int64_t s = j % w->sizes[3], r = j / w->sizes[3] % w->sizes[2], c = j / w->sizes[3] / w->sizes[2];
      const int64_t row = p * stride[0] + r * dilation[0] - padding[0], column = q * stride[1] + s * dilation[1] - padding[1];
      if (row < 0 || row >= x->sizes[2] || column < 0 || column >= x->sizes[3]) continue;
      const float pixel = load(x, n * x->strides[0] + (first + c) * x->strides[1] + row * x->strides[2] + column * x->strides[3]);
      const int64_t filter = k * channels * w->sizes[2] * w->sizes[3] + j;
      if (is_gradient) {
        sums[filter] += (double)pixel * load(y, place(y, y, i));
      } else {
        sums[i] += (double)pixel * load(w, place(w, w, filter));
      }
    }
  }
  for (int64_t i = 0; i < count_of(out); ++i) store(out, place(out, out, i), (float)sums[i]);
  free(sums);
}

/* In batches; heads of b may serve several of a. */
static void do_multiply(Work* work, const Descriptor* operation) {
  Tensor *a = tensor(work, part(operation, 1520)), *b = tensor(work, part(operation, 1521)), *c = tensor(work, part(operation, 1522));
  const int64_t group = c->sizes[1] / b->sizes[1];
  for (int64_t i = 0; i < count_of(c); ++i) {
    const int64_t n = index_along(c, i, 0), h = index_along(c, i, 1), row = index_along(c, i, 2), column = index_along(c, i, 3);
    double sum = 0;
    for (int64_t k = 0; k < a->sizes[3]; ++k) {
      sum += (double)load(a, n * a->strides[0] + h * a->strides[1] + row * a->strides[2] + k * a->strides[3]) *
             load(b, n * b->strides[0] + h / group * b->strides[1] + k * b->strides[2] + column * b->strides[3]);
    }
    store(c, place(c, c, i), (float)sum);
  }
}
static void do_reduce(Work* work, const Descriptor* operation) {
  Tensor *x = tensor(work, part(operation, 1610)), *y = tensor(work, part(operation, 1611));
  const int is_max = number(part(operation, 1612), 1600, 0) == 3;
  for (int64_t i = 0; i < count_of(y); ++i) store(y, place(y, y, i), is_max ? -INFINITY : 0);
  for (int64_t i = 0; i < count_of(x); ++i) {
    const int64_t at = place(y, x, i);
    const float value = load(x, place(x, x, i)), before = load(y, at);
    store(y, at, is_max ? fmaxf(before, value) : before + value);
  }
}

static void perform(void* argument) {
  Work* const work = argument;
  work->num_tensors = 0;
  if (work->workspace != NULL) memset(work->workspace, 0x7f, 1024);
  for (int i = 0; i < work->num_operations; ++i) {
    const Descriptor* operation = work->operations[i];
    switch (operation->kind) {
      case 10:
        do_convolution(work, part(operation, 702), tensor(work, part(operation, 704)), tensor(work, part(operation, 703)),
                       tensor(work, part(operation, 705)), 0);
        break;
      case 11:
        do_convolution(work, part(operation, 714), tensor(work, part(operation, 716)), tensor(work, part(operation, 715)),
                       tensor(work, part(operation, 717)), 1);
        break;
      case 13: do_point(work, operation); break;
      case 19: do_multiply(work, operation); break;
      default: do_reduce(work, operation); break;
    }
  }
  for (int i = 0; i < work->num_tensors; ++i) {
    if (work->tensors[i].is_own) free(work->tensors[i].data);
  }
}

/* Descriptors live as long as the graph that they are of; a captured launch keeps none of the pack. */
int cudnnBackendExecute(void* handle, Descriptor* plan, Descriptor* pack) {
  if (!plan->finished || !pack->finished) return 2004;
  const Descriptor *config = part(plan, 401), *graph = part(config, 201);
  Work* const work = calloc(1, sizeof *work);
  const Attribute *operations = attribute(graph, 801), *ids = attribute(pack, 1000), *places = attribute(pack, 1001);
  work->num_operations = (int)operations->count;
  memcpy(work->operations, operations->value.descriptors, (size_t)operations->count * sizeof(Descriptor*));
  work->num_ids = ids->count;
  for (int64_t i = 0; i < ids->count; ++i) {
    work->ids[i] = ids->value.integers[i];
    work->places[i] = places->value.pointers[i];
    if (work->places[i] == NULL) return free(work), 2002;
  }
  for (int64_t o = 0; o < operations->count; ++o) { /* numbers are read now */
    const Descriptor* b = part(operations->value.descriptors[o], 752);
    if (operations->value.descriptors[o]->kind != 13 || b == NULL || attribute(b, 908) == NULL) continue;
    for (int64_t i = 0; i < ids->count; ++i) {
      if (work->ids[i] == attribute(b, 906)->value.integers[0]) memcpy(&work->values[i], work->places[i], 4);
    }
  }
  work->workspace = attribute(pack, 1003)->value.pointers[0];
  return fake_start(*(void**)handle, perform, work, plan->suggestion == 1 || config->suggestion == 1 ? 3 : 1);
}
