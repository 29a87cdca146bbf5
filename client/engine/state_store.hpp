#pragma once
// Where a device's state of a run lies: one blob, replaced as a whole or not at all.

#include <memory>
#include <string>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"

namespace gleaner {

class StateStore {
 public:
  virtual ~StateStore() = default;
  virtual Result<std::shared_ptr<const Bytes>> load(RunId run) = 0;  // null: the run is new here
  virtual Status save(RunId run, Bytes state) = 0;  // durable when it returns; no_space leaves the old state
  // Forgets ended runs but the newest `keep`.
  virtual Status prune(RunId in_use, std::size_t keep) = 0;
};

// One file a run in a directory (made when missing, mode 0700): written beside, synced, renamed. A lock file keeps a
// second daemon off the same directory (conflict).
Result<std::unique_ptr<StateStore>> open_file_store(const std::string& directory);

// For the simulator and tests.
std::unique_ptr<StateStore> make_memory_store();

}  // namespace gleaner
