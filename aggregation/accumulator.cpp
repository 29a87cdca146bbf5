#include "aggregation/accumulator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "aggregation/integer_codec.hpp"
#include "aggregation/sealed.hpp"
#include "common/check.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kMagic = 0x31524c47;  // "GLR1"

std::unexpected<Error> corrupt(std::string what) {
  return fail(ErrorCode::corrupt, "a round's record is damaged: " + std::move(what));
}

}  // namespace

Accumulator::Accumulator(std::uint32_t dimension, const KernelTable& kernels)
    : kernels_(&on_host(kernels)), dimension_(dimension), sum_(dimension) {}

void Accumulator::reset(const Grid& grid) {
  GLEANER_CHECK(is_valid(grid));
  grid_ = grid;
  std::ranges::fill(sum_, 0);
  sum_.resize(dimension_);
  weight_ = 0;
  contributions_ = 0;
}

void Accumulator::fold(const SparseVector& update, std::uint32_t weight) {
  GLEANER_CHECK(update.dimension == sum_.size() && update.indices.size() == update.values.size());
  if (weight == 0) return;
  GLEANER_CHECK(admits(weight));
  if (update.indices.size() == sum_.size()) {
    kernels_->dense_add(sum_, update.values, weight, grid_.exponent());
  } else {
    kernels_->scatter_add(sum_, update.indices, update.values, weight, grid_.exponent());
  }
  weight_ += weight;
  ++contributions_;
}

Bytes Accumulator::to_record() const {
  Bytes out;
  append_record(out);
  return out;
}

void Accumulator::append_record(Bytes& out) const {
  const std::size_t begin = out.size();
  ByteWriter writer(out);
  writer.put(kMagic);
  writer.put(static_cast<std::uint32_t>(sum_.size()));
  writer.put(static_cast<std::int8_t>(grid_.clip_exponent));
  writer.put(static_cast<std::uint8_t>(grid_.weight_bits));
  writer.put(weight_);
  writer.put(contributions_);
  put_integers(out, sum_, kSealBytes);
  seal(out, begin);
}

Status Accumulator::load(ByteView record) {
  Status status = read(record);
  if (!status) reset(Grid{});
  return status;
}

Status Accumulator::read(ByteView record) {
  ByteView body;
  if (!unseal(record, body)) return corrupt("its checksum does not match");
  ByteReader in(body);
  if (in.get<std::uint32_t>() != kMagic) return corrupt("it does not start like one");
  const auto dimension = in.get<std::uint32_t>();
  Grid grid;
  grid.clip_exponent = in.get<std::int8_t>();
  grid.weight_bits = in.get<std::uint8_t>();
  const auto weight = in.get<std::uint64_t>();
  const auto contributions = in.get<std::uint32_t>();
  if (!in.ok()) return corrupt("it is cut off");
  if (dimension != dimension_) {
    return corrupt(fmt::format("it has {} parameters, the model has {}", dimension, dimension_));
  }
  if (!is_valid(grid)) return corrupt("its grid is impossible");
  if (weight > grid.weight_max() || contributions > weight || (weight == 0) != (contributions == 0)) {
    return corrupt("its weights are impossible");
  }
  reset(grid);
  // Every sample of weight moves a sum by at most the clip: 2^(61 - weight_bits) steps.
  const std::uint64_t bound = weight << (61 - grid.weight_bits);
  if (auto status = get_integers(in, sum_, bound); !status) return corrupt(status.error().message());
  if (!in.at_end()) return corrupt("bytes follow its end");
  weight_ = weight;
  contributions_ = contributions;
  return {};
}

}  // namespace gleaner
