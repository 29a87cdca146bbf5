#include "common/refusal.hpp"

namespace gleaner {

std::string_view to_string(RefusalCode code) {
  switch (code) {
    case RefusalCode::none: return "none";
    case RefusalCode::stale_plan: return "stale plan";
    case RefusalCode::wrong_base: return "wrong base model";
    case RefusalCode::schema_mismatch: return "schema mismatch";
    case RefusalCode::malformed: return "malformed payload";
    case RefusalCode::index_out_of_range: return "index out of range";
    case RefusalCode::unsorted_index: return "unsorted index";
    case RefusalCode::repeated_index: return "repeated index";
    case RefusalCode::too_many_entries: return "more entries than granted";
    case RefusalCode::non_finite: return "non-finite value";
    case RefusalCode::over_bound: return "value over bound";
    case RefusalCode::quota: return "quota";
    case RefusalCode::wrong_weight: return "wrong weight";
    case RefusalCode::wrong_digest: return "wrong digest";
  }
  return "unknown refusal";
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::unknown: return "unknown";
    case Outcome::included: return "included";
    case Outcome::skipped: return "skipped";
    case Outcome::late: return "late";
    case Outcome::stale: return "stale";
    case Outcome::quota: return "quota";
    case Outcome::abandoned: return "abandoned";
    case Outcome::refused: return "refused";
  }
  return "unknown outcome";
}

bool is_content_fault(RefusalCode code) {
  switch (code) {
    case RefusalCode::none:
    case RefusalCode::stale_plan:
    case RefusalCode::wrong_base:
    case RefusalCode::quota: return false;
    default: return true;
  }
}

}  // namespace gleaner
