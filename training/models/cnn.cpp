#include <fmt/format.h>

#include "training/models/models.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kFirstChannels = 32;
constexpr std::uint32_t kSecondChannels = 64;

Status check_side(const ModelSpec& spec, std::uint32_t smallest) {
  if (spec.height < smallest || spec.width < smallest) {
    return fail(ErrorCode::bad_input,
                fmt::format("model {0} needs images of at least {1} x {1} pixels, these have {2} x "
                            "{3}: use mlp or softmax",
                            spec.name, smallest, spec.height, spec.width));
  }
  return {};
}

// Two pixels are lost on every axis by each 3 x 3 window, and one is left after the pool.
Status check_cnn(const ModelSpec& spec) { return check_side(spec, 6); }

std::vector<LayerPlan> cnn_layers(const ModelSpec& spec) {
  std::vector<LayerPlan> plans;
  plans.push_back(convolution_plan("conv1", {spec.height, spec.width, spec.channels}, kFirstChannels, 3));
  plans.push_back(convolution_plan("conv2", plans.back().to, kSecondChannels, 3));
  plans.push_back(max_pool_plan(plans.back().to));
  plans.push_back(dense_plan("dense1", plans.back().to.size(), spec.hidden, Activation::relu));
  plans.push_back(dense_plan("dense2", spec.hidden, spec.classes, Activation::none));
  return plans;
}

Status check_leaf(const ModelSpec& spec) { return check_side(spec, 4); }

std::vector<LayerPlan> leaf_layers(const ModelSpec& spec) {
  std::vector<LayerPlan> plans;
  plans.push_back(convolution_plan("conv1", {spec.height, spec.width, spec.channels}, kFirstChannels, 5, 2));
  plans.push_back(max_pool_plan(plans.back().to));
  plans.push_back(convolution_plan("conv2", plans.back().to, kSecondChannels, 5, 2));
  plans.push_back(max_pool_plan(plans.back().to));
  plans.push_back(dense_plan("dense1", plans.back().to.size(), spec.hidden, Activation::relu));
  plans.push_back(dense_plan("dense2", spec.hidden, spec.classes, Activation::none));
  return plans;
}

}  // namespace

// Of the CIFAR-10 and FEMNIST recipes of pfl-research (Granqvist et al. 2024, arXiv 2404.06430) and TensorFlow
// Federated (Reddi et al. 2021, arXiv 2003.00295), without their dropout.
const ModelRow kCnnModel = {"cnn", "two 3 x 3 convolutions (32, 64), a pool, one hidden dense layer (128 units)", 128,
                            check_cnn, cnn_layers};

// Of LEAF's FEMNIST (Caldas et al. 2018, arXiv 1812.01097).
const ModelRow kLeafCnnModel = {
    "leaf-cnn", "two padded 5 x 5 convolutions (32, 64) with pools, one hidden dense layer (2048 units)", 2048,
    check_leaf, leaf_layers};

}  // namespace gleaner
