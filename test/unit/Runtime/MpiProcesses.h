#pragma once
// The processes that mpirun has started for a test (test/checks/mpi.py).
#include "dtc/Runtime/comm/Processes.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace dtc {

inline bool startedByMpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE"); }

inline Processes* mpiProcesses() { // null: MPI does not start
  static const std::unique_ptr<Processes> opened = [] {
    auto made = Processes::open(60);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }();
  return opened.get();
}

} // namespace dtc
