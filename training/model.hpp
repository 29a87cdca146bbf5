#pragma once
// What a model is: a name from the table, its sizes, and from them the order, names and shapes of its tensors in the
// one flat vector of floats that everything else works on. The first model of a run is a spec and a seed, not bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "training/dataset.hpp"

namespace gleaner {

struct TensorShape {
  std::string name;
  std::vector<std::uint32_t> dims;  // the last one runs fastest
  std::size_t size() const;
};

struct ModelSpec {
  std::string name;           // a row of the table: softmax, mlp, lenet, cnn, leaf-cnn
  std::uint32_t inputs = 0;   // features of a sample
  std::uint32_t classes = 0;  // 2 to 256
  std::uint32_t hidden = 0;   // units of the hidden dense layer; 0 where the model has none
  std::uint32_t height = 0;   // of the image; height x width x channels = inputs
  std::uint32_t width = 0;
  std::uint32_t channels = 0;

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

struct ModelOptions {
  std::uint32_t hidden = 0;  // 0: what the model's row says
};

struct ModelSummary {
  std::string_view name;
  std::string_view summary;
};
std::vector<ModelSummary> known_models();

// A checked spec for samples of that shape. Errors (bad_input): unknown name, sizes that the model cannot have.
Result<ModelSpec> model_spec(const std::string& name, const DatasetShape& shape, const ModelOptions& options = {});

// For a spec that came from outside: names what is wrong with it. Everything below demands a spec that passes.
Status check_spec(const ModelSpec& spec);

std::vector<TensorShape> tensors_of(const ModelSpec& spec);
std::size_t parameter_count(const ModelSpec& spec);

// Hash of the names and shapes of all tensors in order: equal exactly where parameters can be exchanged.
std::uint64_t schema_hash(const ModelSpec& spec);

// Weights uniform in +-sqrt(3 / fan_in), biases zero. Integers from a counter, one exact conversion and one rounded
// multiplication: the same bits on every machine.
std::vector<float> initial_parameters(const ModelSpec& spec, std::uint64_t seed);

}  // namespace gleaner
