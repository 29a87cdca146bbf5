#pragma once
// The models in double precision by plain loops, straight from their definitions: what the networks are compared
// with.

#include <cstdint>
#include <span>
#include <vector>

#include "training/model.hpp"

namespace gleaner::testing {

// Mean cross-entropy of the batch.
double reference_loss(const ModelSpec& spec, std::span<const double> parameters, std::span<const float> inputs,
                      std::span<const std::uint8_t> labels);

}  // namespace gleaner::testing
