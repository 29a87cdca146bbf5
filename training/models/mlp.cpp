#include "training/models/models.hpp"

namespace gleaner {
namespace {

Status check(const ModelSpec&) { return {}; }

std::vector<LayerPlan> layers(const ModelSpec& spec) {
  return {dense_plan("dense1", spec.inputs, spec.hidden, Activation::relu),
          dense_plan("dense2", spec.hidden, spec.classes, Activation::none)};
}

}  // namespace

const ModelRow kMlpModel = {"mlp", "one hidden dense layer with ReLU (200 units)", 200, check, layers};

}  // namespace gleaner
