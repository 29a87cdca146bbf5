#include "coordinator/engine/model_owner.hpp"

namespace gleaner {

Result<ModelSpec> model_of(const RunSettings& settings) {
  GLEANER_ASSIGN(auto spec, model_spec(settings.spec.model, settings.shape, {.hidden = settings.spec.hidden_units}));
  if (schema_hash(spec) != settings.spec.schema_hash || parameter_count(spec) != settings.spec.dimension) {
    return fail(ErrorCode::corrupt, "run " + settings.spec.name +
                                        ": the stored settings describe another model than this release makes of them");
  }
  return spec;
}

Bytes to_log(double divisor, const Accumulator& accumulator) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(divisor);
  accumulator.append_record(bytes);
  return bytes;
}

Result<double> from_log(ByteView bytes, Accumulator& accumulator) {
  ByteReader reader(bytes);
  const auto divisor = reader.get<double>();
  if (!reader.ok()) return fail(ErrorCode::corrupt, "a record of the log is too short");
  GLEANER_TRY(accumulator.load(bytes.subspan(sizeof(divisor))));
  return divisor;
}

Grouping tensor_grouping(const ModelSpec& spec) {
  Grouping grouping;
  for (const auto& tensor : tensors_of(spec)) grouping.sizes.push_back(static_cast<std::uint32_t>(tensor.size()));
  return grouping;
}

Grouping upload_grouping(const RunSpec& spec, const Grouping& tensors) {
  return spec.per_tensor ? tensors : Grouping{{spec.dimension}};
}

Result<ModelOwner> ModelOwner::make(const RunSettings& settings, const KernelTable& kernels) {
  GLEANER_ASSIGN(auto spec, model_of(settings));
  const Grouping tensors = tensor_grouping(spec);
  ServerStepOptions options = settings.step;
  // The divisor becomes known with the first plans; until then nothing is stepped.
  if (settings.fixed_divisor) options.divisor = 1.0;
  GLEANER_ASSIGN(auto model,
                 ServerModel::make(initial_parameters(spec, settings.spec.seed), options, tensors, kernels));
  return ModelOwner(std::move(model), Accumulator(settings.spec.dimension, kernels), tensors,
                    ::gleaner::upload_grouping(settings.spec, tensors));
}

}  // namespace gleaner
