// Kernels that set the conditions of a graph's conditional nodes. They call a function that the driver
// provides to code that it compiles itself, so they are PTX of a version that every driver with conditional
// nodes accepts; NVRTC would emit its own version. In CUDA C++:
//
//   void dtc_set_condition(u64 handle, u64 otherwise, const bool* predicate, u32* words, u32* iterations,
//                          u32 limit, u32 number) {
//     words[0] += 1;                      // number of evaluations
//     bool value = *predicate;
//     if (value && limit != 0xffffffff) {
//       if (*iterations >= limit) words[1] = number, value = false;  // the host reports an error
//       *iterations += 1;
//     }
//     cudaGraphSetConditional(handle, value);
//     if (otherwise) cudaGraphSetConditional(otherwise, !value);
//   }
//   void dtc_next_iteration(u64 handle, i32* index, i32 begin, i32 end, u32 first) {
//     *index = first ? begin : *index + 1;
//     if (handle) cudaGraphSetConditional(handle, *index < end);
//   }
//
// Each runs with one thread. test/stub/Cuda.cpp has equivalents in C++.
#include "dtc/Cuda/CudaDriver.h"

namespace dtc {

static constexpr std::string_view kConditionKernels = R"ptx(.version 7.0
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);

.visible .entry dtc_set_condition(.param .u64 p_handle, .param .u64 p_otherwise, .param .u64 p_predicate,
                                  .param .u64 p_words, .param .u64 p_iterations, .param .u32 p_limit, .param .u32 p_number)
{
  .reg .pred %limited, %over, %skip;
  .reg .b16 %byte;
  .reg .b32 %value, %count, %limit, %number, %old;
  .reg .b64 %handle, %otherwise, %predicate, %words, %iterations;
  ld.param.u64 %handle, [p_handle];
  ld.param.u64 %otherwise, [p_otherwise];
  ld.param.u64 %predicate, [p_predicate];
  ld.param.u64 %words, [p_words];
  ld.param.u64 %iterations, [p_iterations];
  ld.param.u32 %limit, [p_limit];
  ld.param.u32 %number, [p_number];
  cvta.to.global.u64 %predicate, %predicate;
  cvta.to.global.u64 %words, %words;
  cvta.to.global.u64 %iterations, %iterations;
  ld.global.u32 %count, [%words];
  add.u32 %count, %count, 1;
  st.global.u32 [%words], %count;
  ld.global.u8 %byte, [%predicate];
  setp.ne.u16 %over, %byte, 0;
  selp.u32 %value, 1, 0, %over;
  setp.ne.u32 %limited, %limit, 0xffffffff;
  and.pred %limited, %limited, %over;
  @!%limited bra SET;
  ld.global.u32 %old, [%iterations];
  setp.ge.u32 %over, %old, %limit;
  @%over st.global.u32 [%words+4], %number;
  selp.u32 %value, 0, 1, %over;
  add.u32 %old, %old, 1;
  st.global.u32 [%iterations], %old;
SET:
  {
    .param .b64 a;
    .param .b32 b;
    st.param.b64 [a], %handle;
    st.param.b32 [b], %value;
    call.uni cudaGraphSetConditional, (a, b);
  }
  setp.eq.u64 %skip, %otherwise, 0;
  @%skip bra END;
  xor.b32 %value, %value, 1;
  {
    .param .b64 a;
    .param .b32 b;
    st.param.b64 [a], %otherwise;
    st.param.b32 [b], %value;
    call.uni cudaGraphSetConditional, (a, b);
  }
END:
  ret;
}

.visible .entry dtc_next_iteration(.param .u64 p_handle, .param .u64 p_index, .param .u32 p_begin, .param .u32 p_end,
                              .param .u32 p_first)
{
  .reg .pred %first, %goes, %skip;
  .reg .b32 %i, %begin, %end, %isfirst, %value;
  .reg .b64 %handle, %index;
  ld.param.u64 %handle, [p_handle];
  ld.param.u64 %index, [p_index];
  ld.param.u32 %begin, [p_begin];
  ld.param.u32 %end, [p_end];
  ld.param.u32 %isfirst, [p_first];
  cvta.to.global.u64 %index, %index;
  ld.global.u32 %i, [%index];
  add.s32 %i, %i, 1;
  setp.ne.u32 %first, %isfirst, 0;
  selp.b32 %i, %begin, %i, %first;
  st.global.u32 [%index], %i;
  setp.eq.u64 %skip, %handle, 0;
  @%skip bra END;
  setp.lt.s32 %goes, %i, %end;
  selp.u32 %value, 1, 0, %goes;
  {
    .param .b64 a;
    .param .b32 b;
    st.param.b64 [a], %handle;
    st.param.b32 [b], %value;
    call.uni cudaGraphSetConditional, (a, b);
  }
END:
  ret;
}
)ptx";

std::string_view cudaConditionKernels() { return kConditionKernels; }

} // namespace dtc
