#pragma once
// Matches the elements of two sequences by their keys, as `diff` matches lines.
#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

// The keys of all elements, one list per level from the strictest to the loosest. Equal keys mean that elements
// are equal at that level; key 0 matches nothing.
using MatchKeys = std::vector<std::vector<uint32_t>>;

// By element of A: the element of B that it is matched with, or -1. Increasing, and each element of B once.
//
// At each level, keys that are unique in both are matched first (patience diff, Bram Cohen), in the order of a
// longest increasing subsequence; what lies between two matches is matched on its own, and by the next level
// where no key is unique. Small remainders are matched by a longest common subsequence.
[[nodiscard]] std::vector<int32_t> matchSequences(const MatchKeys& a, const MatchKeys& b);

// Matches elements that are still free and have a key that is unique among the free ones of both, in any order.
void matchMoved(std::span<const uint32_t> a, std::span<const uint32_t> b, std::vector<int32_t>& matches);

} // namespace dtc
