#pragma once
// A recording with where its lines end, to cut it off behind one of them.

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "simulation/output/round_output.hpp"

namespace gleaner::simulation {

struct RecordingLines {
  Recording recording;
  std::vector<std::uint64_t> ends;  // byte offset behind the newline of each record
};

// Errors as of read_recording().
Result<RecordingLines> read_recording_lines(const std::string& path);

}  // namespace gleaner::simulation
