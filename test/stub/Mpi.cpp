// To be preloaded: a process of a run that ends, stops or diverges at its N-th message. DTC_STUB_MPI="RANK:N:SIGNAL";
// signal 0: the message is lost, while the process goes on; below 0: its thread of messages sleeps for as many ms. It
// interposes functions of MPI's profiling interface.
// DTC_STUB_CLOCK="RANK:NS": a process whose steady clock is ahead.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

// For tests that measure how long the others take.
static void sayWhen() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  std::fprintf(stderr, "fault at %lld.%03ld\n", static_cast<long long>(now.tv_sec), now.tv_nsec / 1000000);
  std::fflush(stderr);
}

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* time) noexcept {
  static const long long ahead = [] {
    int victim = 0;
    long long ns = 0;
    const char *what = std::getenv("DTC_STUB_CLOCK"), *rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return what && rank && std::sscanf(what, "%d:%lld", &victim, &ns) == 2 && std::atoi(rank) == victim ? ns
                                                                                                        : 0;
  }();
  constexpr long long kSecond = 1'000'000'000;
  const int done = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (done != 0 || clock != CLOCK_MONOTONIC) return done;
  const long long ns = time->tv_nsec + ahead;
  time->tv_sec += ns / kSecond, time->tv_nsec = ns % kSecond;
  return 0;
}

extern "C" __attribute__((visibility("default"))) int MPI_Isend(const void* data, int count,
                                                                MPI_Datatype type, int to, int tag,
                                                                MPI_Comm comm, MPI_Request* request) {
  static int sent = 0;
  int victim = 0, at = 0, signal = 0, rank = 0;
  const char* what = std::getenv("DTC_STUB_MPI");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // Tag 0 is that of the start and the end of a run.
  if (what && std::sscanf(what, "%d:%d:%d", &victim, &at, &signal) == 3 && rank == victim && tag > 0 &&
      ++sent == at) {
    sayWhen();
    if (signal > 0)
      raise(signal); // this thread does not go on
    else if (signal < 0)
      usleep(static_cast<useconds_t>(-signal) * 1000);
    else
      count = 0, to = MPI_PROC_NULL;
  }
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
