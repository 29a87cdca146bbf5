#pragma once
// What an experiment leaves behind: rounds.jsonl and rounds.csv in its output directory, one line a round. A line is
// written whole before the round is committed, and --resume cuts off what is beyond the round that it goes on from, so
// that a killed and resumed experiment leaves the lines of one that ran through (real_s apart). Not thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace gleaner::simulation {

struct RoundRecord {
  std::uint32_t round = 0;  // from 1 on, ascending
  std::uint32_t version = 0;
  double virtual_s = 0.0;          // when the round closed
  double real_s = 0.0;             // spent on the experiment until then, all attempts together
  std::optional<double> accuracy;  // where the version was evaluated
  std::optional<double> loss;
  // Of this round, over all devices. Frames are what both ends encode, heartbeats apart; socket bytes are estimated
  // and have TLS records and heartbeats too.
  std::uint64_t payload_bytes_up = 0;
  std::uint64_t payload_bytes_down = 0;
  std::uint64_t frame_bytes_up = 0;
  std::uint64_t frame_bytes_down = 0;
  std::uint64_t socket_bytes_up = 0;
  std::uint64_t socket_bytes_down = 0;
  std::uint32_t uploads = 0;
  std::uint32_t skips = 0;
  std::uint32_t late = 0;
  std::uint32_t lapsed = 0;
  std::uint32_t reachable = 0;  // devices when the round closed

  friend bool operator==(const RoundRecord&, const RoundRecord&) = default;
};

// What every line is labelled with.
struct OutputLabel {
  std::string experiment;  // the run's name
  std::string data;        // Experiment::data_label(): says when the data is synthetic

  friend bool operator==(const OutputLabel&, const OutputLabel&) = default;
};

std::string to_json_line(const OutputLabel& label, const RoundRecord& record);  // with its newline
std::string csv_header();
std::string to_csv_line(const OutputLabel& label, const RoundRecord& record);

// One curve: a whole rounds.jsonl.
struct Recording {
  OutputLabel label;
  std::vector<RoundRecord> rounds;
};

// Errors (bad_input): with file, line and column. A last line without its newline is no mistake: it is left out.
Result<Recording> read_recording(const std::string& path);

class RoundOutput {
 public:
  // Makes the directory and empty files. Errors: conflict when there are lines of an earlier experiment; fatal.
  static Result<RoundOutput> create(const std::string& directory, OutputLabel label);

  // Goes on after last_round (0: none): later lines and half lines are cut off, nothing else is touched. Errors
  // (corrupt, bad_input): a line that is no record or has another label, or none for last_round; then both files stay
  // as they are. rounds.csv is written anew where it is missing.
  static Result<RoundOutput> resume(const std::string& directory, OutputLabel label, std::uint32_t last_round);

  RoundOutput(RoundOutput&& other) noexcept;
  RoundOutput& operator=(RoundOutput&& other) noexcept;
  ~RoundOutput();

  // One write to each file. Errors: no_space, after which the files are as before and the same record may come again.
  Status append(const RoundRecord& record);

  // All rounds so far, with those from before the resume.
  const std::vector<RoundRecord>& rounds() const { return rounds_; }

 private:
  RoundOutput(std::string directory, OutputLabel label);

  std::string directory_;
  OutputLabel label_;
  int jsonl_ = -1;
  int csv_ = -1;
  std::vector<RoundRecord> rounds_;
};

// The table at the end, for people: the last and the best accuracy, rounds, time, bytes up and down, uploads, skips.
std::string final_table(const OutputLabel& label, const std::vector<RoundRecord>& rounds);

}  // namespace gleaner::simulation
