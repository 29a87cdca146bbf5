// The cursor and decode_payload are two readers of one format: the same entries, and refusals of the same payloads.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <optional>

#include "compression/payload_cursor.hpp"
#include "tests/compression/corruption.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

// What the cursor reads from where it is, or that it refuses.
std::optional<SparseVector> collect(PayloadCursor& cursor) {
  SparseVector vector{.dimension = cursor.dimension()};
  for (;;) {
    const auto block = cursor.next();
    if (!block) return std::nullopt;
    if (block->indices.empty()) return vector;
    vector.indices.insert(vector.indices.end(), block->indices.begin(), block->indices.end());
    vector.values.insert(vector.values.end(), block->values.begin(), block->values.end());
  }
}

void expect_alike(ByteView bytes, const Grouping& grouping, const PayloadLimits& limits) {
  PayloadBytes split;
  const auto decoded = decode_payload(bytes, grouping, limits, &split);
  auto cursor = PayloadCursor::open(bytes, grouping, limits);
  if (!cursor) {
    RC_ASSERT(!decoded.has_value());
    return;
  }
  for (int pass = 0; pass < 2; ++pass, cursor->rewind()) {
    const auto vector = collect(*cursor);
    RC_ASSERT(vector.has_value() == decoded.has_value());
    if (!vector) continue;
    RC_ASSERT(vector->dimension == decoded->dimension);
    RC_ASSERT(vector->indices == decoded->indices);
    RC_ASSERT(vector->values == decoded->values);
    RC_ASSERT(cursor->entries() == decoded->indices.size());
    RC_ASSERT(cursor->split().index_bytes == split.index_bytes && cursor->split().value_bytes == split.value_bytes &&
              cursor->split().framing_bytes == split.framing_bytes);
  }
}

TEST(PayloadCursor, ReadsWhatDecodePayloadReadsAndRefusesWhatItRefuses) {
  EXPECT_TRUE(rc::check("alike", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const Grouping grouping = testing::random_grouping(random, 2'000);
    const SparseVector vector = testing::random_vector(random, grouping);
    const ValueFormat format = kValueFormats[random.below(kValueFormats.size())];
    const auto preference = random.below(2) == 0 ? IndexPreference::bytes : IndexPreference::speed;
    const Bytes good = encode_payload(vector, grouping, format, 4.0F, preference).bytes;
    const auto count = static_cast<std::uint32_t>(vector.indices.size());
    expect_alike(good, grouping, {.entries_max = count, .clip = 4.0F});
    for (int trial = 0; trial < 20; ++trial) {
      const PayloadLimits limits = {.entries_max = count + random.below(3), .clip = 4.0F};
      expect_alike(testing::corrupted(random, good), grouping, limits);
    }
    if (count > 0) expect_alike(good, grouping, {.entries_max = count - 1, .clip = 4.0F});
    expect_alike(ByteView(good).first(random.below(static_cast<std::uint32_t>(good.size()) + 1)), grouping,
                 {.entries_max = count, .clip = 4.0F});
  }));
}

TEST(PayloadCursor, NoEntriesAreNoBlocks) {
  const Bytes nothing(3);
  auto cursor = PayloadCursor::open(nothing, {{10, 0, 5}}, {.entries_max = 0, .clip = 1.0F});
  ASSERT_TRUE(cursor);
  EXPECT_EQ(cursor->dimension(), 15U);
  EXPECT_TRUE(cursor->next()->indices.empty());
  EXPECT_TRUE(cursor->next()->indices.empty());
}

// A cursor in the middle of a payload is a value like another: a copy goes on from there.
TEST(PayloadCursor, CopiesGoOnByThemselves) {
  Random random(6, Purpose::test);
  SparseVector vector{.dimension = 50'000, .indices = testing::random_indices(random, 50'000, 2'000)};
  vector.values.assign(2'000, 0.5F);
  const Grouping grouping{{20'000, 30'000}};
  const Bytes bytes = encode_payload(vector, grouping, ValueFormat::int8, 1.0F).bytes;
  auto first = PayloadCursor::open(bytes, grouping, {.entries_max = 2'000, .clip = 1.0F});
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->next());
  auto second = std::make_unique<PayloadCursor>(*first);
  const SparseVector rest = collect(*first).value();
  EXPECT_EQ(collect(*second).value().indices, rest.indices);
  EXPECT_EQ(rest.indices.size(), 2'000 - codec::kBlockEntries);
}

}  // namespace
}  // namespace gleaner
