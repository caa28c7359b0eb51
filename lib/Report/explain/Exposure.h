#pragma once
// Exposed time, as every verb states it: of a message, the time in which the computation of its device stands still
// while the message is transferred. A wait for one message may begin during an earlier one that holds its axes.
#include <algorithm>
#include <cstddef>
#include <limits>

namespace dtc {

// Divides a device's wait for messages[id], which begins at `now`, among the messages that are transferred meanwhile,
// the last one first: charge(message, exposed, idle), where `idle` is the time before the message begins in which no
// message that it waits for is transferred. The parts sum to the wait. As `now` only grows, no moment of a message is
// charged twice: 0 <= exposed <= its time. A message has `begin`, `end()` and `after`, the messages it waits for.
template <class Messages, class Charge>
void divideWait(const Messages& messages, size_t id, double now, Charge&& charge) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  while (id != kNone && messages[id].end() > now) {
    const auto& message = messages[id];
    size_t last = kNone;
    double free = now; // the end of the last message before it
    for (size_t before : message.after)
      if (const double end = std::min(messages[before].end(), message.begin); before != id && end > free)
        last = before, free = end;
    const double begin = std::max(message.begin, now);
    charge(id, message.end() - begin, begin - free);
    id = last;
  }
}

} // namespace dtc
