#pragma once
// How long storage takes for what a round and a snapshot write, beside the best that SQLite itself does for the same
// bytes: plain INSERTs of the same chunks in one transaction, on the same disk, under the same pragmas, in turns.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/error.hpp"

namespace gleaner {

struct StorageLoad {
  std::size_t aggregate_bytes = 1'600'000;
  std::size_t patch_bytes = 25'000;
  std::uint32_t answers = 100;
  std::size_t snapshot_bytes = 40'000'000;  // written in pieces of 4 MiB
  std::uint32_t commits = 60;
  std::uint32_t snapshots = 8;
};

struct Spread {  // of one kind of measurement
  double median_ms = 0.0;
  double p90_ms = 0.0;
};

struct StorageFigures {
  Spread commit;
  Spread plain_commit;     // aggregate and patch as chunk rows
  Spread snapshot;         // begin, pieces, finish with its pruning: a transaction each
  Spread plain_snapshot;   // the pieces in one transaction
  Spread plain_pieces;     // the pieces, a transaction each
  Spread snapshot_read;    // with its checksums
  Spread replayed_record;  // one record of the log read back
  std::uint64_t file_bytes = 0;
};

// Makes and removes its files in `folder`, which must exist. Checkpoints run between the measured parts.
Result<StorageFigures> measure_storage(const std::string& folder, const StorageLoad& load);

}  // namespace gleaner
