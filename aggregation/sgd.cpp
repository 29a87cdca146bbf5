#include "aggregation/server_optimizer.hpp"

namespace gleaner {
namespace {

// step = rate * mean
class ServerSgd final : public ServerOptimizer {
 public:
  explicit ServerSgd(double rate) : rate_(rate) {}

  std::string_view name() const override { return "sgd"; }
  std::uint32_t state_per_coordinate() const override { return 0; }
  void step(std::span<double> mean, std::span<const double>, std::span<double>) const override {
    for (double& value : mean) value *= rate_;
  }

 private:
  double rate_;
};

}  // namespace

std::unique_ptr<ServerOptimizer> make_server_sgd(const ServerOptimizerOptions& options) {
  return std::make_unique<ServerSgd>(options.learning_rate);
}

}  // namespace gleaner
