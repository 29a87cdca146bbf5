#pragma once
// Keeps every device's residual a second time, from what it computed and from what the database says became of it. For
// runs whose devices keep residuals; others have no books.

#include <map>
#include <optional>
#include <vector>

#include "compression/payload.hpp"
#include "coordinator/run_settings.hpp"
#include "simulation/world/ledger.hpp"
#include "storage/database.hpp"

namespace gleaner::simulation {

class Books final : public Ledger {
 public:
  explicit Books(const RunSettings& settings);

  void answered(std::uint32_t device, std::span<const float> update, const session::Answer& answer) override;

  // When the experiment is over: every answer's outcome must be known or its plan open. state: of the device, null when
  // it never took part. The error says which device, coordinate and amounts.
  Status check(std::uint32_t device, ByteView state, Database& database, RunId run);
  std::uint64_t included() const { return included_; }  // answers that the database says were included
  bool applies() const { return applies_; }

 private:
  struct Entry {
    std::vector<float> update;
    PlanId plan;
    Digest digest;
    SparseVector sent;  // empty: a skip
  };
  Status replay(const Entry& entry, std::vector<float>& residual, Database& database, RunId run,
                std::optional<SparseVector>& in_flight);

  const RunSettings& settings_;
  Grouping grouping_;
  bool applies_ = false;
  std::map<std::uint32_t, std::vector<Entry>> entries_;
  std::uint64_t included_ = 0;
};

}  // namespace gleaner::simulation
