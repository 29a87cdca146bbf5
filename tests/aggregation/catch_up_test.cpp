#include "aggregation/catch_up.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "protocol/messages.hpp"
#include "rounds.hpp"

namespace gleaner {
namespace {

static_assert(static_cast<int>(CatchUpKind::none) == static_cast<int>(SyncKind::none));
static_assert(static_cast<int>(CatchUpKind::seeded) == static_cast<int>(SyncKind::seeded));
static_assert(static_cast<int>(CatchUpKind::patches) == static_cast<int>(SyncKind::patches));
static_assert(static_cast<int>(CatchUpKind::absolute) == static_cast<int>(SyncKind::absolute));
static_assert(static_cast<int>(CatchUpKind::snapshot) == static_cast<int>(SyncKind::snapshot));

// A run that keeps every patch and every model.
struct History {
  ServerModel server;
  std::vector<Bytes> patches;
  std::vector<float> clips;
  std::vector<std::vector<float>> models;

  History(std::uint32_t dimension, std::uint32_t rounds, std::uint32_t patch_entries, ValueFormat format)
      : server(make_server(random_model(9, dimension), [&] {
          ServerStepOptions options = sparse_step(patch_entries);
          options.patch_values = format;
          return options;
        }())) {
    Accumulator accumulator(dimension, backend());
    models.emplace_back(server.parameters().begin(), server.parameters().end());
    for (std::uint32_t round = 0; round < rounds; ++round) {
      fold_round(accumulator, 9, round, 3, std::min(dimension, 30U));
      auto step = server.prepare(accumulator);
      patches.push_back(step->patch);
      clips.push_back(step->patch_clip);
      server.commit(std::move(*step));
      models.emplace_back(server.parameters().begin(), server.parameters().end());
    }
  }

  std::vector<std::uint64_t> sizes_since(std::uint32_t from) const {
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = from; i < patches.size(); ++i) sizes.push_back(patches[i].size());
    return sizes;
  }
  Bytes patches_since(std::uint32_t from) const {
    Bytes out;
    for (std::size_t i = from; i < patches.size(); ++i) append_patch(out, patches[i], clips[i]);
    return out;
  }
  Bytes bytes_of(const CatchUp& choice, std::uint32_t from) const {
    switch (choice.kind) {
      case CatchUpKind::patches: return patches_since(from);
      case CatchUpKind::absolute: return choice.absolute;
      case CatchUpKind::snapshot: return snapshot_bytes(server.parameters());
      default: return {};
    }
  }
  Admitted<std::vector<float>> apply(CatchUpKind kind, ByteView bytes, std::uint32_t from) const {
    return apply_catch_up(kind, bytes, models[from], server.hash(), server.tensors(), backend());
  }
};

RC_GTEST_PROP(CatchUp, EveryChoiceLeadsToTheBaseInTheBytesItNamed, ()) {
  const auto rounds = *rc::gen::inRange(0U, 12U);
  const History history(*rc::gen::inRange(1U, 300U), rounds, *rc::gen::inRange(1U, 60U),
                        *rc::gen::element(ValueFormat::f32, ValueFormat::f16, ValueFormat::int8));
  for (std::uint32_t from = 0; from <= rounds; ++from) {
    const CatchUp choice = choose_catch_up(history.server, Version{from}, history.sizes_since(from));
    const Bytes bytes = history.bytes_of(choice, from);
    RC_ASSERT(bytes.size() == choice.bytes);
    const auto model = history.apply(choice.kind, bytes, from);
    RC_ASSERT(model.has_value());
    RC_ASSERT(*model == history.models.back());
    if (from == rounds) continue;
    // Nothing else would have been cheaper, and the other ways lead there too.
    RC_ASSERT(choice.bytes <= history.patches_since(from).size());
    RC_ASSERT(choice.bytes <= history.server.absolute_since(Version{from}).size());
    RC_ASSERT(choice.bytes <= 4 * std::uint64_t{history.server.dimension()});
    RC_ASSERT(history.apply(CatchUpKind::patches, history.patches_since(from), from).has_value());
    RC_ASSERT(history.apply(CatchUpKind::absolute, history.server.absolute_since(Version{from}), from).has_value());
  }
}

TEST(CatchUp, ChoosesAtTheBoundaries) {
  const History history(300, 6, 12, ValueFormat::f32);
  const auto& server = history.server;
  const std::uint64_t absolute = server.absolute_since(Version{2}).size();
  ASSERT_LT(absolute, 1'200U);
  const auto choose = [&](std::uint64_t total) {
    const std::uint64_t each = total / 4 - kPatchFramingBytes;
    const std::vector<std::uint64_t> sizes = {each, each, each, total - 3 * (total / 4) - kPatchFramingBytes};
    return choose_catch_up(server, Version{2}, sizes);
  };
  EXPECT_EQ(choose(absolute - 1).kind, CatchUpKind::patches);
  EXPECT_EQ(choose(absolute - 1).bytes, absolute - 1);
  EXPECT_EQ(choose(absolute).kind, CatchUpKind::patches) << "a tie is for what is stored already";
  EXPECT_EQ(choose(absolute + 1).kind, CatchUpKind::absolute);
  EXPECT_EQ(choose(absolute + 1).bytes, absolute);
  EXPECT_EQ(choose_catch_up(server, Version{2}, {}).kind, CatchUpKind::absolute) << "patches not kept any more";
  EXPECT_EQ(choose_catch_up(server, Version{6}, {}).kind, CatchUpKind::none);
  EXPECT_EQ(choose_catch_up(server, Version{7}, {}).kind, CatchUpKind::snapshot) << "from the future";
  EXPECT_EQ(choose_catch_up(server, std::nullopt, {}).kind, CatchUpKind::snapshot);
  EXPECT_EQ(choose_catch_up(server, std::nullopt, {}).bytes, 1'200U);
}

TEST(CatchUp, VersionZeroComesFromTheSeed) {
  const History history(30, 0, 5, ValueFormat::f32);
  EXPECT_EQ(choose_catch_up(history.server, std::nullopt, {}).kind, CatchUpKind::seeded);
  EXPECT_EQ(choose_catch_up(history.server, Version{3}, {}).kind, CatchUpKind::seeded);
  EXPECT_EQ(choose_catch_up(history.server, Version{0}, {}).kind, CatchUpKind::none);
}

TEST(CatchUp, AModelThatChangedEverywhereIsASnapshot) {
  const History history(20, 30, 20, ValueFormat::f32);
  ASSERT_EQ(history.server.absolute_entries_since(Version{0}), 20U);
  EXPECT_EQ(choose_catch_up(history.server, Version{0}, history.sizes_since(0)).kind, CatchUpKind::snapshot);
}

TEST(CatchUp, NegativeZeroSurvivesEveryWay) {
  ServerModel server = make_server({1.0F, -0.0F, 3.0F}, sparse_step(3, 1.0));
  std::vector<float> start(server.parameters().begin(), server.parameters().end());
  Accumulator accumulator(3, backend());
  accumulator.reset(grid_for(1));
  accumulator.fold({.dimension = 3, .indices = {0, 1}, .values = {1.0F, 0.5F}}, 1);
  server.commit(std::move(*server.prepare(accumulator)));
  const auto absolute = apply_catch_up(CatchUpKind::absolute, server.absolute_since(Version{0}), start, server.hash(),
                                       server.tensors(), backend());
  ASSERT_TRUE(absolute.has_value());
  EXPECT_EQ(std::bit_cast<std::uint32_t>((*absolute)[0]), 0U);
  EXPECT_EQ((*absolute)[1], -0.5F);
}

TEST(CatchUp, RefusesWithTheRightCode) {
  const History history(40, 3, 6, ValueFormat::f16);
  const auto code = [&](CatchUpKind kind, ByteView bytes, std::uint32_t from) {
    const auto model = history.apply(kind, bytes, from);
    return model ? RefusalCode::none : model.error().code();
  };
  const Bytes patches = history.patches_since(1);
  EXPECT_EQ(code(CatchUpKind::patches, patches, 1), RefusalCode::none);
  EXPECT_EQ(code(CatchUpKind::patches, patches, 0), RefusalCode::wrong_base);
  EXPECT_EQ(code(CatchUpKind::none, {}, 3), RefusalCode::none);
  EXPECT_EQ(code(CatchUpKind::none, {}, 2), RefusalCode::wrong_base);
  EXPECT_EQ(code(CatchUpKind::none, patches, 3), RefusalCode::malformed);
  EXPECT_EQ(code(CatchUpKind::seeded, patches, 3), RefusalCode::malformed);
  EXPECT_EQ(code(CatchUpKind{9}, {}, 3), RefusalCode::malformed);
  Bytes snapshot = snapshot_bytes(history.server.parameters());
  EXPECT_EQ(code(CatchUpKind::snapshot, snapshot, 0), RefusalCode::none);
  EXPECT_EQ(code(CatchUpKind::snapshot, ByteView(snapshot).first(159), 0), RefusalCode::malformed);
  std::ranges::fill(std::span(snapshot).subspan(4, 4), std::byte{0xff});
  EXPECT_EQ(code(CatchUpKind::snapshot, snapshot, 0), RefusalCode::non_finite);
  for (const float clip : {0.0F, -1.0F, 1.5F, std::nanf(""), std::numeric_limits<float>::infinity(), 0x1p-149F}) {
    Bytes bytes;
    append_patch(bytes, history.patches[2], clip);
    EXPECT_EQ(code(CatchUpKind::patches, bytes, 2), RefusalCode::malformed) << clip;
  }
}

TEST(CatchUp, DamagedPatchesAreNeverTakenForTheBase) {
  const History history(40, 4, 6, ValueFormat::f16);
  const Bytes patches = history.patches_since(1);
  for (std::size_t i = 0; i < patches.size(); ++i) {
    const auto cut = history.apply(CatchUpKind::patches, ByteView(patches).first(i), 1);
    EXPECT_FALSE(cut.has_value()) << i;
    for (const int bit : {0, 3, 7}) {
      Bytes damaged = patches;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      const auto model = history.apply(CatchUpKind::patches, damaged, 1);
      // A clip that only bounds may change and leave the values alone.
      if (model) EXPECT_EQ(*model, history.models.back()) << i;
    }
  }
}

}  // namespace
}  // namespace gleaner
