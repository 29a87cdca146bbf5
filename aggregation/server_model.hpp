#pragma once
// The coordinator's model and the server's half of a round: mean -> server optimiser -> + server residual -> global
// top-k' -> quantise = u; w' = fl32(w - decode(u)). The f32 model is canonical: devices compute the same w' from the
// same patch (device_half.hpp). The residual is an integer on a fixed grid of 2^-kResidualExponent: s = v - (w - w').
// No libm, no FMA, no threads that matter: the same sums give the same bytes, which is what recovery by replay rests
// on.
//
// A step is prepared without changing the model and committed once storage has confirmed it. Not thread-safe: one
// owner. Memory: 8 bytes a parameter for values and last changes, 8 for the residual, 8 for momentum, 8 for a running
// sum; prepare() needs as much again for the momentum and running sum after the step. The step is made in the vector
// that becomes the residual: a new one, or the accumulator's own.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "aggregation/accumulator.hpp"
#include "aggregation/device_half.hpp"
#include "aggregation/server_optimizer.hpp"
#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"
#include "compression/payload.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {

inline constexpr int kResidualExponent = 40;
inline constexpr std::int64_t kResidualMax = std::int64_t{1} << 62;  // |v| and |s|; 2^22 as a value

struct ServerStepOptions {
  std::string optimizer = "sgd";  // "sgd", "momentum"
  double server_learning_rate = 1.0;
  double server_momentum = 0.9;         // momentum
  std::uint32_t patch_entries_max = 0;  // k'; the dimension = dense
  ValueFormat patch_values = ValueFormat::f32;
  bool keep_residual = true;  // false: what is not in the patch is lost (dense patches lose nothing)
  bool tracked = false;       // devices send differences of what they track: the mean is taken of all rounds' sums
  double divisor = 0.0;       // fixed expected weight; 0 = the weight that was folded (dense FedAvg; never if tracked)
};

struct PreparedStep {
  Version version;               // the one it leads to
  std::uint64_t model_hash = 0;  // after it
  Bytes patch;                   // encoded u: what devices subtract
  PayloadBytes patch_split;
  SparseVector decoded;                // u as devices see it
  double step_squared_norm = 0.0;      // ||w' - w||^2, summed in index order
  float patch_clip = 0.0F;             // the smallest power of two >= max |u|, for the decoder's bound; 1 without u
  std::uint64_t saturated = 0;         // coordinates cut to what the grid holds: worth a warning, the model diverges
  std::vector<std::int64_t> residual;  // after it; empty without keep_residual
  std::vector<double> optimizer_state;
  std::vector<std::int64_t> running_sum;  // after it; empty unless tracked
  int running_exponent = 0;               // of running_sum's grid
};

class ServerModel {
 public:
  // Version 0 from initial parameters (finite, at most kParameterMax). bad_input says which option is wrong.
  static Result<ServerModel> make(std::vector<float> initial, const ServerStepOptions& options, const Grouping& tensors,
                                  const KernelTable& kernels);

  Version version() const { return version_; }
  std::uint64_t hash() const { return hash_; }
  std::span<const float> parameters() const { return parameters_; }
  std::span<const std::int64_t> residual() const { return residual_; }  // empty without keep_residual
  std::uint32_t dimension() const { return static_cast<std::uint32_t>(parameters_.size()); }
  const Grouping& tensors() const { return tensors_; }

  // Of the steps to come: learned when the first plans are made, or read from the log. 0 or a sum of samples.
  void set_divisor(double divisor) { options_.divisor = divisor; }

  // The mean of a coordinate is double(sum) / (divisor * 2^exponent): the sum is rounded to double once (not at all
  // below 2^53), the scale is exact, and there is one division, rounded to nearest. The optimiser's step goes onto the
  // residual's grid by rounding half to even; beyond kResidualMax it is cut and counted. A sum of zeros is a valid
  // step; its patch is what residual and momentum still hold, or empty. bad_input when the step or the model would not
  // be finite; nothing has changed then.
  Result<PreparedStep> prepare(const Accumulator& accumulator) const;
  // The same, made in the accumulator's memory: its sum is gone afterwards, also after an error.
  Result<PreparedStep> prepare(Accumulator&& accumulator) const;
  // The step must have been prepared on this very version (GLEANER_CHECK).
  void commit(PreparedStep step);

  // Everything as bytes (model, residual, optimiser state, running sum, last changes) and back: corrupt unless
  // checksum and hash agree; the model is unchanged then. Equal models are equal bytes.
  Bytes to_snapshot() const;
  Status load_snapshot(ByteView snapshot);

  // The newest values of every coordinate changed after `from`, as a payload of one group of f32 values to be assigned
  // (SyncKind::absolute).
  Bytes absolute_since(Version from) const;
  std::uint64_t absolute_entries_since(Version from) const;

 private:
  ServerModel() = default;

  Result<PreparedStep> prepare_in(std::vector<std::int64_t> room, const Accumulator& accumulator) const;
  Status make_step_vector(const Accumulator& accumulator, PreparedStep& step) const;
  void add_to_running_sum(const Accumulator& accumulator, PreparedStep& step) const;
  void quantize(std::vector<std::uint32_t> indices, PreparedStep& step) const;
  Status take_step(PreparedStep& step) const;

  ServerStepOptions options_;
  Grouping tensors_;
  const KernelTable* kernels_ = nullptr;
  std::shared_ptr<const ServerOptimizer> optimizer_;
  Version version_;
  std::uint64_t hash_ = 0;
  std::vector<float> parameters_;
  std::vector<std::int64_t> residual_;
  std::vector<double> optimizer_state_;
  std::vector<std::int64_t> running_sum_;
  int running_exponent_ = 0;
  std::vector<std::uint32_t> last_changed_;  // version that last changed a coordinate; 0 = never
};

}  // namespace gleaner
