#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <tuple>

#include "coordinator/run_settings.hpp"

namespace gleaner {
namespace {

// All fields by structured binding: a new one does not compile until it is named here, and then must be stored too.
auto fields(const PlannerSettings& p) {
  const auto& [seed, reproducible, size, over, quorum, min, deadline, dimension, density, bytes, budget, epochs,
               batch] = p;
  return std::tuple(seed, reproducible, size, over, quorum, min, deadline, dimension, density, bytes, budget, epochs,
                    batch);
}
auto fields(const ServerStepOptions& s) {
  const auto& [optimizer, rate, momentum, entries, values, keep, tracked, divisor] = s;
  return std::tuple(optimizer, rate, momentum, entries, values, keep, tracked, divisor);
}
auto fields(const DatasetShape& s) {
  const auto& [features, classes, height, width, channels] = s;
  return std::tuple(features, classes, height, width, channels);
}
bool equal(const RunSettings& a, const RunSettings& b) {
  const auto plain = [](const RunSettings& s) {
    const auto& [spec, shape, rounds, planner, planning, step, fixed, down, stale, data, every, patches] = s;
    return std::tuple(spec, fields(shape), rounds, planner, fields(planning), fields(step), fixed, down, stale, data,
                      every, patches);
  };
  return plain(a) == plain(b);
}

double any_double() {
  const auto bits = *rc::gen::arbitrary<std::uint64_t>();
  const auto value = std::bit_cast<double>(bits);
  return std::isfinite(value) ? value : 0.1;
}
float any_float() {
  const auto value = std::bit_cast<float>(*rc::gen::arbitrary<std::uint32_t>());
  return std::isfinite(value) ? value : 0.1F;
}
std::uint32_t any_u32() { return *rc::gen::arbitrary<std::uint32_t>(); }
std::uint64_t any_u64() { return *rc::gen::arbitrary<std::uint64_t>(); }
bool any_bool() { return *rc::gen::arbitrary<bool>(); }
std::string any_text() { return *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)); }

RunSpec any_spec() {
  return {.id = {any_u64()},
          .name = any_text(),
          .recipe = any_text(),
          .seed = any_u64(),
          .reproducible = any_bool(),
          .data = any_text(),
          .model = any_text(),
          .hidden_units = any_u32(),
          .schema_hash = any_u64(),
          .dimension = any_u32(),
          .local_epochs = any_u32(),
          .batch_size = any_u32(),
          .learning_rate = any_float(),
          .momentum = any_float(),
          .weight_decay = any_float(),
          .compressor = any_text(),
          .per_tensor = any_bool(),
          .value_format_up = any_text(),
          .upload_rule = any_text(),
          .skip_share = any_double(),
          .age_max = any_u32(),
          .c0 = any_double(),
          .rule_history = any_u32(),
          .zeta = any_double(),
          .clip_exponent = std::bit_cast<std::int32_t>(any_u32())};
}

RunSettings any_settings() {
  return {.spec = any_spec(),
          .shape = {any_u32(), any_u32(), any_u32(), any_u32(), any_u32()},
          .rounds = any_u32(),
          .planner = any_text(),
          .planning = {.seed = any_u64(),
                       .reproducible = any_bool(),
                       .cohort_size = any_u32(),
                       .over_selection = any_double(),
                       .quorum = any_double(),
                       .min_devices = any_u32(),
                       .deadline = Duration(std::bit_cast<std::int64_t>(any_u64())),
                       .dimension = any_u32(),
                       .density_up = any_double(),
                       .bytes_per_entry = any_double(),
                       .uplink_bytes_per_round = any_u64(),
                       .local_epochs = any_u32(),
                       .batch_size = any_u32()},
          .step = {.optimizer = any_text(),
                   .server_learning_rate = any_double(),
                   .server_momentum = any_double(),
                   .patch_entries_max = any_u32(),
                   .patch_values = *rc::gen::element(ValueFormat::f32, ValueFormat::f16, ValueFormat::int8),
                   .keep_residual = any_bool(),
                   .tracked = any_bool(),
                   .divisor = any_double()},
          .fixed_divisor = any_bool(),
          .density_down = any_double(),
          .staleness_max = any_u32(),
          .evaluation_data = any_text(),
          .evaluate_every = any_u32(),
          .patches_kept = any_u32()};
}

RC_GTEST_PROP(StoredSettings, ComeBackToTheLastBit, ()) {
  RunSettings settings = any_settings();
  settings.spec.classes = settings.shape.classes;  // one value, stored once
  const std::string text = to_stored(settings);
  const auto back = from_stored(text);
  RC_ASSERT(back.has_value());
  RC_ASSERT(equal(*back, settings));
  RC_ASSERT(to_stored(*back) == text);
}

TEST(StoredSettings, KeepWhatAFileSaid) {
  const auto settings = parse_run_settings(
      "[run]\nname = \"a\"\n[model]\nname = \"lenet\"\n[data]\nname = \"mnist\"\n[training]\nlearning_rate = 0.1\n",
      "r.toml");
  ASSERT_TRUE(settings) << settings.error().message();
  const auto back = from_stored(to_stored(*settings));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(equal(*back, *settings));
  EXPECT_THAT(to_stored(*settings), testing::HasSubstr("\nlearning_rate = 0.1\n"));
}

TEST(StoredSettings, DamagedOnesSayWhere) {
  const std::string good = to_stored({});
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto back = from_stored(text);
    EXPECT_FALSE(back) << from;
    if (back) return std::string();
    EXPECT_EQ(back.error().code(), ErrorCode::corrupt);
    return back.error().message();
  };
  EXPECT_EQ(damaged("format = 1", "format = 2"),
            "stored settings of a run:2: stored.format: is the integer 2, expected an integer of 1");
  EXPECT_THAT(damaged("rounds = 60\n", ""), testing::HasSubstr("run.rounds: is missing"));
  EXPECT_THAT(damaged("rounds = 60", "rounds = 60\nfuture = 1"), testing::HasSubstr("run.future: unknown key"));
  EXPECT_THAT(damaged("rounds = 60", "rounds = 6o"), testing::HasSubstr("syntax: "));
}

}  // namespace
}  // namespace gleaner
