#pragma once
// The coordinator as a process: threads, signals, database, devices, administration.

#include <memory>

#include "coordinator/config.hpp"

namespace gleaner {

struct ServiceOptions {
  int ready_fd = -1;  // gets "PORT HTTP_PORT\n" once everything listens; -1: none
};

// Runs until SIGINT or SIGTERM; SIGHUP reads certificates and the deny list again. Returns the exit code: 0 after a
// clean end, 1 when the own machine failed (the message is logged), 2 for a configuration that cannot be served.
int run_service(const CoordinatorConfig& config, const ServiceOptions& options);

}  // namespace gleaner
