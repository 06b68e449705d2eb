// cuDNN's graph interface (its backend API), opened when it is first asked for: libcudnn.so.9, or what TOROID_CUDNN names. No header of
// CUDA is needed: what is called is declared here, and the numbers of attributes are those of cudnn_graph.h, which are part of the
// library's interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/file/system_library.h"
#include "runtime/cuda/driver_api.h"

namespace toroid::cuda::cudnn {

using Status = int;
using Handle = void*;
using BackendDescriptor = void*;

// clang-format off
#define TOROID_CUDNN_FUNCTIONS(F)                                                                                       \
  F(version, "cudnnGetVersion", size_t())                                                                               \
  F(error_string, "cudnnGetErrorString", const char*(Status))                                                           \
  F(create, "cudnnCreate", Status(Handle*))                                                                             \
  F(destroy, "cudnnDestroy", Status(Handle))                                                                            \
  F(set_stream, "cudnnSetStream", Status(Handle, StreamHandle))                                                         \
  F(descriptor_create, "cudnnBackendCreateDescriptor", Status(int, BackendDescriptor*))                                 \
  F(descriptor_destroy, "cudnnBackendDestroyDescriptor", Status(BackendDescriptor))                                     \
  F(set_attribute, "cudnnBackendSetAttribute", Status(BackendDescriptor, int, int, int64_t, const void*))               \
  F(get_attribute, "cudnnBackendGetAttribute", Status(BackendDescriptor, int, int, int64_t, int64_t*, void*))           \
  F(finalize, "cudnnBackendFinalize", Status(BackendDescriptor))                                                        \
  F(execute, "cudnnBackendExecute", Status(Handle, BackendDescriptor, BackendDescriptor))
// clang-format on

struct Functions {
  TOROID_LIBRARY_FUNCTIONS(TOROID_CUDNN_FUNCTIONS)
};

// "no cuDNN: libcudnn.so.9 cannot be opened", or what it lacks; none where it is there.
const std::optional<std::string>& absence();
// Throws Error{Environment} where it is absent.
const Functions& functions();
// "9.19.0". Throws as functions().
std::string version();

// ---- the numbers of cudnn_graph.h ---------------------------------------------------------------------------------------------------

// cudnnBackendDescriptorType_t
enum Kind {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionFilterGradient = 11,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22
};

// cudnnBackendAttributeType_t
enum AttributeType {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeFloat = 4,
  kTypeDouble = 5,
  kTypeVoidPointer = 6,
  kTypeConvolutionMode = 7,
  kTypeHeuristicMode = 8,
  kTypeNanPropagation = 10,
  kTypeNumericalNote = 11,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
  kTypeReductionOperator = 18,
  kTypeChar = 24
};

// cudnnBackendAttributeName_t
enum Attribute {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kPointwiseNanPropagation = 2,
  kPointwiseReluLower = 3,
  kPointwiseReluUpper = 4,
  kPointwiseAxis = 9,
  kConvolutionPrecision = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPaddingsBehind = 104,
  kConvolutionPaddingsBefore = 105,
  kConvolutionDims = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspaceBytes = 402,
  kPlanJson = 405,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardFilters = 703,
  kForwardImage = 704,
  kForwardResult = 705,
  kFilterGradientAlpha = 712,
  kFilterGradientBeta = 713,
  kFilterGradientConvolution = 714,
  kFilterGradientFilters = 715,
  kFilterGradientImage = 716,
  kFilterGradientResult = 717,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNumericalNotes = 1303,
  kMatmulPrecision = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612
};

// cudnnDataType_t
enum DataType { kFloat = 0, kHalf = 2, kInt32 = 4, kBfloat16 = 9, kBoolean = 11 };

// cudnnPointwiseMode_t
enum PointMode {
  kAdd = 0,
  kMul = 1,
  kSqrt = 4,
  kDiv = 6,
  kSub = 9,
  kAbs = 10,
  kExp = 13,
  kLog = 15,
  kNeg = 16,
  kRsqrt = 17,
  kErf = 20,
  kIdentity = 21,
  kReciprocal = 22,
  kRelu = 100,
  kTanh = 101,
  kSigmoid = 102,
  kCompareGreaterEqual = 303,
  kIndex = 501,
  kSelect = 601
};

enum { kCrossCorrelation = 1, kPropagateNan = 1, kReduceAdd = 0, kReduceMax = 3, kHeuristicFallback = 2, kHeuristicA = 3 };

// cudnnBackendNumericalNote_t
enum Note {
  kNoteTensorCores = 0,
  kNoteDownConverts = 1,
  kNoteReducedSums = 2,
  kNoteFourier = 3,
  kNoteNondeterministic = 4,
  kNoteWinograd = 5,
  kNoteWinograd4 = 6,
  kNoteWinograd6 = 7,
  kNoteWinograd13 = 8
};

}  // namespace toroid::cuda::cudnn
