#include "training/device_partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "common/check.hpp"
#include "common/random.hpp"

namespace gleaner {
namespace {

// A device's streams of Purpose::partition; partition.cpp has those up to 2^33.
constexpr std::uint64_t kDrawStream = std::uint64_t{1} << 40;
constexpr std::uint64_t kCountStream = kDrawStream + 1;
constexpr std::uint64_t kLabelStream = kDrawStream + 2;  // and one for each label

constexpr std::uint32_t kDevicesInTable = 32;
constexpr std::uint32_t kDevicesLookedAt = 10'000;

// `count` different numbers below `bound`, all sets equally likely, ascending: Floyd's way (Bentley, Floyd 1987) in
// time of count.
std::vector<std::uint32_t> distinct_below(std::uint32_t bound, std::uint32_t count, Random random) {
  GLEANER_CHECK(count <= bound);
  std::unordered_set<std::uint32_t> chosen;
  chosen.reserve(count);
  for (std::uint32_t i = bound - count; i < bound; ++i) {
    const std::uint32_t drawn = random.below(i + 1);
    chosen.insert(chosen.contains(drawn) ? i : drawn);
  }
  std::vector<std::uint32_t> result(chosen.begin(), chosen.end());
  std::ranges::sort(result);
  return result;
}

// As compressed rows: four bytes a device and four a sample.
class Table final : public DevicePartition {
 public:
  explicit Table(const Partition& partition) {
    ends_.reserve(partition.devices.size());
    for (const auto& samples : partition.devices) {
      samples_.insert(samples_.end(), samples.begin(), samples.end());
      ends_.push_back(static_cast<std::uint32_t>(samples_.size()));
    }
  }

  std::uint32_t devices() const override { return static_cast<std::uint32_t>(ends_.size()); }
  std::vector<std::uint32_t> samples_of(std::uint32_t device) const override {
    GLEANER_CHECK(device < ends_.size());
    return {samples_.begin() + first_of(device), samples_.begin() + ends_[device]};
  }
  std::uint32_t count_of(std::uint32_t device) const override {
    GLEANER_CHECK(device < ends_.size());
    return ends_[device] - first_of(device);
  }

 private:
  std::uint32_t first_of(std::uint32_t device) const { return device == 0 ? 0 : ends_[device - 1]; }

  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> samples_;
};

// What all devices draw from.
struct Pool {
  std::vector<std::uint32_t> by_label;  // samples in order of label, then of place
  std::vector<std::uint32_t> ends;      // of each label's samples in by_label
  std::uint32_t devices;
  std::uint64_t seed;

  std::uint32_t samples() const { return static_cast<std::uint32_t>(by_label.size()); }
  std::uint32_t first_of(std::size_t label) const { return label == 0 ? 0 : ends[label - 1]; }
  std::uint32_t count_of(std::size_t label) const { return ends[label] - first_of(label); }
};

class Drawn : public DevicePartition {
 public:
  Drawn(Pool pool, const PartitionSpec& spec)
      : pool_(std::move(pool)),
        each_(std::clamp(spec.samples_per_device, std::max(1U, spec.min_samples), pool_.samples())),
        spec_(spec) {}

  std::uint32_t devices() const final { return pool_.devices; }
  std::uint32_t count_of(std::uint32_t device) const override {
    GLEANER_CHECK(device < pool_.devices);
    return each_;
  }
  std::vector<std::uint32_t> samples_of(std::uint32_t device) const override {
    return distinct_below(pool_.samples(), count_of(device), stream(kDrawStream, device));
  }

 protected:
  Random stream(std::uint64_t kind, std::uint32_t device) const {
    return Random(pool_.seed, Purpose::partition, kind, device);
  }

  Pool pool_;
  std::uint32_t each_;
  PartitionSpec spec_;
};

class DrawnQuantity final : public Drawn {
 public:
  using Drawn::Drawn;
  std::uint32_t count_of(std::uint32_t device) const override {
    GLEANER_CHECK(device < pool_.devices);
    const double sigma = spec_.size_sigma;
    const double size = std::exp(sigma * stream(kCountStream, device).normal() - sigma * sigma / 2) * each_;
    const double rounded =
        std::clamp(std::rint(size), std::max(1.0, static_cast<double>(spec_.min_samples)), double{0xffffffffU});
    return std::min(static_cast<std::uint32_t>(rounded), pool_.samples());
  }
};

class DrawnShards final : public Drawn {
 public:
  DrawnShards(Pool pool, const PartitionSpec& spec)
      : Drawn(std::move(pool), spec),
        mine_(std::min(spec.shards_per_device, each_)),
        shards_(std::max(mine_, pool_.samples() / std::max(1U, each_ / mine_))) {}

  std::uint32_t count_of(std::uint32_t device) const override {
    std::uint32_t count = 0;
    for (const std::uint32_t shard : shards_of(device)) count += first_of(shard + 1) - first_of(shard);
    return count;
  }
  std::vector<std::uint32_t> samples_of(std::uint32_t device) const override {
    std::vector<std::uint32_t> samples;
    for (const std::uint32_t shard : shards_of(device)) {
      samples.insert(samples.end(), pool_.by_label.begin() + first_of(shard),
                     pool_.by_label.begin() + first_of(shard + 1));
    }
    std::ranges::sort(samples);
    return samples;
  }

 private:
  std::uint32_t first_of(std::uint32_t shard) const {
    return static_cast<std::uint32_t>(std::uint64_t{shard} * pool_.samples() / shards_);
  }
  std::vector<std::uint32_t> shards_of(std::uint32_t device) const {
    GLEANER_CHECK(device < pool_.devices);
    return distinct_below(shards_, mine_, stream(kDrawStream, device));
  }

  std::uint32_t mine_;
  std::uint32_t shards_;
};

class DrawnDirichlet final : public Drawn {
 public:
  using Drawn::Drawn;
  std::vector<std::uint32_t> samples_of(std::uint32_t device) const override {
    const std::vector<std::uint32_t> counts = counts_of(device);
    std::vector<std::uint32_t> samples;
    for (std::size_t label = 0; label < counts.size(); ++label) {
      const auto chosen = distinct_below(pool_.count_of(label), counts[label], stream(kLabelStream + label, device));
      for (const std::uint32_t i : chosen) samples.push_back(pool_.by_label[pool_.first_of(label) + i]);
    }
    std::ranges::sort(samples);
    return samples;
  }

 private:
  // How many of each label: draws from the mix, one sample after the other, where a label that has no more counts as
  // nothing.
  std::vector<std::uint32_t> counts_of(std::uint32_t device) const {
    Random random = stream(kCountStream, device);
    std::vector<std::uint64_t> shares;
    double sum = 0.0;
    std::vector<double> gammas;
    for (std::size_t label = 0; label < pool_.ends.size(); ++label) {
      gammas.push_back(pool_.count_of(label) == 0 ? 0.0 : random.gamma(spec_.alpha));
      sum += gammas.back();
    }
    for (const double gamma : gammas) {
      shares.push_back(sum > 0.0 ? static_cast<std::uint64_t>(std::llrint(gamma / sum * 0x1.0p20)) : 0);
    }
    std::vector<std::uint32_t> counts(shares.size(), 0);
    std::uint64_t all = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
    for (std::uint32_t given = 0; given < count_of(device); ++given) {
      if (all == 0) {  // the mix is used up, or was all rounded away: what is left has equal parts
        for (std::size_t label = 0; label < shares.size(); ++label) {
          shares[label] = counts[label] < pool_.count_of(label) ? 1 : 0;
          all += shares[label];
        }
      }
      std::uint64_t at = random.below(static_cast<std::uint32_t>(all));
      std::size_t label = 0;
      while (at >= shares[label]) at -= shares[label++];
      if (++counts[label] == pool_.count_of(label)) all -= std::exchange(shares[label], 0);
    }
    return counts;
  }
};

Pool pool_of(std::span<const std::uint8_t> labels, std::uint32_t devices, std::uint64_t seed) {
  Pool pool{std::vector<std::uint32_t>(labels.size()), {}, devices, seed};
  std::iota(pool.by_label.begin(), pool.by_label.end(), 0U);
  std::ranges::sort(pool.by_label, {}, [&](std::uint32_t sample) { return std::pair(labels[sample], sample); });
  pool.ends.resize(*std::ranges::max_element(labels) + std::size_t{1}, 0);
  for (const std::uint8_t label : labels) ++pool.ends[label];
  std::partial_sum(pool.ends.begin(), pool.ends.end(), pool.ends.begin());
  return pool;
}

Status check_drawn(const PartitionSpec& spec, std::size_t samples, std::uint32_t devices) {
  GLEANER_TRY(check_partition(spec));
  if (spec.name == "natural") {
    return fail(ErrorCode::bad_input,
                "partition natural has its users' numbers of samples: leave samples_per_device out");
  }
  if (devices == 0) return fail(ErrorCode::bad_input, "a partition needs at least one device");
  GLEANER_CHECK(samples <= 0xffffffffU);
  const std::uint32_t most = std::max({1U, spec.samples_per_device, spec.min_samples});
  if (most > samples) {
    return fail(ErrorCode::bad_input,
                fmt::format("every device draws {} samples, the data set has {}: ask for fewer", most, samples));
  }
  if (spec.name == "shards" && spec.shards_per_device > spec.samples_per_device) {
    return fail(ErrorCode::bad_input, fmt::format("partition shards: {} samples a device are no {} shards",
                                                  spec.samples_per_device, spec.shards_per_device));
  }
  return {};
}

struct Spread {
  std::vector<std::uint32_t> values;
  std::string text() {
    std::ranges::sort(values);
    return fmt::format("{:>9} {:>9} {:>9}", values.front(), values[values.size() / 2], values.back());
  }
};

std::string row_of(std::uint32_t device, std::size_t samples, std::span<const std::uint32_t> counts) {
  std::string text = fmt::format("{:>8} {:>9}", device, samples);
  for (const std::uint32_t count : counts) text += fmt::format(" {:>6}", count);
  return text + '\n';
}

}  // namespace

Result<std::unique_ptr<const DevicePartition>> make_device_partition(const PartitionSpec& spec,
                                                                     const PartitionData& data, std::uint32_t devices,
                                                                     std::uint64_t seed) {
  using Owner = std::unique_ptr<const DevicePartition>;
  if (spec.samples_per_device == 0) {
    GLEANER_ASSIGN(const auto partition, make_partition(spec, data, devices, seed));
    return std::make_unique<const Table>(partition);
  }
  GLEANER_TRY(check_drawn(spec, data.labels.size(), devices));
  Pool pool = pool_of(data.labels, devices, seed);
  if (spec.name == "dirichlet") return Owner(std::make_unique<const DrawnDirichlet>(std::move(pool), spec));
  if (spec.name == "shards") return Owner(std::make_unique<const DrawnShards>(std::move(pool), spec));
  if (spec.name == "quantity") return Owner(std::make_unique<const DrawnQuantity>(std::move(pool), spec));
  GLEANER_CHECK(spec.name == "iid");
  return Owner(std::make_unique<const Drawn>(std::move(pool), spec));
}

std::string partition_table(const DevicePartition& partition, std::span<const std::uint8_t> labels) {
  const std::uint32_t devices = partition.devices();
  const std::uint32_t looked_at = std::min(devices, kDevicesLookedAt);
  const std::size_t classes = labels.empty() ? 0 : *std::ranges::max_element(labels) + std::size_t{1};
  const bool rows = devices <= kDevicesInTable;
  std::string text;
  if (rows) {
    text = fmt::format("{:>8} {:>9}", "device", "samples");
    for (std::size_t c = 0; c < classes; ++c) text += fmt::format(" {:>6}", c);
    text += '\n';
  }
  Spread samples;
  Spread kinds;
  for (std::uint32_t i = 0; i < looked_at; ++i) {
    const auto device = static_cast<std::uint32_t>(std::uint64_t{i} * devices / looked_at);
    const auto own = partition.samples_of(device);
    std::vector<std::uint32_t> counts(classes, 0);
    for (const std::uint32_t sample : own) {
      GLEANER_CHECK(sample < labels.size());
      ++counts[labels[sample]];
    }
    samples.values.push_back(static_cast<std::uint32_t>(own.size()));
    kinds.values.push_back(
        static_cast<std::uint32_t>(classes - static_cast<std::size_t>(std::ranges::count(counts, 0U))));
    if (rows) text += row_of(device, own.size(), counts);
  }
  const std::string which = looked_at == devices ? "" : fmt::format(", {} of them looked at", looked_at);
  text += fmt::format("{} devices over {} samples{}\n{:>18} {:>9} {:>9} {:>9}\n", devices, labels.size(), which, "",
                      "least", "median", "most");
  text += fmt::format("{:>18} {}\n{:>18} {}\n", "samples", samples.text(), "classes", kinds.text());
  return text;
}

}  // namespace gleaner
