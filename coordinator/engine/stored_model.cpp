#include "coordinator/engine/stored_model.hpp"

#include <algorithm>

#include "common/log.hpp"
#include "common/text.hpp"

namespace gleaner {

Status restore_model(Database& database, const RunRow& row, ModelOwner& owner) {
  auto& model = owner.model();
  GLEANER_ASSIGN(auto snapshot, database.newest_snapshot(row.id));
  if (snapshot) GLEANER_TRY(model.load_snapshot(snapshot->bytes));
  std::uint32_t replayed = 0;
  GLEANER_TRY(database.replay(row.id, model.version(), [&](const CommitRecord& record) -> Status {
    GLEANER_ASSIGN(const double divisor, from_log(record.aggregate, owner.accumulator()));
    model.set_divisor(divisor);
    GLEANER_ASSIGN(auto step, model.prepare(std::move(owner.accumulator())));
    if (step.version != record.version || step.model_hash != record.model_hash) {
      return fail(ErrorCode::corrupt,
                  fmt::format("the replay of version {} gives a model with hash {}, the log says {}",
                              record.version.value, to_hex(step.model_hash), to_hex(record.model_hash)));
    }
    model.commit(std::move(step));
    ++replayed;
    return {};
  }));
  if (model.version() != row.version || (row.version.value > 0 && model.hash() != row.model_hash)) {
    return fail(ErrorCode::corrupt, fmt::format("recovery reaches version {}, the database is at version {}",
                                                model.version().value, row.version.value));
  }
  if (row.version.value > 0) {
    log_info("run {}: recovered version {} (hash {}) from a snapshot of version {} and {} records", row.name,
             row.version.value, to_hex(row.model_hash), snapshot ? snapshot->version.value : 0, replayed);
  }
  return {};
}

Result<StoredModel> load_stored_model(Database& database, const std::string& run_name) {
  GLEANER_ASSIGN(const auto rows, database.runs());
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const RunRow& r) { return r.name == run_name; });
  if (row == rows.end()) return fail(ErrorCode::not_found, "no run is called " + run_name);
  GLEANER_ASSIGN(auto settings, from_stored(row->settings));
  GLEANER_ASSIGN(const auto spec, model_of(settings));
  GLEANER_ASSIGN(const KernelTable* kernels, kernels_for(Backend::cpu));
  GLEANER_ASSIGN(auto owner, ModelOwner::make(settings, *kernels));
  GLEANER_TRY(restore_model(database, *row, owner));
  const auto parameters = owner.model().parameters();
  return StoredModel{spec, {parameters.begin(), parameters.end()}, owner.model().version(), owner.model().hash()};
}

}  // namespace gleaner
