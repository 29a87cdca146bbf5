#include "aggregation/server_optimizer.hpp"

namespace gleaner {
namespace {

// m' = momentum * m + mean; step = rate * m' (Polyak's heavy ball; FedAvgM of Hsu, Qi, Brown 2019, section 4.3)
class ServerMomentum final : public ServerOptimizer {
 public:
  explicit ServerMomentum(const ServerOptimizerOptions& options)
      : rate_(options.learning_rate), momentum_(options.momentum) {}

  std::string_view name() const override { return "momentum"; }
  std::uint32_t state_per_coordinate() const override { return 1; }
  void step(std::span<double> mean, std::span<const double> before, std::span<double> after) const override {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      after[i] = momentum_ * before[i] + mean[i];
      mean[i] = rate_ * after[i];
    }
  }

 private:
  double rate_;
  double momentum_;
};

}  // namespace

std::unique_ptr<ServerOptimizer> make_server_momentum(const ServerOptimizerOptions& options) {
  return std::make_unique<ServerMomentum>(options);
}

}  // namespace gleaner
