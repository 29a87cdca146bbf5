#include "training/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/random.hpp"
#include "common/text.hpp"

namespace gleaner {
namespace {

using Lists = std::vector<std::vector<std::uint32_t>>;
constexpr double kShareSteps = 0x1.0p20;

struct Draw {
  std::span<const std::uint8_t> labels;
  std::span<const std::uint32_t> users;
  std::uint32_t devices;
  std::uint64_t seed;
};

// Streams of Purpose::partition: the shuffle of all samples or of one label, a gamma draw per label and device, and
// those of the partitions that came later. device_partition.cpp has its own.
constexpr std::uint64_t kShuffleStream = std::uint64_t{1} << 32;
constexpr std::uint64_t kShardStream = kShuffleStream + 2;
constexpr std::uint64_t kSizeStream = kShuffleStream + 3;
constexpr std::uint64_t kUserStream = kShuffleStream + 4;

void shuffle(std::vector<std::uint32_t>& values, Random random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(static_cast<std::uint32_t>(i))]);
  }
}

Lists samples_by_label(std::span<const std::uint8_t> labels) {
  Lists result;
  for (std::uint32_t sample = 0; sample < labels.size(); ++sample) {
    if (labels[sample] >= result.size()) result.resize(labels[sample] + std::size_t{1});
    result[labels[sample]].push_back(sample);
  }
  return result;
}

std::vector<std::uint32_t> shuffled_samples(const Draw& draw) {
  std::vector<std::uint32_t> all(draw.labels.size());
  std::iota(all.begin(), all.end(), 0U);
  shuffle(all, Random(draw.seed, Purpose::partition, kShuffleStream));
  return all;
}

Result<Lists> split_iid(const PartitionSpec&, const Draw& draw) {
  const std::vector<std::uint32_t> all = shuffled_samples(draw);
  Lists result(draw.devices);
  auto from = all.begin();
  for (std::size_t device = 0; device < draw.devices; ++device) {
    const std::size_t size = all.size() / draw.devices + (device < all.size() % draw.devices ? 1 : 0);
    result[device].assign(from, from + static_cast<std::ptrdiff_t>(size));
    from += static_cast<std::ptrdiff_t>(size);
  }
  return result;
}

// One label's shares in steps of 2^-20; at least one is not zero.
std::vector<std::uint64_t> dirichlet_shares(const Draw& draw, std::uint32_t label, double alpha) {
  std::vector<double> gammas;
  double sum = 0.0;
  for (std::uint32_t device = 0; device < draw.devices; ++device) {
    gammas.push_back(Random(draw.seed, Purpose::partition, label, device).gamma(alpha));
    sum += gammas.back();
  }
  std::vector<std::uint64_t> shares(draw.devices, 0);
  for (std::size_t device = 0; sum > 0.0 && device < shares.size(); ++device) {
    shares[device] = static_cast<std::uint64_t>(std::llrint(gammas[device] / sum * kShareSteps));
  }
  // All draws underflow for the smallest alphas, and more than a million devices have less than a step each.
  if (std::ranges::all_of(shares, [](std::uint64_t share) { return share == 0; })) {
    shares[Random(draw.seed, Purpose::partition, kShuffleStream + 1, label).below(draw.devices)] = 1;
  }
  return shares;
}

// total split in proportion to the shares: whole parts first, then one each to the largest remainders, lower index
// first.
std::vector<std::size_t> apportion(std::size_t total, const std::vector<std::uint64_t>& shares) {
  const std::uint64_t sum = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  std::vector<std::size_t> counts;
  std::vector<std::pair<std::uint64_t, std::size_t>> remainders;
  std::size_t given = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::uint64_t product = total * shares[i];  // below 2^32 * 2^21
    counts.push_back(product / sum);
    given += counts.back();
    remainders.emplace_back(product % sum, i);
  }
  std::ranges::sort(remainders, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (std::size_t i = 0; given < total; ++i, ++given) ++counts[remainders[i].second];
  return counts;
}

Result<Lists> split_dirichlet(const PartitionSpec& spec, const Draw& draw) {
  Lists by_label = samples_by_label(draw.labels);
  Lists result(draw.devices);
  for (std::uint32_t label = 0; label < by_label.size(); ++label) {
    std::vector<std::uint32_t>& samples = by_label[label];
    shuffle(samples, Random(draw.seed, Purpose::partition, kShuffleStream, label + 1));
    const auto counts = apportion(samples.size(), dirichlet_shares(draw, label, spec.alpha));
    auto from = samples.begin();
    for (std::size_t device = 0; device < draw.devices; ++device) {
      const auto to = from + static_cast<std::ptrdiff_t>(counts[device]);
      result[device].insert(result[device].end(), from, to);
      from = to;
    }
  }
  return result;
}

// McMahan et al. 2017 (arXiv 1602.05629): the samples in order of label are cut into shards of equal size, of which
// every device gets a few. Within a label the order is drawn.
Result<Lists> split_shards(const PartitionSpec& spec, const Draw& draw) {
  const std::uint64_t shards = std::uint64_t{draw.devices} * spec.shards_per_device;
  if (shards > draw.labels.size()) {
    return fail(ErrorCode::bad_input,
                fmt::format("{} devices with {} shards each need {} samples, the data set has {}: "
                            "use fewer devices or fewer shards",
                            draw.devices, spec.shards_per_device, shards, draw.labels.size()));
  }
  Lists labels(256);
  for (const std::uint32_t sample : shuffled_samples(draw)) labels[draw.labels[sample]].push_back(sample);
  std::vector<std::uint32_t> by_label;
  for (const auto& samples : labels) by_label.insert(by_label.end(), samples.begin(), samples.end());
  std::vector<std::uint32_t> order(shards);
  std::iota(order.begin(), order.end(), 0U);
  shuffle(order, Random(draw.seed, Purpose::partition, kShardStream));
  Lists result(draw.devices);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t first = order[i] * by_label.size() / shards;  // both below 2^32
    const std::uint64_t last = (order[i] + std::uint64_t{1}) * by_label.size() / shards;
    auto& samples = result[i / spec.shards_per_device];
    samples.insert(samples.end(), by_label.begin() + static_cast<std::ptrdiff_t>(first),
                   by_label.begin() + static_cast<std::ptrdiff_t>(last));
  }
  return result;
}

Result<Lists> split_quantity(const PartitionSpec& spec, const Draw& draw) {
  std::vector<std::uint64_t> weights;
  for (std::uint32_t device = 0; device < draw.devices; ++device) {
    Random random(draw.seed, Purpose::partition, kSizeStream, device);
    // Below 2^32, so that a product with a number of samples fits 64 bits.
    const double weight = std::exp(std::min(spec.size_sigma * random.normal(), 11.0)) * 0x1.0p16;
    weights.push_back(std::max(1ULL, static_cast<unsigned long long>(std::llrint(weight))));
  }
  const std::vector<std::uint32_t> all = shuffled_samples(draw);
  const std::vector<std::size_t> counts = apportion(all.size(), weights);
  Lists result(draw.devices);
  auto from = all.begin();
  for (std::size_t device = 0; device < draw.devices; ++device) {
    const auto to = from + static_cast<std::ptrdiff_t>(counts[device]);
    result[device].assign(from, to);
    from = to;
  }
  return result;
}

// A device is a user. Users with too few samples have none; of more users than devices some are drawn, in their order.
Result<Lists> split_natural(const PartitionSpec& spec, const Draw& draw) {
  if (draw.users.empty()) {
    return fail(ErrorCode::bad_input,
                "partition natural needs a data set with users, such as femnist: this one has none");
  }
  GLEANER_CHECK(draw.users.size() == draw.labels.size());
  Lists by_user;
  for (std::uint32_t sample = 0; sample < draw.users.size(); ++sample) {
    if (draw.users[sample] >= by_user.size()) by_user.resize(draw.users[sample] + std::size_t{1});
    by_user[draw.users[sample]].push_back(sample);
  }
  std::vector<std::uint32_t> eligible;
  for (std::uint32_t user = 0; user < by_user.size(); ++user) {
    if (!by_user[user].empty() && by_user[user].size() >= spec.min_samples) eligible.push_back(user);
  }
  if (eligible.size() < draw.devices) {
    return fail(
        ErrorCode::bad_input,
        fmt::format("partition natural: {} devices, but {} users with at least {} samples: use fewer devices or "
                    "a smaller samples_min",
                    draw.devices, eligible.size(), spec.min_samples));
  }
  if (eligible.size() > draw.devices) {
    shuffle(eligible, Random(draw.seed, Purpose::partition, kUserStream));
    eligible.resize(draw.devices);
    std::ranges::sort(eligible);
  }
  Lists result;
  for (const std::uint32_t user : eligible) result.push_back(std::move(by_user[user]));
  return result;
}

// Devices below the minimum get samples from whoever holds most (the lower index of equals), from its end, which is
// its highest label: what little they get says least about the donor's mix when donors are large.
void lift_to_minimum(Lists& devices, std::uint32_t min_samples) {
  const auto larger_first = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::set<std::pair<std::size_t, std::size_t>, decltype(larger_first)> donors(larger_first);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].size() > min_samples) donors.emplace(devices[i].size(), i);
  }
  for (std::vector<std::uint32_t>& needy : devices) {
    while (needy.size() < min_samples) {
      GLEANER_CHECK(!donors.empty());  // there are enough samples for all
      const std::size_t donor = donors.begin()->second;
      donors.erase(donors.begin());
      needy.push_back(devices[donor].back());
      devices[donor].pop_back();
      if (devices[donor].size() > min_samples) donors.emplace(devices[donor].size(), donor);
    }
  }
}

struct Row {
  std::string_view name;
  std::string_view summary;
  Result<Lists> (*split)(const PartitionSpec& spec, const Draw& draw);
};
constexpr std::array<Row, 5> kRows = {
    Row{"iid", "shuffled and dealt evenly", split_iid},
    Row{"dirichlet", "every label spread by Dirichlet(alpha)", split_dirichlet},
    Row{"shards", "cut in order of label, a few shards a device", split_shards},
    Row{"quantity", "shuffled, log-normal numbers of samples", split_quantity},
    Row{"natural", "a user of the data set a device", split_natural},
};

}  // namespace

Digest Partition::digest() const {
  std::vector<std::uint32_t> flat;
  for (const auto& samples : devices) {
    flat.push_back(static_cast<std::uint32_t>(samples.size()));
    flat.insert(flat.end(), samples.begin(), samples.end());
  }
  return digest_of(std::as_bytes(std::span(flat)));
}

std::vector<PartitionSummary> known_partitions() {
  std::vector<PartitionSummary> result;
  for (const Row& row : kRows) result.push_back({row.name, row.summary});
  return result;
}

Status check_partition(const PartitionSpec& spec) {
  if (std::ranges::find(kRows, spec.name, &Row::name) == kRows.end()) {
    std::vector<std::string> names;
    for (const Row& known : kRows) names.emplace_back(known.name);
    const std::string near = nearest(spec.name, names);
    return fail(ErrorCode::bad_input,
                fmt::format("unknown partition \"{}\": there are {}{}", spec.name, join_names(names),
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  if (spec.name == "dirichlet" && !(spec.alpha >= 1e-4 && spec.alpha <= 1e6)) {
    return fail(ErrorCode::bad_input, fmt::format("partition alpha is {}: must be 0.0001 to 1000000", spec.alpha));
  }
  if (spec.name == "shards" && spec.shards_per_device == 0) {
    return fail(ErrorCode::bad_input, "partition shards_per_device is 0: must be at least 1");
  }
  if (spec.name == "quantity" && !(spec.size_sigma >= 0.0 && spec.size_sigma <= 4.0)) {
    return fail(ErrorCode::bad_input, fmt::format("partition size_sigma is {}: must be 0 to 4", spec.size_sigma));
  }
  return {};
}

Result<Partition> make_partition(const PartitionSpec& spec, const PartitionData& data, std::uint32_t devices,
                                 std::uint64_t seed) {
  const std::span<const std::uint8_t> labels = data.labels;
  GLEANER_TRY(check_partition(spec));
  const auto* row = std::ranges::find(kRows, spec.name, &Row::name);
  if (devices == 0) return fail(ErrorCode::bad_input, "a partition needs at least one device");
  if (spec.samples_per_device != 0) {
    return fail(ErrorCode::bad_input, "samples_per_device has no effect here: every sample goes to one device");
  }
  GLEANER_CHECK(labels.size() <= 0xffffffffU);
  const std::uint64_t needed = std::uint64_t{devices} * spec.min_samples;
  if (needed > labels.size()) {
    return fail(ErrorCode::bad_input,
                fmt::format("{} devices with at least {} samples each need {} samples, the data set has {}: use fewer "
                            "devices or a smaller samples_min",
                            devices, spec.min_samples, needed, labels.size()));
  }
  GLEANER_ASSIGN(Lists lists, row->split(spec, {labels, data.users, devices, seed}));
  lift_to_minimum(lists, spec.min_samples);
  for (auto& samples : lists) std::ranges::sort(samples);
  return Partition{std::move(lists)};
}

std::string partition_table(const Partition& partition, std::span<const std::uint8_t> labels) {
  const std::size_t classes = labels.empty() ? 0 : *std::ranges::max_element(labels) + std::size_t{1};
  std::string text = fmt::format("{:>8} {:>9}", "device", "samples");
  for (std::size_t c = 0; c < classes; ++c) text += fmt::format(" {:>6}", c);
  text += '\n';
  for (std::size_t device = 0; device < partition.devices.size(); ++device) {
    std::vector<std::size_t> counts(classes, 0);
    for (const std::uint32_t sample : partition.devices[device]) {
      GLEANER_CHECK(sample < labels.size());
      ++counts[labels[sample]];
    }
    text += fmt::format("{:>8} {:>9}", device, partition.devices[device].size());
    for (const std::size_t count : counts) text += fmt::format(" {:>6}", count);
    text += '\n';
  }
  return text;
}

}  // namespace gleaner
