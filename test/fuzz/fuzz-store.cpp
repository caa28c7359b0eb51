// The store of processes without MPI: no bytes of a client may crash it, or keep it from others.

#include "comm/TcpStore.h"

#include <cstdlib>
#include <sys/socket.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto server = dtc::TcpStoreServer::start(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  const auto client = dtc::connectTcp("localhost", (*server)->port(), deadline);
  if (!client) std::abort();
  (void)dtc::sendAll(*client, data, size, deadline); // it may have closed the connection already
  shutdown(client->get(), SHUT_WR);
  char byte = 0;
  while (dtc::receiveAll(*client, &byte, 1, deadline)) {}
  if (std::chrono::steady_clock::now() > deadline) std::abort(); // it still waits
  return 0;
}
