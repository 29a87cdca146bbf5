#pragma once
// The device daemon as a process: connection, heartbeat, back-off, signals, one worker thread.

#include "client/config.hpp"

namespace gleaner {

// Runs until SIGINT or SIGTERM. Returns the exit code: 0 after a clean end, 1 when the own machine failed, 2 when the
// own configuration is bad. Faults of the far side and of the network never end it.
int run_daemon(const ClientConfig& config);

}  // namespace gleaner
