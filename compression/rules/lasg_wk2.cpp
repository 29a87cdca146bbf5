// LASG-WK2, which is CADA2 (Chen, Sun, Yin 2020; Chen, Guo, Sun, Yin 2021): a device sends when its gradient on the
// same batch has changed enough since the model of its last upload.
//   R = c0 / (eta^2 D) * sum of the last D values of ||w_{t+1} - w_t||^2
// The papers' R has a further 1 / M^2, because their server steps along the sum of M gradients with the rate eta_sum.
// Here the server steps along the mean with the rate eta = M * eta_sum, so that c0 = 1 is their rule; whoever kept the
// 1 / M^2 beside a mean would divide twice, and nobody would ever be silent.

#include <cmath>

#include "compression/rules/rules.hpp"

namespace gleaner {
namespace {

class LasgWk2 final : public UploadRule {
 public:
  explicit LasgWk2(const UploadRuleOptions& options)
      : c0_(options.c0), history_(options.history), age_max_(options.age_max) {}

  MemoryKind memory() const override { return MemoryKind::tracked; }
  RuleState state() const override { return RuleState::last_upload_model; }

  // The left side is computed only when it decides; otherwise it is logged as 0.
  Result<Decision> decide(const RuleInput& input) const override {
    Decision decision{.send = true, .left = 0.0, .right = static_cast<double>(input.threshold)};
    if (input.age >= age_max_ || input.state.empty() || decision.right <= 0.0) return decision;
    GLEANER_ASSIGN(decision.left, input.gradient_difference());
    if (!std::isfinite(decision.left)) {
      return fail(ErrorCode::bad_input,
                  "the gradient difference of the upload rule lasg-wk2 is not finite: training "
                  "diverged; lower the learning rate or clip the gradients");
    }
    decision.send = decision.left >= decision.right;
    return decision;
  }

  // With fewer than D rounds behind it R is smaller, and 0 at first: then everybody sends.
  float next_threshold(const std::deque<RoundReport>& newest_last, double learning_rate) const override {
    if (!(learning_rate > 0.0)) return 0.0F;
    double sum = 0.0;
    std::uint32_t taken = 0;
    for (auto report = newest_last.rbegin(); report != newest_last.rend() && taken < history_; ++report, ++taken) {
      sum += report->step_squared_norm;
    }
    return threshold_from(c0_ * sum / (static_cast<double>(history_) * learning_rate * learning_rate));
  }

 private:
  double c0_;
  std::uint32_t history_;
  std::uint32_t age_max_;
};

}  // namespace

std::unique_ptr<UploadRule> make_lasg_wk2(const UploadRuleOptions& options) {
  return std::make_unique<LasgWk2>(options);
}

}  // namespace gleaner
