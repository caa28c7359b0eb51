// The dtc binary of packages that also have libdtc.so: the compiler is in the library.

#include "dtc/dtc.h"

// jemalloc's options (its manual, "TUNING"). One arena: by default a thread may create one at its first allocation, and
// where there is no memory for it, jemalloc 5.3 uses the null pointer. Threads have caches of their own anyway.
extern "C" {
__attribute__((visibility("default"))) const char* malloc_conf = "narenas:1";
}

int main(int argc, char** argv) { return dtc_main(argc, argv); }
