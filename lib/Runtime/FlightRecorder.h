#pragma once
// What devices have begun and ended of their collectives, kept for the day when one of them does not come: the last entries in a
// ring, and how it is told. The keys of the JSON are those of PyTorch's flight recorder, so that its tools read it
// (https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html).
#include "dtc/Runtime/Collective.h"
#include <deque>
#include <string>
#include <vector>

namespace dtc {

class FlightRecorder {
public:
  explicit FlightRecorder(int64_t places) : places_(static_cast<size_t>(places)) {}

  // A collective of the program; the number names it.
  uint32_t declare(const CollectivePlan& plan);
  // One group of it was started, by these places.
  void started(uint32_t collective, const std::vector<int64_t>& places);
  // What is started between the two belongs to a graph; replayed(n) says that graph n (counted by endGraph) was launched.
  void beginGraph() { inGraph_ = true; }
  void endGraph();
  void replayed(size_t graph);

  // How far a device has come: 0, or 1 + 2 * collective where it has arrived there, 2 + 2 * collective where it is through.
  static uint32_t arrivedWord(uint32_t collective) { return 1 + 2 * collective; }
  static uint32_t throughWord(uint32_t collective) { return 2 + 2 * collective; }

  // "device 2 has not arrived at all_reduce (gpt.dt:12); devices 0, 1 and 3 wait there": one sentence of what stands still, by
  // the words of all places.
  [[nodiscard]] std::string diagnosis(const std::vector<uint32_t>& words) const;
  // One object for each place, in a list.
  [[nodiscard]] std::string json(const std::vector<uint32_t>& words, const std::string& library,
                                 double timeoutSeconds) const;

private:
  struct Kind {
    std::string name, where; // "all_reduce"; "gpt.dt:12: 'all_reduce'"
    DType dtype = DType::F32;
    std::vector<int64_t> resultElements; // of the first member
    std::vector<std::vector<int64_t>> groups;
    bool isMove = false;
  };
  struct Entry {
    uint32_t collective = 0;
    uint64_t number = 0; // counted over the place
    int64_t createdNs = 0;
  };
  struct Place {
    std::deque<Entry> ring;
    uint64_t count = 0;
  };
  void add(size_t place, uint32_t collective);
  // The newest entry of a place that its word speaks of, as an index into its ring; -1: none.
  [[nodiscard]] int64_t newest(size_t place, uint32_t word) const;
  [[nodiscard]] std::string entryJson(size_t place, size_t index, int64_t newest, uint32_t word,
                                      double timeoutSeconds) const;

  std::vector<Place> places_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<std::pair<size_t, uint32_t>>> graphs_;
  std::vector<std::pair<size_t, uint32_t>> capturing_;
  bool inGraph_ = false;
};

} // namespace dtc
