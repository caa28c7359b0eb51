#pragma once
// Messages between processes without MPI, over TCP: of torchrun, or of any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT. They are few and small: tensors go through NCCL.
#include "comm/MpiPlugin.h"
#include "dtc/Support/Result.h"

namespace dtc {

// Its init() waits up to `timeoutSeconds` for the other processes. Error (Usage): a variable is missing or malformed.
[[nodiscard]] Result<const DtcMpiTable*> tcpTransport(double timeoutSeconds);

} // namespace dtc
