#pragma once
// Programs whose devices differ (ir.md, "Devices that differ"): a set of local functions, each with the
// devices that run it. One function for all devices is the usual case.
#include "dtc/IR/Module.h"
#include "dtc/Sharding/Sharding.h"

#include <unordered_set>

namespace dtc {

// The program of each device.
struct DevicePrograms {
  std::vector<FuncId> functions; // the entry first
  std::vector<uint32_t> of;      // by device coordinate: an index into `functions`
  [[nodiscard]] FuncId at(int64_t coordinate) const { return functions[of[static_cast<size_t>(coordinate)]]; }
  [[nodiscard]] std::vector<int64_t> coordinatesOf(size_t function) const; // device coordinates, ascending
  [[nodiscard]] bool differ() const { return functions.size() > 1; }
};

// The functions that are one program with `entry`, which is not marked {program = …} itself. Requires a
// verified module.
[[nodiscard]] DevicePrograms programsOf(const Module&, FuncId entry);
// The functions of that set; `entry` alone if it has no {devices = […]}.
[[nodiscard]] std::vector<FuncId> functionsOfProgram(const Module&, FuncId entry);
// The entry of the set that a function belongs to: the one that {program = @f} names, or the function itself.
[[nodiscard]] FuncId entryOfProgram(const Module&, FuncId);
// {devices = […]} of a function, as written; empty if it runs on all devices.
[[nodiscard]] std::vector<int64_t> devicesOf(const Module&, FuncId);
// The same for reports: "devices [0, 1]"; empty if it runs on all devices.
[[nodiscard]] std::string devicesText(const Module&, FuncId);

// {devices = […]} in the attributes of an argument or a result, for reports: "[0, 1]"; empty if all devices hold it.
[[nodiscard]] std::string holdersText(const Module&, const AttrList&);
// By coordinate: whether the device holds an argument, or returns a result, with these attributes: those listed
// in {devices = […]}, else all.
[[nodiscard]] std::vector<bool> holdersOf(const Module&, const Mesh&, const AttrList&);

// The axes in the op's attributes, as written.
[[nodiscard]] std::vector<AxisRef> axesOfOp(const Module&, OpId);

// One transfer of a `p2p`: indices along its axes.
struct P2pSend {
  size_t operand = 0;
  int64_t from = 0, to = 0;
};
[[nodiscard]] std::vector<P2pSend> sendsOf(const Module&, OpId p2p);
// The devices that wait for each other at a collective on the device at `coordinate`, in order: those of its group
// along the op's axes; at a `p2p` those that it names, or the device alone.
[[nodiscard]] std::vector<int64_t> rendezvousOf(const Module&, OpId, const Mesh&, int64_t coordinate);

// The values of a function that have no memory, since none of its devices reads them: arguments that other devices
// hold, results of a `p2p` that are not received and have no reader, and constants that only stand for results
// of other devices or for operands that other devices send.
class AbsentValues {
public:
  AbsentValues(const Module&, FuncId);
  [[nodiscard]] bool operator()(ValueId v) const { return absent_.contains(v); }

private:
  std::unordered_set<ValueId> absent_;
};

} // namespace dtc
