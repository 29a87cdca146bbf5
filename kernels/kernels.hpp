#pragma once
// The kernel table: spans in, spans out, one table a backend. Every backend returns equal bits on equal input; the
// scalar reference is the definition. Ties in a selection go to the lower index. Kernels hold no state and may be
// called from any thread; buffers belong to the caller and must not overlap. Lengths that differ are a caller's bug
// (GLEANER_CHECK).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace gleaner {

// Threads that a caller lends: run(parts, part) calls part(0) ... part(parts - 1), in any order and on any threads, and
// returns when all have returned. No result depends on it.
struct Parallel {
  std::uint32_t width = 1;  // how many parts run at once
  std::function<void(std::size_t parts, const std::function<void(std::size_t)>& part)> run;
};

// What a selection found: k indices ascending with their values.
struct Selection {
  static constexpr std::uint64_t kAllFinite = std::numeric_limits<std::uint64_t>::max();

  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  float threshold = 0.0F;                       // the least selected magnitude; 0 when nothing was selected
  double squared_norm = 0.0;                    // of the whole input; summed in a fixed order (see reference.cpp)
  std::uint64_t non_finite_index = kAllFinite;  // the first one; then nothing else in the selection is valid

  // Set by the caller and left as they are: nothing but the time depends on them.
  float threshold_hint = 0.0F;         // a threshold near the one to be found, such as the last round's; 0: none known
  const Parallel* parallel = nullptr;  // for long vectors; null: on the calling thread alone
};

// What selections in the segments of one vector found: in rows, in layers, or in the updates of many devices.
struct SegmentSelection {
  std::vector<std::uint32_t> indices;  // in the whole vector, ascending
  std::vector<float> values;
  std::vector<std::size_t> begins;  // segment s has the entries begins[s] ... begins[s + 1] - 1
  std::vector<float> thresholds;    // by segment, as are the norms
  std::vector<double> squared_norms;
  std::uint64_t non_finite_index = Selection::kAllFinite;  // in the whole vector; then all else is empty

  const Parallel* parallel = nullptr;  // set by the caller: segments are shared out to its threads
};

// An update in a sum: indices strictly ascending, a value each.
struct WeightedUpdate {
  std::span<const std::uint32_t> indices;
  std::span<const float> values;
  std::uint32_t weight = 0;
};

struct KernelTable {
  std::string_view name;  // "reference", "cpu", "cuda"

  // The k largest |x| (k > d selects all d). Zeros are selected too when fewer than k entries are non-zero.
  void (*select)(std::span<const float> x, std::uint32_t k, Selection& out);

  // select in x[offsets[s], offsets[s + 1]) with ks[s] for every s. The offsets ascend from 0 to x.size().
  void (*select_segments)(std::span<const float> x, std::span<const std::size_t> offsets,
                          std::span<const std::uint32_t> ks, SegmentSelection& out);

  // residual += update, then select on residual. The residual keeps the selected entries: take_out() removes what is
  // sent.
  void (*accumulate_and_select)(std::span<const float> update, std::span<float> residual, std::uint32_t k,
                                Selection& out);

  // candidate = update - tracked (the tracked form of EF21), then select on candidate.
  void (*subtract_and_select)(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                              std::uint32_t k, Selection& out);

  // residual[indices[j]] -= sent[j]; put_back is the inverse and exact where take_out was.
  void (*take_out)(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent);
  void (*put_back)(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent);

  // values[j] = x[indices[j]].
  void (*gather)(std::span<const float> x, std::span<const std::uint32_t> indices, std::span<float> values);

  // sum[indices[j]] += llrint(ldexp(double(values[j]) * weight, grid_exponent)). Indices are below sum.size() (checked
  // before), values finite and within the clip, so that no sum overflows (see aggregation/grid.hpp).
  void (*scatter_add)(std::span<std::int64_t> sum, std::span<const std::uint32_t> indices,
                      std::span<const float> values, std::uint32_t weight, int grid_exponent);
  void (*dense_add)(std::span<std::int64_t> sum, std::span<const float> values, std::uint32_t weight,
                    int grid_exponent);

  // scatter_add of every update into the coordinates first ... first + sum.size() - 1, which are all of sum; entries
  // outside are left alone, so that ranges can be summed apart on several threads. Faster than one by one from a few
  // updates on, because each part of sum is fetched once.
  void (*scatter_add_many)(std::span<std::int64_t> sum, std::uint32_t first, std::span<const WeightedUpdate> updates,
                           int grid_exponent);

  // The k largest |x| of integers, indices ascending, ties to the lower index; zeros are never selected (so the result
  // may be shorter than k).
  void (*select_integers)(std::span<const std::int64_t> x, std::uint32_t k, std::vector<std::uint32_t>& indices);

  // model[i] = model[i] - u (round to nearest, f32); returns the model hash after it, given the hash before it.
  std::uint64_t (*apply_patch)(std::span<float> model, std::span<const std::uint32_t> indices, std::span<const float> u,
                               std::uint64_t hash);
  std::uint64_t (*model_hash)(std::span<const float> model);
  // The share of the coordinates first, first + 1, ... in the model's hash: the shares add up to it.
  std::uint64_t (*range_hash)(std::span<const float> range, std::uint32_t first);
};

enum class Backend { automatic, reference, cpu, cuda };

// "auto", "reference", "cpu", "cuda"; an unknown name lists the candidates.
Result<Backend> parse_backend(std::string_view name);

// The table of a backend; cuda where there is none is an Error that names what is missing. `automatic` never fails and
// says once in the log what it chose. The tables live for the whole process.
Result<const KernelTable*> kernels_for(Backend backend);

// The table itself, or for the GPU's the CPU's: for work on memory of the host that a GPU would only copy to and fro.
const KernelTable& on_host(const KernelTable& table);

}  // namespace gleaner
