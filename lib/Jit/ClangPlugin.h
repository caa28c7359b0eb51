#pragma once
// The one door to the plugin dtc-jit-clang: a table of C functions, so that neither side's C++ library, exceptions or
// LLVM types pass through it.
#include <cstddef>
#include <cstdint>

extern "C" {

enum DtcClangOutput { DtcClangObject = 0, DtcClangLlvm = 1, DtcClangAsm = 2 };

struct DtcClangUnit {
  const char* name; // letters, digits, '_', '.', '-' only
  const char* text;
  size_t textSize;
};

struct DtcClangRequest {
  // Several units are read as one, which costs the prologue and what they use of it only once, and come out as an object
  // each, as if compiled alone. Their extern "C" names are distinct; everything else of a unit is its own.
  const DtcClangUnit* units;
  size_t unitCount; // more than one only for objects
  const char* prologue;
  size_t prologueSize;
  const char* const* flags; // further cc1 flags
  size_t flagCount;
  const char* cpu; // "x86-64-v3"
  int optLevel;    // 0, 1, 3
  int output;      // DtcClangOutput
  // Thread-local variables become offsets into a block that the function __emu_shared() returns (CUDA's
  // __shared__); the object then defines what EmuSymbols.h says.
  int sharedAsOffsets;
  // Called, from any thread, where memory runs out within Clang; and where it gives up, with its reason. Neither returns: LLVM
  // is not built to be left by an exception.
  void (*outOfMemory)(void);
  void (*failed)(const char* reason);
  int checkAccesses; // with it: every access of memory that other threads see is told to __emu_access before
};

struct DtcClangReply {
  int ok;      // else `log` says why not
  char** data; // one per unit: object, or text
  size_t* dataSizes;
  size_t dataCount;
  char* log; // warnings and errors, may be empty
  size_t logSize;
};

struct DtcClangTable {
  uint32_t abi;                                            // kDtcClangAbi
  const char* version;                                     // "19.1.7"
  void (*compile)(const DtcClangRequest*, DtcClangReply*); // from any thread
  void (*release)(DtcClangReply*);
};

typedef const DtcClangTable* (*DtcClangEntry)(void); // the plugin exports `dtcClangTable`
}

inline constexpr uint32_t kDtcClangAbi = 4;
