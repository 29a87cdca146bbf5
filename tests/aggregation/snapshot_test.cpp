// Recovery: snapshots and replay of records.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "aggregation/server_model.hpp"
#include "common/hash.hpp"
#include "rounds.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kDimension = 40;

ServerStepOptions any_options() {
  ServerStepOptions options = sparse_step(*rc::gen::inRange(1U, 50U));
  options.optimizer = *rc::gen::element("sgd", "momentum");
  options.patch_values = *rc::gen::element(ValueFormat::f32, ValueFormat::f16, ValueFormat::int8);
  options.keep_residual = *rc::gen::arbitrary<bool>();
  options.tracked = *rc::gen::arbitrary<bool>();
  return options;
}

RC_GTEST_PROP(Replay, SameRecordsSameBytes, ()) {
  const ServerStepOptions options = any_options();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto rounds = *rc::gen::inRange(1U, 15U);
  const auto snapshot_at = *rc::gen::inRange(0U, rounds);
  ServerModel live = make_server(random_model(seed, kDimension), options);
  Accumulator accumulator(kDimension, backend());
  std::vector<Bytes> records;
  Bytes snapshot;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (round == snapshot_at) snapshot = live.to_snapshot();
    fold_round(accumulator, seed, round, 3, 6);
    records.push_back(accumulator.to_record());
    live.commit(std::move(*live.prepare(accumulator)));
  }
  for (const std::uint32_t from : {0U, snapshot_at}) {
    ServerModel replayed = make_server(random_model(seed, kDimension), options, Backend::reference);
    if (from != 0) RC_ASSERT(replayed.load_snapshot(snapshot).has_value());
    Accumulator loaded(kDimension, backend(Backend::reference));
    for (std::uint32_t round = from; round < rounds; ++round) {
      RC_ASSERT(loaded.load(records[round]).has_value());
      replayed.commit(std::move(*replayed.prepare(loaded)));
    }
    RC_ASSERT(replayed.hash() == live.hash());
    RC_ASSERT(replayed.to_snapshot() == live.to_snapshot());
  }
}

RC_GTEST_PROP(Snapshot, RoundTrips, ()) {
  const ServerStepOptions options = any_options();
  ServerModel server = make_server(random_model(1, kDimension), options);
  Accumulator accumulator(kDimension, backend());
  const auto rounds = *rc::gen::inRange(0U, 4U);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    fold_round(accumulator, 1, round, 2, 8);
    server.commit(std::move(*server.prepare(accumulator)));
  }
  const Bytes snapshot = server.to_snapshot();
  ServerModel restored = make_server(random_model(2, kDimension), options);
  RC_ASSERT(restored.load_snapshot(snapshot).has_value());
  RC_ASSERT(restored.version() == server.version());
  RC_ASSERT(restored.hash() == server.hash());
  RC_ASSERT(restored.to_snapshot() == snapshot);
  RC_ASSERT(restored.absolute_since(Version{1}) == server.absolute_since(Version{1}));
}

struct Damaged {
  ServerModel server = make_server(random_model(1, kDimension), [] {
    ServerStepOptions options = sparse_step(10);
    options.optimizer = "momentum";
    options.tracked = true;
    return options;
  }());
  Bytes snapshot;

  Damaged() {
    Accumulator accumulator(kDimension, backend());
    fold_round(accumulator, 1, 0, 2, 8);
    server.commit(std::move(*server.prepare(accumulator)));
    snapshot = server.to_snapshot();
  }

  // The bytes after a change, sealed anew: only the check of the field itself can find it.
  Bytes resealed(std::size_t at, ByteView change) const {
    Bytes bytes(snapshot.begin(), snapshot.end() - 8);
    std::ranges::copy(change, bytes.begin() + static_cast<std::ptrdiff_t>(at));
    ByteWriter(bytes).put(digest_of(bytes).value);
    return bytes;
  }
  template <class T>
  std::string error_of(std::size_t at, T value) {
    const auto status = server.load_snapshot(resealed(at, std::as_bytes(std::span(&value, 1))));
    if (status) return "accepted";
    EXPECT_EQ(status.error().code(), ErrorCode::corrupt);
    return status.error().message();
  }
};

TEST(Snapshot, EveryFlippedByteAndEveryCutIsFound) {
  Damaged damaged;
  for (std::size_t i = 0; i < damaged.snapshot.size(); ++i) {
    Bytes bytes = damaged.snapshot;
    bytes[i] ^= std::byte{0x40};
    ASSERT_FALSE(damaged.server.load_snapshot(bytes).has_value()) << i;
    ASSERT_FALSE(damaged.server.load_snapshot(ByteView(damaged.snapshot).first(i)).has_value()) << i;
  }
  EXPECT_EQ(damaged.server.to_snapshot(), damaged.snapshot) << "a damaged snapshot changes nothing";
}

TEST(Snapshot, EveryFieldIsCheckedOnItsOwn) {
  Damaged d;
  const std::size_t parameters = 26;
  const std::size_t residual = parameters + 4 * kDimension;
  const std::size_t momentum = residual + 8 * kDimension;
  const std::size_t running = momentum + 8 * kDimension;
  const std::size_t last_changed = running + 8 * kDimension;
  ASSERT_EQ(d.snapshot.size(), last_changed + 4 * kDimension + 8);
  EXPECT_EQ(d.error_of(4, std::uint32_t{1}), "accepted") << "the version as it is";
  EXPECT_NE(d.error_of(0, 'x').find("start like one"), std::string::npos);
  EXPECT_NE(d.error_of(4, std::uint32_t{0}).find("changed after"), std::string::npos);
  EXPECT_NE(d.error_of(8, kDimension + 1).find("41 parameters"), std::string::npos);
  EXPECT_NE(d.error_of(8, UINT32_MAX).find("parameters"), std::string::npos);
  EXPECT_NE(d.error_of(12, std::uint64_t{5}).find("hash"), std::string::npos);
  EXPECT_NE(d.error_of(20, std::uint8_t{2}).find("another server step"), std::string::npos);
  EXPECT_NE(d.error_of(21, std::uint8_t{1}).find("another server step"), std::string::npos);
  EXPECT_NE(d.error_of(22, std::int32_t{1'000}).find("grid"), std::string::npos);
  EXPECT_NE(d.error_of(parameters, 1.5F).find("hash"), std::string::npos);
  EXPECT_NE(d.error_of(residual, INT64_MIN).find("residual"), std::string::npos);
  EXPECT_NE(d.error_of(momentum, std::numeric_limits<double>::infinity()).find("not finite"), std::string::npos);
  EXPECT_NE(d.error_of(running, INT64_MAX).find("residual"), std::string::npos);
  EXPECT_NE(d.error_of(last_changed, std::uint32_t{2}).find("changed after"), std::string::npos);
}

TEST(Snapshot, OfAnotherServerStepIsRefused) {
  ServerModel plain = make_server(random_model(1, kDimension), sparse_step(10));
  ServerStepOptions options = sparse_step(10);
  options.optimizer = "momentum";
  ServerModel momentum = make_server(random_model(1, kDimension), options);
  options = sparse_step(10);
  options.keep_residual = false;
  ServerModel bare = make_server(random_model(1, kDimension), options);
  EXPECT_FALSE(plain.load_snapshot(momentum.to_snapshot()).has_value());
  EXPECT_FALSE(momentum.load_snapshot(plain.to_snapshot()).has_value());
  EXPECT_FALSE(bare.load_snapshot(plain.to_snapshot()).has_value());
}

}  // namespace
}  // namespace gleaner
