#pragma once
// What the ranks of a communicator of the stub of NCCL share, and a rank of it.
#include "NcclBoard.h"
#include "Streams.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace stub {

inline constexpr char kFirstWorld[] = "w";

struct Comm;
// What the ranks of one communicator share.
struct World {
  int ranks = 0;
  std::vector<Comm*> members;     // null: of another process
  size_t joined = 0;              // of this one
  std::shared_ptr<Board> board;   // of communicators in several processes
  std::string name;               // on it
  bool spans = false;             // other processes
  std::vector<int> gpus;          // then: by rank
  std::deque<std::string> posted; // the latest of this process, in order
  [[nodiscard]] size_t here() const {
    return static_cast<size_t>(
        std::count_if(members.begin(), members.end(), [](const Comm* c) { return c; }));
  }
  [[nodiscard]] std::string named(const std::string& what, int rank) const {
    return name + "-" + what + "-" + std::to_string(rank);
  }
  struct Call {
    std::string what; // must be the same on all ranks
    std::shared_ptr<Point> point;
    std::vector<const char*> from;
    std::vector<char*> to;
  };
  std::map<size_t, std::shared_ptr<Call>> calls; // by number
  struct Pair {
    std::shared_ptr<Point> point;
    std::shared_ptr<Call> buffers;
    bool sent = false, received = false;
  };
  std::map<std::pair<int, int>, std::vector<Pair>> pairs; // by (from, to), in order
  struct Split {
    std::vector<std::tuple<int, int, int, Comm*>> asked; // color, key, rank
  };
  std::map<size_t, Split> splits;
  std::vector<std::weak_ptr<Point>> points;
  bool aborted = false;
  std::string wrong; // that ranks of other processes differ
  size_t left = 0;   // ranks of this process that were destroyed or aborted: the last one waits for all
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0, device = 0;
  int first = 0; // its rank in the first communicator
  size_t calls = 0, splits = 0;
  std::shared_ptr<World> parent; // until all ranks have said how it is split
  size_t split = 0;
  std::map<int, size_t> sends, receives;                  // by peer
  std::map<std::shared_ptr<Stream>, uint64_t> used;       // the streams that it has work in, up to which node
  std::shared_ptr<int> graphs = std::make_shared<int>(0); // held by each graph that captured work of it
};

// Its number among the ranks of this process.
inline size_t partyOf(const Comm& comm) {
  const auto& all = comm.world->members;
  return static_cast<size_t>(
      std::count_if(all.begin(), all.begin() + comm.rank, [](const Comm* c) { return c; }));
}

} // namespace stub
