#include <fmt/format.h>

#include <array>
#include <cmath>

#include "aggregation/server_optimizer.hpp"
#include "common/text.hpp"

namespace gleaner {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<ServerOptimizer> (*make)(const ServerOptimizerOptions& options);
};

constexpr std::array kServerOptimizers = {
    Row{"sgd", make_server_sgd},
    Row{"momentum", make_server_momentum},
};

}  // namespace

std::vector<std::string> server_optimizer_names() {
  std::vector<std::string> names;
  for (const Row& row : kServerOptimizers) names.emplace_back(row.name);
  return names;
}

Result<std::unique_ptr<ServerOptimizer>> make_server_optimizer(std::string_view name,
                                                               const ServerOptimizerOptions& options) {
  if (!(std::isfinite(options.learning_rate) && options.learning_rate > 0.0)) {
    return fail(ErrorCode::bad_input,
                fmt::format("the server's learning rate is {}: it must be above 0", options.learning_rate));
  }
  if (!(options.momentum >= 0.0 && options.momentum < 1.0)) {
    return fail(ErrorCode::bad_input,
                fmt::format("the server's momentum is {}: it must be at least 0 and below 1", options.momentum));
  }
  for (const Row& row : kServerOptimizers) {
    if (row.name == name) return row.make(options);
  }
  return fail(ErrorCode::bad_input,
              fmt::format("unknown server optimizer '{}': use {}", name, join_names(server_optimizer_names())));
}

}  // namespace gleaner
