#include "training/model.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/random.hpp"
#include "common/text.hpp"
#include "training/models/models.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kMaxClasses = 256;  // labels are bytes
constexpr std::uint32_t kMaxInputs = 1U << 24;
constexpr std::uint32_t kMaxHidden = 1U << 20;
constexpr std::uint64_t kMaxParameters = 0x7fffffff;  // indices are 32 bits, those of BLAS are signed

// Addresses, since the rows live in other files and are initialised in no order that counts here.
constexpr std::array<const ModelRow*, 5> kRows = {&kSoftmaxModel, &kMlpModel, &kLenetModel, &kCnnModel, &kLeafCnnModel};

const ModelRow* find_row(std::string_view name) {
  for (const ModelRow* row : kRows) {
    if (row->name == name) return row;
  }
  return nullptr;
}

std::unexpected<Error> unknown_model(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelRow* row : kRows) names.emplace_back(row->name);
  const std::string near = nearest(name, names);
  return fail(ErrorCode::bad_input, fmt::format("unknown model \"{}\": there are {}{}", name, join_names(names),
                                                near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

Status check_range(std::string_view what, std::uint32_t value, std::uint32_t least, std::uint32_t most) {
  if (value >= least && value <= most) return {};
  return fail(ErrorCode::bad_input, fmt::format("model has {} {}: must be {} to {}", value, what, least, most));
}

}  // namespace

std::size_t TensorShape::size() const {
  return std::accumulate(dims.begin(), dims.end(), std::size_t{1}, std::multiplies<>());
}

std::vector<ModelSummary> known_models() {
  std::vector<ModelSummary> result;
  for (const ModelRow* row : kRows) result.push_back({row->name, row->summary});
  return result;
}

const ModelRow& model_row(const ModelSpec& spec) {
  const ModelRow* row = find_row(spec.name);
  GLEANER_CHECK(row != nullptr);
  return *row;
}

Result<ModelSpec> model_spec(const std::string& name, const DatasetShape& shape, const ModelOptions& options) {
  const ModelRow* row = find_row(name);
  if (row == nullptr) return unknown_model(name);
  ModelSpec spec = {.name = name,
                    .inputs = shape.features,
                    .classes = shape.classes,
                    .hidden = options.hidden == 0 ? row->default_hidden : options.hidden,
                    .height = shape.height,
                    .width = shape.width,
                    .channels = shape.channels};
  GLEANER_TRY(check_spec(spec));
  return spec;
}

Status check_spec(const ModelSpec& spec) {
  const ModelRow* row = find_row(spec.name);
  if (row == nullptr) return unknown_model(spec.name);
  GLEANER_TRY(check_range("inputs", spec.inputs, 1, kMaxInputs));
  GLEANER_TRY(check_range("classes", spec.classes, 2, kMaxClasses));
  if (row->default_hidden != 0) {
    GLEANER_TRY(check_range("hidden units", spec.hidden, 1, kMaxHidden));
  } else if (spec.hidden != 0) {
    return fail(ErrorCode::bad_input, fmt::format("model {} has no hidden layer, but {} hidden units were asked for",
                                                  spec.name, spec.hidden));
  }
  GLEANER_TRY(check_range("rows of pixels", spec.height, 1, kMaxInputs));
  GLEANER_TRY(check_range("columns of pixels", spec.width, 1, kMaxInputs));
  GLEANER_TRY(check_range("channels", spec.channels, 1, kMaxInputs));
  // Two factors of at most 2^24 first, so that the product of three cannot wrap unseen.
  const std::uint64_t area = std::uint64_t{spec.height} * spec.width;
  if (area > kMaxInputs || area * spec.channels != spec.inputs) {
    return fail(ErrorCode::bad_input, fmt::format("model has {} inputs, but images of {} x {} pixels and {} channels",
                                                  spec.inputs, spec.height, spec.width, spec.channels));
  }
  GLEANER_TRY(row->check(spec));
  std::uint64_t parameters = 0;
  for (const TensorShape& tensor : tensors_of(spec)) parameters += tensor.size();
  if (parameters > kMaxParameters) {
    return fail(ErrorCode::bad_input, fmt::format("model {} would have {} parameters, more than {}: use fewer hidden "
                                                  "units",
                                                  spec.name, parameters, kMaxParameters));
  }
  return {};
}

std::vector<TensorShape> tensors_of(const ModelSpec& spec) {
  std::vector<TensorShape> result;
  for (const LayerPlan& plan : model_row(spec).layers(spec)) {
    for (TensorShape& tensor : tensors_of(plan)) result.push_back(std::move(tensor));
  }
  return result;
}

std::size_t parameter_count(const ModelSpec& spec) {
  std::size_t count = 0;
  for (const TensorShape& tensor : tensors_of(spec)) count += tensor.size();
  return count;
}

std::uint64_t schema_hash(const ModelSpec& spec) {
  std::string text;
  for (const TensorShape& tensor : tensors_of(spec)) {
    text += fmt::format("{}[{}];", tensor.name, fmt::join(tensor.dims, ","));
  }
  return hash_of(text);
}

std::vector<float> initial_parameters(const ModelSpec& spec, std::uint64_t seed) {
  std::vector<float> result;
  result.reserve(parameter_count(spec));
  std::uint64_t stream = 0;
  for (const TensorShape& tensor : tensors_of(spec)) {
    Random random(seed, Purpose::initial_weights, stream++);
    const std::size_t size = tensor.size();
    if (tensor.dims.size() == 1) {
      result.resize(result.size() + size, 0.0F);
      continue;
    }
    // Division and square root are correctly rounded everywhere; fan_in is below 2^24 for every tensor that fits.
    const float bound = std::sqrt(3.0F / static_cast<float>(size / tensor.dims.back()));
    for (std::size_t i = 0; i < size; ++i) {
      // An odd number between -2^23 and 2^23: exact as a float, symmetric, never zero.
      const auto odd = static_cast<std::int32_t>(2 * (random.bits32() >> 9) + 1) - (1 << 23);
      result.push_back(static_cast<float>(odd) * 0x1.0p-23F * bound);
    }
  }
  return result;
}

}  // namespace gleaner
