#pragma once
// Whether a device sends at all: lazy rules. The device's half compares a left side with a right side and logs both;
// the coordinator's half makes the threshold that the next plans carry. One rule is one file and one row in the table.
//   always    sends.
//   residual  sends when weight * ||candidate|| reaches the plan's threshold (a quantile of the previous round's left
//   sides),
//             or after age_max rounds of silence; what is not sent stays in the residual.
//   lasg-wk2  sends when ||g(w; xi) - g(w_hat; xi)||^2 >= R, the same batch xi on two models (LASG/CADA2: Chen, Sun,
//   Yin 2020);
//             R = c0 / D * sum of the last D squared steps of the model over the squared learning rate; tracked memory.
//   clag      sends when ||g - h||^2 > zeta * ||g - g_prev||^2 (Richtarik et al. 2022, 3PC); tracked memory.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "compression/compressor.hpp"

namespace gleaner {

struct UploadRuleOptions {
  double skip_share = 0.0;     // residual: the share of devices meant to stay silent, in [0, 1)
  std::uint32_t age_max = 10;  // rounds after which a device sends in any case; at least 1
  double c0 = 1.0;             // lasg-wk2: factor on R (the mean is taken, so there is no 1/M^2)
  std::uint32_t history = 10;  // lasg-wk2: D
  double zeta = 1.0;           // clag
};

struct RuleInput {
  double weight = 0.0;                  // of the device in the mean: samples over the divisor
  std::uint32_t age = 0;                // rounds since it last sent; a device that never sent has age_max
  float threshold = 0.0F;               // from the plan
  std::span<const float> update;        // g
  double candidate_squared_norm = 0.0;  // of residual + g, or of g - h
  std::span<const float> state;         // the rule's own device state (w_hat or g_prev), empty before the first upload
  std::function<Result<double>()> gradient_difference;  // ||g(w; xi) - g(w_hat; xi)||^2, computed only when asked for
};

struct Decision {
  bool send = true;
  double left = 0.0;
  double right = 0.0;
};

// What the coordinator knows after a committed round.
struct RoundReport {
  double step_squared_norm = 0.0;  // ||w_{t+1} - w_t||^2
  std::vector<double> left_sides;  // of all who answered, skips included, in device order
};

enum class RuleState : std::uint8_t { none = 0, last_upload_model = 1, previous_update = 2 };

class UploadRule {
 public:
  virtual ~UploadRule() = default;
  virtual MemoryKind memory() const = 0;
  virtual RuleState state() const = 0;  // a vector of dimension floats that the device keeps for the rule
  virtual Result<Decision> decide(const RuleInput& input) const = 0;  // device
  virtual float next_threshold(const std::deque<RoundReport>& newest_last,
                               double learning_rate) const = 0;  // coordinator
};

Result<std::unique_ptr<UploadRule>> make_upload_rule(std::string_view name, const UploadRuleOptions& options);
std::vector<std::string> upload_rule_names();

}  // namespace gleaner
