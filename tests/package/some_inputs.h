/* Inputs for any model: f32 are numbers from -1 to 1, others zeros, of the least sizes that the model's symbols allow. */
#ifndef TOROID_TESTS_PACKAGE_SOME_INPUTS_H
#define TOROID_TESTS_PACKAGE_SOME_INPUTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toroid/toroid.h"

static size_t bytes_of(const DLTensor* tensor) {
  size_t bytes = tensor->dtype.bits / 8;
  int d;
  for (d = 0; d < tensor->ndim; ++d) bytes *= (size_t)tensor->shape[d];
  return bytes;
}

/* Sizes from the type's text, "f32[s0, 128]". */
static void make_input(const ToroidApi* toroid, const ToroidModel* model, int32_t i, DLTensor* tensor) {
  ToroidModelInfo info;
  ToroidTensorInfo input;
  const char* next;
  size_t k;
  int d;
  memset(&info, 0, sizeof info);
  memset(&input, 0, sizeof input);
  info.size = sizeof info;
  input.size = sizeof input;
  toroid->model_info(model, &info);
  toroid->model_input(model, i, &input);
  memset(tensor, 0, sizeof *tensor);
  tensor->device.device_type = kDLCPU;
  tensor->dtype = input.dtype;
  tensor->ndim = input.rank;
  tensor->shape = (int64_t*)calloc((size_t)input.rank + 1, sizeof(int64_t));
  next = strchr(input.type, '[');
  for (d = 0; d < input.rank; ++d) {
    char name[64] = "";
    int32_t s;
    if (sscanf(next + 1, " %63[^],]", name) != 1) abort();
    tensor->shape[d] = strtoll(name, NULL, 10);
    for (s = 0; s < info.num_symbols; ++s) {
      ToroidSymbolInfo symbol;
      memset(&symbol, 0, sizeof symbol);
      symbol.size = sizeof symbol;
      toroid->model_symbol(model, s, &symbol);
      if (strcmp(name, symbol.name) == 0) tensor->shape[d] = symbol.least;
    }
    next = strpbrk(next + 1, ",]");
  }
  tensor->data = aligned_alloc(64, (bytes_of(tensor) + 64) / 64 * 64);
  memset(tensor->data, 0, bytes_of(tensor));
  if (input.dtype.code == kDLFloat && input.dtype.bits == 32) {
    float* const data = (float*)tensor->data;
    for (k = 0; k < bytes_of(tensor) / sizeof(float); ++k) data[k] = (float)((k * 37 + 11) % 201) / 100 - 1;
  }
}

#endif
