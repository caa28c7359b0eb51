#pragma once
// The interface of the plugin dtc-jit-clang: a table of C functions, so that neither side's C++ library,
// exceptions or LLVM types cross it.
#include <cstddef>
#include <cstdint>

extern "C" {

enum DtcClangOutput {
  DtcClangObject = 0,
  DtcClangLlvm = 1,
  DtcClangAsm = 2,
  DtcClangPrologue = 3 // the precompiled prologue, for requests with `precompiled`; there are no units
};

struct DtcClangUnit {
  const char* name; // letters, digits, '_', '.', '-' only
  const char* text;
  size_t textSize;
};

struct DtcClangRequest {
  // Several units are parsed as one, which costs the prologue and the headers only once, and produce one
  // object each, as if compiled alone. Their extern "C" names are distinct; all other names of a unit are its
  // own.
  const DtcClangUnit* units;
  size_t unitCount; // more than one only for objects
  const char* prologue;
  size_t prologueSize;
  // What DtcClangPrologue made of this prologue, `cpu` and `flags` by the same `build`; or null: the prologue is
  // parsed.
  const char* precompiled;
  size_t precompiledSize;
  const char* const* flags; // additional cc1 flags
  size_t flagCount;
  const char* cpu; // "x86-64-v3"
  int optLevel;    // 0, 1, 3
  int output;      // DtcClangOutput
  // Thread-local variables become offsets into a block that the function __emu_shared() returns (CUDA's
  // __shared__); the object then defines the symbols of EmuSymbols.h.
  int sharedAsOffsets;
  // Called, from any thread, where memory runs out within Clang; and on a fatal error, with its reason.
  // Neither returns: LLVM does not support leaving it by an exception.
  void (*outOfMemory)(void);
  void (*failed)(const char* reason);
  // with it: __emu_access is called before every access of memory that other threads can access
  int checkAccesses;
};

struct DtcClangReply {
  int ok;      // else `log` has the reason
  char** data; // one per unit: object, or text
  size_t* dataSizes;
  size_t dataCount;
  char* log; // warnings and errors, may be empty
  size_t logSize;
};

struct DtcClangTable {
  uint32_t abi;        // kDtcClangAbi
  const char* version; // "19.1.7"
  const char* build;   // of Clang as loaded: reads only its own `precompiled`
  void (*compile)(const DtcClangRequest*, DtcClangReply*); // from any thread
  void (*release)(DtcClangReply*);
};

typedef const DtcClangTable* (*DtcClangEntry)(void); // the plugin exports `dtcClangTable`
}

inline constexpr uint32_t kDtcClangAbi = 5;
