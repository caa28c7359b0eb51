#pragma once
// The processes of one run, started by mpirun or srun: messages between them, and the failure of one.
#include "dtc/Support/Result.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct ProcessMessage {
  int peer = 0;
  bool send = false;
  std::byte* data = nullptr; // a send only reads it
  int64_t bytes = 0;
  // Of the transport:
  uint32_t open = 0;    // parts that are not done
  int64_t received = 0; // bytes
};

// Messages to and from other processes that are started together. Messages of one pair of processes and one tag
// arrive in the order in which they are started.
struct ProcessExchange {
  int tag = 0; // in [1, maxTag]
  std::vector<ProcessMessage> messages;
  const std::string* where = nullptr; // the collective, for reports: "gpt.dt:12: 'all_reduce'"
  bool patient = false;               // may wait without limit for a process that answers, with a note
  // Called by the progress thread when all messages are done, or when a process has failed.
  void (*done)(void* self) = nullptr;
  void* self = nullptr;
  // Of the transport:
  uint32_t open = 0; // messages that are not done
  uint32_t slot = 0;
  int64_t startNs = 0;
  bool noted = false; // on stderr, that a process has not come
};

// What the exchanges of one thread of each process share.
struct ProcessChannel {
  int tag = 0;
  std::string where; // for reports
};

// What carries messages.
enum class ProcessTransport : uint8_t { None, Mpi, Tcp };
// The transport of the launcher that has started this process with others, by its variables: MPI under mpirun, or srun
// with PMI; else TCP if torchrun's RANK and WORLD_SIZE are set.
[[nodiscard]] ProcessTransport transportOfLauncher();

// This process among those of its launcher, by the launcher's variables. The batch script of Slurm, which has variables
// for the processes that srun is to start, is alone.
struct LaunchedProcess {
  const char* launcher = ""; // "mpirun", "srun", "torchrun"
  int rank = 0, size = 1;
};
[[nodiscard]] LaunchedProcess launchedProcess();

class Processes {
public:
  // Starts MPI in a thread of its own. `timeoutSeconds`: after this time in one exchange the run fails.
  // `endsAtSigterm`: SIGTERM ends the run, with a report; else it ends this process, as without dtc. Error (Machine): the
  // plugin dtc-mpi.so or MPI is missing (with what to install), or MPI does not start in time: its thread is then left alone.
  [[nodiscard]] static Result<std::unique_ptr<Processes>>
  open(double timeoutSeconds, bool endsAtSigterm = true, ProcessTransport by = ProcessTransport::Mpi);
  // After an error on any process the others are ended, too. Else all processes have to come here.
  ~Processes();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int sizeOnHost() const;  // number of processes on this host
  [[nodiscard]] int indexOnHost() const; // among them, by rank
  [[nodiscard]] int maxTag() const;
  [[nodiscard]] const std::string& host(int rank) const;
  [[nodiscard]] const std::string& version() const; // of the MPI library
  [[nodiscard]] std::string name(int rank) const;   // "rank 2 on node7"

  // What the rounds from now on are for, in reports of a stall: "the end of step 12". Not during a round.
  void stage(std::string what);
  // Starts the messages; `exchange` stays valid until it is done. By any thread.
  void start(ProcessExchange& exchange);
  // Starts the messages and waits for them. The error is failure().
  [[nodiscard]] Status exchange(const ProcessChannel& on, ProcessExchange& exchange);
  // Error (Machine): a process has failed or does not answer; exchanges are done without their data.
  [[nodiscard]] Status failure() const;
  // What this process waited for longest when the run failed.
  struct FailedWait {
    std::string peers, at; // "1,3", "gpt.dt:12: 'all_reduce'" or the stage of a round
  };
  [[nodiscard]] std::optional<FailedWait> waitAtFailure() const;
  // Tells the other processes that this one cannot go on; their exchanges are done.
  void fail(int code, const std::string& why);
  // What this process waits for on its GPUs, and since when (steady clock, ns): for inquiries; after the time limit, the
  // run fails. `what`: "1,3 gpt.dt:12: 'all_reduce'", the processes and the collective; empty: not for others.
  struct Wait {
    int64_t sinceNs = 0;
    std::string what;
  };
  void waits(std::optional<Wait> wait);
  // Something suggests that a process has failed: the run fails, as `reason` if all answer.
  void suspect(const std::string& reason);
  // This process uses MPI no longer when it returns: failure() is set, and no message that was started is read or written
  // any more. The others have been told, or know.
  void endUse(const std::string& why);
  // The process that reports an error: the first that is known to answer.
  [[nodiscard]] int speaker() const;

  // A round of all processes outside of a run: their texts, by rank. A process that cannot go on gives its `problem`
  // instead; this is then the last round, and an error on all (with problem() set).
  [[nodiscard]] Result<std::vector<std::string>> round(std::string_view mine,
                                                       const std::string* problem = nullptr);
  struct Problem {
    int rank = 0; // the first that has one
    std::string text;
    std::optional<int> without = {}; // the first rank that has none
  };
  [[nodiscard]] const std::optional<Problem>& problem() const { return problem_; }
  // A round of threads in the background, one of each process, during a run too. An error of one is that of all; other
  // rounds may follow. `where`: for reports.
  [[nodiscard]] Result<std::vector<std::string>> backgroundRound(const Result<std::string>& mine,
                                                                 const std::string& where);
  // The bits that are set in some process. Not during a run.
  [[nodiscard]] Result<uint8_t> combine(uint8_t bits);
  // SIGTERM is a request to end in order, for which the run provides: an error only if some process does not answer.
  void endsInOrder(bool does);
  void forgetProblem() { problem_.reset(); } // all processes do
  // The texts of all processes on process 0, on others an empty list.
  [[nodiscard]] Result<std::vector<std::string>> gather(std::string_view mine);
  // The texts of all processes, by rank.
  [[nodiscard]] Result<std::vector<std::string>> allGather(std::string_view mine);
  // A word of each process, by rank, in one exchange. Outside of a run. `where`: for reports.
  [[nodiscard]] Result<std::vector<uint64_t>> allGather(uint64_t mine, const std::string& where);
  // Ends all processes.
  [[noreturn]] void abort(int code);

private:
  struct Impl;
  explicit Processes(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_; // also of its thread, which may outlive this
  std::optional<Problem> problem_;
};

// The devices of a mesh that this process runs.
struct DeviceSlice {
  int64_t begin = 0, end = INT64_MAX;
  [[nodiscard]] bool contains(int64_t coordinate) const { return begin <= coordinate && coordinate < end; }
};

} // namespace dtc
