// Devices whose candidate weighs little keep it for a later round. The threshold is the skip_share quantile of the
// previous round's left sides, so that about that share stays silent.

#include <algorithm>
#include <cmath>

#include "compression/rules/rules.hpp"

namespace gleaner {
namespace {

class ResidualRule final : public UploadRule {
 public:
  explicit ResidualRule(const UploadRuleOptions& options)
      : skip_share_(options.skip_share), age_max_(options.age_max) {}

  MemoryKind memory() const override { return MemoryKind::residual; }
  RuleState state() const override { return RuleState::none; }

  Result<Decision> decide(const RuleInput& input) const override {
    Decision decision;
    decision.left = input.weight * std::sqrt(input.candidate_squared_norm);
    decision.right = static_cast<double>(input.threshold);
    decision.send = input.age >= age_max_ || decision.left >= decision.right;
    return decision;
  }

  float next_threshold(const std::deque<RoundReport>& newest_last, double) const override {
    if (newest_last.empty() || skip_share_ == 0.0) return 0.0F;
    // What a device reports is not to be trusted with the order of a sort.
    std::vector<double> left;
    for (const double side : newest_last.back().left_sides) {
      if (std::isfinite(side) && side >= 0.0) left.push_back(side);
    }
    if (left.empty()) return 0.0F;
    const auto skipping = static_cast<std::ptrdiff_t>(skip_share_ * static_cast<double>(left.size()));
    std::ranges::nth_element(left, left.begin() + skipping);
    return threshold_from(left[static_cast<std::size_t>(skipping)]);
  }

 private:
  double skip_share_;
  std::uint32_t age_max_;
};

}  // namespace

std::unique_ptr<UploadRule> make_residual_rule(const UploadRuleOptions& options) {
  return std::make_unique<ResidualRule>(options);
}

}  // namespace gleaner
