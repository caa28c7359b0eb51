#pragma once
// Which collectives run beside computation, and which step waits for them, on a backend with a stream for communication.
#include "ByteUses.h"
#include "Program.h"

namespace dtc {

// Every collective at which devices meet gets a number (MeetingStep::aside), and runs behind what its device has started before it,
// beside what follows. A Join of that number stands before the first step that reads a byte of its results, or writes one of its
// results or operands. Bytes are those of the memory plan, so that what merely reuses a buffer waits, too; the plan itself need
// not know. A `done` is no step and adds nothing: what reads its results is behind it. Everything aside is joined at the end of a
// list of steps, before control flow and ops of the host, and before what no graph of `graphs` (null: none) can hold, so that
// no graph begins or ends with something aside.
// Collectives that have nothing beside them stay where they are. Collectives keep their order, so that joining one joins
// all before it. Between two such points steps are put in an order that leaves more beside a collective (AsideOrder.h), where the plan's
// bytes allow it: memory is what it was. Gives how many numbers there are.
[[nodiscard]] size_t overlapCollectives(const Module& m, Program& program, const GraphBackend* graphs);

// What a step that is no control flow reads and writes on each device, in this order, as offsets in its arena. (Literals are
// not among it: nobody writes them.)
struct ByteUse {
  ByteRange bytes;
  bool writes = false;
};
[[nodiscard]] std::vector<ByteUse> byteUsesOf(const Module& m, const Program& program, const Step& step);

} // namespace dtc
