#include "training/models/models.hpp"

namespace gleaner {
namespace {

Status check(const ModelSpec&) { return {}; }

std::vector<LayerPlan> layers(const ModelSpec& spec) {
  return {dense_plan("dense1", spec.inputs, spec.classes, Activation::none)};
}

}  // namespace

const ModelRow kSoftmaxModel = {"softmax", "softmax regression: one dense layer", 0, check, layers};

}  // namespace gleaner
