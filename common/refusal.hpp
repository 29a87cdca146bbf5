#pragma once
// What became of a plan, as both ends, the wire and the database say it. Values are stored and sent: never renumber.

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace gleaner {

// Why an update was refused. Content refusals name a fault in what was sent.
enum class RefusalCode : std::uint8_t {
  none = 0,
  stale_plan = 1,       // the plan is unknown or too old
  wrong_base = 2,       // made on another model than the plan's
  schema_mismatch = 3,  // other tensors than the run's
  malformed = 4,        // truncated, trailing or inconsistent bytes
  index_out_of_range = 5,
  unsorted_index = 6,
  repeated_index = 7,
  too_many_entries = 8,  // more than the plan granted
  non_finite = 9,        // NaN or infinity among the values
  over_bound = 10,       // a value beyond the plan's clip
  quota = 11,            // more bytes or messages than this device may have in flight
  wrong_weight = 12,     // another sample count than the device announced
  wrong_digest = 13,     // the bytes do not match their digest, or a second answer differs from the first
};

// How an answered or lapsed plan ended for the device; decides what happens to its residual.
enum class Outcome : std::uint8_t {
  unknown = 0,    // not decided yet: keep everything
  included = 1,   // committed to disk: drop the pending part
  skipped = 2,    // the device's own decision was recorded
  late = 3,       // put back
  stale = 4,      // put back
  quota = 5,      // put back
  abandoned = 6,  // put back
  refused = 7,    // refused for its content: those coordinates are zeroed and an alarm counts
};

std::string_view to_string(RefusalCode code);
std::string_view to_string(Outcome outcome);

// Faults of content end as Outcome::refused; the others put the pending part back.
bool is_content_fault(RefusalCode code);

// A refusal with the detail for the log: coordinate, count, limit.
class [[nodiscard]] Refusal {
 public:
  Refusal(RefusalCode code, std::string detail) : code_(code), detail_(std::move(detail)) {}
  RefusalCode code() const { return code_; }
  const std::string& detail() const { return detail_; }

 private:
  RefusalCode code_;
  std::string detail_;
};

template <class T>
using Admitted = std::expected<T, Refusal>;

inline std::unexpected<Refusal> refuse(RefusalCode code, std::string detail) {
  return std::unexpected<Refusal>(Refusal(code, std::move(detail)));
}

}  // namespace gleaner
