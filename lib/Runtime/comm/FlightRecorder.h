#pragma once
// Records the collectives of each device for the diagnosis of hangs: the latest entries in a ring buffer. The
// JSON keys are those of PyTorch's flight recorder, so that its tools can read the file
// (https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html).
#include "dtc/Runtime/comm/Collective.h"
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

// File and line of "gpt.dt:12: 'all_reduce'"; the whole text and 0 if it has none.
[[nodiscard]] std::pair<std::string, int> fileAndLine(const std::string& where);

class FlightRecorder {
public:
  explicit FlightRecorder(int64_t numDevices) : devices_(static_cast<size_t>(numDevices)) {}

  // Registers a collective of the program; returns its number.
  uint32_t declare(const CollectivePlan& plan);
  // Records that a group of it was enqueued on these devices.
  void started(uint32_t collective, const std::vector<int64_t>& coordinates);
  // Collectives enqueued between the two calls belong to a graph; replayed(n) records a launch of graph n
  // (counted by endGraph).
  void beginGraph() { inGraph_ = true; }
  void endGraph();
  [[nodiscard]] bool inGraph() const { return inGraph_; }
  void replayed(size_t graph);

  // The progress word of a device: 0, 1 + 2 * collective on arrival, 2 + 2 * collective on completion.
  static uint32_t arrivedWord(uint32_t collective) { return 1 + 2 * collective; }
  static uint32_t throughWord(uint32_t collective) { return 2 + 2 * collective; }

  // Where a device is that has this word; nothing: in no collective.
  struct Place {
    std::string where; // "gpt.dt:12: 'all_reduce'"
    std::vector<int64_t> devices;
  };
  [[nodiscard]] std::optional<Place> placeOf(int64_t coordinate, uint32_t word) const;

  // Describes a hang, given the words of all devices: "device 2 has not arrived at all_reduce (gpt.dt:12);
  // devices 0, 1 and 3 wait there".
  [[nodiscard]] std::string diagnosis(const std::vector<uint32_t>& words) const;
  // A list with one object per device.
  [[nodiscard]] std::string json(const std::vector<uint32_t>& words, const std::string& library,
                                 double timeoutSeconds) const;

private:
  struct Kind {
    std::string name, where; // "all_reduce"; "gpt.dt:12: 'all_reduce'"
    DType dtype = DType::F32;
    std::vector<int64_t> resultElements; // on the first member
    std::vector<std::vector<int64_t>> groups;
    bool isMove = false;
  };
  struct Entry {
    uint32_t collective = 0;
    uint64_t number = 0; // sequence number on the device
    int64_t createdNs = 0;
  };
  struct DeviceLog {
    std::deque<Entry> ring;
    uint64_t count = 0;
  };
  void add(size_t coordinate, uint32_t collective);
  // Index in the device's ring of the latest entry that its word refers to; -1: none.
  [[nodiscard]] int64_t newest(size_t coordinate, uint32_t word) const;
  [[nodiscard]] std::string entryJson(size_t coordinate, size_t index, int64_t newest, uint32_t word,
                                      double timeoutSeconds) const;

  std::vector<DeviceLog> devices_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<std::pair<size_t, uint32_t>>> graphs_;
  std::vector<std::pair<size_t, uint32_t>> capturing_;
  bool inGraph_ = false;
};

} // namespace dtc
