// The handle of the tests' libcudnn.so.9. Its operation graphs are in CudnnGraph.cpp.
#include "CudnnStub.h"

#include "../../lib/Cuda/CudnnTable.h"

using namespace dtc;
#define STUB_DNN extern "C" STUB_API int

namespace {
using Handle = stub::CudnnHandle;
} // namespace

STUB_DNN cudnnCreate(void** out) {
  if (!stub::current() || stub::capturing()) return 1001; // CUDNN_STATUS_NOT_INITIALIZED
  return *out = new Handle{stub::current(), nullptr}, 0;
}
STUB_DNN cudnnDestroy(void* h) { return delete static_cast<Handle*>(h), 0; }
STUB_DNN cudnnSetStream(void* h, void* stream) {
  static_cast<Handle*>(h)->stream = static_cast<std::shared_ptr<stub::Stream>*>(stream)->get();
  return 0;
}
extern "C" STUB_API size_t cudnnGetVersion() { return 91900; }
extern "C" STUB_API const char* cudnnGetErrorString(int status) {
  return status == kCudnnNotSupported   ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == kCudnnBadParameter ? "CUDNN_STATUS_BAD_PARAM"
                                        : "CUDNN_STATUS_EXECUTION_FAILED";
}
