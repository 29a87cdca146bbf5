#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "compression/device_memory.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

const KernelTable& kernels() { return **kernels_for(Backend::cpu); }

constexpr Outcome kOutcomes[] = {Outcome::unknown, Outcome::included, Outcome::skipped,   Outcome::late,
                                 Outcome::stale,   Outcome::quota,    Outcome::abandoned, Outcome::refused};

std::vector<float> copy(std::span<const float> x) { return {x.begin(), x.end()}; }

DeviceMemory memory_with(MemoryKind kind, std::initializer_list<float> state) {
  DeviceMemory memory(kind, static_cast<std::uint32_t>(state.size()));
  std::ranges::copy(state, memory.state().begin());
  return memory;
}

TEST(DeviceMemory, EveryOutcomeOfAResidual) {
  for (const Outcome outcome : kOutcomes) {
    auto memory = memory_with(MemoryKind::residual, {1.0F, -3.5F, 2.0F});
    ASSERT_TRUE(memory.begin({.dimension = 3, .indices = {1, 2}, .values = {-3.0F, 2.0F}}));
    EXPECT_EQ(copy(memory.state()), (std::vector<float>{1.0F, -0.5F, 0.0F}));
    const std::uint32_t zeroed = memory.settle(outcome);
    EXPECT_EQ(memory.pending().has_value(), outcome == Outcome::unknown);
    EXPECT_EQ(zeroed, outcome == Outcome::refused ? 2U : 0U);
    std::vector<float> expected = {1.0F, -3.5F, 2.0F};
    if (outcome == Outcome::unknown || outcome == Outcome::included) expected = {1.0F, -0.5F, 0.0F};
    if (outcome == Outcome::refused) expected = {1.0F, 0.0F, 0.0F};
    EXPECT_EQ(copy(memory.state()), expected) << to_string(outcome);
  }
}

TEST(DeviceMemory, EveryOutcomeOfTrackedMemory) {
  for (const Outcome outcome : kOutcomes) {
    auto memory = memory_with(MemoryKind::tracked, {1.0F, 1.0F, 1.0F});
    ASSERT_TRUE(memory.begin({.dimension = 3, .indices = {0, 2}, .values = {4.0F, -2.0F}}));
    EXPECT_EQ(copy(memory.state()), (std::vector<float>{1.0F, 1.0F, 1.0F}));
    memory.settle(outcome);
    EXPECT_EQ(memory.pending().has_value(), outcome == Outcome::unknown);
    const bool included = outcome == Outcome::included;
    EXPECT_EQ(copy(memory.state()),
              (included ? std::vector<float>{5.0F, 1.0F, -1.0F} : std::vector<float>{1.0F, 1.0F, 1.0F}));
  }
}

TEST(DeviceMemory, WithoutMemoryNothingIsKept) {
  DeviceMemory memory(MemoryKind::none, 3);
  EXPECT_TRUE(memory.state().empty());
  ASSERT_TRUE(memory.begin({.dimension = 3, .indices = {1}, .values = {4.0F}}));
  EXPECT_EQ(memory.settle(Outcome::late), 0U);
  EXPECT_FALSE(memory.pending());
}

TEST(DeviceMemory, ASkippedRoundLeavesTheResidualAsItWas) {
  auto memory = memory_with(MemoryKind::residual, {1.0F, 2.0F});
  EXPECT_EQ(memory.settle(Outcome::skipped), 0U);
  EXPECT_EQ(copy(memory.state()), (std::vector<float>{1.0F, 2.0F}));
}

TEST(DeviceMemory, WhatCannotBePutBackExactlyIsAnErrorAndChangesNothing) {
  auto memory = memory_with(MemoryKind::residual, {2.0F, 1e30F});
  const auto status = memory.begin({.dimension = 2, .indices = {0, 1}, .values = {1.0F, 1.0F}});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message(), ::testing::HasSubstr("coordinate 1 "));
  EXPECT_EQ(copy(memory.state()), (std::vector<float>{2.0F, 1e30F}));
  EXPECT_FALSE(memory.pending());
}

// EF21 on a constant update (4, 3, 2, 1) with the largest entry a round: the squared error is 30, 14, 5, 1, 0.
TEST(DeviceMemory, TrackedMemoryReachesAConstantUpdate) {
  const std::vector<float> update = {4.0F, 3.0F, 2.0F, 1.0F};
  const auto compressor = make_compressor("topk", {}, {{4}}, kernels());
  DeviceMemory memory(MemoryKind::tracked, 4);
  std::vector<float> candidate(4);
  Selection selection;
  std::vector<double> energies;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE((*compressor)->select(update, memory.state(), candidate, MemoryKind::tracked, 1, selection));
    energies.push_back(selection.squared_norm);
    ASSERT_TRUE(memory.begin({.dimension = 4, .indices = selection.indices, .values = selection.values}));
    memory.settle(Outcome::included);
  }
  EXPECT_EQ(energies, (std::vector<double>{30.0, 14.0, 5.0, 1.0, 0.0}));
}

// Sums of updates on a grid of 2^-20 stay exact in f32, so integers can account for every grain.
class Ledger {
 public:
  static constexpr float kStep = 0x1p-20F;

  explicit Ledger(std::uint32_t dimension) : computed_(dimension), included_(dimension), zeroed_(dimension) {}

  std::vector<float> new_update(Random& random) {
    std::vector<float> update(computed_.size());
    for (std::size_t i = 0; i < update.size(); ++i) {
      const auto grains = static_cast<std::int64_t>(random.below(2'049)) - 1'024;
      computed_[i] += grains;
      update[i] = static_cast<float>(grains) * kStep;
    }
    return update;
  }
  // Books what settle() is about to do.
  void book(Outcome outcome, const DeviceMemory& memory) {
    if (!memory.pending()) return;
    const SparseVector& sent = *memory.pending();
    for (std::size_t j = 0; j < sent.indices.size(); ++j) {
      const std::uint32_t i = sent.indices[j];
      if (outcome == Outcome::included) included_[i] += grains(sent.values[j]);
      if (outcome == Outcome::refused) zeroed_[i] += grains(sent.values[j]) + grains(memory.state()[i]);
    }
  }
  bool balances(const DeviceMemory& memory) const {
    std::vector<std::int64_t> sum(computed_.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = grains(memory.state()[i]) + included_[i] + zeroed_[i];
    if (memory.pending()) {
      for (std::size_t j = 0; j < memory.pending()->indices.size(); ++j) {
        sum[memory.pending()->indices[j]] += grains(memory.pending()->values[j]);
      }
    }
    return sum == computed_;
  }

 private:
  // Quantised values may be finer than a step, but never finer than 2^-20 / 2^20.
  static std::int64_t grains(float x) {
    const double exact = static_cast<double>(x) / static_cast<double>(kStep);
    RC_ASSERT(exact == std::nearbyint(exact));
    return static_cast<std::int64_t>(exact);
  }

  std::vector<std::int64_t> computed_;
  std::vector<std::int64_t> included_;
  std::vector<std::int64_t> zeroed_;
};

void save_and_load(DeviceMemory& memory) {
  auto loaded = DeviceMemory::from_bytes(memory.to_bytes(), memory.kind(), memory.dimension());
  RC_ASSERT(loaded.has_value());
  memory = std::move(*loaded);
}

TEST(DeviceMemory, MassIsConservedWhateverHappens) {
  EXPECT_TRUE(rc::check("ledger", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const std::uint32_t d = 1 + random.below(60);
    const auto compressor = make_compressor("topk", {}, {{d}}, kernels());
    const auto format = *rc::gen::element(ValueFormat::f32, ValueFormat::f16, ValueFormat::int8);
    const float clip = *rc::gen::element(0x1p-12F, 0x1p-8F, 1.0F);
    DeviceMemory memory(MemoryKind::residual, d);
    Ledger ledger(d);
    for (int round = 0; round < 60; ++round) {
      if (random.below(4) == 0) save_and_load(memory);
      const auto update = ledger.new_update(random);
      Selection out;
      RC_ASSERT((*compressor)
                    ->select(update, {}, memory.state(), MemoryKind::residual, 1 + random.below(d), out)
                    .has_value());
      if (random.below(5) > 0) {  // else the rule says to stay silent
        const auto payload =
            encode_payload({.dimension = d, .indices = out.indices, .values = out.values}, {{d}}, format, clip);
        RC_ASSERT(memory.begin({.dimension = d, .indices = out.indices, .values = payload.sent}).has_value());
      }
      RC_ASSERT(ledger.balances(memory));
      if (random.below(4) == 0) save_and_load(memory);
      Outcome outcome = Outcome::unknown;
      while (outcome == Outcome::unknown) outcome = kOutcomes[random.below(8)];
      memory.settle(Outcome::unknown);
      ledger.book(outcome, memory);
      memory.settle(outcome);
      RC_ASSERT(ledger.balances(memory));
    }
  }));
}

TEST(DeviceMemory, BytesRoundTripAndEveryDamageOfTheFrameIsFound) {
  auto memory = memory_with(MemoryKind::residual, {1.0F, -3.5F, 2.0F});
  ASSERT_TRUE(memory.begin({.dimension = 3, .indices = {1, 2}, .values = {-3.0F, 2.0F}}));
  const Bytes bytes = memory.to_bytes();
  const auto loaded = DeviceMemory::from_bytes(bytes, MemoryKind::residual, 3);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->to_bytes(), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DeviceMemory::from_bytes(ByteView(bytes).first(size), MemoryKind::residual, 3)) << size;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(DeviceMemory::from_bytes(longer, MemoryKind::residual, 3));
  EXPECT_FALSE(DeviceMemory::from_bytes(bytes, MemoryKind::tracked, 3));
  EXPECT_FALSE(DeviceMemory::from_bytes(bytes, MemoryKind::residual, 4));
  const std::size_t first_index = bytes.size() - 16;
  for (const auto& [at, value] : {std::pair<std::size_t, int>{0, 2},
                                  {6 + 3, 0x7f},
                                  {18, 2},
                                  {first_index, 2},
                                  {first_index + 4, 3},
                                  {bytes.size() - 1, 0xff}}) {
    Bytes damaged = bytes;
    damaged[at] = static_cast<std::byte>(value);
    if (at == 9 || at == bytes.size() - 1) damaged[at - 1] = std::byte{0xff};  // an exponent of ones
    const auto result = DeviceMemory::from_bytes(damaged, MemoryKind::residual, 3);
    ASSERT_FALSE(result) << at;
    EXPECT_EQ(result.error().code(), ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace gleaner
