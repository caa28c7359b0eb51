#include "OpLog.h"

#include "dtc/Files/TensorText.h"
#include "dtc/Support/Units.h"

namespace dtc {

void OpLog::step(const Executable& executable, const StringTable& strings, const StepInfo& s,
                 int64_t coordinate) {
  std::string line = "device " + deviceText(executable.mesh(), strings, coordinate) + ": ";
  size_t equals = s.op.rfind(" = ");
  line += (equals == std::string::npos ? "" : s.op.substr(0, equals + 3)) + s.name;
  if (s.what == "kernel" || s.what == "library") line += " (" + s.what + ")";
  if (s.bytes) line += (s.what == "collective" ? ", sends " : ", ") + bytesText(s.bytes);
  bool first = true;
  for (ValueId v : s.results)
    if (auto t = executable.value(v, coordinate); t) {
      line += first ? " -> " : ", ";
      first = false;
      line += t->numElements() <= 16 ? tensorText(*t) : std::to_string(t->numElements()) + " elements";
    }
  for (char& c : line)
    if (c == '\n') c = ' ';
  line += "\n";
  if (job_)
    lines_[coordinate] += line;
  else
    env_.err(line);
}

Status OpLog::end(Communicator& communicator, bool together) {
  if (!job_) return Ok{};
  std::string lines;
  for (const auto& [device, text] : lines_) lines += text;
  lines_.clear();
  std::vector<std::string> all = {lines};
  if (together) {
    DTC_TRY(all, communicator.gather(lines));
  }
  for (const std::string& text : all) env_.err(text);
  return Ok{};
}

} // namespace dtc
