#include "simulation/finished.hpp"

#include <filesystem>

#include "simulation/world/federation.hpp"

namespace gleaner::simulation {

Result<std::optional<FinishedExperiment>> find_finished(const Experiment& experiment, const std::string& folder) {
  GLEANER_TRY(Federation::check_resume(experiment, folder + "/state"));
  const std::string path = folder + "/rounds.jsonl";
  const std::string database_path = folder + "/state/run.db";
  if (!std::filesystem::exists(path) || !std::filesystem::exists(database_path)) return std::nullopt;
  GLEANER_ASSIGN(auto recording, read_recording(path));
  if (recording.rounds.empty() || recording.rounds.back().version < experiment.run.rounds) return std::nullopt;
  GLEANER_ASSIGN(const auto database, Database::open(database_path, Database::Access::inspect));
  GLEANER_ASSIGN(const auto runs, database->runs());
  if (runs.size() != 1 || runs.front().state != RunState::finished) return std::nullopt;
  return FinishedExperiment{.rounds = std::move(recording.rounds), .model_hash = runs.front().model_hash};
}

}  // namespace gleaner::simulation
