#pragma once
// The interface of the plugin dtc-mpi: a table of C functions. MPI has no stable ABI, so the plugin is built against
// the MPI of the machine. One thread makes all calls. Functions that return int return 0 on success; otherwise
// `error` returns the text.
#include <cstddef>
#include <cstdint>

extern "C" {

enum DtcMpiChannel {
  DtcMpiData = 0,
  DtcMpiControl = 1
}; // separate communicators: their messages never match
inline constexpr int kDtcMpiAny = -1; // a receive from any process
inline constexpr uint64_t kDtcMpiLost =
    ~uint64_t{0} - 2; // a token of poll(): the process `source` has ended without finalize

struct DtcMpiDone {
  uint64_t token; // given to `send` or `receive`
  int source;     // of a receive
  size_t bytes;   // received
};

struct DtcMpiTable {
  uint32_t abi; // kDtcMpiAbi
  int (*init)(void);
  const char* (*error)(void);
  const char* (*version)(void); // "Open MPI v4.1.4, …"
  int (*rank)(void);
  int (*size)(void);
  int (*sizeOnHost)(void); // number of processes on this host
  const char* (*host)(void);
  int (*maxTag)(void);
  // Start a message; `data` stays valid until poll() reports the token. At most 2^31 - 1 bytes.
  int (*send)(int channel, const void* data, size_t bytes, int peer, int tag, uint64_t token);
  int (*receive)(int channel, void* data, size_t bytes, int peer, int tag, uint64_t token);
  // The messages that are done since the last call, valid until the next; returns their number, or -1 on failure, with
  // the message that has failed, or null.
  int (*poll)(const DtcMpiDone** done);
  int (*finalize)(void);   // cancels receives that are active
  void (*abort)(int code); // ends all processes
};

typedef const DtcMpiTable* (*DtcMpiEntry)(void); // the plugin exports `dtcMpiTable`
}

inline constexpr uint32_t kDtcMpiAbi = 2;
