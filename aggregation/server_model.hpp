#pragma once
// The coordinator's model and the server's half of a round: mean -> server optimiser -> + server residual -> global
// top-k' -> quantise = u; w' = fl32(w - decode(u)). The f32 model is canonical: devices compute the same w' from the
// same patch. The residual is an integer on a fixed grid of 2^-kResidualExponent: s = v - (w - w'). No libm, no FMA, no
// threads that matter: the same sums give the same bytes, which is what recovery by replay rests on.
//
// A step is prepared without changing the model and committed once storage has confirmed it. Not thread-safe: one
// owner.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aggregation/accumulator.hpp"
#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"
#include "compression/payload.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {

inline constexpr int kResidualExponent = 40;

struct ServerStepOptions {
  std::string optimizer = "sgd";  // "sgd", "momentum"
  double server_learning_rate = 1.0;
  double server_momentum = 0.9;         // momentum
  std::uint32_t patch_entries_max = 0;  // k'; the dimension = dense
  ValueFormat patch_values = ValueFormat::f32;
  bool keep_residual = true;  // false: what is not in the patch is lost (dense patches lose nothing)
  double divisor = 0.0;       // fixed expected weight; 0 = the weight that was folded (dense FedAvg)
};

struct PreparedStep {
  Version version;               // the one it leads to
  std::uint64_t model_hash = 0;  // after it
  Bytes patch;                   // encoded u: what devices subtract
  PayloadBytes patch_split;
  SparseVector decoded;                // u as devices see it
  double step_squared_norm = 0.0;      // ||w' - w||^2, summed in index order
  float patch_clip = 0.0F;             // a power of two >= max |u|, for the decoder's bound
  std::vector<std::int64_t> residual;  // after it
  std::vector<double> optimizer_state;
};

class ServerModel {
 public:
  // Version 0 from initial parameters.
  static Result<ServerModel> make(std::vector<float> initial, const ServerStepOptions& options, const Grouping& tensors,
                                  const KernelTable& kernels);

  Version version() const { return version_; }
  std::uint64_t hash() const { return hash_; }
  std::span<const float> parameters() const { return parameters_; }
  std::span<const std::int64_t> residual() const { return residual_; }
  std::uint32_t dimension() const { return static_cast<std::uint32_t>(parameters_.size()); }

  // Error bad_input when an unusable sum would produce a non-finite model; the model is unchanged then.
  Result<PreparedStep> prepare(const Accumulator& accumulator) const;
  void commit(PreparedStep step);

  // Everything as bytes (model, residual, optimiser state, last_changed) and back: corrupt unless the hash agrees.
  Bytes to_snapshot() const;
  Status load_snapshot(ByteView snapshot);

  // The newest values of every coordinate changed after `from`, as a payload of f32 values to be assigned
  // (SyncKind::absolute).
  Bytes absolute_since(Version from) const;
  std::uint64_t absolute_entries_since(Version from) const;

 private:
  ServerModel() = default;
  ServerStepOptions options_;
  Grouping tensors_;
  const KernelTable* kernels_ = nullptr;
  Version version_;
  std::uint64_t hash_ = 0;
  std::vector<float> parameters_;
  std::vector<std::int64_t> residual_;
  std::vector<double> optimizer_state_;
  std::vector<std::uint32_t> last_changed_;  // version that last changed a coordinate; 0 = never
};

// The device's half, used by clients, the simulator and recovery alike. Decoders are strict; the hash must agree
// afterwards.
Admitted<std::uint64_t> apply_patch_payload(std::span<float> model, ByteView patch, float patch_clip,
                                            std::uint64_t hash, const Grouping& grouping, const KernelTable& kernels);
Admitted<std::uint64_t> apply_absolute_payload(std::span<float> model, ByteView payload, const KernelTable& kernels);

}  // namespace gleaner
