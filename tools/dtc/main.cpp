// The dtc binary.

#include "EntryPoint.h"
#include "dtc/Support/OutOfMemory.h"

// jemalloc's options (its manual, "TUNING"). One arena: by default a thread may create one at its first allocation, and
// where there is no memory for it, jemalloc 5.3 uses the null pointer. Threads have caches of their own anyway.
extern "C" {
__attribute__((visibility("default"))) const char* malloc_conf = "narenas:1";
}

// Runs before constructors of globals, which may run out of memory.
__attribute__((constructor(101))) static void beforeGlobals() { dtc::installTerminateHandler(); }

int main(int argc, char** argv) { return dtc::mainOfDtc(argc, argv); }
