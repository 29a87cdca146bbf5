// Updates folded from their bytes, side by side, against decode_payload and fold one by one: the same sums, weights,
// records and refusals, whatever is wrong with some of them.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "aggregation/accumulator.hpp"
#include "tests/compression/corruption.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

constexpr Grid kGrid{.clip_exponent = 2, .weight_bits = 20};
constexpr float kClip = 4.0F;

struct Sent {
  Bytes bytes;
  std::uint32_t entries_max = 0;
  std::uint32_t weight = 0;
};

Sent random_update(Random& random, const Grouping& grouping) {
  const SparseVector vector = testing::random_vector(random, grouping);
  const ValueFormat format = kValueFormats[random.below(kValueFormats.size())];
  const auto preference = random.below(2) == 0 ? IndexPreference::bytes : IndexPreference::speed;
  const auto count = static_cast<std::uint32_t>(vector.indices.size());
  Sent sent = {.bytes = encode_payload(vector, grouping, format, kClip, preference).bytes,
               .entries_max = count,
               .weight = random.below(5) == 0 ? 0 : random.below(1'000)};
  const auto size = static_cast<std::uint32_t>(sent.bytes.size());
  switch (random.below(6)) {
    case 0: sent.bytes = testing::corrupted(random, sent.bytes); break;
    case 1: sent.bytes.resize(random.below(size + 1)); break;
    case 2: sent.entries_max = count - std::min(count, 1U); break;
    default: break;
  }
  return sent;
}

void expect_alike(const std::vector<Sent>& all, const Grouping& grouping, Accumulator& one_by_one, Accumulator& coded) {
  one_by_one.reset(kGrid);
  coded.reset(kGrid);
  std::vector<CodedUpdate> updates;
  for (const Sent& sent : all) {
    updates.push_back({sent.bytes, {.entries_max = sent.entries_max, .clip = kClip}, sent.weight});
  }
  const auto results = coded.fold(updates, grouping);
  RC_ASSERT(results.size() == all.size());
  for (std::size_t u = 0; u < all.size(); ++u) {
    PayloadBytes split;
    const auto decoded = decode_payload(updates[u].payload, grouping, updates[u].limits, &split);
    RC_ASSERT(decoded.has_value() == results[u].has_value());
    if (decoded) {
      one_by_one.fold(*decoded, updates[u].weight);
      RC_ASSERT(results[u]->index_bytes == split.index_bytes && results[u]->value_bytes == split.value_bytes &&
                results[u]->framing_bytes == split.framing_bytes);
    } else {
      RC_ASSERT(results[u].error().code() == decoded.error().code());
      RC_ASSERT(results[u].error().detail() == decoded.error().detail());
    }
  }
  RC_ASSERT(coded.weight() == one_by_one.weight() && coded.contributions() == one_by_one.contributions());
  RC_ASSERT(coded.to_record() == one_by_one.to_record());
}

TEST(CodedFold, IsTheFoldOfWhatWasDecoded) {
  EXPECT_TRUE(rc::check("alike", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    // Now and then larger than a block of the sum.
    const Grouping grouping =
        random.below(4) == 0 ? Grouping{{30'000, random.below(200'000)}} : testing::random_grouping(random, 2'000);
    std::uint32_t dimension = 0;
    for (const std::uint32_t size : grouping.sizes) dimension += size;
    const KernelTable& kernels = **kernels_for(random.below(2) == 0 ? Backend::reference : Backend::cpu);
    Accumulator one_by_one(dimension, kernels), coded(dimension, kernels);
    std::vector<Sent> all(random.below(12));
    for (Sent& sent : all) sent = random_update(random, grouping);
    expect_alike(all, grouping, one_by_one, coded);
  }));
}

// A fault behind a million entries that are already in the sum.
TEST(CodedFold, TakesBackWhatALateFaultHasAdded) {
  Random random(4, Purpose::test);
  const Grouping grouping{{2'000'000}};
  SparseVector vector{.dimension = 2'000'000, .indices = testing::random_indices(random, 2'000'000, 1'000'000)};
  vector.values.assign(1'000'000, 1.5F);
  const PayloadLimits limits = {.entries_max = 1'000'000, .clip = kClip};
  const Bytes good = encode_payload(vector, grouping, ValueFormat::f32, kClip).bytes;
  Bytes bad = good;
  std::fill(bad.end() - 4, bad.end(), std::byte{0xff});  // NaN as the last value
  Accumulator accumulator(2'000'000, **kernels_for(Backend::cpu));
  accumulator.reset(kGrid);
  const Bytes before = accumulator.to_record();
  const CodedUpdate alone[] = {{bad, limits, 7}};
  EXPECT_EQ(accumulator.fold(alone, grouping)[0].error().code(), RefusalCode::non_finite);
  EXPECT_EQ(accumulator.to_record(), before);
  const CodedUpdate both[] = {{bad, limits, 7}, {good, limits, 3}};
  const auto results = accumulator.fold(both, grouping);
  EXPECT_FALSE(results[0].has_value());
  EXPECT_TRUE(results[1].has_value());
  Accumulator expected(2'000'000, **kernels_for(Backend::cpu));
  expected.reset(kGrid);
  expected.fold(vector, 3);
  EXPECT_EQ(accumulator.to_record(), expected.to_record());
}

TEST(CodedFold, ManyMoreThanAreReadSideBySide) {
  Random random(9, Purpose::test);
  const Grouping grouping{{500, 700}};
  Accumulator one_by_one(1'200, **kernels_for(Backend::cpu)), coded(1'200, **kernels_for(Backend::cpu));
  EXPECT_TRUE(rc::check("alike", [&] {
    std::vector<Sent> all(300);
    for (Sent& sent : all) sent = random_update(random, grouping);
    expect_alike(all, grouping, one_by_one, coded);
  }));
}

}  // namespace
}  // namespace gleaner
