// CLAG (Richtarik et al. 2022, 3PC: lazy aggregation with EF21): a device sends the compressed g - h when
// ||g - h||^2 > zeta * ||g - g_prev||^2, where g_prev is its update of the previous round. A silent round leaves h as
// it is on both sides. No threshold comes from the coordinator.

#include <cmath>

#include "common/check.hpp"
#include "compression/rules/rules.hpp"

namespace gleaner {
namespace {

// In eight lanes by index, folded in order: fast, and the same wherever it runs.
double squared_distance(std::span<const float> a, std::span<const float> b) {
  GLEANER_CHECK(a.size() == b.size());
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  const auto add = [&](std::size_t lane, std::size_t i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    lanes[lane] += difference * difference;
  };
  const std::size_t whole = a.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  }
  for (std::size_t i = whole; i < a.size(); ++i) add(i - whole, i);
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

class Clag final : public UploadRule {
 public:
  explicit Clag(const UploadRuleOptions& options) : zeta_(options.zeta), age_max_(options.age_max) {}

  MemoryKind memory() const override { return MemoryKind::tracked; }
  RuleState state() const override { return RuleState::previous_update; }

  Result<Decision> decide(const RuleInput& input) const override {
    Decision decision{.send = true, .left = input.candidate_squared_norm, .right = 0.0};
    if (input.state.empty()) return decision;
    decision.right = zeta_ * squared_distance(input.update, input.state);
    decision.send = input.age >= age_max_ || decision.left > decision.right;
    return decision;
  }

  float next_threshold(const std::deque<RoundReport>&, double) const override { return 0.0F; }

 private:
  double zeta_;
  std::uint32_t age_max_;
};

}  // namespace

std::unique_ptr<UploadRule> make_clag(const UploadRuleOptions& options) { return std::make_unique<Clag>(options); }

}  // namespace gleaner
