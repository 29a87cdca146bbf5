#include <algorithm>
#include <functional>
#include <queue>

#include "aggregation/accumulator.hpp"
#include "benchmarks/kernels/rows.hpp"
#include "common/check.hpp"
#include "common/random.hpp"
#include "compression/payload.hpp"

namespace gleaner::bench {
namespace {

constexpr std::size_t kDimension = 10'000'000;
constexpr std::size_t kUpdates = 100;
constexpr std::uint32_t kEntries = 100'000;
constexpr int kExponent = 40;
constexpr float kClip = 1024.0F;
const Grouping kGrouping{{static_cast<std::uint32_t>(kDimension)}};
constexpr PayloadLimits kLimits{.entries_max = kEntries, .clip = kClip};

struct Updates {
  std::vector<std::vector<std::uint32_t>> indices;
  std::vector<std::vector<float>> values;
  std::vector<WeightedUpdate> views;
};

Updates make_updates() {
  Updates updates;
  for (std::uint32_t u = 0; u < kUpdates; ++u) {
    Random random(3, Purpose::test, u);
    std::vector<std::uint32_t> indices(kEntries);
    // One entry from each of equal ranges: spread like chance, and ascending at once.
    for (std::uint32_t j = 0; j < kEntries; ++j) {
      indices[j] = j * static_cast<std::uint32_t>(kDimension / kEntries) + random.below(kDimension / kEntries);
    }
    std::vector<float> values(kEntries);
    for (float& value : values) value = static_cast<float>(random.normal());
    updates.indices.push_back(std::move(indices));
    updates.values.push_back(std::move(values));
  }
  for (std::size_t u = 0; u < kUpdates; ++u) {
    updates.views.push_back({updates.indices[u], updates.values[u], static_cast<std::uint32_t>(100 + u)});
  }
  return updates;
}

// The sum as sorted pairs, made by a heap of the updates' next indices.
void merge_by_heap(const Updates& updates, std::vector<std::pair<std::uint32_t, double>>& sum) {
  struct Next {
    std::uint32_t index;
    std::uint32_t update;
    std::uint32_t at;
    bool operator>(const Next& other) const { return index > other.index; }
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<>> heap;
  for (std::uint32_t u = 0; u < kUpdates; ++u) heap.push({updates.indices[u][0], u, 0});
  sum.clear();
  while (!heap.empty()) {
    const Next next = heap.top();
    heap.pop();
    const double value = static_cast<double>(updates.values[next.update][next.at]) * updates.views[next.update].weight;
    if (!sum.empty() && sum.back().first == next.index) {
      sum.back().second += value;
    } else {
      sum.emplace_back(next.index, value);
    }
    if (next.at + 1 < kEntries) heap.push({updates.indices[next.update][next.at + 1], next.update, next.at + 1});
  }
}

// The same updates as they come over the wire.
std::vector<Bytes> encode(const Updates& updates, IndexPreference preference) {
  std::vector<Bytes> payloads;
  for (std::uint32_t u = 0; u < kUpdates; ++u) {
    const SparseVector vector{.dimension = kDimension, .indices = updates.indices[u], .values = updates.values[u]};
    payloads.push_back(encode_payload(vector, kGrouping, ValueFormat::int8, kClip, preference).bytes);
  }
  return payloads;
}

void add_as_they_come(const std::vector<Bytes>& payloads, const KernelTable& kernels, std::span<std::int64_t> sum) {
  for (std::uint32_t u = 0; u < kUpdates; ++u) {
    const auto decoded = decode_payload(payloads[u], kGrouping, kLimits);
    kernels.scatter_add(sum, decoded->indices, decoded->values, 100 + u, kExponent);
  }
}

void add_decoded_first(const std::vector<Bytes>& payloads, const KernelTable& kernels, std::span<std::int64_t> sum) {
  std::vector<SparseVector> vectors;
  std::vector<WeightedUpdate> views;
  for (const Bytes& payload : payloads) vectors.push_back(*decode_payload(payload, kGrouping, kLimits));
  for (std::uint32_t u = 0; u < kUpdates; ++u) views.push_back({vectors[u].indices, vectors[u].values, 100 + u});
  kernels.scatter_add_many(sum, 0, views, kExponent);
}

// As the coordinator folds them, so many at once.
void fold_coded(const std::vector<Bytes>& payloads, std::size_t at_once, Accumulator& accumulator) {
  std::vector<CodedUpdate> updates;
  for (std::uint32_t u = 0; u < kUpdates; ++u) updates.push_back({payloads[u], kLimits, 100 + u});
  for (std::size_t u = 0; u < kUpdates; u += at_once) {
    const auto some = std::span(updates).subspan(u, std::min(at_once, kUpdates - u));
    for (const auto& result : accumulator.fold(some, kGrouping)) GLEANER_CHECK(result.has_value());
  }
}

void decode_only(const std::vector<Bytes>& payloads) {
  std::size_t entries = 0;
  for (const Bytes& payload : payloads) entries += decode_payload(payload, kGrouping, kLimits)->indices.size();
  GLEANER_CHECK(entries == kUpdates * kEntries);
}

}  // namespace

void measure_scatter_coded(KernelRows& rows) {
  const KernelTable& kernels = **kernels_for(Backend::cpu);
  const Updates updates = make_updates();
  std::vector<std::int64_t> sum(kDimension);
  const auto clear = [&] { std::ranges::fill(sum, 0); };
  Accumulator accumulator(kDimension, kernels);
  const auto reset = [&] { accumulator.reset(Grid{.clip_exponent = 10, .weight_bits = 20}); };
  const auto touch = [&] {
    for (std::int64_t& entry : sum) ++entry;
  };
  const auto row = [&](std::string name, std::string code, IndexPreference preference, double target) {
    const auto payloads = encode(updates, preference);
    const auto times = take_turns({{[&] { fold_coded(payloads, kUpdates, accumulator); }, reset},
                                   {[&] { fold_coded(payloads, 16, accumulator); }, reset},
                                   {[&] { add_as_they_come(payloads, kernels, sum); }, clear},
                                   {[&] { add_decoded_first(payloads, kernels, sum); }, clear},
                                   {[&] { decode_only(payloads); }, {}},
                                   {[&] { kernels.scatter_add_many(sum, 0, updates.views, kExponent); }, clear},
                                   {touch, clear}},
                                  9);
    const auto speed = [&](std::size_t subject) { return 1e-3 * kUpdates * kEntries / median(times[subject]); };
    rows.push_back({.name = std::move(name),
                    .text = "M entries/s, the same updates from " + code + " and int8 values, checks included",
                    .value = speed(0),
                    .target = target,
                    .beside = {{"16 at a time", speed(1), "M/s"},
                               {"one after another", speed(2), "M/s"},
                               {"all decoded first", speed(3), "M/s"},
                               {"decoding alone", speed(4), "M/s"},
                               {"decoded before", speed(5), "M/s"},
                               {"every sum touched once", median(times[6]), "ms"}},
                    .open = {}});
  };
  row("scatter_rice", "Golomb-Rice", IndexPreference::bytes, 180.0);
  row("scatter_elias_fano", "Elias-Fano", IndexPreference::speed, 320.0);
}

void measure_scatter(KernelRows& rows) {
  const KernelTable& kernels = **kernels_for(Backend::cpu);
  const Updates updates = make_updates();
  std::vector<std::int64_t> sum(kDimension);
  std::vector<std::pair<std::uint32_t, double>> merged;
  merged.reserve(kUpdates * kEntries);
  const auto one_by_one = [&] {
    for (const WeightedUpdate& update : updates.views) {
      kernels.scatter_add(sum, update.indices, update.values, update.weight, kExponent);
    }
  };
  const auto touch = [&] {
    for (std::int64_t& entry : sum) ++entry;
  };
  const auto blocked = [&] { kernels.scatter_add_many(sum, 0, updates.views, kExponent); };
  const auto clear = [&] { std::ranges::fill(sum, 0); };
  const auto times = take_turns({{blocked, clear}, {one_by_one, clear}, {touch, clear}}, 11);
  const auto peer = take_turns({{[&] { merge_by_heap(updates, merged); }, {}}, {blocked, clear}}, 3);
  rows.push_back({.name = "scatter",
                  .text = "scatter, 100 updates x 1e5 into 1e7, decoded before: times as fast as a heap merge of them",
                  .value = median_ratio(peer[0], peer[1]),
                  .target = 10.0,
                  .beside = {{"blocked", median(times[0]), "ms"},
                             {"which is", 1e-3 * kUpdates * kEntries / median(times[0]), "M entries/s"},
                             {"update by update", median(times[1]), "ms"},
                             {"every sum touched once", median(times[2]), "ms"},
                             {"heap merge", median(peer[0]), "ms"}},
                  .open = {}});
}

}  // namespace gleaner::bench
