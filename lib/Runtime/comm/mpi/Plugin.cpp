// The plugin dtc-mpi: messages between processes by MPI. The only file that includes MPI's headers.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "../MpiPlugin.h"

#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

struct State {
  MPI_Comm channels[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
  int rank = 0, size = 1, onHost = 1;
  bool owns = false; // has initialized MPI, so it finalizes it
  std::string error, version, host;
  std::vector<MPI_Request> requests; // active
  std::vector<uint64_t> tokens;      // by request
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  std::vector<DtcMpiDone> done; // of the last poll
};

State& state() {
  static State s;
  return s;
}

int check(int code) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  state().error.assign(text, static_cast<size_t>(length));
  return 1;
}

int init() {
  State& s = state();
  int ready = 0, provided = 0;
  if (s.channels[0] != MPI_COMM_NULL) {
    s.error = "this process has joined the others already";
    return 1;
  }
  MPI_Finalized(&ready);
  if (ready) {
    s.error = "MPI was used and ended in this process: a process can join once";
    return 1;
  }
  MPI_Initialized(&ready);
  if (ready) { // by the program that dtc is a part of
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) {
      s.error =
          "this program has started MPI without MPI_THREAD_MULTIPLE, which dtc needs: start MPI with it, or "
          "after dtc";
      return 1;
    }
  } else {
    if (check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided))) return 1;
    if (provided < MPI_THREAD_FUNNELED) {
      s.error = "this MPI does not support processes with threads (MPI_THREAD_FUNNELED)";
      return 1;
    }
    s.owns = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.size);
  for (MPI_Comm& channel : s.channels) {
    if (check(MPI_Comm_dup(MPI_COMM_WORLD, &channel))) return 1;
    MPI_Comm_set_errhandler(channel, MPI_ERRORS_RETURN);
  }
  MPI_Comm local = MPI_COMM_NULL;
  if (check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, s.rank, MPI_INFO_NULL, &local)))
    return 1;
  MPI_Comm_size(local, &s.onHost);
  MPI_Comm_free(&local);
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  s.version.assign(text, static_cast<size_t>(length));
  s.version.resize(std::min(s.version.find_first_of("\n\0", 0, 2), s.version.size()));
  MPI_Get_processor_name(text, &length);
  s.host.assign(text, static_cast<size_t>(length));
  return 0;
}

const char* error() { return state().error.c_str(); }
const char* version() { return state().version.c_str(); }
const char* host() { return state().host.c_str(); }
int rank() { return state().rank; }
int size() { return state().size; }
int sizeOnHost() { return state().onHost; }

int maxTag() {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &found);
  return found ? *static_cast<int*>(value) : 32767; // the least that the standard grants
}

int add(int code, MPI_Request request, uint64_t token) {
  if (check(code)) return 1;
  state().requests.push_back(request);
  state().tokens.push_back(token);
  return 0;
}

int send(int channel, const void* data, size_t bytes, int peer, int tag, uint64_t token) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, state().channels[channel], &request);
  return add(code, request, token);
}

int receive(int channel, void* data, size_t bytes, int peer, int tag, uint64_t token) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer == kDtcMpiAny ? MPI_ANY_SOURCE : peer, tag,
                state().channels[channel], &request);
  return add(code, request, token);
}

// Which message has failed, and its own error instead of "error code in status".
void findFailed(int code, int count) {
  State& s = state();
  check(code);
  for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; ++i) {
    const MPI_Status& status = s.statuses[static_cast<size_t>(i)];
    if (status.MPI_ERROR == MPI_SUCCESS || status.MPI_ERROR == MPI_ERR_PENDING) continue;
    check(status.MPI_ERROR);
    s.done.push_back(
        {s.tokens[static_cast<size_t>(s.indices[static_cast<size_t>(i)])], status.MPI_SOURCE, 0});
    return;
  }
}

int poll(const DtcMpiDone** done) {
  State& s = state();
  s.indices.resize(s.requests.size());
  s.statuses.resize(s.requests.size());
  s.done.clear();
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(s.requests.size()), s.requests.data(), &count,
                                s.indices.data(), s.statuses.data());
  if (code != MPI_SUCCESS) {
    findFailed(code, count);
    *done = s.done.empty() ? nullptr : s.done.data();
    return -1;
  }
  if (count == MPI_UNDEFINED || count == 0) return 0;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    int bytes = 0;
    MPI_Get_count(&s.statuses[at], MPI_BYTE, &bytes);
    s.done.push_back({s.tokens[static_cast<size_t>(s.indices[at])], s.statuses[at].MPI_SOURCE,
                      static_cast<size_t>(std::max(bytes, 0))});
  }
  size_t kept = 0;
  for (size_t i = 0; i < s.requests.size(); ++i) {
    if (s.requests[i] == MPI_REQUEST_NULL) continue;
    s.requests[kept] = s.requests[i];
    s.tokens[kept++] = s.tokens[i];
  }
  s.requests.resize(kept);
  s.tokens.resize(kept);
  *done = s.done.data();
  return count;
}

int finalize() {
  int over = 0;
  MPI_Finalized(&over); // by the program
  if (over) return 0;
  for (MPI_Request& request : state().requests) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  state().requests.clear();
  if (state().owns) return check(MPI_Finalize());
  for (MPI_Comm& channel : state().channels) MPI_Comm_free(&channel);
  return 0;
}

void abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

} // namespace

extern "C" __attribute__((visibility("default"))) const DtcMpiTable* dtcMpiTable() {
  static const DtcMpiTable table = {kDtcMpiAbi, init,   error, version, rank, size,     sizeOnHost,
                                    host,       maxTag, send,  receive, poll, finalize, abort};
  return &table;
}
