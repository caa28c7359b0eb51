#pragma once
// The parts of the table of KindPages.h, one file each.
#include "dtc/Report/KindPages.h"

namespace dtc {

std::span<const KindPage> kindPagesOfText();      // characters, words, statements, names
std::span<const KindPage> kindPagesOfTypes();     // types, numbers, attributes
std::span<const KindPage> kindPagesOfShardings(); // meshes, shardings, local text
std::span<const KindPage> kindPagesOfOps();       // what single ops ask for
std::span<const KindPage> kindPagesOfRegions();   // functions, calls, blocks, gradients
std::span<const KindPage> kindPagesOfPasses();    // policies, partitioning, contracts
std::span<const KindPage> kindPagesOfFiles();     // other formats, running, the command line

} // namespace dtc
