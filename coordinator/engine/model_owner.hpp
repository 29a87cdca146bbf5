#pragma once
// The model, the open round's sum and the prepared step, in one place that only compute jobs touch.

#include <optional>

#include "aggregation/accumulator.hpp"
#include "aggregation/server_model.hpp"
#include "coordinator/run_settings.hpp"
#include "training/model.hpp"

namespace gleaner {

class ModelOwner {
 public:
  static Result<ModelOwner> make(const RunSettings& settings, const KernelTable& kernels);

  ServerModel& model() { return model_; }
  const ServerModel& model() const { return model_; }
  Accumulator& accumulator() { return accumulator_; }
  const Grouping& tensors() const { return tensors_; }
  const Grouping& upload_grouping() const { return upload_grouping_; }

  std::optional<PreparedStep> prepared;

 private:
  ModelOwner(ServerModel model, Accumulator accumulator, Grouping tensors, Grouping upload)
      : model_(std::move(model)),
        accumulator_(std::move(accumulator)),
        tensors_(std::move(tensors)),
        upload_grouping_(std::move(upload)) {}

  ServerModel model_;
  Accumulator accumulator_;
  Grouping tensors_;
  Grouping upload_grouping_;
};

// What the log keeps of a round's sum: f64 divisor, then Accumulator::to_record().
Bytes to_log(double divisor, const Accumulator& accumulator);
Result<double> from_log(ByteView bytes, Accumulator& accumulator);  // returns the divisor

// Both ends derive the grouping of uploads from the run: one group, or one a tensor.
Grouping tensor_grouping(const ModelSpec& spec);
Grouping upload_grouping(const RunSpec& spec, const Grouping& tensors);
Result<ModelSpec> model_of(const RunSettings& settings);

}  // namespace gleaner
