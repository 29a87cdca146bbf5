// Updates folded from the bytes as they came, side by side.

#include <algorithm>
#include <bit>
#include <optional>

#include "aggregation/accumulator.hpp"
#include "common/check.hpp"
#include "compression/payload_cursor.hpp"

namespace gleaner {
namespace {

constexpr std::size_t kSideBySide = 128;      // streams at a time: 5 kB each
constexpr std::uint64_t kRunEntries = 256;    // of an update in a block of the sum, where it is thick enough
constexpr std::uint64_t kBlockMin = 1 << 14;  // 128 kB: less gains nothing, as the streams take as much
constexpr std::uint64_t kBlockMax = 1 << 16;  // 512 kB: more would leave the second-level cache

// Where the sum is and what scales the values.
struct Target {
  const KernelTable* kernels;
  std::span<std::int64_t> sum;
  int exponent;
};

class Stream {
 public:
  Stream(PayloadCursor cursor, std::uint32_t weight) : cursor_(std::move(cursor)), weight_(weight) {}

  // Adds what of the update lies before `end`. False: the payload has a fault and is read no further.
  bool add_until(std::uint64_t end, const Target& target) {
    while (!ended_) {
      if (at_ == block_.indices.size()) {
        if (!read_block()) return false;
        if (ended_) break;
      }
      const auto rest = block_.indices.subspan(at_);
      const auto stop = rest.back() < end ? rest.end() : std::ranges::lower_bound(rest, end);
      const auto now = static_cast<std::size_t>(stop - rest.begin());
      add(rest.first(now), block_.values.subspan(at_, now), target);
      at_ += now;
      added_ += now;
      if (now < rest.size()) break;
    }
    return true;
  }

  // Subtracts what add_until() added: the blocks before the fault read once more.
  void take_back(const Target& target) {
    cursor_.rewind();
    while (added_ > 0) {
      const auto block = cursor_.next();
      GLEANER_CHECK(block.has_value() && !block->indices.empty());
      const std::size_t n = std::min<std::uint64_t>(added_, block->indices.size());
      std::array<float, codec::kBlockEntries> negative;
      std::ranges::transform(block->values.first(n), negative.begin(), [](float value) { return -value; });
      add(block->indices.first(n), std::span(negative).first(n), target);
      added_ -= n;
    }
  }

  const PayloadBytes& split() const { return cursor_.split(); }

 private:
  bool read_block() {
    auto block = cursor_.next();
    if (!block) return false;
    block_ = *block;
    at_ = 0;
    ended_ = block_.indices.empty();
    return true;
  }
  void add(std::span<const std::uint32_t> indices, std::span<const float> values, const Target& target) const {
    if (weight_ > 0) target.kernels->scatter_add(target.sum, indices, values, weight_, target.exponent);
  }

  PayloadCursor cursor_;
  PayloadCursor::Block block_;
  std::uint32_t weight_;
  std::size_t at_ = 0;       // in block_
  std::uint64_t added_ = 0;  // entries
  bool ended_ = false;
};

std::uint64_t block_size(std::size_t streams, std::uint64_t entries, std::uint64_t dimension) {
  if (streams == 1 || entries == 0) return std::max<std::uint64_t>(dimension, 1);
  return std::bit_floor(std::clamp(kRunEntries * dimension * streams / entries, kBlockMin, kBlockMax));
}

}  // namespace

// Dense updates, and payloads with a fault, which is named as decode_payload names it.
Admitted<PayloadBytes> Accumulator::fold_whole(const CodedUpdate& update, const Grouping& grouping) {
  PayloadBytes split;
  const auto decoded = decode_payload(update.payload, grouping, update.limits, &split);
  if (!decoded) return std::unexpected(decoded.error());
  fold(*decoded, update.weight);
  return split;
}

std::vector<Admitted<PayloadBytes>> Accumulator::fold(std::span<const CodedUpdate> updates, const Grouping& grouping) {
  std::vector<Admitted<PayloadBytes>> results;
  results.reserve(updates.size());
  for (; updates.size() > kSideBySide; updates = updates.subspan(kSideBySide)) {
    std::ranges::move(fold(updates.first(kSideBySide), grouping), std::back_inserter(results));
  }
  std::vector<std::optional<Stream>> streams(updates.size());
  std::uint64_t entries = 0, weights = 0;
  std::size_t open = 0;
  for (std::size_t u = 0; u < updates.size(); ++u) {
    weights += updates[u].weight;
    auto cursor = PayloadCursor::open(updates[u].payload, grouping, updates[u].limits);
    if (!cursor || cursor->entries() == dimension_) continue;
    GLEANER_CHECK(cursor->dimension() == sum_.size());
    entries += cursor->entries();
    ++open;
    streams[u].emplace(*std::move(cursor), updates[u].weight);
  }
  GLEANER_CHECK(weights <= grid_.weight_max() - weight_);
  const Target target = {kernels_, sum_, grid_.exponent()};
  const std::uint64_t step = block_size(open, entries, dimension_);
  for (std::uint64_t end = step; open > 0 && end < dimension_ + step; end += step) {
    for (auto& stream : streams) {
      if (!stream || stream->add_until(end, target)) continue;
      stream->take_back(target);
      stream.reset();
    }
  }
  for (std::size_t u = 0; u < updates.size(); ++u) {
    if (!streams[u]) {
      results.push_back(fold_whole(updates[u], grouping));
      continue;
    }
    results.emplace_back(streams[u]->split());
    weight_ += updates[u].weight;
    contributions_ += updates[u].weight > 0 ? 1 : 0;
  }
  return results;
}

}  // namespace gleaner
