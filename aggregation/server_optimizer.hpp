#pragma once
// What the server makes of a round's mean before top-k': an additive step, in double, coordinate by coordinate. Only
// +, - and * (each correctly rounded, never fused), so that every machine gets the same bits. One optimiser is one file
// and one row in registry.cpp; names are stable on disk.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace gleaner {

struct ServerOptimizerOptions {
  double learning_rate = 1.0;
  double momentum = 0.9;
};

class ServerOptimizer {
 public:
  virtual ~ServerOptimizer() = default;
  virtual std::string_view name() const = 0;
  virtual std::uint32_t state_per_coordinate() const = 0;  // doubles
  // Turns the means of some neighbouring coordinates into the amounts to be subtracted from the model, in place.
  // before and after hold the state of these coordinates, state_per_coordinate() doubles each, and do not overlap.
  virtual void step(std::span<double> mean, std::span<const double> before, std::span<double> after) const = 0;
};

// "sgd", "momentum"; an unknown name lists the candidates. learning_rate above 0, momentum in [0, 1), both finite.
Result<std::unique_ptr<ServerOptimizer>> make_server_optimizer(std::string_view name,
                                                               const ServerOptimizerOptions& options);
std::vector<std::string> server_optimizer_names();

// The rows.
std::unique_ptr<ServerOptimizer> make_server_sgd(const ServerOptimizerOptions& options);
std::unique_ptr<ServerOptimizer> make_server_momentum(const ServerOptimizerOptions& options);

}  // namespace gleaner
