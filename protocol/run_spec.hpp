#pragma once
// What a run is, fully resolved: the coordinator makes it from the operator's file and a recipe, stores it, and offers
// it to devices. Everything that both ends must agree on stands here and nothing else. Plain data; sent with an Offer.

#include <cstdint>
#include <string>

#include "common/ids.hpp"

namespace gleaner {

struct RunSpec {
  RunId id;
  std::string name;    // for people, unique on a coordinator
  std::string recipe;  // "fedavg", "topk", "gsasg": where the settings below came from
  std::uint64_t seed = 0;
  bool reproducible = false;  // fixed k and cohort, everybody answers

  // Data by name (a device binds the name to files) and the model on it.
  std::string data;
  std::uint32_t classes = 0;       // of its labels, 2 to 256: a device's share need not have all of them
  std::string model;               // "softmax", "mlp", "lenet"
  std::uint32_t hidden_units = 0;  // mlp
  std::uint64_t schema_hash = 0;   // of the tensors' names and shapes
  std::uint32_t dimension = 0;     // parameters

  // Local work.
  std::uint32_t local_epochs = 1;
  std::uint32_t batch_size = 32;
  float learning_rate = 0.05F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;

  // What is sent.
  std::string compressor;  // "dense", "topk"
  bool per_tensor = false;
  std::string value_format_up;  // "f32", "f16", "int8"
  std::string upload_rule;      // "always", "residual", "lasg-wk2", "clag"
  double skip_share = 0.0;
  std::uint32_t age_max = 10;
  double c0 = 1.0;
  std::uint32_t rule_history = 10;
  double zeta = 1.0;
  std::int32_t clip_exponent = 10;  // values are clipped to ±2^clip_exponent; the excess stays on the device

  friend bool operator==(const RunSpec&, const RunSpec&) = default;
};

}  // namespace gleaner
