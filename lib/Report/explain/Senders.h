#pragma once
// Messages between the functions of a program whose devices differ.
#include "dtc/IR/DevicePrograms.h"

#include <map>
#include <optional>

namespace dtc {

// Each end of a `p2p` has the op. Where no device sends a tensor, its operand only has the type: this finds the op that
// sends it. The functions of a program have the messages between two of them in the same order.
class Senders {
public:
  // Of the messages of function `f` in a partitioned program. `m` must not change while this object is used.
  Senders(const Module& m, FuncId f);

  struct Sender {
    FuncId function;
    OpId message;
  };
  // Nothing if the function sends the operand itself, or nobody does.
  [[nodiscard]] std::optional<Sender> of(OpId message, uint32_t operand) const;

private:
  using Messages = std::map<std::string, std::vector<OpId>>; // by what identifies them
  [[nodiscard]] Messages messagesOf(FuncId) const;
  [[nodiscard]] std::string keyOf(OpId) const;
  // The function that sends an operand; invalid: none.
  [[nodiscard]] FuncId senderOf(OpId message, uint32_t operand) const;

  const Module& m_;
  FuncId function_;
  Mesh mesh_;
  DevicePrograms programs_;
  Messages own_;
  mutable std::map<FuncId, Messages> others_;
};

} // namespace dtc
