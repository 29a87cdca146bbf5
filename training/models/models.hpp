#pragma once
// The rows of the model table. A new model is one file here and one line in training/model.cpp.

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "training/layer_plan.hpp"
#include "training/model.hpp"

namespace gleaner {

struct ModelRow {
  std::string_view name;
  std::string_view summary;
  std::uint32_t default_hidden;                             // 0: the model has no hidden dense layer
  Status (*check)(const ModelSpec& spec);                   // what only this model demands
  std::vector<LayerPlan> (*layers)(const ModelSpec& spec);  // of a spec that passed check
};

extern const ModelRow kSoftmaxModel;
extern const ModelRow kMlpModel;
extern const ModelRow kLenetModel;
extern const ModelRow kCnnModel;
extern const ModelRow kLeafCnnModel;

// The row of a spec that passed check_spec().
const ModelRow& model_row(const ModelSpec& spec);

}  // namespace gleaner
