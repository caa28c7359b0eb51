#pragma once
// What the text and the drawing of a comparison have in common.
#include "dtc/Report/trace/TraceComparison.h"

namespace dtc {

// The devices to draw, at most `most`: the first of each function, the one that computes longest, then the others.
[[nodiscard]] std::vector<size_t> devicesToDraw(const TraceComparison&, size_t most);
// The seconds that a row of each is long: the same, unless one of them would then be too short to be seen.
struct TraceScale {
  double measured = 1, modelled = 1;
  [[nodiscard]] bool same() const { return measured == modelled; }
};
[[nodiscard]] TraceScale scaleOf(const TraceComparison&);
// The streams in which a device has a measured or modelled bar.
[[nodiscard]] std::vector<uint32_t> streamsAt(const TraceComparison&, size_t device);

[[nodiscard]] std::string durationText(double seconds); // "0", "1.25 ms"
[[nodiscard]] std::string ratioText(double measured,
                                    double modelled); // "1.9", "210"; "-" if one of them is 0
[[nodiscard]] std::string addedText(double seconds);  // "+1.25 ms"
[[nodiscard]] std::string traceTitle(const TraceComparison&);
[[nodiscard]] std::string machineText(const TraceComparison&);
[[nodiscard]] std::string machineSource(const TraceComparison&);
// "over tp" for a stream of messages, else its name.
[[nodiscard]] std::string streamLabel(const std::string& stream);

// Rows of the table of devices' time: name, measured, modelled.
struct TimeRow {
  std::string name;
  double measured = 0, modelled = 0;
};
[[nodiscard]] std::vector<TimeRow> timeRows(const TraceComparison&);

} // namespace dtc
