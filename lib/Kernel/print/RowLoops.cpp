#include "print/RowLoops.h"

#include <algorithm>

namespace dtc {

using namespace loops;

// The coordinates of a pack's first element that `body` uses, where the row has several axes.
void RowLoops::coordinates(Text& step, const Text& body) const {
  std::string rest = "at";
  for (size_t i = row_.axes.size(); i-- > 0;) {
    const AxisId a = row_.axes[i];
    const std::string extent = sizeText(k_.axes[a].extent),
                      name = i + 1 == row_.axes.size() ? first() : axisName(a);
    if (body.uses(name))
      line(step, "const " + index_ + " " + name + " = " + rest + (i == 0 ? "" : " % (" + extent + ")") + ";");
    rest = "(" + rest + " / (" + extent + "))";
  }
}

void RowLoops::eachPack(Text& home, const Text& body) const {
  const bool several = row_.axes.size() > 1;
  const int64_t packs =
                    (s_.edged ? std::max<int64_t>(0, row_.elements - s_.pack + 1) : row_.elements) / s_.pack,
                full = packs / s_.rowThreads();
  const std::string at = several ? "at" : first(), threads = std::to_string(s_.rowThreads()),
                    position = s_.rowThreads() == 1 ? "step" : "step * " + threads + " + thread",
                    from = streamed() ? "chunk + "
                           : s_.edged ? "head + "
                                      : "";
  Text step, declared;
  step.indent = declared.indent = home.indent + 1;
  if (several) coordinates(declared, body);
  const bool guarded = streamed() || full < s_.steps;
  if (guarded || !declared.text.empty() || body.uses(at))
    line(step, "const " + (several && !streamed() ? "i32" : index_) + " " + at + " = " + from +
                   (s_.pack == 1 && from.empty() ? position
                    : s_.pack == 1               ? "(" + position + ")"
                                                 : "(" + position + ") * " + std::to_string(s_.pack)) +
                   ";");
  if (guarded)
    line(step, "if (" + (!streamed() && full > 0 ? "step >= " + std::to_string(full) + " && " : "") + at +
                   " >= " + (s_.edged ? "tail" : sizeText(row_.length)) + ") continue;");
  if (body.uses("edge")) line(step, "constexpr bool edge = false;");
  home.text += s_.keep == RowSchedule::Keep::Shared ? "#pragma unroll 4\n" : "#pragma unroll\n";
  line(home, "for (i32 step = 0; step < " + std::to_string(s_.steps) + "; ++step) {");
  append(home, step);
  append(home, declared);
  append(home, body);
  line(home, "}");
}

void RowLoops::eachEdge(Text& home, const Text& body) const {
  if (!s_.edged) return;
  Text edge;
  edge.indent = home.indent + 1;
  if (body.uses("edge")) line(edge, "constexpr bool edge = true;");
  if (body.uses("step"))
    line(edge, "constexpr i32 step = " + std::to_string(streamed() ? 0 : s_.steps) + ";");
  if (body.uses("lane")) line(edge, "constexpr i32 lane = 0;");
  if (body.uses(first()))
    line(edge, "const " + index_ + " " + first() + " = thread < head ? thread : tail + (thread - head);");
  line(home, "if (thread < edges) {");
  append(home, edge);
  append(home, body);
  line(home, "}");
}

void RowLoops::pass(Text& home, const Text& arrays, const Text& loads, const Text& body,
                    const Text& one) const {
  Text edge = arrays;
  append(edge, loads);
  append(edge, one);
  if (streamed()) {
    line(home, "for (" + index_ + " chunk = " + (s_.edged ? "head" : "0") + "; chunk < " +
                   (s_.edged ? "tail" : sizeText(row_.length)) +
                   "; chunk += " + std::to_string(s_.steps * s_.rowThreads() * s_.pack) + ") {");
    Text chunk = arrays;
    chunk.indent = home.indent + 1;
    if (!loads.text.empty()) eachPack(chunk, loads);
    eachPack(chunk, body);
    append(home, chunk);
    line(home, "}");
  } else {
    eachPack(home, body);
  }
  eachEdge(home, edge);
}

} // namespace dtc
