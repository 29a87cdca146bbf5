// The payload's codes: bytes beside the entropy, decoding beside one read of what it decodes to.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "benchmarks/kernels/rows.hpp"
#include "common/check.hpp"
#include "common/random.hpp"
#include "compression/codec/index_codec.hpp"
#include "compression/codec/value_codec.hpp"
#include "compression/payload_cursor.hpp"

namespace gleaner::bench {
namespace {

constexpr std::uint32_t kDimension = 10'000'000;
constexpr int kTurns = 21;
constexpr float kClip = 1024.0F;

// Selection sampling (Knuth, volume 2, 3.4.2 S).
std::vector<std::uint32_t> random_indices(std::uint32_t count) {
  Random random(4, Purpose::test, count);
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < kDimension && indices.size() < count; ++i) {
    if (random.below(kDimension - i) < count - indices.size()) indices.push_back(i);
  }
  return indices;
}

void read_indices(const std::vector<std::uint32_t>& x) {
  const volatile std::uint64_t sink = std::accumulate(x.begin(), x.end(), std::uint64_t{0});
  static_cast<void>(sink);
}

// Short work is repeated until a turn lasts about a millisecond.
std::size_t times_for(std::size_t entries) { return std::max<std::size_t>(1, 1'000'000 / entries); }

std::function<void()> repeated(std::size_t entries, std::function<void()> run) {
  return [times = times_for(entries), run = std::move(run)] {
    for (std::size_t j = 0; j < times; ++j) run();
  };
}

double millions_per_second(std::size_t entries, double milliseconds) {
  return 1e-3 * static_cast<double>(entries * times_for(entries)) / milliseconds;
}

double fastest(const std::vector<double>& times) { return *std::ranges::min_element(times); }

std::string percent(std::uint32_t count) { return fmt::format("{:g} %", 100.0 * count / kDimension); }

struct Coded {
  codec::IndexPlan plan;
  Bytes bytes;
  std::vector<std::uint32_t> out;

  void decode() {
    ByteReader in(bytes);
    GLEANER_CHECK(codec::get_indices(plan.format, kDimension, in, out).has_value());
  }
};

Coded coded_as(IndexFormat format, const std::vector<std::uint32_t>& indices) {
  Coded coded{.plan = *codec::plan_indices(format, indices, kDimension)};
  codec::put_indices(coded.plan, indices, kDimension, coded.bytes);
  coded.out.resize(indices.size());
  coded.decode();
  GLEANER_CHECK(coded.out == indices);
  return coded;
}

void measure_indices(std::uint32_t count, KernelRows& rows) {
  const auto indices = random_indices(count);
  Coded rice = coded_as(IndexFormat::golomb_rice, indices);
  Coded elias_fano = coded_as(IndexFormat::elias_fano, indices);
  Bytes again;
  again.reserve(rice.bytes.size());
  const auto encode = [&] {
    again.clear();
    codec::put_indices(codec::cheapest_indices(indices, kDimension), indices, kDimension, again);
  };
  const auto times = take_turns({{repeated(count, [&] { rice.decode(); }), {}},
                                 {repeated(count, [&] { elias_fano.decode(); }), {}},
                                 {repeated(count, [&] { read_indices(indices); }), {}},
                                 {repeated(count, encode), {}}},
                                kTurns);
  const auto speed = [&](std::size_t subject) { return millions_per_second(count, median(times[subject])); };
  const auto best = [&](std::size_t subject) { return millions_per_second(count, fastest(times[subject])); };
  const double floor_bits = codec::index_floor_bits(kDimension, count) / count;
  const double bits = 8.0 * static_cast<double>(rice.bytes.size()) / count;
  rows.push_back({.name = fmt::format("rice_bits_{}", count),
                  .text = "Golomb-Rice, % of bits above log2 C(d, k), d = 1e7, k = " + percent(count),
                  .value = 100.0 * (bits / floor_bits - 1.0),
                  .limit = Limit::at_most,
                  .target = 1.5,
                  .beside = {{"bits an index", bits, ""},
                             {"entropy", floor_bits, ""},
                             {"Elias-Fano", 8.0 * static_cast<double>(elias_fano.bytes.size()) / count, ""}},
                  .open = {}});
  rows.push_back({.name = fmt::format("rice_decode_{}", count),
                  .text = "Golomb-Rice decoding with checks, M indices/s, k = " + percent(count),
                  .value = speed(0),
                  .target = 250.0,
                  .beside = {{"fastest turn", best(0), "M/s"},
                             {"reading the indices", speed(2), "M/s"},
                             {"which took", 100.0 * median_ratio(times[2], times[0]), "% of the time"},
                             {"planning and encoding, fastest turn", best(3), "M/s"}},
                  .open = {}});
  rows.push_back({.name = fmt::format("elias_fano_decode_{}", count),
                  .text = "Elias-Fano decoding with checks, M indices/s, k = " + percent(count),
                  .value = speed(1),
                  .target = 600.0,
                  .beside = {{"fastest turn", best(1), "M/s"},
                             {"reading the indices", speed(2), "M/s"},
                             {"which took", 100.0 * median_ratio(times[2], times[1]), "% of the time"}},
                  .open = {}});
}

void measure_values(KernelRows& rows) {
  constexpr std::size_t kValues = 1'000'000;
  const std::vector<float> values = gaussian(kValues);
  for (const ValueFormat format : kValueFormats) {
    Bytes bytes;
    std::vector<float> sent(kValues);
    std::vector<float> out(kValues);
    codec::put_values(format, values, kClip, bytes, sent);
    const auto encode = [&] {
      bytes.clear();
      codec::put_values(format, values, kClip, bytes, sent);
    };
    const auto decode = [&] {
      ByteReader in(bytes);
      GLEANER_CHECK(codec::get_values(format, kClip, in, out).has_value());
    };
    const auto times =
        take_turns({{decode, {}}, {encode, {}}, {[&] { read_once(values.data(), kValues); }, {}}}, kTurns);
    rows.push_back({.name = fmt::format("values_{}", to_string(format)),
                    .text = fmt::format("{} decoding with checks, M values/s", to_string(format)),
                    .value = millions_per_second(kValues, median(times[0])),
                    .beside = {{"encoding", millions_per_second(kValues, median(times[1])), "M/s"},
                               {"reading the values", millions_per_second(kValues, median(times[2])), "M/s"},
                               {"bits a value", 8.0 * static_cast<double>(bytes.size()) / kValues, ""}},
                    .open = "no target"});
  }
}

// A whole payload into 64-bit sums: through vectors, and through the cursor.
void measure_cursor(IndexPreference preference, KernelRows& rows) {
  constexpr std::uint32_t kCount = 100'000;
  const bool rice = preference == IndexPreference::bytes;
  const Grouping grouping{{kDimension}};
  const SparseVector vector{.dimension = kDimension, .indices = random_indices(kCount), .values = gaussian(kCount)};
  const Bytes bytes = encode_payload(vector, grouping, ValueFormat::int8, kClip, preference).bytes;
  const PayloadLimits limits{.entries_max = kCount, .clip = kClip};
  const KernelTable& kernels = **kernels_for(Backend::cpu);
  std::vector<std::int64_t> sum(kDimension);
  const auto by_vectors = [&] {
    const auto decoded = decode_payload(bytes, grouping, limits);
    kernels.scatter_add(sum, decoded->indices, decoded->values, 1, 40);
  };
  const auto by_cursor = [&] {
    auto cursor = PayloadCursor::open(bytes, grouping, limits);
    for (auto block = cursor->next(); !block->indices.empty(); block = cursor->next()) {
      kernels.scatter_add(sum, block->indices, block->values, 1, 40);
    }
  };
  const auto open = [&] { GLEANER_CHECK(PayloadCursor::open(bytes, grouping, limits).has_value()); };
  const auto times = take_turns(
      {{repeated(kCount, by_cursor), {}}, {repeated(kCount, by_vectors), {}}, {repeated(kCount, open), {}}}, kTurns);
  rows.push_back({.name = rice ? "cursor_rice" : "cursor_elias_fano",
                  .text = fmt::format("decoded inside the scatter of one update, M entries/s, {}, int8, k = {}",
                                      rice ? "Golomb-Rice" : "Elias-Fano", percent(kCount)),
                  .value = millions_per_second(kCount, median(times[0])),
                  .beside = {{"fastest turn", millions_per_second(kCount, fastest(times[0])), "M/s"},
                             {"through vectors", millions_per_second(kCount, median(times[1])), "M/s"},
                             {"opening alone", millions_per_second(kCount, median(times[2])), "M/s"}},
                  .open = "no target for a single update"});
}

}  // namespace

void measure_codec(KernelRows& rows) {
  for (const std::uint32_t count : {10'000U, 100'000U, 1'000'000U}) measure_indices(count, rows);
  measure_cursor(IndexPreference::bytes, rows);
  measure_cursor(IndexPreference::speed, rows);
  measure_values(rows);
}

}  // namespace gleaner::bench
