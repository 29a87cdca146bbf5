#pragma once
// The newest committed model from the log: the newest snapshot and a deterministic replay of the records after it.

#include <string>
#include <vector>

#include "coordinator/engine/model_owner.hpp"
#include "storage/database.hpp"

namespace gleaner {

// Brings a fresh owner to row.version; corrupt when any version's hash differs from the log's. Blocking.
Status restore_model(Database& database, const RunRow& row, ModelOwner& owner);

struct StoredModel {
  ModelSpec spec;
  std::vector<float> parameters;
  Version version;
  std::uint64_t hash = 0;
};

// Of the run with that name, whatever its state.
Result<StoredModel> load_stored_model(Database& database, const std::string& run_name);

}  // namespace gleaner
