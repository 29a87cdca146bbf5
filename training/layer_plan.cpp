#include "training/layer_plan.hpp"

#include <utility>

namespace gleaner {

LayerPlan dense_plan(std::string name, std::size_t inputs, std::uint32_t outputs, Activation activation) {
  return {.kind = LayerKind::dense,
          .name = std::move(name),
          .from = {1, 1, static_cast<std::uint32_t>(inputs)},
          .to = {1, 1, outputs},
          .kernel = 0,
          .activation = activation};
}

LayerPlan convolution_plan(std::string name, ImageShape from, std::uint32_t outputs, std::uint32_t kernel,
                           std::uint32_t padding) {
  return {.kind = LayerKind::convolution,
          .name = std::move(name),
          .from = from,
          .to = {from.height + 2 * padding - kernel + 1, from.width + 2 * padding - kernel + 1, outputs},
          .kernel = kernel,
          .padding = padding,
          .activation = Activation::relu};
}

LayerPlan max_pool_plan(ImageShape from) {
  return {.kind = LayerKind::max_pool,
          .name = {},
          .from = from,
          .to = {from.height / 2, from.width / 2, from.channels},
          .kernel = 0,
          .activation = Activation::none};
}

std::vector<TensorShape> tensors_of(const LayerPlan& plan) {
  const std::uint32_t outputs = plan.to.channels;
  switch (plan.kind) {
    case LayerKind::dense:
      return {{plan.name + ".weight", {plan.from.channels, outputs}}, {plan.name + ".bias", {outputs}}};
    case LayerKind::convolution:
      return {{plan.name + ".weight", {plan.kernel, plan.kernel, plan.from.channels, outputs}},
              {plan.name + ".bias", {outputs}}};
    case LayerKind::max_pool: return {};
  }
  return {};
}

}  // namespace gleaner
