// Every device sends in every round.

#include <cmath>

#include "compression/rules/rules.hpp"

namespace gleaner {
namespace {

class Always final : public UploadRule {
 public:
  MemoryKind memory() const override { return MemoryKind::residual; }
  RuleState state() const override { return RuleState::none; }
  Result<Decision> decide(const RuleInput& input) const override {
    return Decision{.send = true, .left = input.weight * std::sqrt(input.candidate_squared_norm), .right = 0.0};
  }
  float next_threshold(const std::deque<RoundReport>&, double) const override { return 0.0F; }
};

}  // namespace

std::unique_ptr<UploadRule> make_always(const UploadRuleOptions&) { return std::make_unique<Always>(); }

}  // namespace gleaner
