#pragma once
// The differences of two programs that their users wrote: settings, and statements of the text.
#include "diff/MatchedStatements.h"
#include <set>

namespace dtc {

// Shardings do not mention axes of size 1: what they say in the other program is not a difference.
class ShardingEquality {
public:
  ShardingEquality(const ProgramSnapshot& a, const ProgramSnapshot& b);
  [[nodiscard]] bool operator()(const std::string& a, const std::string& b) const;

private:
  std::set<std::string> trivial_; // axes of size 1 in one of the programs
};

// "none" for a sharding that is not written.
[[nodiscard]] std::string shardingText(const std::string&);

struct FoundCause {
  DiffCause cause;
  std::vector<std::string> names; // of the equal ones
  std::vector<size_t> nodes;
  bool values = false; // only numbers that ops compute with differ, which change no cost
  bool loop = false;   // statements with a loop
};

struct Causes {
  std::vector<FoundCause> found; // the smallest first
  size_t types = 0;              // statements whose types follow from those of others
};

// By node: the names of a statement in the compiled program, one for each call of its function; empty if unknown.
using CompiledNames = std::vector<std::vector<std::string>>;

[[nodiscard]] Causes findCauses(const ProgramSnapshot& a, const ProgramSnapshot& b, const MatchedStatements&,
                                const ShardingEquality&, const CompiledNames&);

} // namespace dtc
