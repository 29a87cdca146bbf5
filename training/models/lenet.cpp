#include <fmt/format.h>

#include "training/models/models.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kKernel = 5;
constexpr std::uint32_t kFirstChannels = 16;
constexpr std::uint32_t kSecondChannels = 32;
constexpr std::uint32_t kSmallestSide = 16;  // leaves one pixel after both convolutions and both pools

Status check(const ModelSpec& spec) {
  if (spec.height < kSmallestSide || spec.width < kSmallestSide) {
    return fail(ErrorCode::bad_input,
                fmt::format("model lenet needs images of at least {0} x {0} pixels, these have {1} x {2}: use mlp or "
                            "softmax",
                            kSmallestSide, spec.height, spec.width));
  }
  return {};
}

std::vector<LayerPlan> layers(const ModelSpec& spec) {
  std::vector<LayerPlan> plans;
  plans.push_back(convolution_plan("conv1", {spec.height, spec.width, spec.channels}, kFirstChannels, kKernel));
  plans.push_back(max_pool_plan(plans.back().to));
  plans.push_back(convolution_plan("conv2", plans.back().to, kSecondChannels, kKernel));
  plans.push_back(max_pool_plan(plans.back().to));
  plans.push_back(dense_plan("dense1", plans.back().to.size(), spec.hidden, Activation::relu));
  plans.push_back(dense_plan("dense2", spec.hidden, spec.classes, Activation::none));
  return plans;
}

}  // namespace

const ModelRow kLenetModel = {"lenet", "two 5 x 5 convolutions (16, 32) with pools, one hidden dense layer (128 units)",
                              128, check, layers};

}  // namespace gleaner
