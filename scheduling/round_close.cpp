#include "scheduling/round_close.hpp"

#include "common/check.hpp"

namespace gleaner {

RoundVerdict judge_round(const RoundProgress& progress) {
  const std::uint64_t settled = std::uint64_t{progress.answers} + progress.failed;
  GLEANER_CHECK(settled <= progress.planned);
  const std::uint64_t open = progress.planned - settled;
  const bool enough = progress.answers > 0 && progress.answers >= progress.answers_min;

  if (enough && progress.answers >= progress.answers_wanted) return RoundVerdict::close;
  if (open == 0) return enough ? RoundVerdict::close : RoundVerdict::abandon;
  if (progress.all_must_answer) return RoundVerdict::wait;
  if (progress.deadline == DeadlineState::passed) return enough ? RoundVerdict::close : RoundVerdict::abandon;
  if (progress.deadline == DeadlineState::none && progress.connected == 0 && enough) return RoundVerdict::close;
  return RoundVerdict::wait;
}

std::string_view to_string(RoundVerdict verdict) {
  switch (verdict) {
    case RoundVerdict::wait: return "wait";
    case RoundVerdict::close: return "close";
    case RoundVerdict::abandon: return "abandon";
  }
  return "unknown";
}

}  // namespace gleaner
