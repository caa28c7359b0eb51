#pragma once
// What the plugin's primitives share.
#include "../OneDnnPlugin.h"

#include <cstdio>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>

namespace dtc::onednn {

inline dnnl::engine& engine() {
  static dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

// Makes oneDNN use the calling thread alone, in what it plans as well as in what it runs.
void useOneThread();

inline dnnl::memory::data_type dataType(int type) {
  return type == DtcGemmBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// oneDNN wants plausible strides also along dims of one element.
dnnl::memory::desc describe(dnnl::memory::data_type type, const dnnl::memory::dims& sizes,
                            dnnl::memory::dims strides);

// What `make` returns, or null with a message. A dnnl::error of status `quiet` leaves the message empty.
template <typename Make> void* guarded(char* error, size_t errorSize, dnnl_status_t quiet, Make make) {
  *error = 0;
  try {
    useOneThread();
    return make();
  } catch (const dnnl::error& e) {
    if (e.status != quiet)
      std::snprintf(error, errorSize, "%s", e.status == dnnl_out_of_memory ? "not enough memory" : e.what());
  } catch (const std::bad_alloc&) {
    std::snprintf(error, errorSize, "not enough memory");
  } catch (const std::exception& e) {
    std::snprintf(error, errorSize, "%s", e.what());
  }
  return nullptr;
}

void* createConv(const DtcConv*, char* error, size_t errorSize);
size_t convScratchBytes(void* conv);
int runConv(void* conv, void* scratch);
void destroyConv(void* conv);

} // namespace dtc::onednn
